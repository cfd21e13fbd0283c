//! A node's process: its real rules and its real store on a disk in memory. It mirrors `node::server`. Disk work takes
//! a moment. A power cut in the middle of it leaves the disk as the crash model says, and later messages are never
//! sent.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    path::Path,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use ::node::metadata_mirror::MetadataMirror;
use ::node::rules::{CopyOrder, Move, Node, NodeAction, NodeCompletion, NodeLimits, ReplyTo, ReportId};
use protocol::{
    Digest, JobId, Reason, Refusal, SessionId, SliceId,
    message::{
        marks::{EvidenceReport, StageWork},
        node_master::{Ack, HeldState, Order, Report},
        spe::FunctionSpec,
    },
    ticket::TicketKeys,
    ticket_verifier::{TicketVerifier, UsedTickets},
    wire::codec,
};
use sphere::{RetainedOutputs, shuffle_write::ShuffleWrite};
use store::{DiskSet, FailedDisk, Journal, MemoryDisk, StoreError};

use super::{
    bucket::Buckets,
    disks::Disks,
    forgotten::forgotten,
    master_link::MasterLink,
    node_names::mark_key,
    spe::{Parts, Task},
    tickets,
    transfer::{Outgoing, Transfer},
};
use crate::{
    Sabotage,
    environment::{
        Environment,
        calls::{CallId, CallReply},
        messenger::MessageEvent,
        queue::{Event, Life, NodeWork, Participant},
    },
    invariants::healing,
};

/// See the module.
pub(crate) struct NodeRole {
    number: usize,
    pub(crate) life: Life,
    pub(crate) disks: Disks,
    /// Where it keeps the master's small rows: a disk of its own, so that faults of the other disks affect slices.
    kept_disk: MemoryDisk,
    /// It keeps the small rows acknowledged before this moment.
    kept_until: Rc<Cell<Duration>>,
    /// Slices that it removed, and that a crash may bring back.
    removed: Rc<RefCell<RemovedSlices>>,
    /// When its process last died.
    died_at: Duration,
    /// The change of one of its disks at which the power fails.
    cut_at: Option<(usize, u64)>,
    /// Whether a call to the disk will fail.
    disk_fails: bool,
    pub(crate) process: Option<Process>,
}

/// The state that dies in a crash.
pub(crate) struct Process {
    pub(super) number: usize,
    pub(super) rules: Node,
    pub(super) link: MasterLink,
    pub(crate) store: Arc<DiskSet>,
    kept: MetadataMirror,
    kept_until: Rc<Cell<Duration>>,
    removed: Rc<RefCell<RemovedSlices>>,
    pub(super) disks: Disks,
    pub(super) buckets: Buckets,
    pub(super) verifier: TicketVerifier,
    pub(super) used: UsedTickets,
    /// Other participants' transfers with this node.
    pub(super) transfers: BTreeMap<CallId, Transfer>,
    /// This node's own requests to others.
    pub(super) outgoing: BTreeMap<CallId, Outgoing>,
    pub(super) tasks: BTreeMap<CallId, Task>,
    /// Loaded functions, by conversation.
    pub(super) functions: BTreeMap<(JobId, u64), FunctionSpec>,
    /// Output that attempts of tasks left here; gone with the process.
    pub(super) results: RetainedOutputs<Parts>,
    /// Pieces being sent to their buckets, by call.
    pub(super) shuffle_writes: BTreeMap<CallId, ShuffleWrite<Rc<Vec<u8>>>>,
    status_is_out: bool,
}

/// Slices that a node was told to remove.
#[derive(Debug, Default)]
struct RemovedSlices {
    slices: BTreeSet<SliceId>,
    /// Those without acknowledgement: a crash may undo their removal.
    unsure: Vec<Digest>,
    /// Slices disappeared in another way, with a disk or with the node.
    is_unknown: bool,
}

