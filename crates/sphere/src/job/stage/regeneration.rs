//! What of a stage is made again when a node or a bucket is lost (`docs/paths/job-lost-results.md`). It decides which
//! buckets are still needed, which pieces are sent again, and which tasks are done again because no node kept theirs.
//! It never says what is lost: [`recovery`](crate::job) does, stage by stage.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    NodeId,
    message::{client_master::StageRecord, spe::BucketId},
};

use super::{Stage, Winner};
use crate::{bucket::PieceSlot, job::action::Placement, schedule::fleet::Fleet, stream::Stream};

impl Stage {
    /// A node was lost, and its contents have been dealt with.
    pub(crate) fn forget_node(&mut self, fleet: &Fleet, node: &NodeId) {
        self.pool.forget_node(fleet, node);
    }

    /// Buckets at `node` whose content is still needed. `next` is the stage that reads them, once it has begun.
    pub(crate) fn needed_at(&self, node: &NodeId, next: Option<&Self>) -> Vec<u32> {
        let mut here = self.buckets.at(node);
        here.retain(|bucket| next.is_none_or(|next| next.needs(*bucket)));
        here
    }

    /// Tasks that are done and whose pieces `node` had not sent yet.
    pub(crate) fn undelivered_at(&self, node: &NodeId) -> BTreeSet<u32> {
        self.deliveries.tasks_at(node).into_iter().collect()
    }

    /// These buckets are gone. Pieces that their nodes have kept are to be sent again. Gives the tasks whose pieces no
    /// node has.
    pub(crate) fn lose_buckets(&mut self, fleet: &Fleet, numbers: &[u32]) -> BTreeSet<u32> {
        let mut again = BTreeSet::new();
        let mut by_task: BTreeMap<u32, Vec<PieceSlot>> = BTreeMap::new();
        for (task, spot) in self.buckets.regenerate(numbers, &self.bucket_shares.weights(fleet)) {
            by_task.entry(task).or_default().push(spot);
        }
        for (task, spots) in by_task {
            match self.tasks[task as usize].winner.as_ref() {
                // A task whose results stay where it ran has kept nothing: its piece became the bucket.
                Some(winner) if *self.buckets.placement() != Placement::Local && fleet.is_live(&winner.node) => {
                    self.deliveries.request(task, &winner.node, winner.attempt, spots);
                }
                Some(_) => {
                    again.insert(task);
                }
                // It is being done again already.
                None => {}
            }
        }
        again
    }

    /// Moves buckets that hold nothing away from `node`.
    pub(crate) fn relocate_empty_buckets(&mut self, fleet: &Fleet, node: &NodeId) {
        self.buckets.relocate_empty(node, &self.bucket_shares.weights(fleet));
    }

    /// These tasks are to be done again. Gives the numbers of the buckets that they read, if they read buckets.
    pub(crate) fn rerun(&mut self, fleet: &Fleet, tasks: &BTreeSet<u32>, record: &mut StageRecord) -> Vec<u32> {
        let done = tasks.iter().copied().filter(|task| self.tasks[*task as usize].winner.is_some());
        let done: BTreeSet<u32> = done.collect();
        let mut inputs = Vec::new();
        for (task, former) in self.buckets.pieces_by_task(&done) {
            self.deliveries.forget(task);
            let state = &mut self.tasks[task as usize];
            if let Some(Winner { account, .. }) = state.winner.take() {
                record.done -= state.segments.len() as u64;
                record.local -= u64::from(account.local);
                record.bytes_in -= account.bytes_in;
                record.bytes_out -= account.bytes_out;
                self.counter_totals.subtract(&account.counted);
            }
            state.past.get_or_insert_default().previous = Some(former);
            self.counts.bytes_done -= state.segments.bytes();
            self.unfinished += 1;
            if let Stream::Buckets(buckets) = &self.stream {
                inputs.push(buckets[self.pool.member(task)].bucket.bucket);
            }
        }
        if !done.is_empty() {
            self.buckets.reopen();
        }
        for task in done {
            self.enqueue(fleet, task);
        }
        inputs
    }

    /// The driver was replaced. What was under way is ordered again, and attempts begin with a number that the old
    /// driver cannot have used.
    pub(crate) fn resume_after_takeover(&mut self, attempts_from: u32) {
        self.attempts_from = attempts_from;
        self.buckets.reissue();
        self.deliveries.reissue();
    }

    /// The input buckets of these numbers are being made again: the tasks that read them wait.
    pub(crate) fn suspend(&mut self, fleet: &Fleet, buckets: &[u32]) {
        for bucket in buckets {
            let Some(task) = self.reader(*bucket) else { continue };
            self.tasks[task as usize].lacks_input = true;
            self.pool.remove(fleet, task);
        }
    }

    /// A bucket that was made again is at `node` now.
    pub(crate) fn resume(&mut self, fleet: &Fleet, bucket: BucketId, node: &NodeId) {
        let Some(task) = self.reader(bucket.bucket) else { return };
        let state = &mut self.tasks[task as usize];
        if let Stream::Buckets(buckets) = &mut self.stream {
            let input = &mut buckets[self.pool.member(task)];
            input.bucket = bucket;
            input.node = node.clone();
        }
        self.pool.move_to(task, node.clone());
        state.lacks_input = false;
        let is_paused = self.paused.iter().any(|(_, paused)| *paused == task);
        if state.winner.is_none() && !self.running_attempts.contains_key(&task) && !is_paused {
            self.enqueue(fleet, task);
        }
    }
}
