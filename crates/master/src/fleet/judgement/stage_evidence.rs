//! How long nodes take for a byte of their own files, beside other nodes in the same stage of the same job. The function
//! and the records are then alike. Nodes measure it, not drivers. Serves the path *judgement*. It never counts a task that
//! fetched anything from elsewhere.

use std::{collections::BTreeMap, time::Duration};

use protocol::{JobId, NodeId, message::marks::StageWork};

use super::comparison::{Comparison, compare};

/// What nodes did in the stages of jobs.
#[derive(Debug, Default)]
pub(crate) struct StageEvidence {
    by_stage: BTreeMap<(JobId, u32), Stage>,
}

/// A node, and how it compares in one stage.
pub(crate) struct JudgedNode {
    pub(crate) node: NodeId,
    /// Tells this stage from others.
    pub(crate) source: u64,
    pub(crate) comparison: Comparison,
}

#[derive(Debug, Default)]
struct Stage {
    newest: Duration,
    nodes: BTreeMap<NodeId, NodeSums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeSums {
    /// Since the last verdict.
    fresh: Work,
    /// Since the stage began.
    all: Work,
}

#[derive(Clone, Copy, Debug, Default)]
struct Work {
    bytes: f64,
    busy_micros: f64,
}

impl StageEvidence {
    /// What a node did in one stage since it last told.
    pub(crate) fn add(&mut self, now: Duration, node: &NodeId, work: &StageWork) {
        let key = (work.job, work.stage);
        if !self.by_stage.contains_key(&key) && self.by_stage.len() >= STAGES_MAX {
            let oldest = self.by_stage.iter().min_by_key(|(_, stage)| stage.newest).map(|(key, _)| *key);
            oldest.map(|key| self.by_stage.remove(&key));
        }
        let stage = self.by_stage.entry(key).or_default();
        stage.newest = now;
        let sums = stage.nodes.entry(node.clone()).or_default();
        sums.fresh.add(work);
        sums.all.add(work);
    }

    /// How the nodes compare that did something since the last time. Of several stages that one counts in which a node
    /// does best.
    pub(crate) fn judge(&mut self, now: Duration) -> Vec<JudgedNode> {
        self.by_stage.retain(|_, stage| now.saturating_sub(stage.newest) <= STAGE_LIFE);
        let mut judged: BTreeMap<NodeId, JudgedNode> = BTreeMap::new();
        for ((job, number), stage) in &mut self.by_stage {
            let all: Vec<_> = stage.nodes.iter().map(|(node, sums)| (node.clone(), sums.all)).collect();
            for (node, sums) in stage.nodes.iter_mut().filter(|(_, sums)| sums.fresh.is_enough()) {
                let peers = all.iter().filter(|(other, work)| other != node && work.is_enough());
                let own = std::mem::take(&mut sums.fresh);
                let Some(comparison) = compare(own.cost(), peers.map(|(_, work)| work.cost()).collect()) else {
                    continue;
                };
                let source = job.0.rotate_left(8) ^ u64::from(*number);
                let ratio = |of: &Comparison| of.cost / of.median;
                if judged.get(node).is_none_or(|best| ratio(&comparison) < ratio(&best.comparison)) {
                    judged.insert(node.clone(), JudgedNode { node: node.clone(), source, comparison });
                }
            }
        }
        judged.into_values().collect()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.by_stage.clear();
    }
}

impl Work {
    fn add(&mut self, work: &StageWork) {
        self.bytes += work.bytes as f64;
        self.busy_micros += work.busy_micros as f64;
    }

    fn is_enough(self) -> bool {
        self.busy_micros >= BUSY_MICROS_MIN && self.bytes > 0.0
    }

    /// Microseconds a byte.
    fn cost(self) -> f64 {
        self.busy_micros / self.bytes
    }
}

/// Stages that are kept: of more, the one that was quiet for longest is forgotten.
const STAGES_MAX: usize = 256;
/// How long a stage is kept of which nothing is heard.
const STAGE_LIFE: Duration = Duration::from_secs(600);
/// How long SPEs of a node must have worked: shorter tasks tell of starting rather than of working.
const BUSY_MICROS_MIN: f64 = 200_000.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fleet::judgement::comparison::Verdict;

    fn work(job: u64, stage: u32, bytes: u64, busy_micros: u64) -> StageWork {
        StageWork { job: JobId(job), stage, bytes, busy_micros }
    }

    fn node(number: usize) -> NodeId {
        NodeId::new(format!("n{number}")).unwrap()
    }

    fn verdicts(evidence: &mut StageEvidence) -> Vec<(String, Verdict)> {
        let judged = evidence.judge(Duration::from_secs(1));
        judged.iter().map(|it| (it.node.to_string(), it.comparison.verdict)).collect()
    }

    #[test]
    fn a_node_is_compared_with_others_in_the_same_stage_alone() {
        let mut evidence = StageEvidence::default();
        for number in 0..4 {
            let slow = if number == 3 { 5 } else { 1 };
            evidence.add(Duration::ZERO, &node(number), &work(1, 0, 1 << 20, 1_000_000 * slow));
            // Another function may take a hundred times as long.
            if number < 2 {
                evidence.add(Duration::ZERO, &node(number), &work(1, 1, 1 << 20, 100_000_000));
            }
        }
        let found = verdicts(&mut evidence);
        assert_eq!(found[3], ("n3".into(), Verdict::Slow));
        assert!(found[..3].iter().all(|(_, verdict)| *verdict == Verdict::Fine), "{found:?}");
        assert!(verdicts(&mut evidence).is_empty(), "nothing was done since");
        evidence.add(Duration::ZERO, &node(3), &work(1, 0, 1 << 20, 5_000_000));
        assert_eq!(verdicts(&mut evidence), [("n3".into(), Verdict::Slow)], "the others have done their part before");
    }

    #[test]
    fn a_node_that_is_slow_in_one_stage_and_fine_in_another_is_fine() {
        let mut evidence = StageEvidence::default();
        for number in 0..4 {
            let slow = if number == 3 { 9 } else { 1 };
            evidence.add(Duration::ZERO, &node(number), &work(1, 0, 1 << 20, 1_000_000 * slow));
            evidence.add(Duration::ZERO, &node(number), &work(2, 0, 1 << 20, 1_000_000));
        }
        assert!(verdicts(&mut evidence).iter().all(|(_, verdict)| *verdict == Verdict::Fine));
    }

    #[test]
    fn short_tasks_and_idle_nodes_say_nothing_and_memory_is_bounded() {
        let mut evidence = StageEvidence::default();
        (0..4).for_each(|number| evidence.add(Duration::ZERO, &node(number), &work(1, 0, 1 << 20, 1_000)));
        assert!(verdicts(&mut evidence).is_empty());
        (0..10_000).for_each(|job| evidence.add(Duration::from_millis(job), &node(0), &work(job, 0, 1, 1)));
        assert_eq!(evidence.by_stage.len(), STAGES_MAX);
        evidence.judge(Duration::from_secs(10_000));
        assert!(evidence.by_stage.is_empty());
    }
}
