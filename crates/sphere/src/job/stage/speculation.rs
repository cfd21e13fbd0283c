//! Begins a second attempt beside a slow one, at another node (Sector/Sphere paper, 3.5.2). How long an attempt may
//! take is said by the [threshold](crate::schedule::slow_threshold). It never ends the slow attempt: the first of the
//! two to finish wins (`docs/paths/job-stragglers.md`).

use std::time::Duration;

use protocol::{NodeId, Now, message::client_master::StageRecord};

use super::Stage;
use crate::{SpeId, job::action::Assignment, schedule::fleet::Fleet};

impl Stage {
    /// Gives idle SPEs a second attempt at tasks whose only attempt is slow. To be asked when no task waits.
    pub(crate) fn speculate(&mut self, now: Now, fleet: &mut Fleet, record: &mut StageRecord) -> Vec<Assignment> {
        let mut begun = Vec::new();
        for task in self.slow_tasks(now) {
            // A marked node is unlikely to win.
            let may_rival = |(_, node): &(SpeId, &NodeId)| fleet.is_preferred(node) && self.may_speculate(task, node);
            let Some((spe, node)) = fleet.idle().find(may_rival) else { continue };
            let (spe, node) = (spe, node.clone());
            record.speculative += 1;
            self.pool.add_reader(task);
            let assignment = self.begin_attempt(now, fleet, task, spe, &node);
            fleet.assign(now, spe, assignment.attempt);
            begun.push(assignment);
        }
        begun
    }

    /// When the next attempt that is not slow yet becomes slow. A task that is slow already waits for an SPE of another
    /// node, not for a time.
    pub(super) fn next_slow(&self, now: Duration) -> Option<Duration> {
        self.running_attempts.keys().filter_map(|task| self.slow_at(*task)).filter(|due| *due > now).min()
    }

    /// Tasks whose only attempts are slow, in order.
    fn slow_tasks(&self, now: Now) -> Vec<u32> {
        let is_late = |task: &u32| self.slow_at(*task).is_some_and(|due| due <= now.monotonic);
        self.running_attempts.keys().copied().filter(is_late).collect()
    }

    /// Whether an SPE of `node` may make an attempt at a task beside a slow one.
    fn may_speculate(&self, task: u32, node: &NodeId) -> bool {
        let mut running = self.running_attempts.get(&task).into_iter().flatten();
        running.all(|running| running.node != *node) && !self.pool.has_failed_at(task, node)
    }

    /// When the only attempt at a task counts as slow.
    fn slow_at(&self, task: u32) -> Option<Duration> {
        let state = &self.tasks[task as usize];
        // A bucket can only be read where it lies; a rival there would have the same fate as the first attempt.
        let [running] = &self.running_attempts.get(&task)?[..] else { return None };
        let (not_begun, rival_from) =
            state.past.as_ref().map_or((0, Duration::ZERO), |past| (past.not_begun, past.speculate_after));
        if self.stream.is_pinned() || state.begun - not_begun > SPECULATION_ATTEMPTS_MAX {
            return None;
        }
        let slow_after = self.slow_threshold.slow_after(state.segments.bytes(), running.read_bytes)?;
        Some(running.began.saturating_add(slow_after).max(rival_from))
    }
}

/// A task that was begun this often gets no more rivals: the nodes are not the cause of its slowness.
const SPECULATION_ATTEMPTS_MAX: u32 = 6;
