//! The nodes of the bench: what they do of what their master orders, and what they tell it.

use std::collections::BTreeMap;

use protocol::{
    NodeId, Place, Reason, Refusal, SessionId, SliceHeader, SliceId, SliceMetadata,
    disk::DiskStatus,
    message::{
        audit::RefusedTickets,
        node_master::{Ack, HeldSlice, HeldState, Order, Report},
        rebuild::{MirrorBase, MirrorKey, MirrorPosition, MirrorRow, MirrorUpdate},
    },
};

use super::{Bench, node};
use crate::{MasterCompletion, MasterMessage, NodeJoin, OrderId, OrderOutcome, SessionCaller};

/// A node as its master sees it. Its disk survives [`Bench::crash`].
pub(crate) struct FakeNode {
    pub(super) place: Place,
    pub(super) session: Option<SessionId>,
    pub(super) held: BTreeMap<SliceId, HeldSlice>,
    /// What it was ordered, in order, since it was made.
    pub(super) orders: Vec<Order>,
    /// Orders that it neither does nor answers, because the test said so.
    pub(super) unanswered: Vec<(OrderId, Order)>,
    pub(super) answers: bool,
    /// Whether copies that it is to fetch fail.
    pub(super) fails_copies: bool,
    /// What is kept of copies that fail.
    pub(super) keeps_bytes: u64,
    /// The transfers with other sites that it reports.
    pub(super) links: Vec<protocol::message::node_master::LinkUse>,
    pub(super) free_bytes: u64,
    pub(super) memory_free_bytes: u64,
    /// The size of its disk; where it is 0, `free_bytes` are free whatever it holds.
    pub(super) capacity_bytes: u64,
    pub(super) transfers: u32,
    pub(super) disks: Vec<DiskStatus>,
    pub(super) mirror: Option<FakeMirror>,
    pub(super) has_all_disks_seen: bool,
    /// How far its clock is from the true time; `None`: it does not say.
    pub(super) clock_ahead_millis: Option<i64>,
    /// The machine that it says it is on.
    pub(super) machine: Option<u128>,
}

/// The copy of the master's small rows that a node keeps.
#[derive(Clone, Debug)]
pub(super) struct FakeMirror {
    pub(super) mark: MirrorPosition,
    pub(super) rows: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    pub(super) is_whole: bool,
}

impl Bench {
    pub(super) fn add_node(&mut self, id: &str, place: &str) {
        self.make_node(id, place);
        self.join(id);
    }

    /// A node that does nothing it is told until it [resumes](Self::resume).
    pub(super) fn add_idle_node(&mut self, id: &str, place: &str) {
        self.make_node(id, place);
        self.node_mut(id).answers = false;
        self.join(id);
    }

    pub(super) fn make_node(&mut self, id: &str, place: &str) {
        let (site, rack) = place.split_once('/').unwrap();
        let fake = FakeNode {
            place: Place::new(site, rack),
            session: None,
            held: BTreeMap::new(),
            orders: Vec::new(),
            unanswered: Vec::new(),
            answers: true,
            fails_copies: false,
            keeps_bytes: 0,
            links: Vec::new(),
            free_bytes: 1_000_000,
            memory_free_bytes: 1_000_000,
            capacity_bytes: 0,
            transfers: 0,
            disks: Vec::new(),
            mirror: None,
            has_all_disks_seen: true,
            clock_ahead_millis: Some(0),
            machine: Some(id.trim_start_matches('n').parse().unwrap_or(0)),
        };
        self.nodes.insert(node(id), fake);
    }

    /// Lets a node join and tell what it holds.
    pub(crate) fn join(&mut self, id: &str) {
        self.open_node(id);
        let answers = self.node(id).answers;
        self.node_mut(id).answers = answers && !self.tells_held_first;
        self.tell_mark(id);
        let slices = self.node(id).held.values().cloned().collect();
        self.report(id, Report::Inventory { slices, last: true });
        self.report_status(id);
        if answers {
            self.resume(id);
        }
    }

    /// Lets a node say which copy of the small rows it has.
    pub(super) fn tell_mark(&mut self, id: &str) {
        let mark = self.node(id).mirror.as_ref().filter(|copy| copy.is_whole).map(|copy| copy.mark);
        self.report(id, Report::MirrorPosition { position: mark, all_seen: self.node(id).has_all_disks_seen });
    }

