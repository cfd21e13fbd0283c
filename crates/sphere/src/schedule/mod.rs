//! Which task an idle SPE is given (Sector/Sphere paper, 3.5.2). It never gives out a task twice, and never asks what a
//! task contains.

pub(crate) mod busiest_nodes;
pub(crate) mod fleet;
pub(crate) mod slow_threshold;
pub(crate) mod task;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use protocol::NodeId;

use crate::schedule::{busiest_nodes::BusiestNodes, fleet::Fleet};

/// The tasks that wait for an SPE. A task waits in the queue of each live node that holds it. If none of the job's
/// nodes does, it waits in the queue of no node. An idle SPE is given:
///
/// 1. a task whose bytes lie on the SPE's node;
/// 2. of these, one of the file that the fewest SPEs read now, since "SPEs can read data from multiple files
///    independently at the same time";
/// 3. else the first in the order of the stream.
///
/// Only an SPE with nothing left on its own node is given a task of another. It is taken from the nearest node by
/// topology, and among equally near ones from the node with most left to do. It is taken only when that node has no SPE
/// free for it.
///
/// A marked node leaves a task to unmarked nodes while one of them has an SPE free for it. A task of its own bytes is
/// left to nodes that hold them too. A task that it would have to fetch, or that has failed somewhere, is left to any
/// unmarked node. If all nodes are marked, none counts as marked.
#[derive(Debug, Default)]
pub(crate) struct TaskPool {
    queues: BTreeMap<Option<NodeId>, Queue>,
    /// The nodes with a queue that is not empty, for SPEs that look for work elsewhere.
    busiest: BusiestNodes,
    /// All tasks of the stage, by number.
    tasks: Vec<Candidate>,
    /// How many of them wait.
    waiting: usize,
    /// Waiting tasks that failed at some node.
    avoiding: usize,
    /// Whether tasks came to wait since this was last asked.
    has_new: bool,
    /// SPEs at work on each file now.
    readers: BTreeMap<u32, u32>,
    /// Whether tasks can only be processed where they lie.
    pinned: bool,
}

/// A task as the schedule sees it. There may be a million.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The nodes that hold all of it.
    holders: Arc<[NodeId]>,
    /// Nodes where it failed; others are tried first. Few tasks have any.
    #[allow(clippy::box_collection)] // 8 bytes instead of 24 for the million that have none.
    avoid: Option<Box<BTreeSet<NodeId>>>,
    /// The file it begins with.
    member: u32,
    is_waiting: bool,
}

impl Candidate {
    /// A task that does not wait yet. `member` is the file it begins with; `holders` are the nodes that hold all of it.
    pub(crate) fn new(member: usize, holders: Arc<[NodeId]>) -> Self {
        Self { holders, avoid: None, member: member as u32, is_waiting: false }
    }

    fn has_failed_at(&self, node: &NodeId) -> bool {
        self.avoid.as_ref().is_some_and(|avoid| avoid.contains(node))
    }
}

impl TaskPool {
    pub(crate) fn new(pinned: bool, tasks: Vec<Candidate>) -> Self {
        Self { pinned, tasks, ..Self::default() }
    }

    /// The file that a task begins with.
    pub(crate) fn member(&self, task: u32) -> usize {
        self.tasks[task as usize].member as usize
    }

    /// A task waits from now on.
    pub(crate) fn insert(&mut self, fleet: &Fleet, task: u32) {
        let candidate = &mut self.tasks[task as usize];
        if std::mem::replace(&mut candidate.is_waiting, true) {
            return;
        }
        let member = candidate.member;
        self.waiting += 1;
        self.avoiding += usize::from(candidate.avoid.is_some());
        self.has_new = true;
        for key in queue_keys(fleet, candidate) {
            self.enqueue(fleet, key, member, task);
        }
    }

    /// A task that does not wait has failed at this node: others are tried first.
    pub(crate) fn avoid(&mut self, task: u32, node: NodeId) {
        self.tasks[task as usize].avoid.get_or_insert_default().insert(node);
    }

    /// Whether a task has failed at this node.
    pub(crate) fn has_failed_at(&self, task: u32, node: &NodeId) -> bool {
        self.tasks[task as usize].has_failed_at(node)
    }

    /// A task that does not wait lies on this node alone from now on.
    pub(crate) fn move_to(&mut self, task: u32, node: NodeId) {
        self.tasks[task as usize].holders = Arc::new([node]);
    }

