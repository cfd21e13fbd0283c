//! Pieces that their buckets lack although their tasks are done: their nodes kept them and send them again
//! (Sector/Sphere paper, 3.5.2). It never knows what is in a piece, and never decides what follows when a piece is
//! unavailable: the stage then does the task again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{NodeId, Now, Status};

use crate::bucket::{PieceSlot, node_queues::NodeQueues};

/// The deliveries of one stage, each of one task's winner.
///
/// See the paper, 3.5.2: "each SPE dumps the result to local disk before attempting to send the results to buckets on
/// other nodes. In this way, if one node is down, the result can be sent to the same buckets on other nodes".
#[derive(Debug)]
pub(crate) struct Deliveries {
    by_task: BTreeMap<u32, PendingDelivery>,
    /// Those that can be ordered, from the nodes that have them.
    queues: NodeQueues,
    /// Those to be tried again, and when.
    pauses: BTreeSet<(Duration, u32)>,
}

/// What a refused delivery means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryRefusal {
    /// Nobody is waiting for it.
    Ignored,
    /// It is tried again after a pause.
    Paused,
    /// The pieces are unavailable: their task is to be done again.
    Lost,
}

/// An order under way: what goes where.
pub(crate) type SentPieces = Vec<(PieceSlot, u32)>;

#[derive(Debug)]
struct PendingDelivery {
    node: NodeId,
    attempt: u32,
    slots: Vec<PieceSlot>,
    /// What was ordered last and is not answered yet, with the generation of each bucket.
    sent: Option<SentPieces>,
    /// Times it was refused.
    tries: u32,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self { by_task: BTreeMap::new(), queues: NodeQueues::new(DELIVERIES_PER_NODE_MAX), pauses: BTreeSet::new() }
    }
}

impl Deliveries {
    /// These pieces of a task are to be sent from `node`, where this attempt at it won.
    pub(crate) fn request(&mut self, task: u32, node: &NodeId, attempt: u32, spots: Vec<PieceSlot>) {
        if spots.is_empty() {
            return;
        }
        let wanted = self.by_task.entry(task).or_insert_with(|| {
            let node = node.clone();
            PendingDelivery { node, attempt, slots: vec![], sent: None, tries: 0 }
        });
        wanted.slots.extend(spots);
        if wanted.sent.is_none() {
            self.queues.add(node, task);
        }
    }

    /// The next task whose pieces a node can be told to send; the caller then calls [`sent`](Self::sent).
    pub(crate) fn next(&mut self) -> Option<(u32, u32, NodeId, Vec<PieceSlot>)> {
        let (node, task) = self.queues.next()?;
        let wanted = self.by_task.get(&task)?;
        Some((task, wanted.attempt, node, wanted.slots.clone()))
    }

    /// The delivery was ordered like this; if there was nothing to order, it is over.
    pub(crate) fn sent(&mut self, task: u32, sent: SentPieces) {
        if sent.is_empty() {
            self.by_task.remove(&task);
        } else if let Some(wanted) = self.by_task.get_mut(&task) {
            self.queues.begin(&wanted.node);
            wanted.sent = Some(sent);
        }
    }

    /// A delivery of this attempt ended well. Gives what was sent; what was requested meanwhile is ready to be ordered.
    pub(crate) fn done(&mut self, task: u32, attempt: u32) -> Option<SentPieces> {
        let sent = self.answered(task, attempt)?;
        if let Some(wanted) = self.by_task.get(&task) {
            // It was requested again: some of its buckets may have been lost since it was ordered.
            self.queues.add(&wanted.node, task);
        }
        Some(sent)
    }

    /// A delivery of this attempt was refused.
    pub(crate) fn refused(&mut self, now: Now, task: u32, attempt: u32, status: Status) -> DeliveryRefusal {
        if self.answered(task, attempt).is_none() {
            return DeliveryRefusal::Ignored;
        }
        let Some(wanted) = self.by_task.get_mut(&task) else { return DeliveryRefusal::Ignored };
        wanted.tries += 1;
        if status == Status::Unavailable && wanted.tries < TRIES_MAX {
            self.pauses.insert((now.monotonic + PAUSE, task));
            return DeliveryRefusal::Paused;
        }
        self.by_task.remove(&task);
        DeliveryRefusal::Lost
    }

    /// A task's pieces are no longer wanted: the task is done again.
    pub(crate) fn forget(&mut self, task: u32) {
        let Some(wanted) = self.by_task.remove(&task) else { return };
        if wanted.sent.is_some() {
            self.queues.end(&wanted.node);
        }
        self.queues.remove(&wanted.node, task);
    }

    /// The tasks whose pieces `node` was to send.
    pub(crate) fn tasks_at(&self, node: &NodeId) -> Vec<u32> {
        self.by_task.iter().filter(|(_, wanted)| wanted.node == *node).map(|(task, _)| *task).collect()
    }

