//! What a node does with its master's orders, as a plain struct: no disk, socket or clock (architecture, "One shape for
//! every rule-keeper"; door 4). `server.rs` drives it on a real machine; the simulation drives the same struct with a
//! disk and network in memory. It serves the paths upload, replication and removal. It never stores a slice itself, and
//! never believes an order that did not arrive over its master's session (Sector/Sphere paper, 2.3).

mod copy_queue;
mod move_queue;
mod outbox;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use protocol::{
    JobId, NodeId, Now, Reason, Refusal, SessionId, SliceHeader, SliceId, SliceMetadata, Status, TransferQos,
    message::{
        client_master::Source,
        node_master::{Ack, DriveOrder, HeldPartial, LinkShare, Order, Report, Revocation},
        rebuild::{MirrorKey, MirrorPosition, MirrorUpdate},
    },
    ticket::TicketKeys,
};
use store::MarkedSlices;

use copy_queue::{Cancelled, CopyQueue};
pub use move_queue::{Move, MoveId};
use move_queue::{MoveQueue, QueuedMove};
use outbox::Outbox;
pub use outbox::ReportId;

/// The rules of one node (Sector/Sphere paper, 2.3: "slave nodes only accept commands from the Sector master").
///
/// After every `handle_…` call, take [`poll_action`](Self::poll_action) until it gives `None`: the queue of actions is
/// bounded only by that.
#[derive(Debug)]
pub struct Node {
    limits: NodeLimits,
    session: Option<SessionId>,
    outbox: Outbox,
    copies: CopyQueue,
    moves: MoveQueue,
    /// Places of earlier sessions that are still being changed.
    older_places: BTreeSet<MoveId>,
    /// Until when the inventory waits for them; `None` when it has been asked for.
    inventory_due: Option<Duration>,
    status_due: Duration,
    /// When the master is told what the wall clock says.
    clock_due: Duration,
    actions: VecDeque<NodeAction>,
}

impl Node {
    /// A node that has not met its master yet.
    pub fn new(limits: NodeLimits) -> Self {
        let copies = CopyQueue::new(limits.copies_max);
        Self {
            limits,
            session: None,
            outbox: Outbox::default(),
            copies,
            moves: MoveQueue::default(),
            older_places: BTreeSet::new(),
            inventory_due: None,
            status_due: Duration::ZERO,
            clock_due: Duration::ZERO,
            actions: VecDeque::new(),
        }
    }

    /// A session with the master has begun. Everything reported before is void: the inventory tells it anew, and
    /// reports follow behind it.
    pub fn handle_session_opened(&mut self, now: Now, session: SessionId) {
        self.session = Some(session);
        self.status_due = now.monotonic;
        self.clock_due = now.monotonic;
        self.outbox.open();
        self.moves.drop_waiting();
        self.older_places = self.moves.running_places();
        if self.older_places.is_empty() {
            self.take_inventory();
        } else {
            // Taken now, it would say where these slices were, and nobody would hear where they went.
            self.inventory_due = Some(now.monotonic + OLDER_PLACES_PATIENCE);
        }
        self.handle_timeout(now);
    }

    /// A session has ended; ignored unless it is the present one. Running work goes on and is reported by the next
    /// inventory. What waits is dropped: the master orders it again where it still wants it. It may have changed its
    /// mind meanwhile, and tickets of copies would not outlive the wait.
    pub fn handle_session_lost(&mut self, session: SessionId) {
        if self.session == Some(session) {
            self.session = None;
            self.outbox.close();
            self.copies.drop_waiting();
            self.moves.drop_waiting();
            self.inventory_due = None;
        }
    }