    pub(super) fn open_node(&mut self, id: &str) {
        let session = SessionId(self.number());
        let fake = self.nodes.get_mut(&node(id)).unwrap();
        fake.session = Some(session);
        fake.unanswered.clear();
        let last: u8 = id.trim_start_matches('n').parse().unwrap();
        let join = NodeJoin {
            local: Some(format!("socket-of-{id}")),
            node: node(id),
            place: fake.place.clone(),
            transfer: ([10, 0, 0, last], 7410).into(),
            spe_slots: 2,
            pid: 1,
            folder: "/data".into(),
            address: [10, 0, 0, last].into(),
        };
        self.master.open_node_session(self.now, session, join).unwrap();
        self.run();
    }

    /// The node's process ends; its disk stays.
    pub(super) fn crash(&mut self, id: &str) {
        let fake = self.nodes.get_mut(&node(id)).unwrap();
        fake.session = None;
        fake.unanswered.clear();
    }

    pub(super) fn node(&self, id: &str) -> &FakeNode {
        &self.nodes[&node(id)]
    }

    pub(super) fn node_mut(&mut self, id: &str) -> &mut FakeNode {
        self.nodes.get_mut(&node(id)).unwrap()
    }

    /// Nodes that hold a slice.
    pub(super) fn holders(&self, slice: SliceId) -> Vec<String> {
        self.nodes.iter().filter(|(_, fake)| fake.held.contains_key(&slice)).map(|(id, _)| id.to_string()).collect()
    }

    pub(super) fn report(&mut self, id: &str, report: Report) {
        let Some(session) = self.node(id).session else { return };
        let from = SessionCaller { session, request: Some(self.number()) };
        self.master.handle_message(self.now, from, MasterMessage::Node(report));
        self.run();
    }

    pub(super) fn report_status(&mut self, id: &str) {
        let fake = self.node(id);
        let used_bytes: u64 = fake.held.values().map(|held| held.metadata.bytes).sum();
        let free_bytes =
            if fake.capacity_bytes > 0 { fake.capacity_bytes.saturating_sub(used_bytes) } else { fake.free_bytes };
        let (transfers, disks, links) = (fake.transfers, fake.disks.clone(), fake.links.clone());
        let status = Report::Status {
            used_bytes,
            free_bytes,
            transfers,
            spes: 0,
            disks,
            sandbox_missing: None,
            refused_tickets: RefusedTickets::new(),
            links,
            memory_free_bytes: self.node(id).memory_free_bytes,
        };
        self.report(id, status);
        let (ahead, machine) = (self.node(id).clock_ahead_millis, self.node(id).machine);
        if let Some(ahead) = ahead {
            let unix_millis = self.true_unix_millis().saturating_add_signed(ahead);
            self.report(id, Report::Clock { unix_millis, machine });
        }
    }

    /// Lets a node do what it had left undone.
    pub(super) fn resume(&mut self, id: &str) {
        self.node_mut(id).answers = true;
        for (order, body) in std::mem::take(&mut self.node_mut(id).unanswered) {
            self.obey(&node(id), order, &body);
        }
        self.run();
    }

    /// The orders that this node has not answered fail, without a moment's delay.
    pub(super) fn fail_orders(&mut self, id: &str) {
        for (order, _) in std::mem::take(&mut self.node_mut(id).unanswered) {
            let failed = MasterCompletion::OrderFinished { order, outcome: OrderOutcome::Unanswered };
            self.master.handle_completion(self.now, failed);
        }
        self.run();
    }

    pub(super) fn obey(&mut self, id: &NodeId, order: OrderId, body: &Order) {
        let mut report = None;
        let ack = match body {
            Order::Place { header } => self.nodes.get_mut(id).unwrap().place(header),
            Order::Remove(slice) => match self.nodes.get_mut(id).unwrap().held.remove(slice) {
                Some(held) => {
                    self.check_removal(&held.metadata);
                    Ack::Done
                }
                None => not_here(),
            },
            Order::ForgetJob(_)
            | Order::Drive(_)
            | Order::Revoke(_)
            | Order::TicketKeys(_)
            | Order::LinkShares(_)
            | Order::SlowDisks(_)
            | Order::StruckOff(_) => Ack::Done,
            Order::ReadMetrics => Ack::Metrics(format!("of {id}")),
            Order::Mirror(keep) => self.nodes.get_mut(id).unwrap().keep(keep),
            Order::ReadMirror { after } => {
                report = Some(self.nodes[id].mirror.as_ref().unwrap().page(after.clone()));
                Ack::Done
            }
            Order::Replicate { header, from, .. } => {
                report = Some(self.copy(id, header, &from.node));
                Ack::Done
            }
        };
        let outcome = OrderOutcome::Answered(ack);
        self.master.handle_completion(self.now, MasterCompletion::OrderFinished { order, outcome });
        if let Some((report, session)) = report.zip(self.nodes[id].session) {
            let from = SessionCaller { session, request: Some(self.number()) };
            self.master.handle_message(self.now, from, MasterMessage::Node(report));
        }
    }