    /// The task that an idle SPE of `node` should be given, taken out of the pool. `far` also looks at tasks that lie
    /// elsewhere.
    pub(crate) fn take(&mut self, fleet: &Fleet, node: &NodeId, far: bool) -> Option<u32> {
        let task = if far { self.choose_remote(fleet, node) } else { self.choose_local(fleet, node) }?;
        self.remove(fleet, task);
        self.add_reader(task);
        Some(task)
    }

    /// A task no longer waits.
    pub(crate) fn remove(&mut self, fleet: &Fleet, task: u32) {
        let candidate = &mut self.tasks[task as usize];
        if !std::mem::take(&mut candidate.is_waiting) {
            return;
        }
        let member = candidate.member;
        self.waiting -= 1;
        self.avoiding -= usize::from(candidate.avoid.is_some());
        for key in queue_keys(fleet, candidate) {
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            let before = queue.len();
            queue.remove(&(member, task));
            let after = queue.len();
            if let Some(node) = key {
                self.busiest.update(fleet, &node, before, after);
            }
        }
    }

    /// Whether any task waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether tasks have come to wait since this was last asked.
    pub(crate) fn take_has_new(&mut self) -> bool {
        std::mem::take(&mut self.has_new)
    }

    /// Whether a task that one SPE may not take away can be taken by no other: then the rest need not ask.
    pub(crate) fn treats_all_alike(&self) -> bool {
        self.pinned || self.avoiding == 0
    }

    /// One SPE more reads the file that a task begins with.
    pub(crate) fn add_reader(&mut self, task: u32) {
        *self.readers.entry(self.tasks[task as usize].member).or_default() += 1;
    }

    /// An SPE no longer reads that file.
    pub(crate) fn remove_reader(&mut self, task: u32) {
        let member = self.tasks[task as usize].member;
        if let Some(count) = self.readers.get_mut(&member) {
            *count -= 1;
            if *count == 0 {
                self.readers.remove(&member);
            }
        }
    }

    /// `fleet` lost a node: tasks that waited for it alone no longer wait for any particular node.
    pub(crate) fn forget_node(&mut self, fleet: &Fleet, node: &NodeId) {
        let Some(queue) = self.queues.remove(&Some(node.clone())) else { return };
        self.busiest.update(fleet, node, queue.len(), 0);
        for (member, task) in queue {
            if queue_keys(fleet, &self.tasks[task as usize]) == [None] {
                self.enqueue(fleet, None, member, task);
            }
        }
        self.has_new = true;
    }

    fn enqueue(&mut self, fleet: &Fleet, key: Option<NodeId>, member: u32, task: u32) {
        let queue = self.queues.entry(key.clone()).or_default();
        let before = queue.len();
        queue.insert((member, task));
        if let Some(node) = key {
            self.busiest.update(fleet, &node, before, queue.len());
        }
    }

    fn choose_local(&self, fleet: &Fleet, node: &NodeId) -> Option<u32> {
        let looks_max = if fleet.is_preferred(node) { usize::MAX } else { MARKED_LOOKS_MAX };
        let is_given = |task: u32| self.may_run(fleet, task, node) && !self.is_left_to_others(fleet, task, node);
        self.choose(&Some(node.clone()), looks_max, &is_given)
    }

    fn choose_remote(&self, fleet: &Fleet, node: &NodeId) -> Option<u32> {
        if self.pinned {
            return None;
        }
        let is_marked = !fleet.is_preferred(node);
        if is_marked && self.avoiding == 0 && fleet.preferred().keys().any(|other| fleet.is_free(other)) {
            return None;
        }
        let may_leave = |task: u32| {
            let Candidate { holders, avoid, .. } = &self.tasks[task as usize];
            // A task that has failed somewhere need not stay at a marked node.
            let stays_at = |holder: &NodeId| {
                let keeps = avoid.is_none() || fleet.is_preferred(holder) || is_marked;
                keeps && fleet.is_free(holder) && self.may_run(fleet, task, holder)
            };
            self.may_run(fleet, task, node)
                && !holders.iter().any(stays_at)
                && !self.is_left_to_others(fleet, task, node)
        };
        // Only tasks that failed there leave a node with an SPE free.
        let others =
            self.busiest.nearest_first(fleet, node).filter(|holder| self.avoiding > 0 || !fleet.is_free(holder));
        // A task of no node of the job is the farthest: last.
        let keys = others.map(|holder| Some(holder.clone())).chain([None]);
        keys.into_iter().find_map(|key| self.choose(&key, usize::MAX, &may_leave))
    }