    /// An order has arrived.
    pub fn handle_message(&mut self, _now: Now, from: ReplyTo, order: Order) {
        if self.session != Some(from.session) {
            let refusal =
                Refusal::new(Reason::NotAuthenticated, "this node takes orders only over its present session");
            self.ack(from, Err(refusal));
            return;
        }
        match order {
            Order::Replicate { header, bytes, from: source, qos: pace } => {
                self.replicate(from, CopyOrder { header, bytes, from: source, pace });
            }
            Order::Place { header } => {
                let refused = self.moves.add(QueuedMove { work: Move::Place { header }, reply_to: Some(from) });
                // The answer is sent when the slice is in place: only then does the master remove what lay there
                // before.
                if let Err(refusal) = refused {
                    self.ack(from, Err(refusal));
                }
            }
            Order::Remove(slice) => self.remove(from, slice),
            Order::ForgetJob(job) => {
                self.actions.push_back(NodeAction::ForgetJob(job));
                self.ack(from, Ok(()));
            }
            Order::Drive(order) => {
                self.actions.push_back(NodeAction::StartDriver(order));
                self.ack(from, Ok(()));
            }
            // Answered when the rows are on the disk.
            Order::Mirror(keep) => self.actions.push_back(NodeAction::MirrorRows { to: from, keep }),
            Order::Revoke(revocation) => {
                self.actions.push_back(NodeAction::Revoke(revocation));
                self.ack(from, Ok(()));
            }
            Order::StruckOff(machines) => {
                self.actions.push_back(NodeAction::RevokeNodes(machines));
                self.ack(from, Ok(()));
            }
            Order::ReadMirror { after } => {
                self.actions.push_back(NodeAction::ReadMirror { after });
                self.ack(from, Ok(()));
            }
            Order::LinkShares(shares) => {
                self.actions.push_back(NodeAction::SetLinkShares(shares));
                self.ack(from, Ok(()));
            }
            Order::SlowDisks(folders) => {
                self.actions.push_back(NodeAction::SetSlowDisks(folders));
                self.ack(from, Ok(()));
            }
            // Answered by whoever counts.
            Order::ReadMetrics => self.actions.push_back(NodeAction::ReadMetrics { to: from }),
            Order::TicketKeys(keys) => {
                self.actions.push_back(NodeAction::SetTicketKeys(keys));
                self.ack(from, Ok(()));
            }
        }
        self.start_waiting();
    }

    /// Something that this struct asked for, or that happened at another door of the node, is complete.
    pub fn handle_completion(&mut self, _now: Now, completion: NodeCompletion) {
        match completion {
            NodeCompletion::Copied { slice, result, kept_bytes } => self.copied(slice, result, kept_bytes),
            NodeCompletion::Moved { id, result } => self.moved(id, result),
            NodeCompletion::Stored(metadata) => self.report(Report::Stored(metadata)),
            NodeCompletion::FoundCorrupt(slice) => self.report(Report::Corrupt(slice)),
            NodeCompletion::SlicesLost(slices) => {
                slices.into_iter().for_each(|slice| self.report(Report::Removed(slice)))
            }
            NodeCompletion::Inventory(slices) => self.outbox.inventory(slices),
            NodeCompletion::Acknowledged(report) => self.outbox.acknowledged(report),
            NodeCompletion::ForwardFailed { slice, node } => self.report(Report::ForwardFailed { slice, node }),
            NodeCompletion::Partials(partials) if partials.is_empty() => {}
            NodeCompletion::Partials(partials) => self.report(Report::Partials(partials)),
            NodeCompletion::MirrorMark { mark, is_all_marked: all_seen } => self.outbox.set_mirror_mark(mark, all_seen),
            NodeCompletion::RowsMirrored { to, result } => self.ack(to, result),
            NodeCompletion::MirrorPage(page) => self.report(page),
        }
        self.start_waiting();
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        let Some(session) = self.session else { return };
        if self.inventory_due.is_some_and(|due| now.monotonic >= due) {
            self.take_inventory();
        }
        if now.monotonic >= self.status_due {
            self.status_due = now.monotonic + self.limits.status_interval;
            self.actions.push_back(NodeAction::ReportStatus { session });
            // Sent with a status, so that it needs no timer of its own.
            if now.monotonic >= self.clock_due {
                self.clock_due = now.monotonic + CLOCK_EVERY;
                self.actions.push_back(NodeAction::ReportClock { session, unix_millis: now.unix_millis });
            }
        }
    }

