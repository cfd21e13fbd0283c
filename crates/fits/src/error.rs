//! Why an image cannot be read or cut. Each has a [class](ImageError::class), one word for programs; it never has the
//! path of the file, which its caller knows.

use std::io;

use thiserror::Error;

/// Why an image cannot be read, or a part of it cannot be cut out.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The bytes are no FITS file, or a damaged one.
    #[error("{what}: {reason}")]
    Damaged {
        /// What was being read.
        what: &'static str,
        /// What is wrong there.
        reason: String,
    },
    /// The file has no image of that number or name.
    #[error("there is no image {0} in the file")]
    NoImage(String),
    /// The image does not say where on the sky it lies, or in a way that is not understood.
    #[error("the image has no position on the sky: {0}")]
    NoSky(String),
    /// The image and what is asked for have no pixel in common.
    #[error("the image does not overlap {0}")]
    NoOverlap(String),
    /// What is asked for cannot be understood.
    #[error("{0}")]
    Usage(String),
    /// More than a limit allows.
    #[error("{what} takes {bytes} bytes, more than {limit_bytes}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is, at least.
        bytes: u64,
        /// How large it may be.
        limit_bytes: u64,
    },
    /// The bytes cannot be read.
    #[error("cannot read the file: {0}")]
    Read(#[from] io::Error),
}

impl ImageError {
    pub(crate) fn damaged(what: &'static str, reason: impl ToString) -> Self {
        Self::Damaged { what, reason: reason.to_string() }
    }

    /// One word for programs and for manifests: `damaged`, `no-image`, `no-sky`, `no-overlap`, `usage`, `too-large` or
    /// `unreadable`.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "damaged",
            Self::NoImage(_) => "no-image",
            Self::NoSky(_) => "no-sky",
            Self::NoOverlap(_) => "no-overlap",
            Self::Usage(_) => "usage",
            Self::TooLarge { .. } => "too-large",
            Self::Read(_) => "unreadable",
        }
    }

    /// The same once more, for a further caller.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::Damaged { what, reason } => Self::Damaged { what, reason: reason.clone() },
            Self::NoImage(what) => Self::NoImage(what.clone()),
            Self::NoSky(why) => Self::NoSky(why.clone()),
            Self::NoOverlap(what) => Self::NoOverlap(what.clone()),
            Self::Usage(message) => Self::Usage(message.clone()),
            Self::TooLarge { what, bytes, limit_bytes } => {
                Self::TooLarge { what, bytes: *bytes, limit_bytes: *limit_bytes }
            }
            Self::Read(error) => Self::Read(io::Error::new(error.kind(), error.to_string())),
        }
    }

    /// Fails if `bytes` are more than `limit_bytes`.
    pub(crate) fn check_bytes(what: &'static str, bytes: u64, limit_bytes: u64) -> Result<(), Self> {
        if bytes <= limit_bytes { Ok(()) } else { Err(Self::TooLarge { what, bytes, limit_bytes }) }
    }
}
