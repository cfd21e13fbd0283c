//! The one queue of future events of the simulation. Two events at the same moment happen in the order in which they
//! were added, so that a seed always means the same run. It never reads a clock or starts a thread.

use std::{collections::BTreeMap, time::Duration};

use ::node::rules::{CopyOrder, Move, MoveId, ReplyTo};
use protocol::{
    JobId, SessionId,
    message::{node_master::DriveOrder, rebuild::MirrorUpdate},
    ticket::TicketKeys,
};

use crate::environment::{
    calls::{CallId, CallReply},
    network::CutId,
};

/// A participant of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Participant {
    /// The one master.
    Master,
    /// A node, by its number.
    Node(usize),
    /// A client, by its number.
    Client(usize),
}

/// Counts the starts of a process: an event for an earlier one reaches nobody.
pub(crate) type Life = u32;

/// An event at its time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A datagram arrives.
    Datagram { to: Participant, datagram: Vec<u8> },
    /// A process wanted to be called now.
    Wake(Participant, Life),
    /// Someone's join reaches the master.
    JoinAsked { from: Participant, life: Life, attempt: u32 },
    /// The master's answer to a join; with the session and the ticket keys if the joiner was let in.
    JoinAnswered { to: Participant, life: Life, attempt: u32, accepted: Option<(SessionId, TicketKeys)> },
    /// A joiner has waited long enough for an answer, or since the last try.
    JoinAgain { who: Participant, life: Life, attempt: u32 },
    /// The journal has finished its transaction.
    Saved(Life),
    /// A request for bytes reaches its node.
    CallArrives(CallId),
    /// Some more bytes of a call have moved.
    CallGoesOn(CallId),
    /// The answer to a call reaches the caller.
    CallAnswered(CallId, CallReply),
    /// The caller hung up, and the node notices.
    CallDropped(CallId),
    /// A client notices that all conversations with a node's process broke.
    ConversationsBroken { client: usize, node: usize, life: Life },
    /// A node has started a driver for a detached job.
    DriverStarts { node: usize, life: Life, order: Box<DriveOrder> },
    /// The process of a driver ends: by itself, with its node, or because the master does not let it in.
    DriverEnds { client: usize },
    /// Some work of a node is finished.
    NodeWork { node: usize, life: Life, hand: NodeWork },
    /// A client wanted to go on now.
    Timer { client: usize, tag: u64 },
    /// The next fault is due.
    Fault,
    /// A process dies.
    Crash(Participant, Life),
    /// A process that died is started again.
    Restart(Participant),
    /// What was cut works again.
    Mended(CutId),
    /// A clock is set right.
    ClockSet(Participant),
    /// A full disk has room again.
    DiskHasRoom(usize),
    /// A copy of the journal is taken.
    JournalCopied,
    /// The full disk of the journal has room again.
    JournalHasRoom,
    /// A node's broken disk is seen to.
    DiskSeenTo { node: usize, disk: usize },
}

/// Work of a node that takes a while.
#[derive(Debug)]
pub(crate) enum NodeWork {
    Move {
        id: MoveId,
        work: Move,
    },
    Copy(Box<CopyOrder>),
    Forget(JobId),
    Keep {
        to: ReplyTo,
        keep: Box<MirrorUpdate>,
    },
    /// It checks whether a disk has failed.
    CheckDisks,
    /// An SPE has finished its function.
    Compute(CallId),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    events: BTreeMap<(Duration, u64), Event>,
    sequence: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(Duration, Event)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }

    /// Forgets the events that are not worth keeping.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Event) -> bool) {
        self.events.retain(|_, event| keep(event));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_in_the_order_of_their_coming() {
        let mut queue = Queue::default();
        for (at, tag) in [(2, 20), (1, 10), (2, 21), (1, 11)] {
            queue.push(Duration::from_secs(at), Event::Timer { client: 0, tag });
        }
        let tag = |(_, event)| if let Event::Timer { tag, .. } = event { tag } else { 0 };
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop().map(tag)).collect();
        assert_eq!(order, [10, 11, 20, 21]);
    }
}
