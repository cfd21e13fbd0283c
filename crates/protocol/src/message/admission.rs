//! How machines come into a cloud and stay in it: requesting, issuing, renewing and revoking certificates. The same
//! messages travel at several doors. A newcomer sends an [`Enrolment`] when it joins (doors 2 and 4), or, as a master,
//! to the security server. The master passes it on (door 3). An administrator sends an [`AdmissionVerb`] (door 2,
//! passed on). A private key never travels: its owner sends the public half with a proof that it has the other.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use super::{master_security::AdmissionRequest, request::AdmissionVerb};
use crate::{AddressRange, KeyDigest, MachineKind, NodeId, TicketSecret};

/// A public key for which a certificate is requested: a point of the curve P-256. With it comes an ECDSA signature with
/// its private key over the name and the key (`net::identity`). All is of fixed length, so a stranger's bytes meet no
/// parser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRequest {
    /// The point's first coordinate.
    pub x: [u8; 32],
    /// The point's second coordinate.
    pub y: [u8; 32],
    /// The signature's first half.
    pub r: [u8; 32],
    /// The signature's second half.
    pub s: [u8; 32],
}

/// The request of a machine that wants a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Enrolment {
    /// It has a ticket: [`AdmissionReply::Issued`].
    WithTicket {
        /// The role it wants; the ticket must be for that.
        kind: MachineKind,
        /// The ticket's secret.
        secret: TicketSecret,
        /// The name it wants; by default as the ticket says, or the first free `node-N`.
        name: Option<NodeId>,
        /// The key it made.
        key: CertificateRequest,
    },
    /// A node without a ticket asks, and asks again until an administrator has decided. It gets
    /// [`AdmissionReply::Waiting`], then [`AdmissionReply::Issued`].
    Ask {
        /// The name it wants.
        name: NodeId,
        /// The key it made.
        key: CertificateRequest,
    },
    /// A machine whose certificate has been shown wants the next: [`AdmissionReply::Issued`].
    Renew {
        /// Its name.
        name: NodeId,
        /// The new key it made.
        key: CertificateRequest,
    },
    /// A machine shows its new certificate for the first time; from then on the old one is worthless:
    /// [`AdmissionReply::Done`].
    Confirm {
        /// Its name.
        name: NodeId,
    },
}

/// The answer to a machine or an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdmissionReply {
    /// A certificate.
    Issued {
        /// The name in it.
        name: NodeId,
        /// The certificate, PEM.
        certificate_pem: String,
        /// The certificate of the cloud's authority, PEM.
        authority_pem: String,
    },
    /// An administrator must decide; ask again.
    Waiting {
        /// The digest of the key that asked, for the administrator to compare.
        key: KeyDigest,
    },
    /// It is done.
    Done,
    /// The waiting machines.
    Requests(Vec<WaitingMachine>),
    /// A page of the admitted machines, by name.
    Machines {
        /// The machines.
        machines: Vec<MachineStatus>,
        /// Whether there is another page.
        more: bool,
    },
}

/// A page of machines that have a certificate, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePage {
    /// The machines.
    pub machines: Vec<MachineStatus>,
    /// Whether there is another page.
    pub more: bool,
}

/// A machine that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMachine {
    /// The name it wants.
    pub name: NodeId,
    /// Its key.
    pub key: KeyDigest,
    /// Where it asks from.
    pub address: IpAddr,
    /// When it asked first, in milliseconds since 1970.
    pub asked_unix_millis: u64,
}

/// A machine with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineStatus {
    /// Its name.
    pub name: NodeId,
    /// What it is.
    pub kind: MachineKind,
    /// SHA-256 of its certificate.
    pub fingerprint: [u8; 32],
    /// When that ends, in milliseconds since 1970; `None` where it was issued before that was recorded.
    pub until_unix_millis: Option<u64>,
    /// SHA-256 of the next certificate, which was issued and not yet used.
    pub next_fingerprint: Option<[u8; 32]>,
    /// From where it may join; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
    /// Whether its certificate is refused.
    pub is_struck_off: bool,
}
