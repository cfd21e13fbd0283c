//! The errors of a testbed. Where there is something to do about an error, its message says so. This file never calls
//! the system.

use std::io;

use protocol::{Reason, Refusal};

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The plan, or a change of it, is impossible.
    #[error("{0}")]
    Plan(String),
    /// No site has this name.
    #[error("there is no site `{name}`; there are {sites}")]
    NoSuchSite {
        /// The requested name.
        name: String,
        /// The sites that exist.
        sites: String,
    },
    /// Only root may make networks.
    #[error("making networks needs root; try `sudo` ({what}: {error})")]
    NotPermitted {
        /// What was not allowed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The kernel has no such devices.
    #[error(
        "cannot open /dev/net/tun ({0}); load the kernel's module with `modprobe tun`, or give the container this device"
    )]
    NoTun(io::Error),
    /// A call of the system failed.
    #[error("the testbed cannot {what}: {error}")]
    System {
        /// What it was for.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// The running testbed could not be reached.
    #[error("{0}")]
    Control(String),
    /// The running testbed refused the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
}

impl TestbedError {
    /// A call of the system that failed, or was not permitted.
    pub(crate) fn system(what: &'static str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { what, error },
            _ => Self::System { what: what.into(), error },
        }
    }

    /// The error as it travels; it decides the exit code.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Plan(_) => Reason::Invalid,
            Self::NoSuchSite { .. } => Reason::NotFound,
            Self::NotPermitted { .. } => Reason::NotPermitted,
            Self::NoTun(_) => Reason::Unavailable,
            Self::System { .. } => Reason::Failed,
            Self::Control(_) => Reason::Unavailable,
            Self::Refused(refusal) => refusal.reason,
        };
        Refusal::new(reason, self.to_string())
    }
}
