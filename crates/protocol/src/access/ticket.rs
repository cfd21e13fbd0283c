//! A ticket: the master's signed permission to move some bytes at a node (architecture, door 5). It is the paper's
//! "exclusive data connection that is coordinated by the master" (2.3). A node checks it alone, without asking. A
//! ticket names its [`Holder`], and its bearer must prove to be this holder on the connection where it is shown. A
//! ticket alone never opens anything, so one read from a log, a memory or a wire is worthless to its finder.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{JobId, LeaseId, NodeId, ResumeKey, SectorPath, SliceId, UserName, Version, slice::SliceHeader, time::Now};

/// What a ticket allows, on one node, until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its number: it grows from ticket to ticket, also when a master's keys change.
    pub number: u64,
    /// On whose behalf.
    pub user: UserName,
    /// Who may show it.
    pub holder: Holder,
    /// The only node at which it is valid.
    pub node: NodeId,
    /// What may be done.
    pub right: TicketRight,
    /// The file whose bytes they are, by its name when the ticket was made. It is for people and for the audit record.
    /// The slice in the right says what may be done: its content never changes, while its file may be renamed.
    pub file: Option<TicketFile>,
    /// The site within which the bytes may go unencrypted; `None`: they may not.
    pub plain_within: Option<String>,
    /// The site where its holder stands, as far as the master knows: bytes that go there are counted with all others
    /// that go there.
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
    /// The owner of the private half of this Ed25519 key, which a client made for its session and reported at its
    /// login.
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

/// The verb of a ticket with its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TicketRight {
    /// Read a range of one slice.
    Read {
        /// The slice.
        slice: SliceId,
        /// First byte that may be read.
        from: u64,
        /// First byte after the range.
        until: u64,
    },
    /// Write one new slice, whole, once.
    Write {
        /// The lease under which it is written.
        lease: LeaseId,
        /// The new slice, as it will be in the sidecar.
        header: SliceHeader,
        /// The key under which the bytes are kept if the connection breaks, for the same user's next attempt.
        resume: Option<ResumeKey>,
        /// The slice that the new one begins with: its bytes are copied at the node, and the sent bytes follow them.
        base: Option<SliceId>,
    },
    /// Run SPEs for a job, keep its intermediate results, and give them to the job's other nodes.
    Compute {
        /// The job.
        job: JobId,
    },
    /// List and import native files of the node's import folders.
    Import,
    /// Let SPEs of a job read these slices, both those of this node and those that it fetches from others. A right to
    /// compute lets them read only what the job itself made.
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
    /// To whom its holder has delegated it, if to anyone.
    pub delegation: Option<Delegation>,
}

/// A client's signed statement that another may use its ticket in its place. The node that runs a task reads what the
/// task needs; the node that makes a copy reads what is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// Who may use it.
    pub to: Delegate,
    /// Ed25519 signature with the holder's key over [`delegation_bytes`], 64 bytes.
    pub signature: Vec<u8>,
}

/// To whom a ticket is delegated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delegate {
    /// A node of the same cloud, which proves itself by its certificate.
    Node(NodeId),
    /// A node of another cloud, which proves that it holds this key, as a client does.
    Key(HolderKey),
}

/// The public keys with which a node checks tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketKeys {
    /// The key that signs now.
    pub current: [u8; 32],
    /// The key that will sign next: announced long before, so that no node meets an unknown key.
    pub next: [u8; 32],
}

/// Why a node refuses a ticket; each fault is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TicketFault {
    /// It was altered, or signed by another master or for another cloud.
    Unsigned,
    /// It is for another node.
    OtherNode,
    /// Its time has passed.
    Expired,
    /// Its bearer is not its holder: it was stolen, or shown again on another connection.
    NotHolder,
    /// It was for one use, and has been used.
    Used,
    /// It does not allow the request: another verb, slice, job or range.
    OtherRight,
    /// The connection is not encrypted, and the ticket does not allow that.
    Plain,
    /// Its user was removed, or lost a right, after it was given out.
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

    /// The name under which it is counted.
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

/// What a client signs when it delegates a ticket.
pub fn delegation_bytes(ticket: &[u8], to: &Delegate) -> Vec<u8> {
    // No two delegations sign the same text. Neither label is a prefix of the other, a name has no zero byte, and a key
    // always has 32 bytes.
    match to {
        Delegate::Node(node) => [DELEGATION_LABEL, node.as_str().as_bytes(), &[0], ticket].concat(),
        Delegate::Key(key) => [KEY_DELEGATION_LABEL, &key.0, ticket].concat(),
    }
}

/// What a client signs at a local socket. Its two ends are on one machine and so have one clock. Nothing of one
/// conversation is good for another, or for a time later than [`LOCAL_PROOF_LIFE_MILLIS`].
pub fn local_proof_bytes(node_socket: &str, unix_millis: u64) -> Vec<u8> {
    [LOCAL_LABEL, node_socket.as_bytes(), &[0], &unix_millis.to_be_bytes()].concat()
}

/// Label of the TLS exporter whose 32 bytes a client signs to prove on a connection that it holds a key.
pub const HOLDER_LABEL: &[u8] = b"EXPORTER-sector-holder-1";
/// How long a signature for a local socket is good, in milliseconds.
pub const LOCAL_PROOF_LIFE_MILLIS: u64 = 60_000;
/// Separates what is signed for a delegation from all else that is signed with the same key.
const DELEGATION_LABEL: &[u8] = b"sector-hand-1\0";
/// The same for a delegation to a key.
const KEY_DELEGATION_LABEL: &[u8] = b"sector-hand-key-1\0";
/// The same for a local socket.
const LOCAL_LABEL: &[u8] = b"sector-local-1\0";
