//! A journal older than what the nodes know: restored from a backup or a machine snapshot, or on a disk that lost
//! acknowledged writes. Files written since would look like unpublished leftovers, so the journal is compared with the
//! nodes before anything is removed. A stale journal counts as lost (`docs/paths/rebuild.md`): it goes on under another
//! id, and names are rebuilt from it and the nodes. Until every known node has reported, a slice whose fate this life
//! has not decided is never touched on a node's disk.

use std::time::Duration;

use protocol::{
    JournalId, Now, SliceId, SliceMetadata,
    message::{
        node_master::HeldState,
        rebuild::{MirrorPosition, RebuildState},
    },
};
use store::RowChange;

use crate::{
    Master,
    fleet::nodes::NodeKey,
    log::rebuild::{
        local_changes, rebuild_rows,
        stale_journal::{DecidedSlices, Fork, GENERATION_MAX},
    },
    replicas::sweeps::Sweep,
};

impl Master {
    /// A slice's fate was decided in this master's life.
    pub(crate) fn note_decided(&mut self, slice: SliceId) {
        if self.has_all_reports() {
            return;
        }
        let decided = &mut self.log.rebuild.decided;
        if decided.slices.len() < DECIDED_MAX {
            decided.slices.insert(slice);
        } else {
            decided.is_full = true;
        }
    }

    /// Whether every known node has reported, so that this journal is known not to be stale.
    pub(crate) fn has_all_reports(&self) -> bool {
        self.log.rebuild.unreported_nodes.is_empty()
    }

    /// Whether a slice at a node is left alone, since the journal may not know it.
    pub(crate) fn is_held_back(&self, slice: SliceId, node: NodeKey) -> bool {
        self.has_unmerged_mirror(node) || (!self.has_all_reports() && !self.log.rebuild.decided.slices.contains(&slice))
    }

    /// Whether expired entries may be removed. By an old journal they may have expired, though not by newer knowledge.
    pub(crate) fn may_expire(&self, now: Now) -> bool {
        let has_waited = now.monotonic >= self.log.rebuild.started + EXPIRY_WAITS;
        self.has_all_reports() || (has_waited && self.log.rebuild.has_any_report)
    }

    /// A node has reported in this master's life, or never will.
    pub(super) fn note_node_reported(&mut self, id: &protocol::NodeId) -> Vec<RowChange> {
        if self.log.rebuild.unreported_nodes.remove(id) && self.log.rebuild.unreported_nodes.is_empty() {
            let mut changes = self.note_all_reported();
            changes.extend(self.forget_outdated_paths());
            return changes;
        }
        Vec::new()
    }

    /// Nothing is held back any longer.
    pub(super) fn note_all_reported(&mut self) -> Vec<RowChange> {
        self.log.rebuild.unreported_nodes.clear();
        self.log.rebuild.decided = DecidedSlices::default();
        let up: Vec<_> = self.fleet.nodes.iter().filter(|(_, node)| node.is_up()).map(|(key, _)| key).collect();
        self.replicas.sweeps.extend(up.into_iter().map(|key| Sweep::Node(key, 0)));
        let overtaken = std::mem::take(&mut self.log.rebuild.overtaken);
        let mut changes = self.forget_incarnations();
        changes.extend(overtaken.into_iter().map(rebuild_rows::remove_overtaken_row));
        changes
    }

    /// Whether a node's copy of this journal has a change that this line of its lives never counted.
    pub(super) fn is_ahead_of_journal(&self, mark: &MirrorPosition) -> bool {
        let (id, last) = (self.log.rebuild.id, self.log.mirror.sequence());
        !self.log.lineage.contains(id, last, id, mark.sequence)
    }

    /// Whether a node has a copy of another journal with knowledge that was never taken over.
    pub(crate) fn has_unmerged_mirror(&self, node: NodeKey) -> bool {
        self.log.rebuild.mirror_marks.get(&node).is_some_and(|mark| self.is_unmerged_mirror(mark))
    }

    /// Whether a copy belongs to another journal and was never taken over.
    pub(super) fn is_unmerged_mirror(&self, mark: &MirrorPosition) -> bool {
        let (id, last) = (self.log.rebuild.id, self.log.mirror.sequence());
        mark.journal != id && !self.log.lineage.contains(id, last, mark.journal, mark.sequence)
    }

