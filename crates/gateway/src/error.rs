//! Why a gateway cannot start. What goes wrong in a request is an answer of `web`, and never ends the gateway.

use std::{io, net::SocketAddr, path::PathBuf};

use client::{ClientError, Reason, Refusal, reason_of};
use thiserror::Error;

/// An error at the start of a gateway.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// Its port cannot be used.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address of the settings.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A file of its settings cannot be read.
    #[error("cannot read the {what} `{}`: {source}", file.display())]
    File {
        /// What it is for.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Certificate and key cannot be used.
    #[error("cannot use the certificate `{}`: {why}", file.display())]
    Certificate {
        /// The certificate's file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A webhook of its settings cannot be used.
    #[error("cannot use the webhook `{name}`: {why}")]
    Webhook {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// What surrounds every role could not.
    #[error(transparent)]
    Daemon(#[from] daemon::DaemonError),
    /// The cloud cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl GatewayError {
    /// Whether another program has the port.
    pub fn is_port_taken(&self) -> bool {
        matches!(self, Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
    }

    /// Why, with a sentence.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Listen { source, .. } | Self::File { source, .. } => reason_of(source),
            Self::Certificate { .. } | Self::Webhook { .. } => Reason::Invalid,
            Self::Daemon(error) => return error.refusal(),
            Self::Client(error) => error.reason(),
        };
        Refusal::new(reason, self.to_string())
    }
}
