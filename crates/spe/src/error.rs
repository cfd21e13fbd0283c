//! Why an SPE could not be started. What happens to a running one is an [outcome](crate::SpeOutcome), and never an
//! error of this type.

use std::io;

use protocol::{Reason, Refusal, status::ErrorClass};
use thiserror::Error;

/// An SPE that could not be started: this node's fault, never the function's.
#[derive(Debug, Error)]
pub enum SpeError {
    /// No socket or pipe for it.
    #[error("an SPE could not get its connections: {0}; raise the limit of open files")]
    Connect(#[source] io::Error),
    /// No user number or folder for it.
    #[error("an SPE has no place to work in: {0}")]
    Allocate(String),
    /// The process did not start.
    #[error("an SPE could not be started from {program}: {source}")]
    Start {
        /// The executable.
        program: String,
        /// Why not.
        source: io::Error,
    },
}

impl SpeError {
    /// What a caller may do about it.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::RetryElsewhere
    }

    /// The same for the driver of the job.
    pub fn refusal(&self) -> Refusal {
        Refusal::new(Reason::Unavailable, self.to_string())
    }
}
