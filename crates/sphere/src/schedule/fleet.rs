//! The nodes and SPEs of a job: which exist, which are idle, and which have been silent for too long (Sector/Sphere
//! paper, 3.5.2). A discarded SPE is replaced by one with a new number, so that late reports of the old one are
//! recognised. A node where no SPE can be started any more is lost. It never knows what an SPE is made of, nor what it
//! works on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{NodeId, Now, Place, message::spe::AttemptId, topology::Distance};
use serde::{Deserialize, Serialize};

use crate::job::plan::SpeNodePlan;

/// One SPE of a job, from its start to its end. A number is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpeId(pub u64);

/// The nodes of a job and their SPEs.
///
/// See the paper, 3.5.2. "If an SPE does not provide any feedback about the progress of the processing before a timeout
/// occurs, then the client discards the SPE".
#[derive(Debug)]
pub(crate) struct Fleet {
    nodes: BTreeMap<NodeId, Node>,
    /// Nodes that are not lost and have slots, with their number of SPEs.
    weights: BTreeMap<NodeId, u32>,
    /// Of these, those that are not marked; if all are marked, all of them.
    preferred: BTreeMap<NodeId, u32>,
    spes: BTreeMap<SpeId, Spe>,
    idle: BTreeSet<SpeId>,
    /// Of these, those that have not been offered the current waiting tasks.
    untried: BTreeSet<SpeId>,
    /// When each SPE that is not idle counts as silent.
    deadlines: BTreeSet<(Duration, SpeId)>,
    /// SPEs to be started, and when; the number only distinguishes two of one node and time.
    restarts: BTreeSet<(Duration, u64, NodeId)>,
    /// Bytes that busy SPEs have read of their current tasks.
    bytes_in_progress: u64,
    next: u64,
    progress_deadline: Duration,
}

/// What an SPE's end means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpeLoss {
    /// Its node.
    pub(crate) node: NodeId,
    /// What it was doing.
    pub(crate) attempt: Option<AttemptId>,
    /// Whether starts at this node have failed so often that the node counts as lost.
    pub(crate) node_given_up: bool,
}

impl Fleet {
    pub(crate) fn new(plans: &[SpeNodePlan], progress_deadline: Duration) -> Self {
        let node = |plan: &SpeNodePlan| {
            let place = plan.place.clone();
            (plan.node.clone(), Node { place, slots: plan.slots, lost: false, failed_starts: 0, free: 0 })
        };
        let nodes: BTreeMap<_, _> = plans.iter().map(node).collect();
        let with_slots = nodes.iter().filter(|(_, node)| node.slots > 0);
        let weights: BTreeMap<_, _> = with_slots.map(|(name, node)| (name.clone(), node.slots)).collect();
        let unmarked = plans.iter().filter(|plan| !plan.is_marked && plan.slots > 0);
        let unmarked: BTreeMap<_, _> = unmarked.map(|plan| (plan.node.clone(), plan.slots)).collect();
        Self {
            preferred: if unmarked.is_empty() { weights.clone() } else { unmarked },
            weights,
            nodes,
            spes: BTreeMap::new(),
            idle: BTreeSet::new(),
            untried: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            restarts: BTreeSet::new(),
            bytes_in_progress: 0,
            next: 0,
            progress_deadline,
        }
    }

    /// One SPE for each slot of each node, to be started.
    pub(crate) fn start_all(&mut self, now: Now) -> Vec<(SpeId, NodeId)> {
        let slots = self.nodes.iter().flat_map(|(node, n)| (0..n.slots).map(move |_| node.clone()));
        slots.collect::<Vec<_>>().into_iter().map(|node| self.start(now, node)).collect()
    }

    /// SPEs whose time to be started again has come.
    pub(crate) fn start_due(&mut self, now: Now) -> Vec<(SpeId, NodeId)> {
        let mut started = Vec::new();
        while self.restarts.first().is_some_and(|(when, ..)| *when <= now.monotonic) {
            if let Some((_, _, node)) = self.restarts.pop_first() {
                started.push(self.start(now, node));
            }
        }
        started
    }