    /// Whatever a test does: where a good copy was removed, the nodes that are there still hold as many as wished.
    fn check_removal(&self, removed: &SliceMetadata) {
        let slice = removed.header.slice;
        let Some(content) = self.master.catalog.names().content_of_slice(slice) else { return };
        if content.digest != removed.digest || self.master.log.journal_writes.has_unsaved_change(slice) {
            return;
        }
        let is_there = |id: &NodeId| {
            let key = self.master.fleet.nodes.of_id(id);
            key.is_some_and(|key| self.master.fleet.nodes.get(key).is_reachable())
        };
        let left = self.nodes.iter().filter(|(id, fake)| fake.held.contains_key(&slice) && is_there(id)).count();
        let wished = self.master.copies_to_keep(slice);
        assert!(left >= wished, "{left} of {wished} copies of {slice} are left");
    }

    fn copy(&mut self, target: &NodeId, header: &SliceHeader, source: &NodeId) -> Report {
        let slice = header.slice;
        let source = &self.nodes[source];
        let fails = self.nodes[target].fails_copies || source.session.is_none();
        match source.held.get(&slice).filter(|_| !fails) {
            Some(held) => {
                let metadata = SliceMetadata { header: header.clone(), ..held.metadata.clone() };
                let copy = HeldSlice { metadata: metadata.clone(), state: HeldState::Staged };
                self.nodes.get_mut(target).unwrap().held.insert(slice, copy);
                Report::Stored(metadata)
            }
            None => {
                let kept_bytes = self.nodes[target].keeps_bytes;
                Report::ReplicateFailed { slice, refusal: Refusal::new(Reason::Unavailable, "no"), kept_bytes }
            }
        }
    }
}

impl FakeMirror {
    /// Two rows a page, so that there are many pages.
    fn page(&self, after: Option<MirrorKey>) -> Report {
        let from = match &after {
            Some(key) => std::ops::Bound::Excluded((key.table.clone(), key.key.clone())),
            None => std::ops::Bound::Unbounded,
        };
        let mut rest = self.rows.range((from, std::ops::Bound::Unbounded));
        let row = |((table, key), value): (&(String, Vec<u8>), &Vec<u8>)| MirrorRow {
            table: table.clone(),
            key: key.clone(),
            value: Some(value.clone()),
        };
        let rows = rest.by_ref().take(2).map(row).collect();
        Report::MirrorPage { position: self.mark, after, rows, last: rest.next().is_none() }
    }
}

impl FakeNode {
    fn keep(&mut self, keep: &MirrorUpdate) -> Ack {
        let (mut rows, is_whole) = match (keep.base, self.mirror.take()) {
            (MirrorBase::Page { page: 0, last }, _) => (BTreeMap::new(), last),
            (MirrorBase::Page { last, .. }, Some(copy)) if !copy.is_whole && copy.mark == keep.position => {
                (copy.rows, last)
            }
            (MirrorBase::Change(sequence), Some(copy)) => {
                let has = MirrorPosition { sequence, ..keep.position };
                assert_eq!((copy.mark, copy.is_whole), (has, true));
                (copy.rows, true)
            }
            other => panic!("{other:?}"),
        };
        for MirrorRow { table, key, value } in keep.rows.clone() {
            match value {
                Some(value) => drop(rows.insert((table, key), value)),
                None => drop(rows.remove(&(table, key))),
            }
        }
        self.mirror = Some(FakeMirror { mark: keep.position, rows, is_whole });
        Ack::Done
    }

    fn place(&mut self, header: &SliceHeader) -> Ack {
        if !self.held.contains_key(&header.slice) {
            return not_here();
        }
        for held in self.held.values_mut() {
            if held.state == HeldState::Placed && held.metadata.header.path == header.path {
                held.state = HeldState::Retired;
            }
        }
        let held = self.held.get_mut(&header.slice).unwrap();
        held.state = HeldState::Placed;
        held.metadata.header = header.clone();
        Ack::Done
    }

    /// Where its slices lie: path, or how they stand.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<_> = self
            .held
            .values()
            .map(|held| match held.state {
                HeldState::Placed => held.metadata.header.path.to_string(),
                other => format!("{other:?}"),
            })
            .collect();
        paths.sort();
        paths
    }
}

fn not_here() -> Ack {
    Ack::Refused(Refusal::new(Reason::NotFound, "not here"))
}
