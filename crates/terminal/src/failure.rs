//! How a command ends when it does not succeed: one sentence on standard error, and the contract's exit code. It
//! never writes to standard output.

use std::{fmt, io, process::ExitCode};

use client::{ClientError, reason_of};
use daemon::DaemonError;
use protocol::{Reason, Refusal};

use crate::{safe_text::sanitize, say};

/// A command's failure.
#[derive(Debug)]
pub struct Failure {
    /// Kind, which decides the exit code.
    pub reason: Reason,
    /// One sentence that says what to do; empty if everything was printed already.
    pub message: String,
}

impl Failure {
    /// A failure for `reason`.
    pub fn new(reason: Reason, sentence: impl Into<String>) -> Self {
        Self { reason, message: sentence.into() }
    }

    /// A failure without a more specific reason.
    pub fn failed(sentence: impl Into<String>) -> Self {
        Self::new(Reason::Failed, sentence)
    }

    /// A wrong use of the command.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Reason::Invalid, sentence)
    }

    /// A local file that could not be used.
    pub fn local(what: &str, file: &std::path::Path, error: &io::Error) -> Self {
        Self::new(reason_of(error), format!("cannot {what} `{}`: {error}", file.display()))
    }

    /// Prints it on standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            say!("sector: {}", sanitize(&self.message));
        }
        ExitCode::from(self.reason.status().exit_code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::from(&error)
    }
}

impl From<&ClientError> for Failure {
    fn from(error: &ClientError) -> Self {
        // A command that names a folder where it needs a file is used wrongly (2). Nothing exists in the place of
        // something else, as exit code 7 would say.
        let is_misuse = matches!(error, ClientError::IsFolder { .. } | ClientError::IsLocalFolder { .. });
        Self::new(if is_misuse { Reason::Invalid } else { error.reason() }, error.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.reason, refusal.message)
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        error.refusal().into()
    }
}

impl From<protocol::path::PathError> for Failure {
    fn from(error: protocol::path::PathError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Failures among many items. Each is printed when it happens, the rest goes on, and the first decides the exit code.
#[derive(Default)]
pub struct Failures {
    first: Option<Reason>,
}

impl Failures {
    /// Prints the failure of one item, if it failed.
    pub fn note(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            say!("sector: {}", sanitize(&failure.message));
            self.first.get_or_insert(failure.reason);
        }
    }

    /// The outcome of all.
    pub fn into_result(self) -> Result<(), Failure> {
        self.first.map_or(Ok(()), |reason| Err(Failure::new(reason, "")))
    }
}