    /// Deliveries whose pause is over are ready again.
    pub(crate) fn resume_due(&mut self, now: Now) {
        while self.pauses.first().is_some_and(|(when, _)| *when <= now.monotonic) {
            if let Some((_, task)) = self.pauses.pop_first()
                && let Some(wanted) = self.by_task.get(&task).filter(|wanted| wanted.sent.is_none())
            {
                self.queues.add(&wanted.node, task);
            }
        }
    }

    /// Nobody will report on the deliveries under way: they are ordered again.
    pub(crate) fn reissue(&mut self) {
        self.queues.end_all();
        for (task, wanted) in &mut self.by_task {
            if wanted.sent.take().is_some() {
                self.queues.add(&wanted.node, *task);
            }
        }
    }

    /// When the next pause ends.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.pauses.first().map(|(when, _)| *when)
    }

    fn answered(&mut self, task: u32, attempt: u32) -> Option<SentPieces> {
        let wanted = self.by_task.get_mut(&task).filter(|wanted| wanted.attempt == attempt)?;
        let sent = wanted.sent.take()?;
        self.queues.end(&wanted.node);
        Some(sent)
    }
}

/// Deliveries under way at one node: each sends several pieces at once, and its SPEs' own results go the same way.
const DELIVERIES_PER_NODE_MAX: usize = 2;
/// Times a delivery is ordered before its task is done again instead.
const TRIES_MAX: u32 = 8;
/// Pause before a delivery is tried again. All tries together last longer than it takes to notice a dead node.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn order(deliveries: &mut Deliveries) -> Option<(u32, usize)> {
        let (task, _, _, spots) = deliveries.next()?;
        let count = spots.len();
        deliveries.sent(task, spots.into_iter().map(|spot| (spot, 0)).collect());
        Some((task, count))
    }

    fn spots(count: u32) -> Vec<PieceSlot> {
        (0..count).map(|bucket| PieceSlot::of(bucket, 0)).collect()
    }

    #[test]
    fn a_node_sends_for_two_tasks_at_a_time() {
        let mut deliveries = Deliveries::default();
        for task in 0..4 {
            deliveries.request(task, &node("a"), 0, spots(3));
        }
        assert_eq!((order(&mut deliveries), order(&mut deliveries)), (Some((0, 3)), Some((1, 3))));
        assert_eq!(order(&mut deliveries), None);
        assert_eq!(deliveries.done(0, 1), None, "another attempt's");
        assert_eq!(deliveries.done(0, 0).unwrap().len(), 3);
        assert_eq!(deliveries.done(0, 0), None, "told twice");
        let (task, ..) = deliveries.next().unwrap();
        deliveries.sent(task, vec![]);
        assert_eq!((task, order(&mut deliveries)), (0, Some((2, 3))), "nothing more to send for task 0");
    }

    #[test]
    fn what_is_wanted_while_a_delivery_is_under_way_is_ordered_after_it() {
        let mut deliveries = Deliveries::default();
        deliveries.request(7, &node("a"), 1, spots(1));
        assert_eq!(order(&mut deliveries), Some((7, 1)));
        deliveries.request(7, &node("a"), 1, spots(2));
        assert_eq!(order(&mut deliveries), None);
        deliveries.done(7, 1).unwrap();
        assert_eq!(order(&mut deliveries), Some((7, 3)));
    }

    #[test]
    fn a_node_that_cannot_be_reached_is_asked_again_and_one_that_kept_nothing_is_not() {
        let mut deliveries = Deliveries::default();
        deliveries.request(7, &node("a"), 1, spots(1));
        let mut now = Now::default();
        for _ in 1..TRIES_MAX {
            order(&mut deliveries).unwrap();
            assert_eq!(deliveries.refused(now, 7, 1, Status::Unavailable), DeliveryRefusal::Paused);
            assert_eq!(deliveries.refused(now, 7, 1, Status::Unavailable), DeliveryRefusal::Ignored);
            assert_eq!(order(&mut deliveries), None);
            now = now.after(PAUSE);
            assert_eq!(deliveries.next_timeout(), Some(now.monotonic));
            deliveries.resume_due(now);
        }
        order(&mut deliveries).unwrap();
        assert_eq!(deliveries.refused(now, 7, 1, Status::Unavailable), DeliveryRefusal::Lost);
        deliveries.request(8, &node("a"), 0, spots(1));
        order(&mut deliveries).unwrap();
        assert_eq!(deliveries.refused(now, 8, 0, Status::NotFound), DeliveryRefusal::Lost);
        assert_eq!(deliveries.tasks_at(&node("a")), []);
    }

    #[test]
    fn a_task_that_is_done_again_makes_room_for_another_delivery() {
        let mut deliveries = Deliveries::default();
        for task in 0..3 {
            deliveries.request(task, &node("a"), 0, spots(1));
        }
        order(&mut deliveries).unwrap();
        order(&mut deliveries).unwrap();
        deliveries.forget(0);
        assert_eq!(deliveries.tasks_at(&node("a")), [1, 2]);
        assert_eq!(order(&mut deliveries), Some((2, 1)));
    }
}
