//! What a person sees of a transfer of many files: the bytes, each failure when it happens, and how it ended. It never
//! decides which file goes where.

use std::{fmt::Display, sync::Arc};

use client::{
    ClientError,
    tree::{FailedFile, TreeEvent, TreeObserver, TreeOutcome},
};
use terminal::{
    failure::Failure,
    sanitize,
    show::{Meter, say},
};

/// Shows the bytes, and prints each failure in the words of `failure_of`.
pub(crate) fn observer(meter: &Arc<Meter>, failure_of: fn(&FailedFile) -> Failure) -> TreeObserver {
    let meter = Arc::clone(meter);
    Arc::new(move |event| match event {
        TreeEvent::Bytes(bytes) => meter.add(bytes),
        TreeEvent::Failed(failed) => say!("sector: {}", sanitize(&failure_of(failed).message)),
        TreeEvent::Done(_) => {}
    })
}

/// A failure in the client's own words.
pub(crate) fn failure(failed: &FailedFile) -> Failure {
    Failure::from(&failed.error)
}

/// Why there is no plan. A folder needs an option.
pub(crate) fn plan_failure(error: ClientError) -> Failure {
    let asks_for_option =
        |folder: &dyn Display| Failure::usage(format!("`{folder}` is a folder; use -r for all that it holds"));
    match &error {
        ClientError::IsFolder { path } => asks_for_option(path),
        ClientError::IsLocalFolder { folder } => asks_for_option(&folder.display()),
        _ => error.into(),
    }
}

/// How the command ends. Everything was printed already, and the first failure decides the exit code.
pub(crate) fn result_of(outcome: &TreeOutcome) -> Result<(), Failure> {
    match outcome.failures.first() {
        Some(failed) => Err(Failure::new(failure(failed).reason, "")),
        None => Ok(()),
    }
}
