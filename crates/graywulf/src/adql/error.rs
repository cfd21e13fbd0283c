//! What is wrong with a query in ADQL. It never says where the engine is at fault.

use datafusion::sql::sqlparser::parser::ParserError;

/// What is wrong with a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AdqlError(String);

impl AdqlError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<ParserError> for AdqlError {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::TokenizerError(said) | ParserError::ParserError(said) => Self(said),
            ParserError::RecursionLimitExceeded => Self("it is nested too deeply".into()),
        }
    }
}
