//! What can go wrong with a testbed.

use std::io;

use protocol::{Refusal, Status};

/// See the module. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The plan cannot be made, or a change of it.
    #[error("{0}")]
    Plan(String),
    /// Nobody is called so.
    #[error("there is no site `{name}`; there are {sites}")]
    NoSuchSite {
        /// As it was asked for.
        name: String,
        /// Those that there are.
        sites: String,
    },
    /// Making networks is for root.
    #[error("making networks needs root; try `sudo` ({what}: {error})")]
    NotPermitted {
        /// What was not allowed.
        what: &'static str,
        /// How the system said it.
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
        /// How the system said it.
        error: io::Error,
    },
    /// The running testbed could not be asked.
    #[error("{0}")]
    Control(String),
    /// The running testbed was asked, and refused.
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

    /// What travels, and decides the exit code.
    pub fn refusal(&self) -> Refusal {
        let status = match self {
            Self::Plan(_) => Status::Usage,
            Self::NoSuchSite { .. } => Status::NotFound,
            Self::NotPermitted { .. } => Status::Refused,
            Self::NoTun(_) => Status::Unavailable,
            Self::System { .. } => Status::Failed,
            Self::Control(_) => Status::Unavailable,
            Self::Refused(refusal) => refusal.status,
        };
        Refusal { status, message: self.to_string() }
    }
}
