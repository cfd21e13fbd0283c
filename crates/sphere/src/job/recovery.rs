//! What a job does when results are gone (Sector/Sphere paper, 3.5.2). Only what was lost is made again, and only if
//! something is yet to read it. It never makes again what is in the output already, nor a bucket whose reader is done
//! and whose results are safe.

use std::collections::BTreeSet;

use protocol::{NodeId, Now, Refusal, message::spe::AttemptId};

use super::Job;
use crate::{JobAction, SphereError};

impl Job {
    /// A node is gone, with everything of the job that it had.
    ///
    /// A lost bucket starts anew at another node. Its pieces come from the nodes that made them, which have kept what
    /// they sent. If such a node is gone too, or kept nothing, that one task is done again and sends only the missing
    /// pieces. A task that reads a bucket of the stage before needs that bucket for this. If it is gone as well, it is
    /// made again in the same way. This goes down to the files of the input, which have copies of their own.
    pub(super) fn lose_node(&mut self, node: &NodeId) {
        let Some(spes) = self.fleet.lose_node(node) else { return };
        for (spe, attempt) in spes {
            self.actions.push_back(JobAction::DropSpe(spe));
            if let Some(attempt) = attempt
                && let Some(stage) = self.stages.get_mut(attempt.stage as usize)
            {
                stage.requeue(&self.fleet, attempt);
            }
        }
        if self.fleet.weights().is_empty() {
            return self.end(Err(SphereError::NoNodes));
        }
        // From the last stage down: what a stage must do again decides which results of the stage before are still
        // needed.
        for number in (0..self.stages.len()).rev() {
            let (stages, next) = self.stages.split_at_mut(number + 1);
            let stage = &mut stages[number];
            stage.relocate_empty_buckets(&self.fleet, node);
            let lost = stage.needed_at(node, next.first());
            let undelivered = stage.undelivered_at(node);
            self.regenerate_buckets(number, &lost);
            self.rerun_tasks(number, &undelivered);
        }
        for stage in &mut self.stages {
            stage.forget_node(&self.fleet, node);
        }
    }

    /// One bucket is gone although its node lives: it was started again, or its disk failed.
    pub(super) fn lose_bucket(&mut self, now: Now, stage: u32, bucket: u32, why: String) {
        let Some(found) = self.stages.get_mut(stage as usize) else { return };
        if found.buckets.count_loss(bucket) > LOSSES_MAX {
            return self.begin_epoch(now, why);
        }
        self.regenerate_buckets(stage as usize, &[bucket]);
    }

    /// Pieces that a node should have kept are unavailable, or cannot be brought to their buckets.
    pub(super) fn refuse_delivery(&mut self, now: Now, attempt: AttemptId, refusal: Refusal) {
        let attempts_max = self.plan.attempts_max;
        let Some(stage) = self.stage_of(attempt) else { return };
        match stage.delivery_refused(now, attempt, refusal.status()) {
            None => {}
            Some(failures) if failures >= attempts_max => {
                let (path, _) = stage.task_name(attempt);
                self.end(Err(SphereError::Task { path, failures, last: refusal }));
            }
            Some(_) => self.rerun_tasks(attempt.stage as usize, &BTreeSet::from([attempt.task])),
        }
    }

    /// A bucket of an earlier stage is final again: its reader may go on.
    pub(super) fn resume_reader(&mut self, stage: u32, bucket: u32) {
        let (stages, next) = self.stages.split_at_mut(stage as usize + 1);
        if let Some(next) = next.first_mut()
            && let Some((id, node)) = stages[stage as usize].buckets.sealed_at(bucket)
        {
            next.resume(&self.fleet, id, &node);
        }
    }

    /// Makes buckets of a stage again.
    fn regenerate_buckets(&mut self, number: usize, buckets: &[u32]) {
        if buckets.is_empty() {
            return;
        }
        if let Some(reader) = self.stages.get_mut(number + 1) {
            reader.suspend(&self.fleet, buckets);
        }
        let tasks = self.stages[number].lose_buckets(&self.fleet, buckets);
        self.rerun_tasks(number, &tasks);
    }

    /// Does tasks of a stage again, and makes their input again if that is gone.
    fn rerun_tasks(&mut self, number: usize, tasks: &BTreeSet<u32>) {
        if tasks.is_empty() {
            return;
        }
        let inputs = self.stages[number].rerun(&self.fleet, tasks, &mut self.records[number]);
        let Some(before) = number.checked_sub(1) else { return };
        let buckets = &self.stages[before].buckets;
        let is_gone = |bucket: &u32| buckets.node_of(*bucket).is_some_and(|node| !self.fleet.is_live(node));
        let gone: Vec<u32> = inputs.into_iter().filter(is_gone).collect();
        self.regenerate_buckets(before, &gone);
    }
}

/// Times one bucket may be lost while its node lives, before the whole job is begun anew. A node that is started again
/// loses each bucket once. A node whose disk loses what it is given cannot keep the bucket.
const LOSSES_MAX: u32 = 8;