impl NodeRole {
    pub(crate) fn new(number: usize, disks: usize, disk_seed: u64) -> Self {
        Self {
            number,
            life: 0,
            disks: Disks::new(disks, disk_seed),
            kept_disk: MemoryDisk::new(disk_seed),
            kept_until: Rc::default(),
            removed: Rc::default(),
            died_at: Duration::ZERO,
            cut_at: None,
            disk_fails: false,
            process: None,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Starts the process from its disk.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub(crate) fn start(&mut self, env: &mut Environment) -> Result<(), String> {
        self.life += 1;
        let (store, put_aside) =
            self.disks.open().map_err(|error| format!("n{} cannot open its folders: {error}", self.number))?;
        let kept = Journal::open_on(Arc::new(self.kept_disk.clone()), Path::new("/kept.redb"));
        let kept = kept.map_err(|error| format!("n{} cannot open its kept rows: {error}", self.number))?;
        let kept = MetadataMirror::from_journal(kept)
            .map_err(|error| format!("n{} cannot read its kept rows: {error}", self.number))?;
        env.note(format_args!(
            "n{} starts (life {}): {:?}, put aside: {put_aside:?}",
            self.number,
            self.life,
            states(&store)
        ));
        let mut process = Process {
            number: self.number,
            rules: Node::new(NodeLimits { status_interval: STATUS_INTERVAL, copies_max: COPIES_MAX }),
            link: MasterLink::new(Participant::Node(self.number), self.life),
            store,
            kept,
            kept_until: Rc::clone(&self.kept_until),
            removed: Rc::clone(&self.removed),
            disks: self.disks.clone(),
            buckets: Buckets::new(env.sabotage),
            verifier: tickets::verifier(self.number),
            used: UsedTickets::default(),
            transfers: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            tasks: BTreeMap::new(),
            functions: BTreeMap::new(),
            results: RetainedOutputs::default(),
            shuffle_writes: BTreeMap::new(),
            status_is_out: false,
        };
        process.link.start_joining(env);
        process.schedule_disk_check(env);
        self.process = Some(process);
        Ok(())
    }

    /// Kills the process; the disk keeps what the crash model says.
    pub(crate) fn crash(&mut self, env: &mut Environment) {
        // The disk first: later actions of the dying process have no effect on it.
        self.disks.crash();
        self.kept_disk = self.kept_disk.crash();
        (self.cut_at, self.disk_fails) = (None, false);
        if self.process.take().is_some() {
            self.died_at = env.now.monotonic;
            env.note(format_args!("n{} dies", self.number));
        }
    }

    /// Cuts the power after this many more changes of a disk.
    pub(crate) fn cut_power_after(&mut self, disk: usize, changes: u64) {
        let cut = self.disks.disk(disk);
        cut.power_off_after(changes);
        self.cut_at = Some((disk, cut.changes() + changes));
    }

    /// Lets one change of a disk fail, after this many more.
    pub(crate) fn fail_disk_after(&mut self, disk: usize, changes: u64) {
        self.disks.fail_one_after(disk, changes);
        self.disk_fails = true;
    }

    /// The moment up to which it certainly keeps the master's small rows.
    pub(crate) fn kept_until(&self) -> Duration {
        self.kept_until.get()
    }

    /// Since when it is dead, if it never reported this slice as gone. Then a master that loses its journal must learn
    /// the slice's fate from others.
    pub(crate) fn dead_since(&self, slice: SliceId) -> Option<Duration> {
        let removed = self.removed.borrow();
        let never_removed = !removed.is_unknown && !removed.slices.contains(&slice);
        (!self.is_up() && never_removed).then_some(self.died_at)
    }

    /// The master was told that some slices are gone, but they may come back. A disk may be repaired, or the node was
    /// removed and let in again.
    pub(crate) fn may_bring_back(&self) {
        self.removed.borrow_mut().is_unknown = true;
    }

    /// Contents of slices whose removal it began without reporting it: a crash may undo that.
    pub(crate) fn removed(&self) -> Vec<Digest> {
        self.removed.borrow().unsure.clone()
    }

    /// The disk with the small rows was lost, and an empty one took its place. The process must be dead.
    pub(crate) fn lose_kept_rows(&mut self, seed: u64) {
        self.kept_disk = MemoryDisk::new(seed);
        self.kept_until.set(Duration::ZERO);
    }

    /// Whether something is about to go wrong with it.
    pub(crate) fn is_failing(&self) -> bool {
        self.cut_at.is_some() || self.disk_fails || self.disks.is_any_broken()
    }

    /// Whether the power is gone: the process has to die before its next action.
    pub(crate) fn lost_power(&self) -> bool {
        self.process.is_some() && self.cut_at.is_some_and(|(disk, at)| self.disks.disk(disk).changes() >= at)
    }

    /// Ends an event: the actions of the rules are performed, waiting messages are sent.
    pub(crate) fn flush(&mut self, env: &mut Environment) {
        if let Some(process) = &mut self.process {
            process.flush(env);
        }
    }
}

impl Process {
    /// A datagram came.
    pub(crate) fn receive(&mut self, env: &mut Environment, datagram: &[u8]) {
        self.link.messenger.receive(env.now, datagram);
    }

    /// The process was called.
    pub(crate) fn wake(&mut self, env: &mut Environment) {
        self.link.woken(env);
        self.link.messenger.handle_timeout(env.now);
        if self.rules.next_timeout().is_some_and(|at| at <= env.now.monotonic) {
            self.rules.handle_timeout(env.now);
        }
    }

    /// The master answered a join.
    pub(crate) fn joined(&mut self, env: &mut Environment, attempt: u32, accepted: Option<(SessionId, TicketKeys)>) {
        if let Some(session) = self.link.joined(env, attempt, accepted.map(|(session, _)| session)) {
            env.note(format_args!("n{} has joined: session {session}", self.number));
            if let Some((_, keys)) = accepted {
                self.verifier.take_keys(env.now, keys);
            }
            self.rules.handle_session_opened(env.now, session);
        }
    }

    pub(crate) fn join_again(&mut self, env: &mut Environment, attempt: u32) {
        self.link.join_again(env, attempt);
    }

    /// Some work is finished, or is done now.
    pub(crate) fn perform_work(&mut self, env: &mut Environment, hand: NodeWork) {
        match hand {
            NodeWork::Move { id, work } => {
                let moved = match &work {
                    Move::Place { header } => self.store.place(header),
                    Move::Remove(_) if env.sabotage == Some(Sabotage::RemovalsAreNeverMade) => Ok(()),
                    Move::Remove(slice) => self.remove(*slice),
                };
                let result = moved.map_err(|error| error.refusal());
                env.note(format_args!("n{} {work:?}: {result:?}", self.number));
                self.rules.handle_completion(env.now, NodeCompletion::Moved { id, result });
            }
            NodeWork::Copy(order) => self.copy(env, *order),
            NodeWork::Forget(job) => {
                self.buckets.forget(job);
                self.functions.retain(|(of, _), _| *of != job);
                self.results.forget(job);
            }
            NodeWork::Keep { to, keep } => {
                let result = self.kept.apply_and_mark(&keep, &self.store).map_err(|error| error.refusal());
                let mark = self.kept.mark().filter(|mark| result.is_ok() && *mark == keep.position);
                if let Some(mark) = mark {
                    let sent = env.model.keeps.get(&mark_key(&mark)).copied();
                    self.kept_until.set(sent.unwrap_or_default().max(self.kept_until.get()));
                }
                self.rules.handle_completion(env.now, NodeCompletion::RowsMirrored { to, result });
            }
            NodeWork::CheckDisks => self.check_disks(env),
            NodeWork::Compute(task) => self.compute(env, task),
        }
    }

    fn remove(&self, slice: SliceId) -> Result<(), StoreError> {
        let digest = self.store.open_slice(slice).map(|reader| reader.metadata().digest);
        let removed = self.store.remove(slice);
        let mut known = self.removed.borrow_mut();
        if let Ok(digest) = digest {
            known.slices.insert(slice);
            known.unsure.extend(removed.is_err().then_some(digest));
        }
        removed
    }

    /// Reports a bad slice after it was quarantined.
    pub(super) fn found_corrupt(&mut self, env: &mut Environment, slice: SliceId) {
        env.note(format_args!("n{} found {slice} corrupt", self.number));
        // Reported even if the disk fails: the master must replace it.
        let marked = self.store.mark_corrupt(slice);
        self.rules.handle_completion(env.now, NodeCompletion::FoundCorrupt(slice));
        // Another disk may have a spare of it.
        if let (Ok(()), Ok(spare)) = (marked, self.store.open_slice(slice)) {
            self.rules.handle_completion(env.now, NodeCompletion::Stored(spare.metadata().clone()));
        }
    }

    /// As `node::disks::DiskWatch`.
    fn check_disks(&mut self, env: &mut Environment) {
        for FailedDisk { folder, why, lost: gone, replaced } in self.store.check_disks() {
            env.note(format_args!("n{} lost {}: {why}, {} slices", self.number, folder.display(), gone.len()));
            healing::check_lost_disk(env, self.number, &self.disks, &folder, &why);
            self.rules.handle_completion(env.now, NodeCompletion::SlicesLost(gone));
            for metadata in replaced {
                self.rules.handle_completion(env.now, NodeCompletion::Stored(metadata));
            }
        }
        self.schedule_disk_check(env);
    }

    fn schedule_disk_check(&self, env: &mut Environment) {
        let (node, life) = (self.number, self.link.life);
        env.after(DISK_CHECK_PERIOD, Event::NodeWork { node, life, hand: NodeWork::CheckDisks });
    }

    fn flush(&mut self, env: &mut Environment) {
        loop {
            while let Some(action) = self.rules.poll_action() {
                self.perform(env, action);
            }
            let Some(heard) = self.link.messenger.next_event() else { break };
            self.handle_message(env, heard);
        }
        let due = self.rules.next_timeout();
        self.link.flush(env, due);
    }

    fn perform(&mut self, env: &mut Environment, action: NodeAction) {
        let (node, life) = (self.number, self.link.life);
        match action {
            NodeAction::Ack { to, ack } => {
                self.link.messenger.reply(env.now, to.session, to.request, codec::encode(&ack))
            }
            NodeAction::Report { session, id, report } => {
                env.note(format_args!("n{node} reports {}", report_line(&report)));
                self.link.messenger.ask(env.now, session, codec::encode(&report), id.0 + 1, ANSWER_TIME_MAX);
            }
            NodeAction::ReportStatus { session } => self.report_status(env, session),
            NodeAction::ReportClock { session, unix_millis } => {
                let told = codec::encode(&Report::Clock { unix_millis, machine: Some(self.number as u128) });
                self.link.messenger.ask(env.now, session, told, CLOCK_TAG, STATUS_ANSWER_TIME_MAX);
            }
            NodeAction::TakeInventory => {
                for told in self.kept.join_completions(&self.store) {
                    self.rules.handle_completion(env.now, sabotaged(env, told));
                }
                self.rules.handle_completion(env.now, NodeCompletion::Partials(self.store.partials()));
            }
            NodeAction::Rejoin { session } => {
                self.link.messenger.close_session(env.now, session);
                self.link.session = None;
                self.link.start_joining(env);
            }
            NodeAction::StartCopy(_) if env.sabotage == Some(Sabotage::CopiesAreNeverMade) => {}
            NodeAction::StartCopy(order) => {
                let span = env.span(0, 20);
                env.after(span, Event::NodeWork { node, life, hand: NodeWork::Copy(Box::new(order)) });
            }
            NodeAction::Move { id, work } => {
                let span = env.span(0, 60);
                env.after(span, Event::NodeWork { node, life, hand: NodeWork::Move { id, work } });
            }
            NodeAction::MirrorRows { to, keep } => {
                let span = env.span(0, 60);
                env.after(span, Event::NodeWork { node, life, hand: NodeWork::Keep { to, keep: Box::new(keep) } });
            }
            NodeAction::Revoke(revocation) => {
                self.verifier.revoke(env.now, revocation);
                self.cut_off_revoked(env);
            }
            NodeAction::SetTicketKeys(keys) => self.verifier.take_keys(env.now, keys),
            // No limit slows anything in the simulation.
            NodeAction::SetLinkShares(_) | NodeAction::SetSlowDisks(_) => {}
            NodeAction::RevokeNodes(machines) => self.verifier.strike_off(machines),
            NodeAction::ReadMirror { after } => {
                if let Ok(Some(page)) = self.kept.page(after) {
                    let page = forgotten(env, page);
                    self.rules.handle_completion(env.now, NodeCompletion::MirrorPage(page));
                }
            }
            // Nothing is counted in the simulation.
            NodeAction::ReadMetrics { to } => {
                let counted = codec::encode(&Ack::Metrics(String::new()));
                self.link.messenger.reply(env.now, to.session, to.request, counted);
            }
            NodeAction::StartDriver(order) => {
                let span = env.span(50, 1_000);
                env.after(span, Event::DriverStarts { node, life, order: Box::new(order) });
            }
            NodeAction::ForgetJob(job) => {
                let span = env.span(0, 20);
                env.after(span, Event::NodeWork { node, life, hand: NodeWork::Forget(job) });
            }
        }
    }

    fn report_status(&mut self, env: &mut Environment, session: SessionId) {
        if self.status_is_out {
            return;
        }
        self.status_is_out = true;
        let report = Report::Status {
            used_bytes: self.store.used_bytes(),
            free_bytes: self.store.available_bytes(),
            transfers: self.transfers.len() as u32,
            spes: self.tasks.len() as u32,
            disks: self.store.statuses(),
            sandbox_missing: None,
            refused_tickets: BTreeMap::new(),
            links: Vec::new(),
            memory_free_bytes: 0,
        };
        self.link.messenger.ask(env.now, session, codec::encode(&report), STATUS_TAG, STATUS_ANSWER_TIME_MAX);
        self.report_work(env, session);
    }

    /// Tells of SPEs that work on like records, with some noise: the master judges who is slow.
    fn report_work(&mut self, env: &mut Environment, session: SessionId) {
        let times = if self.number == healing::SLOW_NODE { 6 } else { 1 };
        let noise = u64::try_from(env.span(700, 1_400).as_millis()).unwrap_or(1_000);
        let job = JobId(env.now.monotonic.as_secs() / STAGE_SECONDS);
        let work = StageWork { job, stage: 0, bytes: 1 << 20, busy_micros: 1_000 * noise * times };
        let told = Report::Evidence(EvidenceReport { stages: vec![work], full_links: Vec::new() });
        self.link.messenger.ask(env.now, session, codec::encode(&told), CLOCK_TAG, STATUS_ANSWER_TIME_MAX);
    }

    fn handle_message(&mut self, env: &mut Environment, heard: MessageEvent) {
        match heard {
            MessageEvent::Asked { session, request: Some(request), body } => match codec::decode::<Order>(&body) {
                Ok(order) => self.rules.handle_message(env.now, ReplyTo { session, request }, order),
                Err(error) => {
                    env.violate(crate::ViolationKind::Safety, format!("n{} got no order: {error}", self.number))
                }
            },
            MessageEvent::Asked { request: None, .. } => {}
            MessageEvent::Answered { session, tag, body } => {
                if tag == STATUS_TAG {
                    self.status_is_out = false;
                }
                match body {
                    None => self.lose_session(env, session),
                    Some(_) if tag == STATUS_TAG || tag == CLOCK_TAG => {}
                    Some(_) => {
                        self.rules.handle_completion(env.now, NodeCompletion::Acknowledged(ReportId(tag - 1)));
                    }
                }
            }
            MessageEvent::Lost(session) => self.lose_session(env, session),
        }
    }

    fn lose_session(&mut self, env: &mut Environment, session: SessionId) {
        if self.rules.session() != Some(session) {
            return;
        }
        env.note(format_args!("n{} lost its session {session}", self.number));
        self.rules.handle_session_lost(session);
        self.link.messenger.close_session(env.now, session);
        self.link.session = None;
        self.link.start_joining(env);
    }

    /// Begins to make a copy; as `node::fetch`.
    fn copy(&mut self, env: &mut Environment, order: CopyOrder) {
        let slice = order.header.slice;
        let begun = if self.store.contains(slice) {
            let held = self.store.open_slice(slice).map(|reader| reader.metadata().clone());
            Err(held.map_err(|error| error.refusal()))
        } else {
            self.store.begin(order.header.clone()).map_err(|error| Err(error.refusal()))
        };
        match begun {
            Ok(writer) => self.fetch_copy(env, &order, writer),
            Err(result) => {
                self.rules.handle_completion(env.now, NodeCompletion::Copied { slice, result, kept_bytes: 0 })
            }
        }
    }
}

/// An inventory as reported to a master that lost its journal, if that is sabotaged.
fn sabotaged(env: &Environment, mut told: NodeCompletion) -> NodeCompletion {
    let is_silent = env.sabotage == Some(Sabotage::OldJournalIsBelieved) && env.model.has_old_journal;
    let disks = match &mut told {
        NodeCompletion::MirrorMark { mark, .. } if is_silent => {
            *mark = None;
            return told;
        }
        NodeCompletion::Inventory(disks) => disks,
        _ => return told,
    };
    match env.sabotage {
        Some(Sabotage::SlicesAreHidden) if env.model.recovered.is_some() => {
            let first = disks.iter_mut().find(|disk| !disk.slices.is_empty());
            first.into_iter().for_each(|disk| drop(disk.slices.remove(0)));
        }
        Some(Sabotage::OldJournalIsBelieved) if is_silent => {
            // Otherwise the disks' marks, or the placed slices, would show that the journal lost its commit.
            for disk in disks {
                disk.mark = None;
                disk.slices.iter_mut().for_each(|slice| slice.state = HeldState::Staged);
            }
        }
        Some(Sabotage::PathsAreMixedUp) if env.model.recovered.is_some() => {
            for slice in disks.iter_mut().flat_map(|disk| &mut disk.slices) {
                let mixed_up = slice.metadata.header.path.join("mixed-up");
                slice.metadata.header.path = mixed_up.unwrap_or_else(|_| slice.metadata.header.path.clone());
            }
        }
        _ => {}
    }
    told
}

/// A refusal because a conversation broke.
pub(super) fn broken() -> Refusal {
    Refusal::new(Reason::Unavailable, "the conversation broke")
}

/// Why a call gave nothing.
pub(super) fn refusal_of(reply: CallReply) -> Refusal {
    match reply {
        CallReply::Refused(refusal) => refusal,
        _ => broken(),
    }
}

fn report_line(report: &Report) -> String {
    match report {
        Report::Inventory { slices, last } => format!("an inventory of {} slices (last: {last})", slices.len()),
        Report::Stored(metadata) => format!("stored {}", metadata.header.slice),
        other => format!("{other:?}"),
    }
}

fn states(store: &DiskSet) -> Vec<protocol::disk::DiskState> {
    store.statuses().into_iter().map(|status| status.state).collect()
}

/// A usual setting of operators.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// As in `node::disks`.
const DISK_CHECK_PERIOD: Duration = Duration::from_secs(1);
/// As in `node::server`.
const COPIES_MAX: usize = 4;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
const STATUS_ANSWER_TIME_MAX: Duration = Duration::from_secs(8);
/// Reports have tags from 1 on.
const STATUS_TAG: u64 = 0;
/// How long a stage lasts of which nodes tell.
const STAGE_SECONDS: u64 = 15;
/// Tag of clock reports: there are never this many other reports.
const CLOCK_TAG: u64 = u64::MAX;