    /// An SPE is ready for work; gives false if it is no longer counted on.
    pub(crate) fn ready(&mut self, spe: SpeId) -> bool {
        let Some(found) = self.spes.get(&spe) else { return false };
        if matches!(found.state, SpeState::Starting { .. }) {
            let node = found.node.clone();
            self.set_state(spe, SpeState::Idle);
            if let Some(node) = self.nodes.get_mut(&node) {
                node.failed_starts = 0;
            }
            // Once it is busy, tasks no longer wait for its node.
            self.retry_all_idle();
        }
        true
    }

    /// An idle SPE begins an attempt.
    pub(crate) fn assign(&mut self, now: Now, spe: SpeId, attempt: AttemptId) {
        let deadline = now.monotonic + self.progress_deadline;
        self.set_state(spe, SpeState::Busy { attempt, bytes: 0, deadline });
    }

    /// The attempt's SPE gave a sign of life.
    pub(crate) fn progress(&mut self, now: Now, spe: SpeId, bytes: u64) {
        let deadline = now.monotonic + self.progress_deadline;
        if let Some(SpeState::Busy { attempt, .. }) = self.spes.get(&spe).map(|spe| &spe.state) {
            self.set_state(spe, SpeState::Busy { attempt: *attempt, bytes, deadline });
        }
    }

    /// The SPE has finished what it was doing.
    pub(crate) fn release(&mut self, spe: SpeId) {
        self.set_state(spe, SpeState::Idle);
    }

    /// The SPE ended or is given up; another is started after a pause. `None` if it was no longer counted on.
    pub(crate) fn lose_spe(&mut self, now: Now, spe: SpeId) -> Option<SpeLoss> {
        let Spe { node: name, state } = self.remove(spe)?;
        let node = self.nodes.get_mut(&name)?;
        if matches!(state, SpeState::Starting { .. }) {
            node.failed_starts += 1;
        }
        // Starts fail side by side on a node with many slots: one failure in each slot is one round.
        let rounds = node.failed_starts.div_ceil(node.slots.max(1));
        let pause = RESTART_PAUSE * 2_u32.pow(rounds.saturating_sub(1).min(START_ROUNDS_MAX));
        self.next += 1;
        self.restarts.insert((now.monotonic + pause, self.next, name.clone()));
        let attempt = if let SpeState::Busy { attempt, .. } = state { Some(attempt) } else { None };
        let node_given_up = node.failed_starts >= START_ROUNDS_MAX * node.slots;
        // Tasks may no longer wait for this node.
        self.retry_all_idle();
        Some(SpeLoss { node: name, attempt, node_given_up })
    }

    /// Discards an SPE that does nothing useful any more, and gives its replacement. `None` if it was no longer counted
    /// on.
    pub(crate) fn replace(&mut self, now: Now, spe: SpeId) -> Option<(SpeId, NodeId)> {
        let old = self.remove(spe)?;
        Some(self.start(now, old.node))
    }

    /// Discards every busy SPE and gives the replacements.
    pub(crate) fn replace_busy(&mut self, now: Now) -> Vec<(SpeId, SpeId, NodeId)> {
        let busy = self.spes.iter().filter(|(_, spe)| matches!(spe.state, SpeState::Busy { .. }));
        let busy: Vec<SpeId> = busy.map(|(id, _)| *id).collect();
        let replaced = busy.into_iter().filter_map(|old| self.replace(now, old).map(|(new, node)| (old, new, node)));
        replaced.collect()
    }

    /// Discards every SPE, with its task, and gives the replacements.
    pub(crate) fn replace_all(&mut self, now: Now) -> Vec<(SpeId, NodeId, Option<AttemptId>)> {
        let all: Vec<SpeId> = self.spes.keys().copied().collect();
        let mut replaced = Vec::with_capacity(all.len());
        for old in all {
            let Some(Spe { node, state }) = self.remove(old) else { continue };
            let attempt = if let SpeState::Busy { attempt, .. } = state { Some(attempt) } else { None };
            let (spe, node) = self.start(now, node);
            replaced.push((spe, node, attempt));
        }
        replaced
    }

