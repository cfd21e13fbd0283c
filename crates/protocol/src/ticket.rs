//! A ticket: the master's signed word that someone may move some bytes at a node (architecture, door 5; the paper's
//! "exclusive data connection that is coordinated by the master", 2.3). A node checks it alone, without asking.
//!
//! A ticket alone opens nothing: it names its [`Holder`], and whoever shows it proves to be that one on the very
//! connection on which it is shown. So one that was read from a log, a memory or a wire is worth nothing to its finder.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{JobId, LeaseId, NodeId, ResumeKey, SectorPath, SliceId, UserName, Version, slice::SliceHeader, time::Now};

/// What a ticket allows, on one node, until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its number: it grows from ticket to ticket, over the rolls of a master's keys too.
    pub number: u64,
    /// On whose behalf.
    pub user: UserName,
    /// Who may show it.
    pub holder: Holder,
    /// At which node it is valid, and nowhere else.
    pub node: NodeId,
    /// What may be done.
    pub right: TicketRight,
    /// Which file's bytes they are, as it was called when the ticket was made. For people and for the audit record:
    /// what may be done is said by the slice in the right, which has one content for ever while its file may be
    /// renamed.
    pub file: Option<TicketFile>,
    /// The site within which the bytes may go unencrypted; `None`: they may not.
    pub plain_within: Option<String>,
    /// The site where its holder stands, as far as the master knows: what goes there is counted with all that goes
    /// there.
    pub holder_site: Option<String>,
    /// Valid until this wall-clock time, in milliseconds since the Unix epoch.
    pub until_unix_millis: u64,
}

/// The file a ticket is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketFile {
    /// Its path.
    pub path: SectorPath,
    /// Its version.
    pub version: Version,
}

/// Who may show a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holder {
    /// Whoever has the private half of this Ed25519 key, which a client made for its session and told at its login.
    Client(HolderKey),
    /// The node of this name, proved by its certificate.
    Node(NodeId),
}

/// The public half of a client's key, Ed25519, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HolderKey(pub [u8; 32]);

impl fmt::Debug for HolderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HolderKey({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// The verb of a ticket with what it applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TicketRight {
    /// Read a range of one slice.
    Read {
        /// The slice.
        slice: SliceId,
        /// First byte that may be read.
        from: u64,
        /// First byte that may no longer be read.
        until: u64,
    },
    /// Write one new slice, whole, once.
    Write {
        /// The lease under which it is written.
        lease: LeaseId,
        /// The new slice, as it will stand in the sidecar.
        header: SliceHeader,
        /// Under which key the bytes are kept if the connection breaks, for the same user's next attempt.
        resume: Option<ResumeKey>,
        /// The slice that the new one begins with: its bytes are copied at the node, what is sent comes behind them.
        base: Option<SliceId>,
    },
    /// Run SPEs for a job, keep its intermediate results, and give them to the job's other nodes.
    Compute {
        /// The job.
        job: JobId,
    },
    /// List and take in native files of the node's import folders.
    Import,
    /// Let SPEs of a job read these slices, those of this node and those that it fetches from others. A right to
    /// compute lets them read nothing but what the job made itself.
    Inputs {
        /// The job.
        job: JobId,
        /// What it may read.
        slices: Vec<SliceId>,
    },
}

/// A ticket with the master's Ed25519 signature over its encoded bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedTicket {
    /// The encoded [`Ticket`]; kept as bytes, since the signature is over bytes.
    pub ticket: Vec<u8>,
    /// Ed25519 signature, 64 bytes.
    pub signature: Vec<u8>,
    /// To whom the client that holds it has handed it on, if to anyone.
    pub delegation: Option<Delegation>,
}

/// A client's word that someone may use its ticket in its place: the node that runs a task reads what the task needs,
/// the node that makes a copy reads what is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// Who may use it.
    pub to: Delegate,
    /// Ed25519 signature with the holder's key over [`delegation_bytes`], 64 bytes.
    pub signature: Vec<u8>,
}

/// To whom a ticket is handed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delegate {
    /// A node of the same cloud, which proves itself by its certificate.
    Node(NodeId),
    /// Whoever proves to hold this key, as a client does: a node of another cloud.
    Key(HolderKey),
}

/// The public keys with which a node checks tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketKeys {
    /// Signs now.
    pub current: [u8; 32],
    /// Will sign next: told long before, so that no node meets a key that it does not know.
    pub next: [u8; 32],
}

/// Why a node refuses a ticket; each is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TicketFault {
    /// It was altered, or signed by another master or for another cloud.
    Unsigned,
    /// It is for another node.
    OtherNode,
    /// Its time has passed.
    Expired,
    /// Whoever shows it is not its holder: it was stolen, or shown again on another connection.
    NotHolder,
    /// What it was good for once has been done.
    Used,
    /// It does not allow what is asked: another verb, slice, job or range.
    OtherRight,
    /// The connection is not encrypted, and the ticket does not allow that.
    Plain,
    /// Its user was put out, or lost a right, after it was given out.
    Revoked,
}

impl TicketFault {
    /// Every fault.
    pub const ALL: [Self; 8] = [
        Self::Unsigned,
        Self::OtherNode,
        Self::Expired,
        Self::NotHolder,
        Self::Used,
        Self::OtherRight,
        Self::Plain,
        Self::Revoked,
    ];

    /// The word by which it is counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::OtherNode => "other_node",
            Self::Expired => "expired",
            Self::NotHolder => "not_holder",
            Self::Used => "used",
            Self::OtherRight => "other_right",
            Self::Plain => "plain",
            Self::Revoked => "revoked",
        }
    }
}

impl Ticket {
    /// Whether the ticket's time has passed.
    pub fn is_expired(&self, now: Now) -> bool {
        now.unix_millis > self.until_unix_millis
    }
}

/// What a client signs when it hands a ticket on.
pub fn delegation_bytes(ticket: &[u8], to: &Delegate) -> Vec<u8> {
    // The words of two hand-overs are never the same: neither label begins the other, a name has no zero byte, and a
    // key has always 32 bytes.
    match to {
        Delegate::Node(node) => [DELEGATION_LABEL, node.as_str().as_bytes(), &[0], ticket].concat(),
        Delegate::Key(key) => [KEY_DELEGATION_LABEL, &key.0, ticket].concat(),
    }
}

/// What a client signs at a local socket, whose two ends are on one machine and so have one clock: nothing of one
/// conversation is good for another, or for a later time than [`LOCAL_PROOF_LIFE_MILLIS`].
pub fn local_proof_bytes(node_socket: &str, unix_millis: u64) -> Vec<u8> {
    [LOCAL_LABEL, node_socket.as_bytes(), &[0], &unix_millis.to_be_bytes()].concat()
}

/// Label of the TLS exporter whose 32 bytes a client signs to prove on a connection that it holds a key.
pub const HOLDER_LABEL: &[u8] = b"EXPORTER-sector-holder-1";
/// How long what was signed at a local socket is good, in milliseconds.
pub const LOCAL_PROOF_LIFE_MILLIS: u64 = 60_000;
/// Sets what is signed for a hand-over apart from all else that is signed with the same key.
const DELEGATION_LABEL: &[u8] = b"sector-hand-1\0";
/// The same where it is handed to a key.
const KEY_DELEGATION_LABEL: &[u8] = b"sector-hand-key-1\0";
/// The same for a local socket.
const LOCAL_LABEL: &[u8] = b"sector-local-1\0";
