//! A ticket: the master's signed word that someone may move some bytes at a node (architecture, door 5; the paper's
//! "exclusive data connection that is coordinated by the master", 2.3). A node checks it alone, without asking.

use serde::{Deserialize, Serialize};

use crate::{JobId, LeaseId, NodeId, ResumeKey, SliceId, UserName, slice::SliceHeader, time::Now};

/// What a ticket allows, on one node, until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// On whose behalf.
    pub user: UserName,
    /// At which node it is valid, and nowhere else.
    pub node: NodeId,
    /// What may be done.
    pub right: Right,
    /// Valid until this wall-clock time, in milliseconds since the Unix epoch.
    pub until_unix_millis: u64,
}

/// The verb of a ticket with what it applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Right {
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
    /// Let SPEs of a job read these slices, those of this node and those that it fetches from others. A right to compute
    /// lets them read nothing but what the job made itself.
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
}

impl Ticket {
    /// Whether the ticket's time has passed.
    pub fn is_expired(&self, now: Now) -> bool {
        now.unix_millis > self.until_unix_millis
    }
}