    /// A node is lost for the rest of the job. Gives its SPEs with their tasks; `None` if it was lost before.
    pub(crate) fn lose_node(&mut self, name: &NodeId) -> Option<Vec<(SpeId, Option<AttemptId>)>> {
        let node = self.nodes.get_mut(name).filter(|node| !node.lost)?;
        node.lost = true;
        self.retry_all_idle();
        self.weights.remove(name);
        self.preferred.remove(name);
        if self.preferred.is_empty() {
            self.preferred.clone_from(&self.weights);
        }
        self.restarts.retain(|(_, _, node)| node != name);
        let here: Vec<SpeId> = self.spes.iter().filter(|(_, spe)| spe.node == *name).map(|(id, _)| *id).collect();
        let mut gone = Vec::new();
        for id in here {
            let Some(spe) = self.remove(id) else { continue };
            gone.push((id, if let SpeState::Busy { attempt, .. } = spe.state { Some(attempt) } else { None }));
        }
        Some(gone)
    }

    /// Idle SPEs and their nodes, oldest first.
    pub(crate) fn idle(&self) -> impl Iterator<Item = (SpeId, &NodeId)> {
        self.idle.iter().filter_map(|id| Some((*id, &self.spes.get(id)?.node)))
    }

    /// Of these, those worth asking, on preferred nodes or on the others. They have not been offered the waiting tasks
    /// since more tasks came, or since the nodes of those became busy.
    pub(crate) fn untried(&self, preferred: bool) -> Vec<(SpeId, NodeId)> {
        let untried = self.untried.iter().filter_map(|id| Some((*id, &self.spes.get(id)?.node)));
        let wanted = untried.filter(|(_, node)| self.is_preferred(node) == preferred);
        wanted.map(|(id, node)| (id, node.clone())).collect()
    }

    /// All idle SPEs were offered the waiting tasks.
    pub(crate) fn all_tried(&mut self) {
        self.untried.clear();
    }

    /// The waiting tasks have changed, or may now leave their nodes.
    pub(crate) fn retry_all_idle(&mut self) {
        self.untried.clone_from(&self.idle);
    }

    /// Whether any SPE is idle.
    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Whether a node has an SPE free or about to be, so that its work need not be done elsewhere. Tasks do not wait
    /// for a node whose starts fail.
    pub(crate) fn is_free(&self, name: &NodeId) -> bool {
        self.nodes.get(name).is_some_and(|node| node.free > 0 && node.failed_starts == 0)
    }

    /// Nodes that are not lost and have slots, with their number of SPEs.
    pub(crate) fn weights(&self) -> &BTreeMap<NodeId, u32> {
        &self.weights
    }

    /// Of these, those that get buckets: the ones that are not marked, or all if all are marked.
    pub(crate) fn preferred(&self) -> &BTreeMap<NodeId, u32> {
        &self.preferred
    }

    /// Whether a live node is [preferred](Self::preferred).
    pub(crate) fn is_preferred(&self, name: &NodeId) -> bool {
        self.preferred.len() == self.weights.len() || self.preferred.contains_key(name)
    }

    /// Whether a node belongs to the job and is not lost.
    pub(crate) fn is_live(&self, name: &NodeId) -> bool {
        self.weights.contains_key(name)
    }

    /// The place of a node of the job in the topology.
    pub(crate) fn place(&self, name: &NodeId) -> Option<&Place> {
        self.nodes.get(name).map(|node| &node.place)
    }

    /// The distance between two nodes of the job; the farthest for one that is not of the job.
    pub(crate) fn distance(&self, a: &NodeId, b: &NodeId) -> Distance {
        match (self.nodes.get(a), self.nodes.get(b)) {
            (Some(first), Some(second)) => protocol::topology::distance((a, &first.place), (b, &second.place)),
            _ => Distance::OtherSite,
        }
    }