    /// A slice of this journal stands at its path at a node, and has no name. A file is placed only after its commit
    /// was durable. So if this life knows nothing of it, and its version is newer than all that the journal had, the
    /// journal has lost that commit. The same holds where the journal had it as being written. A slice of a
    /// journal that this one does not know shows it too, at a node that it does know: that journal came later.
    pub(crate) fn proves_lost_commit(&self, key: NodeKey, metadata: &SliceMetadata, state: HeldState) -> bool {
        let header = &metadata.header;
        let is_known_node = || self.log.rebuild.unreported_nodes.contains(&self.fleet.nodes.get(key).id);
        let is_of_successor =
            || header.journal != JournalId(0) && !self.log.lineage.knows(header.journal) && is_known_node();
        state == HeldState::Placed
            && !self.log.rebuild.is_running()
            && (header.journal == self.log.rebuild.id || is_of_successor())
            && (header.version > self.log.rebuild.version_at_start
                || self.log.rebuild.overtaken.contains(&header.slice))
            && !self.has_all_reports()
            && !self.log.rebuild.decided.is_full
            && !self.log.rebuild.decided.slices.contains(&header.slice)
            && self.catalog.names().file_of_slice(header.slice).is_none()
    }

    /// Nodes know more than the journal. It goes on under a new id, so that every slice at the nodes is examined. Nodes
    /// have to join again, since their reports were judged by the old journal.
    pub(crate) fn mark_journal_stale(&mut self, now: Now, key: NodeKey, generation: u64, merges: bool) {
        let node = self.fleet.nodes.get(key).id.clone();
        let old = self.log.rebuild.id;
        tracing::error!(%node, journal = %old, "the journal is older than what nodes know; the names are put together anew");
        let mut changes = local_changes::clear_rows(&self.log.rebuild.local_changes);
        changes.extend(self.forget_forks());
        changes.extend(self.forget_nodes_told());
        let last = self.log.mirror.sequence();
        let life = self.log.lineage.first_change().map(|first| (first, last));
        // With too many changes, nobody knows which were this life's: then nothing of the journal is replaced.
        let merges = merges || self.log.rebuild.changed_rows.is_full();
        let mut fork = Fork { journal: old, base: self.log.rebuild.sequence_at_start, incarnation: life, merges };
        if !self.log.rebuild.is_running() {
            let (first, of_lives) = self.record_forks(fork, last);
            fork = first;
            changes.extend(of_lives);
            let aside = self.log.rebuild.conflicts.values().filter(|conflict| conflict.is_archived);
            self.log.rebuild.was_archived = aside.map(|conflict| conflict.metadata.header.slice).collect();
            changes.extend(self.log.rebuild.was_archived.iter().map(|slice| rebuild_rows::archived_row(*slice)));
        }
        changes.extend(local_changes::set_rows(&self.log.rebuild.local_changes));
        if self.log.rebuild.is_running() {
            changes.extend(self.age_local_changes());
        }
        changes.push(self.log.lineage.end(old, last));
        changes.push(rebuild_rows::fork_row(&fork));
        self.set_rebuild_state(RebuildState::Running);
        let rebuild = &mut self.log.rebuild;
        rebuild.fork = Some(fork);
        rebuild.id = JournalId(self.rng.u64(1..));
        rebuild.generation = rebuild.generation.max(generation).saturating_add(1).min(GENERATION_MAX);
        rebuild.ends = now.monotonic + self.config.rebuild_wait;
        rebuild.last_inventory = now.monotonic;
        (rebuild.restored_mirror, rebuild.mirror_read) = (None, None);
        (rebuild.files, rebuild.folders) = (0, 0);
        changes.push(rebuild.state_row());
        changes.push(self.events.log.begin_anew(now, self.log.rebuild.id));
        self.log.lineage.continue_as(self.log.rebuild.id, last);
        for key in self.fleet.nodes.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            self.log.mirror.remove_peer(key);
            if self.fleet.nodes.get(key).session.is_some() {
                self.mark_node_lost(now, key);
            }
        }
        self.log.rebuild.absent = self.log.rebuild.members.clone();
        changes.extend(self.note_all_reported());
        self.save(now, changes, Vec::new());
    }
}

/// Slices remembered while some node has not reported, about 50 MiB.
const DECIDED_MAX: usize = 1_000_000;

/// How long after its start a master that has not heard all nodes removes nothing by time. It is long enough for the
/// nodes of a starting cloud to join.
const EXPIRY_WAITS: Duration = Duration::from_secs(600);
