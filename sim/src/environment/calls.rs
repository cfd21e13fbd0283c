//! Conversations for bytes (doors 5 and 6): between a client and a node, and between two nodes. Bytes move in a few
//! steps, each after a delay, so that a crash, a cut link or a rename may come in between. At both ends the real store
//! moves them. Either side learns that a conversation broke, soon or after its timeout, and never waits forever.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use protocol::{
    Digest, Refusal,
    message::{
        spe::{SpeReply, SpeRequest},
        transfer::TransferRequest,
    },
    ticket::SignedTicket,
};

use crate::environment::queue::{Life, Participant};

/// Names a call until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId(pub(crate) u64);

/// A caller's request to a node.
#[derive(Clone, Debug)]
pub(crate) enum CallRequest {
    /// One of door 5, with the bytes that go with it.
    Transfer(TransferRequest, Rc<Vec<u8>>),
    /// A message in a conversation with an SPE. `life` is the node's process with which the conversation was begun;
    /// `None` begins one for this message alone.
    Message { ticket: SignedTicket, life: Option<Life>, conversation: u64, request: Box<SpeRequest> },
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallReply {
    /// The bytes that were read.
    Bytes(Vec<u8>),
    /// The slice is complete and synced.
    Stored { bytes: u64, digest: Digest },
    /// The bucket has the piece.
    Taken,
    /// An SPE is there, of this process of the node.
    Ready(Life),
    /// A message of the SPE.
    Message(Box<SpeReply>),
    /// The node refused.
    Refused(Refusal),
    /// The conversation broke, or was silent for too long.
    Broken,
}

/// An open call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) from: Participant,
    pub(crate) from_life: Life,
    pub(crate) node: usize,
    /// The node's process that took it, once one has.
    pub(crate) node_life: Option<Life>,
    pub(crate) request: CallRequest,
    /// When something last moved.
    pub(crate) moved_at: Duration,
}

/// The open calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    by_id: BTreeMap<CallId, Call>,
}

impl Calls {
    pub(crate) fn add(&mut self, call: Call) -> CallId {
        self.last += 1;
        self.by_id.insert(CallId(self.last), call);
        CallId(self.last)
    }

    pub(crate) fn get(&self, id: CallId) -> Option<&Call> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Call> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: CallId) -> Option<Call> {
        self.by_id.remove(&id)
    }

    /// The calls that match a condition.
    pub(crate) fn which(&self, is_so: impl Fn(&Call) -> bool) -> Vec<CallId> {
        self.by_id.iter().filter(|(_, call)| is_so(call)).map(|(id, _)| *id).collect()
    }
}

/// How long either side waits while nothing moves.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(8);