    /// SPEs whose deadline has passed.
    pub(crate) fn silent(&self, now: Now) -> Vec<SpeId> {
        let late = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now.monotonic);
        late.map(|(_, spe)| *spe).collect()
    }

    /// Bytes that busy SPEs have read of their current tasks.
    pub(crate) fn bytes_in_progress(&self) -> u64 {
        self.bytes_in_progress
    }

    /// When something here is due next.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let restart = self.restarts.first().map(|(when, ..)| *when);
        self.deadlines.first().map(|(when, _)| *when).into_iter().chain(restart).min()
    }

    fn start(&mut self, now: Now, node: NodeId) -> (SpeId, NodeId) {
        self.next += 1;
        let id = SpeId(self.next);
        let deadline = now.monotonic + self.progress_deadline;
        self.insert(id, Spe { node: node.clone(), state: SpeState::Starting { deadline } });
        (id, node)
    }

    /// Changes the state of an SPE. The sums over all SPEs are kept by these three functions.
    fn set_state(&mut self, id: SpeId, state: SpeState) {
        if let Some(Spe { node, .. }) = self.remove(id) {
            self.insert(id, Spe { node, state });
        }
    }

    fn insert(&mut self, id: SpeId, spe: Spe) {
        if let Some(deadline) = spe.deadline() {
            self.deadlines.insert((deadline, id));
        }
        match spe.state {
            SpeState::Idle => {
                self.idle.insert(id);
                self.untried.insert(id);
            }
            SpeState::Busy { bytes, .. } => self.bytes_in_progress += bytes,
            SpeState::Starting { .. } => {}
        }
        if !matches!(spe.state, SpeState::Busy { .. })
            && let Some(node) = self.nodes.get_mut(&spe.node)
        {
            node.free += 1;
        }
        self.spes.insert(id, spe);
    }

    fn remove(&mut self, id: SpeId) -> Option<Spe> {
        let spe = self.spes.remove(&id)?;
        if let Some(deadline) = spe.deadline() {
            self.deadlines.remove(&(deadline, id));
        }
        self.idle.remove(&id);
        self.untried.remove(&id);
        if let SpeState::Busy { bytes, .. } = spe.state {
            self.bytes_in_progress -= bytes;
        } else if let Some(node) = self.nodes.get_mut(&spe.node) {
            node.free -= 1;
        }
        Some(spe)
    }
}

#[derive(Debug)]
struct Node {
    place: Place,
    slots: u32,
    lost: bool,
    /// Starts that failed since one succeeded.
    failed_starts: u32,
    /// SPEs here that are not busy.
    free: u32,
}

#[derive(Debug)]
struct Spe {
    node: NodeId,
    state: SpeState,
}

#[derive(Debug)]
enum SpeState {
    Starting { deadline: Duration },
    Idle,
    Busy { attempt: AttemptId, bytes: u64, deadline: Duration },
}

impl Spe {
    fn deadline(&self) -> Option<Duration> {
        match self.state {
            SpeState::Starting { deadline } | SpeState::Busy { deadline, .. } => Some(deadline),
            SpeState::Idle => None,
        }
    }
}

