//! What an error of the engine means to who asked. It is the client's own error where there is one beneath, else a wrong
//! statement, too little memory, or a fault. It never hides the engine's own words.

use std::error::Error;

use client::{ClientError, Reason, Refusal};
use datafusion::{common::SchemaError, error::DataFusionError, object_store, sql::sqlparser::parser::ParserError};
use terminal::Failure;

/// The failure of a command.
pub(crate) fn failure_of(error: &DataFusionError) -> Failure {
    if let Some(failure) = beneath(error).or_else(|| carried(&error.to_string())) {
        return failure;
    }
    let root = error.find_root();
    let said = root.strip_backtrace();
    match root {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Diagnostic(..)
        | DataFusionError::NotImplemented(_) => Failure::usage(message_of(root, &said)),
        DataFusionError::ResourcesExhausted(_) => {
            let said = said.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            Failure::failed(format!("the query needs more memory than --memory gives it. {said}"))
        }
        _ if said.contains(NO_PLAN_IN_TIME) => Failure::new(
            Reason::Unavailable,
            "a worker was not told in time what to do: it, or the master, is too busy",
        ),
        _ if said.contains(DISK_IS_FULL) => Failure::failed("the query needs more room on disk than --spill gives it"),
        _ => Failure::failed(said),
    }
}

/// The sentence for a wrong statement, without the engine's words for what kind of error it is.
fn message_of(error: &DataFusionError, said: &str) -> String {
    if let DataFusionError::SchemaError(wrong, _) = error
        && let SchemaError::FieldNotFound { field, valid_fields } = &**wrong
    {
        let mut names: Vec<_> = valid_fields.iter().map(|column| column.name.as_str()).collect();
        names.dedup();
        let more = if names.len() > NAMES_SHOWN { ", …" } else { "" };
        names.truncate(NAMES_SHOWN);
        return format!("there is no column `{}`; there are {}{more}", field.name, names.join(", "));
    }
    if let DataFusionError::SQL(wrong, _) = error
        && let ParserError::ParserError(said) | ParserError::TokenizerError(said) = &**wrong
    {
        return said.clone();
    }
    let rest = KINDS.iter().find_map(|kind| said.strip_prefix(kind)).unwrap_or(said);
    rest.trim().trim_end_matches('\n').to_owned()
}

/// The error that a file of the cloud, or a table, ended with.
fn beneath(error: &DataFusionError) -> Option<Failure> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(now) = next {
        if let Some(client) = now.downcast_ref::<ClientError>() {
            return Some(client.into());
        }
        if let Some(TableFailure { reason, message }) = now.downcast_ref() {
            return Some(Failure::new(*reason, message.clone()));
        }
        next = match now.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::External(inner)) => Some(&**inner),
            Some(DataFusionError::Context(_, inner)) => Some(&**inner),
            Some(DataFusionError::Shared(inner)) => Some(&**inner),
            Some(DataFusionError::ObjectStore(inner)) => Some(&**inner),
            Some(DataFusionError::ParquetError(inner)) => match &**inner {
                datafusion::parquet::errors::ParquetError::External(inner) => Some(&**inner),
                _ => None,
            },
            Some(DataFusionError::ArrowError(inner, _)) => match &**inner {
                datafusion::arrow::error::ArrowError::ExternalError(inner) => Some(&**inner),
                _ => None,
            },
            Some(_) => None,
            None => match now.downcast_ref::<object_store::Error>() {
                Some(
                    object_store::Error::Generic { source, .. }
                    | object_store::Error::NotFound { source, .. }
                    | object_store::Error::NotSupported { source },
                ) => Some(&**source),
                _ => now.source(),
            },
        };
    }
    None
}

/// A failure that goes through the engine. From a worker to who asked, errors travel as texts: so its text is one that
/// can be read back.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{CARRIED}{}", serde_json::to_string(&Refusal::new(*reason, message.as_str())).unwrap_or_default())]
pub(crate) struct TableFailure {
    reason: Reason,
    message: String,
}

/// Whether an error comes from a worker, which has said why.
pub(crate) fn is_carried(error: &DataFusionError) -> bool {
    carried(&error.to_string()).is_some()
}

/// The failure of which a worker says so in the text of an error.
fn carried(text: &str) -> Option<Failure> {
    let (_, rest) = text.split_once(CARRIED)?;
    let Refusal { reason, message } = serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()?;
    Some(Failure::new(reason, message))
}

/// What such a text begins with.
const CARRIED: &str = "a failure of the cloud: ";

impl From<Failure> for TableFailure {
    fn from(failure: Failure) -> Self {
        Self { reason: failure.reason, message: failure.message }
    }
}

impl From<TableFailure> for DataFusionError {
    fn from(failure: TableFailure) -> Self {
        Self::External(Box::new(failure))
    }
}

/// What the engine begins the sentences with of those who asked wrongly.
const KINDS: [&str; 4] =
    ["SQL error: ", "Error during planning: ", "This feature is not implemented: ", "Schema error: "];
/// In the words of an error that has no kind of its own: the room on disk is used up.
const DISK_IS_FULL: &str = "max_temp_directory_size";
/// In the words of a worker that another one asked for rows, before it had its own part of the plan.
const NO_PLAN_IN_TIME: &str = "timed-out while waiting for the plan";
/// Columns that are named to who asked for one that there is not.
const NAMES_SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use client::SectorPath;

    use super::*;

    #[test]
    fn an_error_of_the_cloud_is_found_beneath_the_engines() {
        let lost = ClientError::NoCopy { path: SectorPath::root(), last: "it is gone".into() };
        let stored = object_store::Error::Generic { store: "the cloud", source: Box::new(lost) };
        let read = datafusion::parquet::errors::ParquetError::External(Box::new(stored));
        let found = failure_of(&DataFusionError::from(read).context("while it read"));
        assert_eq!(found.reason, Reason::NoCopy);
        assert!(found.message.contains("it is gone"), "{}", found.message);
    }

    #[test]
    fn a_table_keeps_its_reason() {
        let failure = TableFailure::from(Failure::new(Reason::NotFound, "there is no table `/x`"));
        let found = failure_of(&DataFusionError::from(failure));
        assert_eq!((found.reason, found.message.as_str()), (Reason::NotFound, "there is no table `/x`"));
    }

    #[test]
    fn a_failure_at_a_worker_keeps_its_reason_though_it_comes_as_a_text() {
        let failure = TableFailure::from(Failure::new(Reason::NoRight, "you may not read \"/x\": {ask}"));
        let store = object_store::Error::Generic { store: "the cloud", source: Box::new(failure) };
        let text = DataFusionError::External(format!("while it read: {store}, and so on").into());
        let found = failure_of(&text);
        assert_eq!((found.reason, found.message.as_str()), (Reason::NoRight, "you may not read \"/x\": {ask}"));
        assert_eq!(failure_of(&DataFusionError::Execution(format!("{CARRIED}nonsense"))).reason, Reason::Failed);
    }

    #[test]
    fn a_wrong_statement_is_a_wrong_use() {
        let found = failure_of(&DataFusionError::Plan("function 'x' not found".into()));
        assert_eq!((found.reason, found.message.as_str()), (Reason::Invalid, "function 'x' not found"));
        let full = failure_of(&DataFusionError::ResourcesExhausted("no memory".into()));
        assert_eq!(full.reason, Reason::Failed);
        assert!(full.message.contains("--memory"), "{}", full.message);
    }
}