    /// The next thing to do, until there is none.
    pub fn poll_action(&mut self) -> Option<NodeAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next, on the monotonic clock.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.session.map(|_| self.inventory_due.map_or(self.status_due, |due| due.min(self.status_due)))
    }

    /// The present session with the master.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    fn replicate(&mut self, asker: ReplyTo, copy: CopyOrder) {
        let slice = copy.header.slice;
        let result = if self.moves.is_removing(slice) {
            Err(Refusal::new(Reason::Busy, format!("slice {slice} is being removed here; order it again")))
        } else {
            self.copies.add(copy)
        };
        self.ack(asker, result);
    }

    /// Answered only when the slice is gone and will stay away: with the answer the master forgets that it was here.
    fn remove(&mut self, asker: ReplyTo, slice: SliceId) {
        match self.copies.cancel(slice) {
            // Nothing of it was here, and now nothing will arrive.
            Cancelled::Waiting => {
                self.report(Report::Removed(slice));
                self.ack(asker, Ok(()));
            }
            // `copied` removes what the copy leaves, and reports it. The master asks again if that is lost.
            Cancelled::Running => {
                let refusal = Refusal::new(Reason::Unavailable, "a copy of the slice is being ended");
                self.ack(asker, Err(refusal));
            }
            Cancelled::Unknown => {
                let work = QueuedMove { work: Move::Remove(slice), reply_to: Some(asker) };
                if let Err(refusal) = self.moves.add(work) {
                    self.ack(asker, Err(refusal));
                }
            }
        }
    }

    fn copied(&mut self, slice: SliceId, result: Result<SliceMetadata, Refusal>, kept_bytes: u64) {
        let unwanted = self.copies.finished(slice);
        match result {
            Ok(_) if unwanted => {
                // If the queue is full, the slice stays here. The next inventory shows it, and the master orders again.
                let _ = self.moves.add(QueuedMove { work: Move::Remove(slice), reply_to: None });
            }
            Err(_) if unwanted => self.report(Report::Removed(slice)),
            Ok(metadata) => self.report(Report::Stored(metadata)),
            Err(refusal) => self.report(Report::ReplicateFailed { slice, refusal, kept_bytes }),
        }
    }

    fn moved(&mut self, id: MoveId, result: Result<(), Refusal>) {
        let Some(QueuedMove { work, reply_to: asker }) = self.moves.finished(id) else { return };
        match work {
            // A slice that is already gone counts as removed. If the disk could not remove it, it stays in the
            // inventory.
            Move::Remove(slice) => {
                let is_gone = result.as_ref().err().is_none_or(|refusal| refusal.status() == Status::NotFound);
                if is_gone {
                    self.report(Report::Removed(slice));
                }
                if let Some(asker) = asker {
                    self.ack(asker, if is_gone { Ok(()) } else { result });
                }
            }
            Move::Place { .. } => {
                if let Some(asker) = asker {
                    self.ack(asker, result);
                }
                self.end_older_place(id);
            }
        }
    }

    /// After the last place of earlier sessions the inventory is taken. Where it was taken without them, the master
    /// gets another one.
    fn end_older_place(&mut self, id: MoveId) {
        let Some(session) = self.session.filter(|_| self.older_places.remove(&id) && self.older_places.is_empty())
        else {
            return;
        };
        if self.inventory_due.is_some() {
            self.take_inventory();
        } else {
            self.handle_session_lost(session);
            self.actions.push_back(NodeAction::Rejoin { session });
        }
    }

    fn take_inventory(&mut self) {
        self.inventory_due = None;
        self.actions.push_back(NodeAction::TakeInventory);
    }

    fn report(&mut self, report: Report) {
        if self.outbox.add(report).is_err()
            && let Some(session) = self.session
        {
            // The master has not answered thousands of reports: one inventory says the same in less.
            self.handle_session_lost(session);
            self.actions.push_back(NodeAction::Rejoin { session });
        }
    }

    fn ack(&mut self, to: ReplyTo, result: Result<(), Refusal>) {
        let ack = result.map_or_else(Ack::Refused, |()| Ack::Done);
        self.actions.push_back(NodeAction::Ack { to, ack });
    }

    /// Turns waiting work that may start now into actions.
    fn start_waiting(&mut self) {
        while let Some(copy) = self.copies.start() {
            self.actions.push_back(NodeAction::StartCopy(copy));
        }
        while let Some((id, work)) = self.moves.start() {
            self.actions.push_back(NodeAction::Move { id, work });
        }
        if let Some(session) = self.session {
            while let Some((id, report)) = self.outbox.send() {
                self.actions.push_back(NodeAction::Report { session, id, report });
            }
        }
    }
}