/// Pause before an SPE is started again; doubled with every round of failed starts.
const RESTART_PAUSE: Duration = Duration::from_millis(250);
/// Rounds of failed starts after which a node is lost. Pauses of 250 + 500 + 1,000 ms distinguish a dead process from a
/// busy one. They end before a task that waits for the node's buckets has used up its attempts.
const START_ROUNDS_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::JobId;

    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn fleet(nodes: &[(&str, &str, u32)]) -> Fleet {
        let plan = |(name, site, slots): &(&str, &str, u32)| SpeNodePlan {
            node: node(name),
            place: Place::new(*site, "r"),
            slots: *slots,
            is_marked: false,
        };
        Fleet::new(&nodes.iter().map(plan).collect::<Vec<_>>(), Duration::from_secs(30))
    }

    fn at(millis: u64) -> Now {
        Now::default().after(Duration::from_millis(millis))
    }

    const ATTEMPT: AttemptId = AttemptId { job: JobId(1), stage: 0, epoch: 0, task: 3, attempt: 0 };

    #[test]
    fn an_spe_that_was_replaced_is_not_known_any_more() {
        let mut fleet = fleet(&[("a", "s", 1)]);
        let (old, _) = fleet.start_all(at(0))[0];
        assert!(fleet.ready(old));
        fleet.assign(at(0), old, ATTEMPT);
        let loss = fleet.lose_spe(at(0), old).unwrap();
        assert_eq!(loss, SpeLoss { node: node("a"), attempt: Some(ATTEMPT), node_given_up: false });
        assert_eq!(fleet.lose_spe(at(0), old), None, "told twice");
        assert_eq!(fleet.next_timeout(), Some(RESTART_PAUSE));
        assert_eq!(fleet.start_due(at(249)), []);
        let (new, _) = fleet.start_due(at(250))[0];
        assert_ne!(new, old);
        assert!(!fleet.ready(old) && fleet.ready(new));
        fleet.assign(at(300), new, ATTEMPT);
        assert!(fleet.ready(new), "told twice");
        assert_eq!(fleet.idle().count(), 0, "and still busy");
    }

    #[test]
    fn only_signs_of_life_move_the_deadline() {
        let mut fleet = fleet(&[("a", "s", 1)]);
        let (spe, _) = fleet.start_all(at(0))[0];
        fleet.ready(spe);
        assert_eq!(fleet.next_timeout(), None, "an idle SPE may be silent");
        fleet.assign(at(0), spe, ATTEMPT);
        fleet.progress(at(10_000), spe, 77);
        assert_eq!(fleet.bytes_in_progress(), 77);
        assert_eq!(fleet.silent(at(39_999)), []);
        assert_eq!(fleet.silent(at(40_000)), [spe]);
    }

    #[test]
    fn a_node_is_given_up_after_four_rounds_of_failed_starts_and_a_success_forgives() {
        let mut fleet = fleet(&[("a", "s", 2)]);
        let mut now = 0;
        let mut fail_once = |fleet: &mut Fleet, spe| {
            now += 10_000;
            fleet
                .lose_spe(at(now), spe)
                .map(|loss| (loss.node_given_up, fleet.start_due(at(now + 9_000))[0].0))
                .unwrap()
        };
        let mut spe = fleet.start_all(at(0))[0].0;
        for _ in 0..7 {
            let (given_up, next) = fail_once(&mut fleet, spe);
            assert!(!given_up);
            spe = next;
        }
        assert!(!fleet.is_free(&node("a")), "its starts fail: nobody waits for it");
        fleet.ready(spe);
        assert!(fleet.is_free(&node("a")));
        for round in 0..9 {
            let (given_up, next) = fail_once(&mut fleet, spe);
            // The first loss is that of an SPE that had been ready: it is not a failed start.
            assert_eq!(given_up, round == 8);
            spe = next;
        }
    }

    #[test]
    fn a_lost_node_takes_its_spes_along_and_starts_none() {
        let mut fleet = fleet(&[("a", "s", 2), ("b", "s", 1), ("c", "t", 0)]);
        let started = fleet.start_all(at(0));
        fleet.ready(started[0].0);
        fleet.assign(at(0), started[0].0, ATTEMPT);
        fleet.lose_spe(at(0), started[1].0);
        assert_eq!(fleet.lose_node(&node("a")), Some(vec![(started[0].0, Some(ATTEMPT))]));
        assert_eq!(fleet.lose_node(&node("a")), None);
        assert_eq!(fleet.start_due(at(99_999)), []);
        assert_eq!(*fleet.weights(), BTreeMap::from([(node("b"), 1)]));
        assert!(!fleet.is_live(&node("a")) && fleet.is_live(&node("b")) && !fleet.is_live(&node("x")));
    }

    #[test]
    fn busy_spes_are_replaced_and_idle_ones_kept() {
        let mut fleet = fleet(&[("a", "s", 2)]);
        let started = fleet.start_all(at(0));
        for (spe, _) in &started {
            fleet.ready(*spe);
        }
        fleet.assign(at(0), started[1].0, ATTEMPT);
        let replaced = fleet.replace_busy(at(0));
        assert_eq!(replaced.len(), 1);
        assert_eq!(replaced[0].0, started[1].0);
        assert_eq!(fleet.idle().collect::<Vec<_>>(), [(started[0].0, &node("a"))]);
    }
}
