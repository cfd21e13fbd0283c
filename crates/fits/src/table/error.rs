//! Why a table cannot be read or written. Each has a [class](FitsTableError::class), one word for programs; it never has the
//! path of the file, which its caller knows.

use fits_well::FitsError;
use thiserror::Error;

/// Why a table cannot be read or written.
#[derive(Debug, Error)]
pub enum FitsTableError {
    /// The bytes are no FITS file, or a damaged one.
    #[error("{what}: {reason}")]
    Damaged {
        /// What was being read.
        what: String,
        /// What is wrong there.
        reason: String,
    },
    /// The file has no table.
    #[error("there is no table in the file")]
    NoTable,
    /// The table has values that [`FitsValues`](super::FitsValues) cannot hold.
    #[error("{what}: {reason}")]
    Unsupported {
        /// What has them.
        what: String,
        /// What they are.
        reason: &'static str,
    },
    /// The table to write makes no sense, or FITS cannot hold it.
    #[error("{0}")]
    Usage(String),
    /// More memory than the file's length allows.
    #[error("the table takes {bytes} bytes of memory, more than the {limit_bytes} that a file of its length may take")]
    TooLarge {
        /// How much it takes, at least.
        bytes: u64,
        /// How much it may take.
        limit_bytes: u64,
    },
}

impl FitsTableError {
    /// One word for programs: `damaged`, `no-table`, `unsupported`, `usage` or `too-large`.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "damaged",
            Self::NoTable => "no-table",
            Self::Unsupported { .. } => "unsupported",
            Self::Usage(_) => "usage",
            Self::TooLarge { .. } => "too-large",
        }
    }

    pub(super) fn damaged(what: impl Into<String>, reason: impl ToString) -> Self {
        Self::Damaged { what: what.into(), reason: reason.to_string() }
    }

    /// What the library says of a header.
    pub(super) fn in_header(error: FitsError) -> Self {
        Self::translated("the table's header", error)
    }

    /// What the library says of a column's values.
    pub(super) fn in_column(name: &str, error: FitsError) -> Self {
        Self::translated(of_column(name), error)
    }

    /// A column whose values cannot be held.
    pub(super) fn unsupported(name: &str, reason: &'static str) -> Self {
        Self::Unsupported { what: of_column(name), reason }
    }

    fn translated(what: impl Into<String>, error: FitsError) -> Self {
        match error {
            // Bytes in memory fail in no other way.
            FitsError::UnexpectedEof | FitsError::Io(_) => Self::damaged(what, "the file ends too early"),
            error => Self::damaged(what, error),
        }
    }
}

fn of_column(name: &str) -> String {
    format!("the column `{name}`")
}
