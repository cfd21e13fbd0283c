//! How a command ends when it does not succeed: one sentence on standard error, and the contract's exit code. With
//! `--json` a document says the same. It never follows a document of results with another one.

use std::{fmt, io, process::ExitCode};

use client::{ClientError, reason_of};
use daemon::DaemonError;
use protocol::{Reason, Refusal};
use serde::Serialize;

use crate::{exit_code, safe_text::sanitize, say, show};

/// A command's failure.
#[derive(Debug)]
pub struct Failure {
    /// Kind, which decides the exit code.
    pub reason: Reason,
    /// One sentence that says what to do; empty if everything was printed already.
    pub message: String,
    /// The path that it is about, where there is one.
    path: Option<String>,
    /// Whether the sentence was printed when it happened.
    is_printed: bool,
    /// The exit code of a command that a signal ended.
    signal_code: Option<u8>,
}

impl Failure {
    /// A failure for `reason`.
    pub fn new(reason: Reason, sentence: impl Into<String>) -> Self {
        Self { reason, message: sentence.into(), path: None, is_printed: false, signal_code: None }
    }

    /// A command that a person stopped at its question.
    pub fn interrupted(sentence: impl Into<String>) -> Self {
        Self::failed(sentence).ended_by(crate::program::INTERRUPT_CODE)
    }

    /// The same, about this path.
    #[must_use]
    pub fn about(self, path: impl fmt::Display) -> Self {
        Self { path: Some(path.to_string()), ..self }
    }

    /// The same, after a signal with which the command ends with `code`.
    #[must_use]
    pub(crate) fn ended_by(self, code: u8) -> Self {
        Self { signal_code: Some(code), ..self }
    }

    /// The same, after its sentence was printed: the program that ends with it does not say it again.
    #[must_use]
    pub fn printed(self) -> Self {
        Self { is_printed: true, ..self }
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

    /// Prints it on standard error, and as JSON where that is asked for and nothing stands on standard output yet.
    /// Returns the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        self.say();
        if json && !show::has_output() {
            show::document(&serde_json::json!({ "error": self.view() }));
        }
        ExitCode::from(self.signal_code.unwrap_or_else(|| exit_code::of(self.reason)))
    }

    /// As JSON, for a list of failures in a document.
    pub fn view(&self) -> FailureView {
        let reason = if self.signal_code.is_some() { "interrupted" } else { self.reason.as_str() };
        FailureView { reason, message: self.message.clone(), path: self.path.clone() }
    }

    fn say(&self) {
        if !self.message.is_empty() && !self.is_printed {
            say!("sector: {}", sanitize(&self.message));
        }
    }
}

/// A failure as JSON (contract: `error`).
#[derive(Clone, Debug, Serialize)]
pub struct FailureView {
    reason: &'static str,
    message: String,
    path: Option<String>,
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
        let is_misuse = matches!(error.cause(), ClientError::IsFolder { .. } | ClientError::IsLocalFolder { .. });
        let failure = Self::new(if is_misuse { Reason::Invalid } else { error.reason() }, error.to_string());
        match error.cause() {
            ClientError::NoCopy { path, .. } | ClientError::Corrupt { path } | ClientError::IsFolder { path } => {
                failure.about(path)
            }
            ClientError::File { file, .. } | ClientError::IsLocalFolder { folder: file } => {
                failure.about(file.display())
            }
            _ => failure,
        }
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
    first: Option<Failure>,
}

impl Failures {
    /// Prints the failure of one item, if it failed.
    pub fn note(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            failure.say();
            self.first.get_or_insert(failure.printed());
        }
    }

    /// Whether none failed so far.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The outcome of all.
    pub fn into_result(self) -> Result<(), Failure> {
        self.first.map_or(Ok(()), Err)
    }
}