    /// Rules 2 and 3 within one queue, looking at no more than `looks_max` tasks.
    fn choose(&self, key: &Option<NodeId>, looks_max: usize, allowed: &dyn Fn(u32) -> bool) -> Option<u32> {
        let tasks = self.queues.get(key)?;
        let (mut best, mut looks): (Option<(u32, u32)>, _) = (None, 0);
        let mut next = tasks.first();
        while let Some((member, _)) = next.copied() {
            let readers = self.readers.get(&member).copied().unwrap_or(0);
            if best.is_none_or(|(least, _)| readers < least) {
                let of_member = tasks.range((member, 0)..=(member, u32::MAX)).map(|(_, task)| *task);
                let mut some = of_member.take(looks_max - looks).inspect(|_| looks += 1);
                if let Some(task) = some.find(|task| allowed(*task)) {
                    best = Some((readers, task));
                }
            }
            // Nothing is less than none; with more files than SPEs this is found at once.
            if best.is_some_and(|(least, _)| least == 0) || looks == looks_max {
                break;
            }
            next = tasks.range((member + 1, 0)..).next();
        }
        best.map(|(_, task)| task)
    }

    /// Whether a marked node leaves a task to others, since one of them has an SPE free for it.
    fn is_left_to_others(&self, fleet: &Fleet, task: u32, node: &NodeId) -> bool {
        if fleet.is_preferred(node) {
            return false;
        }
        let is_free = |other: &NodeId| fleet.is_free(other) && self.may_run(fleet, task, other);
        let Candidate { holders, avoid, .. } = &self.tasks[task as usize];
        if avoid.is_none() && holders.contains(node) {
            holders.iter().any(|other| fleet.is_preferred(other) && is_free(other))
        } else {
            fleet.preferred().keys().any(is_free)
        }
    }

    /// Whether a task has not failed at this node, or has failed at every other too.
    fn may_run(&self, fleet: &Fleet, task: u32, node: &NodeId) -> bool {
        let candidate = &self.tasks[task as usize];
        !candidate.has_failed_at(node) || fleet.weights().keys().all(|live| candidate.has_failed_at(live))
    }
}

/// Tasks of its own that a marked node is offered. Tasks of one queue mostly lie on the same nodes, and the reason why
/// the first ones wait soon passes.
const MARKED_LOOKS_MAX: usize = 64;

/// The queues in which a task waits.
fn queue_keys(fleet: &Fleet, candidate: &Candidate) -> Vec<Option<NodeId>> {
    let live: Vec<_> = candidate.holders.iter().filter(|node| fleet.is_live(node)).cloned().map(Some).collect();
    if live.is_empty() { vec![None] } else { live }
}

