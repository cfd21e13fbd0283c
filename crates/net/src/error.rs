//! Everything that can go wrong between two sockets, in sentences that name the operation and the thing.
//!
//! It never decides whether to try again; it only says, by [`NetError::class`], what kind of failure it was.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use protocol::{Reason, Refusal, SessionId, status::ErrorClass, wire::codec::CodecError};
use thiserror::Error;

use crate::unauthenticated::SlotLoss;

/// A failed operation on the network. Others may be added: match with a wildcard.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// A port could not be opened.
    #[error("cannot listen on {address}: {}", bind_reason(.source))]
    Bind {
        /// Where we wanted to listen.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A listening port gave no further connection.
    #[error("cannot accept connections on {address}: {source}")]
    Accept {
        /// Where we listen.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody answered at an address.
    #[error("cannot connect to {server} at {address}: {}", connect_reason(.source))]
    Connect {
        /// The role or node that was expected there.
        server: String,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The name of a machine leads nowhere.
    #[error("cannot find the address of `{name}`: {}; see whether the name is right", resolve_reason(.source))]
    Unresolved {
        /// The name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The other end was reached, but the two did not agree on a secure connection.
    #[error("no secure connection with {peer}: {why}")]
    Handshake {
        /// The other end: an address, with the expected role where it is known.
        peer: String,
        /// What was wrong with it.
        why: String,
    },
    /// The other end closed, or the connection was cut, in the middle of something.
    #[error("the connection with {peer} was closed while {operation}")]
    Closed {
        /// The other end.
        peer: SocketAddr,
        /// What was being done, as in "receiving a frame".
        operation: &'static str,
    },
    /// The system or TLS gave up a connection.
    #[error("the connection with {peer} broke while {operation}: {source}")]
    Broken {
        /// The other end.
        peer: SocketAddr,
        /// What was being done.
        operation: &'static str,
        /// What the system or TLS said.
        source: io::Error,
    },
    /// The other end sent bytes that are no message.
    #[error("{peer} sent something that is not understood: {source}; both ends must run the same version of sector")]
    Malformed {
        /// The other end.
        peer: SocketAddr,
        /// What was wrong with the bytes.
        source: CodecError,
    },
    /// A frame's bytes do not have the checksum their sender computed.
    #[error("a frame from {peer} arrived damaged in block {block}; read it again, from another copy if there is one")]
    Corrupt {
        /// The other end.
        peer: SocketAddr,
        /// The first bad block of the frame, counted from 0.
        block: usize,
    },
    /// No answer came in time.
    #[error("{operation} took longer than {} s", .after.as_secs_f64())]
    Deadline {
        /// What was waited for, with whom: "connecting to node-1 at 10.0.0.1:7000".
        operation: String,
        /// How long.
        after: Duration,
    },
    /// One that called and has proved nothing is heard no longer.
    #[error("{peer} has {}", over_reason(*.over))]
    Unauthenticated {
        /// The other end.
        peer: SocketAddr,
        /// Why.
        over: SlotLoss,
    },
    /// A session is not, or no longer, known.
    #[error("session {session} has ended")]
    SessionLost {
        /// Which one.
        session: SessionId,
    },
    /// More is waiting to be sent to one peer than may wait.
    #[error("session {session} already has {messages_max} messages waiting; try again a little later")]
    QueueFull {
        /// Which session.
        session: SessionId,
        /// The bound that was reached.
        messages_max: usize,
    },
    /// A message or frame is longer than the protocol allows, ours or the peer's.
    #[error("{what} of {bytes} bytes is longer than the {bytes_max} bytes allowed")]
    TooLong {
        /// "a message", "a frame", …
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The longest allowed.
        bytes_max: usize,
    },
    /// A certificate or key could not be made or used.
    #[error("cannot {operation}: {why}")]
    Certificate {
        /// "read the authority's certificate", …
        operation: &'static str,
        /// What was wrong with it.
        why: String,
    },
    /// A file with a key could not be read or written.
    #[error("cannot {operation} {}: {source}", .file.display())]
    File {
        /// "read the group's key from", …
        operation: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A socket could not be set up or asked.
    #[error("cannot {operation}: {source}")]
    Socket {
        /// "open a socket", …
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A conversation with a node of this machine, over its local socket, did not go on.
    #[error("the local socket of a node failed while {operation}: {source}; its transfer port may still do")]
    Local {
        /// "connecting", …
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl NetError {
    /// What a caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Connect { .. }
            | Self::Closed { .. }
            | Self::Broken { .. }
            | Self::Deadline { .. }
            | Self::Unresolved { .. }
            | Self::Local { .. } => ErrorClass::RetryElsewhere,
            Self::Unauthenticated { .. } | Self::Accept { .. } | Self::QueueFull { .. } | Self::SessionLost { .. } => {
                ErrorClass::RetryHere
            }
            Self::Corrupt { .. } => ErrorClass::Corrupt,
            Self::Bind { .. }
            | Self::Handshake { .. }
            | Self::Malformed { .. }
            | Self::TooLong { .. }
            | Self::Certificate { .. }
            | Self::File { .. }
            | Self::Socket { .. } => ErrorClass::Refuse,
        }
    }

    /// The error as an answer to whoever asked for the operation.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Connect { .. }
            | Self::Accept { .. }
            | Self::Closed { .. }
            | Self::Broken { .. }
            | Self::Deadline { .. }
            | Self::Local { .. }
            | Self::Unresolved { .. }
            | Self::SessionLost { .. }
            | Self::Unauthenticated { .. }
            | Self::QueueFull { .. } => Reason::Unavailable,
            Self::Handshake { .. } => Reason::NotAuthenticated,
            Self::Corrupt { .. } => Reason::Corrupt,
            Self::TooLong { .. } => Reason::Invalid,
            Self::Bind { .. }
            | Self::Malformed { .. }
            | Self::Certificate { .. }
            | Self::File { .. }
            | Self::Socket { .. } => Reason::Failed,
        };
        Refusal::new(reason, self.to_string())
    }
}

/// Why a stranger is heard no longer, in words.
fn over_reason(over: SlotLoss) -> &'static str {
    match over {
        SlotLoss::TimedOut => "proved nothing in time, and was hung up on",
        SlotLoss::Evicted => "made way for another of its address",
    }
}

/// Why a port could not be opened, and what to do.
fn bind_reason(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => "the port is in use; choose another with --port".into(),
        io::ErrorKind::PermissionDenied => "ports below 1024 need rights; choose another with --port".into(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        _ => source.to_string(),
    }
}

/// Why a name leads nowhere.
fn resolve_reason(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "it has none".into(),
        _ => source.to_string().replace("failed to lookup address information: ", ""),
    }
}

/// Why nobody answered, and what to do.
fn connect_reason(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => "nobody listens there; is it running?".into(),
        io::ErrorKind::TimedOut => "no answer; is the address right and no firewall between?".into(),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "there is no way to that address".into(),
        _ => source.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 7000))
    }

    #[test]
    fn a_port_in_use_is_said_in_words_with_what_to_do() {
        let error = NetError::Bind { address: address(), source: io::ErrorKind::AddrInUse.into() };
        assert_eq!(
            error.to_string(),
            "cannot listen on 127.0.0.1:7000: the port is in use; choose another with --port"
        );
        assert_eq!(error.refusal().reason, Reason::Failed);
    }

    #[test]
    fn who_cannot_be_reached_is_unavailable_and_may_be_tried_elsewhere() {
        let unreachable = [
            NetError::Connect {
                server: "node-1".into(),
                address: address(),
                source: io::ErrorKind::ConnectionRefused.into(),
            },
            NetError::Closed { peer: address(), operation: "receiving a frame" },
            NetError::Deadline { operation: "connecting".into(), after: Duration::from_secs(10) },
        ];
        for error in unreachable {
            assert_eq!(error.refusal().reason, Reason::Unavailable, "{error}");
            assert_eq!(error.class(), ErrorClass::RetryElsewhere, "{error}");
        }
    }

    #[test]
    fn damage_in_flight_is_corrupt_and_a_foreign_certificate_is_refused() {
        let corrupt = NetError::Corrupt { peer: address(), block: 3 };
        assert_eq!((corrupt.class(), corrupt.refusal().reason), (ErrorClass::Corrupt, Reason::Corrupt));
        let handshake = NetError::Handshake { peer: "node-1".into(), why: "unknown issuer".into() };
        assert_eq!((handshake.class(), handshake.refusal().reason), (ErrorClass::Refuse, Reason::NotAuthenticated));
    }
}
