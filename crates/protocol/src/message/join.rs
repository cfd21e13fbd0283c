//! The TLS conversation that begins a session with the master (doors 2 and 4). The other side says who it is and gets a
//! GMP session. The session's key never travels: both ends derive it from the TLS connection ([`KEY_LABEL`], RFC 8446
//! exporter, context = session id in network byte order).

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{
    accounts::NewSession,
    admission::{AdmissionReply, Enrolment},
    client_reply::DriverKey,
    login::{DeviceReply, DeviceRequest},
};
use crate::{
    JobId, NodeId, Place, Refusal, SessionId, UserName,
    ticket::{HolderKey, TicketKeys},
    wire::datagram::RESET_TOKEN_BYTES,
};

/// Label of the TLS exporter that yields the 32-byte session key.
pub const KEY_LABEL: &[u8] = b"EXPORTER-sector-gmp-2";

/// Longest name of a machine in a login, in bytes: that of a host name.
pub const MACHINE_BYTES_MAX: usize = 255;

/// What proves a user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Secret {
    /// A password a person remembers.
    Password(String),
    /// A random 32-byte token from a profile.
    Token([u8; 32]),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(…)",
            Self::Token(_) => "Token(…)",
        })
    }
}

/// The first and only message of the end that joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinRequest {
    /// A user logs in.
    Client {
        /// Who.
        user: UserName,
        /// The proof.
        secret: Secret,
        /// The public half of a key that the client made for this session: its tickets are good for no other holder.
        holder: HolderKey,
    },
    /// A node joins; it proves itself by its TLS certificate.
    Node {
        /// The node's name, as in its certificate.
        node: NodeId,
        /// Where it stands.
        place: Place,
        /// Where its transfer port listens.
        transfer: SocketAddr,
        /// SPEs it can run at once.
        spe_slots: u32,
        /// Its process id, shown for nodes of the same machine.
        pid: u32,
        /// Its data folder, shown for nodes of the same machine.
        folder: String,
        /// Name of its local socket, told to clients of the same machine.
        local: Option<String>,
    },
    /// A person logs in and gets a token for this machine: [`JoinReply::LoggedIn`]. No session with the master begins.
    Login {
        /// Who.
        user: UserName,
        /// The proof.
        secret: Secret,
        /// What the machine is called, for people; at most [`MACHINE_BYTES_MAX`].
        machine: String,
    },
    /// A machine wants a certificate, its first or its next: [`JoinReply::Admission`]. No session begins.
    Enrol(Enrolment),
    /// Someone logs in with a browser; no session begins yet: [`JoinReply::Device`].
    Device(DeviceRequest),
    /// The driver of a detached job joins on behalf of the user who detached it.
    Driver {
        /// The job.
        job: JobId,
        /// The proof, which the master gave to the node.
        key: DriverKey,
        /// See [`Client`](Self::Client).
        holder: HolderKey,
    },
}

/// The master's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinReply {
    /// A session; from now on messages go over GMP, to the same port number by UDP.
    Accepted {
        /// The new session.
        session: SessionId,
        /// The master's public keys for tickets.
        ticket_keys: TicketKeys,
        /// The token that the master shows when it says, without a seal, that it no longer knows this session
        /// ([`StatelessReset`](crate::wire::datagram::StatelessReset)).
        reset_token: [u8; RESET_TOKEN_BYTES],
    },
    /// No.
    Refused(Refusal),
    /// A login session has begun.
    LoggedIn(NewSession),
    /// The result about a machine's certificate.
    Admission(AdmissionReply),
    /// The progress of a login with a browser.
    Device(DeviceReply),
}
