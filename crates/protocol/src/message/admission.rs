//! How machines come into a cloud and stay in it: certificates asked for, issued, renewed and struck off. The same
//! words travel at several doors: a newcomer says an [`Enrolment`] when it joins (doors 2 and 4) or to the security
//! server (a master), the master passes it on (door 3), and an administrator says an [`AdmissionVerb`] (door 2, passed
//! on).
//!
//! A private key never travels: the owner makes it and sends the public half with a proof that it has the other.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::master_security::Asker;
use crate::{AddressRange, KeyDigest, MachineKind, NodeId, TicketSecret};

/// A public key that wants a certificate: a point of the curve P-256, and an ECDSA signature with its private key over
/// the name and the key (`net::identity`). All of fixed length, so that a stranger's bytes meet no parser.
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

/// What a machine says that wants a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Enrolment {
    /// It has a ticket: [`AdmissionReply::Issued`].
    WithTicket {
        /// What it wants to be; the ticket must be for that.
        kind: MachineKind,
        /// The ticket's secret.
        secret: TicketSecret,
        /// How it wants to be called; by default as the ticket says, or the first free `node-N`.
        name: Option<NodeId>,
        /// The key it made.
        key: CertificateRequest,
    },
    /// A node without a ticket asks, and asks again until an administrator has decided: [`AdmissionReply::Waiting`],
    /// then [`AdmissionReply::Issued`].
    Ask {
        /// How it wants to be called.
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
    /// A machine shows its new certificate for the first time; from then on the old one is worth nothing:
    /// [`AdmissionReply::Done`].
    Confirm {
        /// Its name.
        name: NodeId,
    },
}

/// What the security server is asked about machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdmissionRequest {
    /// A machine's own words. From a master: passed on; from a stranger: its own.
    Enrol {
        /// The address it comes from; the security server puts in what it sees itself where no master asks.
        address: IpAddr,
        /// SHA-256 of the certificate it has shown, if any; also put in by the security server.
        fingerprint: Option<[u8; 32]>,
        /// What it said.
        enrolment: Enrolment,
    },
    /// An administrator's words, passed on by the master.
    Administer {
        /// Who.
        by: Asker,
        /// What.
        verb: AdmissionVerb,
    },
    /// The words of who sits at the security server itself and has its private key.
    Own(AdmissionVerb),
}

/// What an administrator does about machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdmissionVerb {
    /// Take a ticket into the books: [`AdmissionReply::Done`]. Its secret stays with who made it.
    AddTicket {
        /// What its bearer may become. One for a master can only be made at the security server.
        kind: MachineKind,
        /// The secret's digest (`net::identity::ticket_digest`).
        digest: [u8; 32],
        /// The only name it is good for; otherwise any that is free.
        name: Option<NodeId>,
        /// For how long, in seconds.
        life_seconds: u64,
    },
    /// Who waits for a decision: [`AdmissionReply::Waiting`] ones in [`AdmissionReply::Requests`].
    Requests,
    /// Let a waiting one in: [`AdmissionReply::Done`].
    Approve {
        /// Which.
        name: NodeId,
        /// Its key, to be sure, or to say which of several.
        key: Option<KeyDigest>,
    },
    /// Turn all away that want this name: [`AdmissionReply::Done`].
    Reject {
        /// Which name.
        name: NodeId,
    },
    /// From where a node may join: [`AdmissionReply::Done`].
    Allow {
        /// Which.
        name: NodeId,
        /// From where; empty: from anywhere.
        addresses: Vec<AddressRange>,
    },
    /// The machines that have a certificate, a page: [`AdmissionReply::Machines`].
    Machines {
        /// The last one of the page before; none for the first page.
        after: Option<NodeId>,
    },
    /// Refuse a machine's certificate from now on, or with `undo` take it again: [`AdmissionReply::Done`].
    Strike {
        /// Which.
        name: NodeId,
        /// Take it again.
        undo: bool,
    },
}

/// What a machine or an administrator hears.
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
    /// Who waits.
    Requests(Vec<WaitingMachine>),
    /// A page of who is in, by name.
    Machines {
        /// They.
        machines: Vec<MachineStatus>,
        /// Whether there is another page.
        more: bool,
    },
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
    /// When that ends, in milliseconds since 1970; `None` where it was issued before that was written down.
    pub until_unix_millis: Option<u64>,
    /// SHA-256 of the next certificate, which was issued and not yet used.
    pub next_fingerprint: Option<[u8; 32]>,
    /// From where it may join; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
    /// Whether its certificate is refused.
    pub is_struck_off: bool,
}