/// Waiting tasks, each after the file that it begins with; both in the order of the stream.
type Queue = BTreeSet<(u32, u32)>;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use protocol::{JobId, Now, Place, message::spe::AttemptId};

    use super::*;
    use crate::{job::plan::SpeNodePlan, schedule::fleet::SpeId};

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    /// Nodes a and b in one rack, c in another rack, d in another site; one SPE each, all busy.
    fn busy_fleet() -> (Fleet, Vec<SpeId>) {
        let places = [("a", "s", "1"), ("b", "s", "1"), ("c", "s", "2"), ("d", "t", "1")];
        let plans = places.map(|(name, site, rack)| SpeNodePlan {
            node: node(name),
            place: Place::new(site, rack),
            slots: 1,
            is_marked: false,
        });
        let mut fleet = Fleet::new(&plans, Duration::from_secs(1));
        let spes: Vec<SpeId> = fleet.start_all(Now::default()).into_iter().map(|(spe, _)| spe).collect();
        for spe in &spes {
            fleet.ready(*spe);
            fleet.assign(Now::default(), *spe, AttemptId { job: JobId(1), stage: 0, epoch: 0, task: 9, attempt: 0 });
        }
        (fleet, spes)
    }

    fn pool(fleet: &Fleet, tasks: &[(usize, &[&str])]) -> TaskPool {
        pool_of(fleet, false, tasks, None)
    }

    /// A pool whose tasks have all failed at a node.
    fn pool_of(fleet: &Fleet, pinned: bool, tasks: &[(usize, &[&str])], failed_at: Option<&str>) -> TaskPool {
        let candidate = |(member, holders): &(usize, &[&str])| {
            Candidate::new(*member, holders.iter().map(|name| node(name)).collect())
        };
        let mut pool = TaskPool::new(pinned, tasks.iter().map(candidate).collect());
        for task in 0..tasks.len() as u32 {
            failed_at.into_iter().for_each(|name| pool.avoid(task, node(name)));
            pool.insert(fleet, task);
        }
        pool
    }

    #[test]
    fn own_bytes_come_first_then_other_files_then_the_order_of_the_stream() {
        let (fleet, _) = busy_fleet();
        let mut pool = pool(&fleet, &[(0, &["b"]), (1, &["a"]), (1, &["a"]), (2, &["a"]), (2, &["a"])]);
        let order: Vec<_> = std::iter::from_fn(|| pool.take(&fleet, &node("a"), false)).collect();
        assert_eq!(order, [1, 3, 2, 4]);
    }

    #[test]
    fn a_file_that_was_left_counts_as_unread() {
        let (fleet, _) = busy_fleet();
        let mut pool = pool(&fleet, &[(1, &["a"]), (1, &["a"]), (2, &["a"]), (2, &["a"]), (2, &["a"])]);
        let take = |pool: &mut TaskPool| pool.take(&fleet, &node("a"), false);
        assert_eq!((take(&mut pool), take(&mut pool)), (Some(0), Some(2)));
        pool.remove_reader(2);
        assert_eq!(take(&mut pool), Some(3), "file 1 is still being read");
        pool.remove_reader(0);
        assert_eq!(take(&mut pool), Some(1));
    }

    #[test]
    fn work_is_carried_from_the_nearest_node_and_there_from_the_busiest() {
        let (fleet, _) = busy_fleet();
        let mut pool = pool(&fleet, &[(0, &["d"]), (1, &["c"]), (2, &["b"]), (3, &["nowhere"]), (4, &["d"])]);
        assert_eq!(pool.take(&fleet, &node("a"), false), None);
        let order: Vec<_> = std::iter::from_fn(|| pool.take(&fleet, &node("a"), true)).collect();
        assert_eq!(order, [2, 1, 0, 4, 3], "same rack, same site, other site, and last what no node of the job has");
        let mut pool = self::pool(&fleet, &[(0, &["a"]), (1, &["b"]), (2, &["b"])]);
        assert_eq!(pool.take(&fleet, &node("c"), true), Some(1), "b has more left than a, as near");
    }

    #[test]
    fn work_is_not_carried_away_from_a_node_that_has_an_spe_free() {
        let (mut fleet, spes) = busy_fleet();
        let mut pool = pool(&fleet, &[(0, &["b"])]);
        fleet.release(spes[1]);
        assert_eq!(pool.take(&fleet, &node("a"), true), None);
        assert_eq!(pool.take(&fleet, &node("b"), false), Some(0));
    }

    #[test]
    fn a_task_that_failed_where_it_lies_is_carried_away_although_an_spe_is_free_there() {
        let (mut fleet, spes) = busy_fleet();
        let mut pool = pool_of(&fleet, false, &[(0, &["b"])], Some("b"));
        fleet.release(spes[1]);
        assert_eq!(pool.take(&fleet, &node("b"), false), None);
        assert_eq!(pool.take(&fleet, &node("a"), true), Some(0));
    }

    #[test]
    fn a_bucket_is_never_carried_away() {
        let (fleet, _) = busy_fleet();
        let mut pool = pool_of(&fleet, true, &[(0, &["b"])], None);
        assert_eq!(pool.take(&fleet, &node("a"), true), None);
    }

    #[test]
    fn a_task_goes_elsewhere_after_it_failed_and_back_when_it_failed_everywhere() {
        let (mut fleet, _) = busy_fleet();
        let mut pool = pool_of(&fleet, false, &[(0, &["a"])], Some("a"));
        assert_eq!(pool.take(&fleet, &node("a"), false), None);
        for name in ["b", "c", "d"] {
            fleet.lose_node(&node(name));
        }
        for name in ["b", "c", "d"] {
            pool.forget_node(&fleet, &node(name));
        }
        assert_eq!(pool.take(&fleet, &node("a"), false), Some(0));
    }

    #[test]
    fn a_task_with_two_holders_is_given_out_once() {
        let (fleet, _) = busy_fleet();
        let mut pool = pool(&fleet, &[(0, &["a", "b"])]);
        assert_eq!(pool.take(&fleet, &node("b"), false), Some(0));
        assert_eq!(pool.take(&fleet, &node("a"), false), None);
        assert_eq!(pool.take(&fleet, &node("c"), true), None);
    }

    #[test]
    fn what_lay_on_a_lost_node_alone_is_for_everyone() {
        let (mut fleet, _) = busy_fleet();
        let mut pool = pool(&fleet, &[(0, &["b"])]);
        fleet.lose_node(&node("b"));
        pool.forget_node(&fleet, &node("b"));
        assert_eq!(pool.take(&fleet, &node("d"), true), Some(0));
    }
}
