//! Walks over many slices step by step, between other work: after a rename, a new policy, the return of a node, or a
//! restart. Each slice on the way is [reconciled](super::reconcile). It never keeps a client waiting for longer than
//! one step.

use protocol::{FileId, Now};

use crate::{
    Master, catalog::compact_storage::Slot, fleet::nodes::NodeKey, log::journal_writes::Effect, replicas::sweeps::Sweep,
};

impl Master {
    /// Whether [`sweep`](Self::sweep) has anything to do.
    pub(crate) fn has_sweeps(&self) -> bool {
        !self.replicas.sweeps.is_empty() || self.may_purge_removals()
    }

    /// Does one step of the oldest sweep.
    pub(crate) fn sweep(&mut self, now: Now) {
        if self.may_purge_removals() {
            let change = self.catalog.purge_pending_removals(SWEEP_STEP);
            self.save(now, change.rows, change.freed.into_iter().map(Effect::Reconcile).collect());
        }
        let Some(sweep) = self.replicas.sweeps.pop_front() else { return };
        let rest = match sweep {
            Sweep::Moved(entries) => self.sweep_moved(now, entries),
            Sweep::Node(node, from) => self.sweep_node(now, node, from),
            Sweep::All(from) => {
                let (slices, next) = self.catalog.names().slices_from(from, SWEEP_STEP);
                for slice in slices {
                    self.reconcile_slice(now, slice);
                    if let Some(file) = self.catalog.names().file_of_slice(slice) {
                        self.catalog.note_lifetime(file);
                    }
                }
                next.map(Sweep::All)
            }
            Sweep::Blocked { after, all } => {
                let slices = self.replicas.queue.blocked_after(after, all, SWEEP_STEP);
                for slice in &slices {
                    self.check_replication(now, *slice);
                }
                slices.last().map(|last| Sweep::Blocked { after: Some(*last), all })
            }
            Sweep::Expire(left) => self.sweep_expired(now, left),
        };
        if let Some(rest) = rest {
            self.replicas.sweeps.push_front(rest);
        }
    }

    /// Rows of cut-off entries go only as fast as the journal takes them: otherwise they would pile up.
    fn may_purge_removals(&self) -> bool {
        self.catalog.names().has_pending_removals() && self.log.journal_writes.has_room()
    }

    fn sweep_moved(&mut self, now: Now, mut entries: Vec<(FileId, Option<Box<str>>)>) -> Option<Sweep> {
        let mut steps = SWEEP_STEP;
        while steps > 0 {
            let (entry, after) = entries.pop()?;
            if let Some(slice) = self.catalog.names().slice_of(entry) {
                self.note_decided(slice);
                self.reconcile_slice(now, slice);
                self.catalog.note_lifetime(entry);
                steps -= 1;
                continue;
            }
            let children = self.catalog.names().children_after(entry, after.as_deref(), steps);
            steps = steps.saturating_sub(1);
            if let Some(last) = children.last() {
                entries.push((entry, Some(self.catalog.names().name(*last).into())));
            }
            entries.extend(children.into_iter().map(|child| (child, None)));
        }
        Some(Sweep::Moved(entries))
    }

    fn sweep_node(&mut self, now: Now, key: NodeKey, from: Slot) -> Option<Sweep> {
        let node = self.fleet.nodes.get(key);
        let (epoch, is_up, is_removed) = (node.epoch, node.is_up(), node.is_removed());
        let (slices, next) = self.replicas.table.held_by(key, from, SWEEP_STEP);
        for slice in slices {
            // A replica not named in a complete inventory does not exist.
            let is_stale = self.replicas.table.at(slice, key).is_some_and(|replica| replica.epoch != epoch);
            if (is_up && is_stale) || is_removed {
                self.forget_replica(slice, key);
            }
            self.reconcile_slice(now, slice);
        }
        next.map(|next| Sweep::Node(key, next))
    }
}

/// Entries or replicas processed in one step of a sweep: about a millisecond, so that no client waits for a sweep.
const SWEEP_STEP: usize = 512;