/// What the rules ask the node to do. Nothing here needs to be saved before another action is sent: what a report says
/// is on the disk before its completion is handled.
// Actions are carried out at once; a box would be a needless allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// Refuse tickets that were issued before, and cut off what runs on them.
    Revoke(Revocation),
    /// Refuse the certificates of exactly these machines, and cut off connections that use them.
    RevokeNodes(Vec<NodeId>),
    /// Answer an order; dropped when its session is gone.
    Ack {
        /// Whom to answer.
        to: ReplyTo,
        /// The answer.
        ack: Ack,
    },
    /// Send the master a report as a request; then [`NodeCompletion::Acknowledged`], whatever the answer was. If no
    /// answer arrives, the session is lost.
    Report {
        /// Over this session.
        session: SessionId,
        /// To be named in the completion.
        id: ReportId,
        /// What to tell.
        report: Report,
    },
    /// Tell the master how the node is ([`Report::Status`], filled in by the server). Not kept and not repeated.
    ReportStatus {
        /// Over this session.
        session: SessionId,
    },
    /// Tell the master the wall-clock time ([`Report::Clock`], with the machine's name from the server). Not kept and
    /// not repeated.
    ReportClock {
        /// Over this session.
        session: SessionId,
        /// Milliseconds since the Unix epoch.
        unix_millis: u64,
    },
    /// Call [`Node::handle_completion`] with [`NodeCompletion::MirrorMark`] and [`NodeCompletion::Inventory`] before
    /// any other completion. Whatever is stored or removed from then on is reported on its own.
    TakeInventory,
    /// Give this session up and join again.
    Rejoin {
        /// The session.
        session: SessionId,
    },
    /// Fetch a copy; then [`NodeCompletion::Copied`]. A slice that is here already is a success at once.
    StartCopy(CopyOrder),
    /// Move or remove a slice; then [`NodeCompletion::Moved`].
    Move {
        /// To be named in the completion.
        id: MoveId,
        /// The change.
        work: Move,
    },
    /// Drive a detached job.
    StartDriver(DriveOrder),
    /// Remove all that a job left here.
    ForgetJob(JobId),
    /// Answer an order with what the node counts: [`Ack::Metrics`].
    ReadMetrics {
        /// Whom to answer.
        to: ReplyTo,
    },
    /// Check tickets with these keys from now on.
    SetTicketKeys(TicketKeys),
    /// Apply these shares of the limits between sites.
    SetLinkShares(Vec<LinkShare>),
    /// These disks are slow, by their folders, and no others.
    SetSlowDisks(Vec<String>),
    /// Keep these rows; then [`NodeCompletion::RowsMirrored`].
    MirrorRows {
        /// Whom to answer.
        to: ReplyTo,
        /// The rows.
        keep: MirrorUpdate,
    },
    /// Read a page of the metadata mirror; then [`NodeCompletion::MirrorPage`].
    ReadMirror {
        /// The last row of the page before.
        after: Option<MirrorKey>,
    },
}

/// What the server reports back to the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCompletion {
    /// A copy that was started is complete and synced, or failed.
    Copied {
        /// The slice.
        slice: SliceId,
        /// Its metadata, or why there is none.
        result: Result<SliceMetadata, Refusal>,
        /// What is kept of one that broke off, for the next order.
        kept_bytes: u64,
    },
    /// A [`Move`] is done.
    Moved {
        /// The move.
        id: MoveId,
        /// How it went.
        result: Result<(), Refusal>,
    },
    /// A slice was stored by upload or published from a bucket; it is synced.
    Stored(SliceMetadata),
    /// A slice was found corrupt; it is no longer served.
    FoundCorrupt(SliceId),
    /// All that the node holds, with what is known of the disks on which it lies.
    Inventory(Vec<MarkedSlices>),
    /// The master answered a report.
    Acknowledged(ReportId),
    /// These slices are gone, since their disk has failed.
    SlicesLost(Vec<SliceId>),
    /// A slice being written here could not be forwarded to the next node of its chain.
    ForwardFailed {
        /// The slice.
        slice: SliceId,
        /// The node that does not have it.
        node: NodeId,
    },
    /// The broken uploads that are kept here; reported after the inventory.
    Partials(Vec<HeldPartial>),
    /// Which copy of the master's small rows is here; reported before the inventory.
    MirrorMark {
        /// Its mark.
        mark: Option<MirrorPosition>,
        /// Whether all disks here were present when it was given.
        is_all_marked: bool,
    },
    /// Rows are kept, or not.
    RowsMirrored {
        /// Whom to answer.
        to: ReplyTo,
        /// How it went.
        result: Result<(), Refusal>,
    },
    /// A page of the metadata mirror ([`Report::MirrorPage`]).
    MirrorPage(Report),
}

/// How often the master is told the wall-clock time: far more often than it looks back, and with very few bytes.
const CLOCK_EVERY: Duration = Duration::from_secs(60);
/// How long an inventory waits for places of earlier sessions. They end in milliseconds, but for a disk that hangs.
const OLDER_PLACES_PATIENCE: Duration = Duration::from_secs(5);

/// A copy to make (see [`Order::Replicate`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOrder {
    /// The slice's header, for the sidecar.
    pub header: SliceHeader,
    /// Its length in bytes.
    pub bytes: u64,
    /// The node that has it.
    pub from: Source,
    /// The rate and priority of the copy.
    pub pace: TransferQos,
}

/// Who is to be answered: a session and its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The session over which the order came.
    pub session: SessionId,
    /// The request within it.
    pub request: u64,
}

/// What the operator sets.
#[derive(Clone, Copy, Debug)]
pub struct NodeLimits {
    /// Time between two status reports.
    pub status_interval: Duration,
    /// Copies from other nodes at once.
    pub copies_max: usize,
}
