//! Rebuilds the names from the nodes after the journal was lost. (Paper, 2.2: "Sector can recover all the metadata it
//! requires by simply scanning the data directories on each slave".) Serves `docs/paths/rebuild.md`; the reasons are in
//! `docs/decisions/0012-lost-journal.md`. Until it ends, names are read-only and nothing on the nodes' disks is moved
//! or removed, so no order of arrival can do harm. It never decides silently: every doubt is listed, and a loser is
//! kept.

use protocol::{
    NodeId, Now, Reason, Refusal,
    message::{
        rebuild::{MirrorPosition, RebuildState},
        request::Properties,
    },
};
use store::RowChange;

use crate::{
    Master,
    actions::MEMBERS_TABLE,
    catalog::namespace::ROOT,
    fleet::nodes::NodeKey,
    log::{
        journal_writes::Effect,
        rebuild::{
            local_changes,
            local_changes::LocalChanges,
            rebuild_rows,
            stale_journal::{GENERATION_MAX, is_implausible},
        },
    },
    replicas::sweeps::Sweep,
};

impl Master {
    /// Takes a node's report of its copy of the small rows; it comes before the inventory.
    pub(crate) fn note_mirror_mark(&mut self, now: Now, key: NodeKey, mark: Option<MirrorPosition>, all_seen: bool) {
        let Some(mark) = mark else { return };
        if is_implausible(&mark) {
            let node = &self.fleet.nodes.get(key).id;
            return tracing::error!(%node, ?mark, "a node's copy says what no journal can have said; it is not believed");
        }
        if !all_seen {
            self.log.rebuild.partly_mirrored.insert(key);
        }
        if mark.journal == self.log.rebuild.id {
            if self.is_ahead_of_journal(&mark) {
                return self.mark_journal_stale(now, key, mark.generation, false);
            }
            self.log.rebuild.mirror_marks.insert(key, mark);
            // This generation was given out, but the row that records it was not saved in time.
            return self.raise_generation(now, mark.generation);
        }
        self.log.rebuild.mirror_marks.insert(key, mark);
        // This journal knows all that the others knew, or will: it counts as newer.
        self.raise_generation(now, mark.generation.saturating_add(1));
        // If this journal has a past, the node's rows are read before anything is decided. The node's journal may have
        // been rebuilt from this one, which was restored since, or belong to another cloud.
        if !(self.log.rebuild.has_past && self.log.rebuild.state == RebuildState::New && self.has_unmerged_mirror(key))
        {
            self.begin_rebuild(now);
        }
        self.advance_mirror_read(now);
    }

    /// Takes a node's report on the disks whose slices it lists next. If it names, for a disk, a change that this
    /// journal never counted, the journal is known to be stale.
    pub(crate) fn note_disks_seen(&mut self, now: Now, key: NodeKey, seen: Option<MirrorPosition>) {
        let seen = seen.filter(|mark| !is_implausible(mark));
        self.log.rebuild.disks_seen.insert(key, seen);
        if let Some(mark) = seen.filter(|mark| mark.journal == self.log.rebuild.id && self.is_ahead_of_journal(mark)) {
            self.mark_journal_stale(now, key, mark.generation, false);
        }
    }

    /// Whether the disks that a node reports now have been seen whole under this journal. Then the fate of all their
    /// slices is decided. Each disk carries this mark itself, so another disk in its place is not mistaken for it.
    pub(crate) fn has_seen_disks(&self, node: NodeKey) -> bool {
        let of_journal = |mark: &MirrorPosition| mark.journal == self.log.rebuild.id;
        match self.log.rebuild.disks_seen.get(&node) {
            Some(seen) => seen.as_ref().is_some_and(|mark| of_journal(mark) && !self.is_ahead_of_journal(mark)),
            None => {
                self.log.rebuild.mirror_marks.get(&node).is_some_and(of_journal)
                    && !self.log.rebuild.partly_mirrored.contains(&node)
            }
        }
    }

    fn raise_generation(&mut self, now: Now, generation: u64) {
        if generation > self.log.rebuild.generation {
            self.log.rebuild.generation = generation.min(GENERATION_MAX);
            let row = self.log.rebuild.state_row();
            self.save(now, vec![row], Vec::new());
        }
    }

    /// A node has completed its inventory.
    pub(crate) fn note_inventory_complete(&mut self, now: Now, key: NodeKey) {
        let id = self.fleet.nodes.get(key).id.clone();
        self.log.rebuild.absent.remove(&id);
        self.log.rebuild.last_inventory = now.monotonic;
        self.log.rebuild.has_any_report = true;
        let mut rows = self.note_node_reported(&id);
        rows.extend(self.clear_tombstones_after_inventory(key));
        rows.extend(self.clear_missed_changes_after_inventory(key));
        if self.log.rebuild.members.insert(id.clone()) {
            rows.push(rebuild_rows::member_row(&id));
        }
        // It gets this journal's rows only after everything found at it is durable: from then on its disk counts as
        // seen.
        self.save(now, rows, vec![Effect::InventoryTaken(key)]);
        self.finish_rebuild_if_complete(now);
    }

    /// A node's inventory is complete and durable.
    pub(crate) fn start_mirroring(&mut self, now: Now, key: NodeKey) {
        let node = self.fleet.nodes.get(key);
        // Rows that were never taken over are not replaced.
        if node.is_up() && !self.log.rebuild.is_running() && !self.has_unmerged_mirror(key) {
            // A whole copy again if a disk has not seen one: with it the node records that it has.
            let is_seen = !self.log.rebuild.partly_mirrored.contains(&key);
            let mark = self.log.rebuild.mirror_marks.get(&key).copied().filter(|_| is_seen);
            self.log.mirror.add_peer(key, mark);
            self.send_mirror_updates(now);
        }
    }

    /// A node joined, or was lost: its earlier report is void.
    pub(crate) fn note_node_absent(&mut self, key: NodeKey) {
        let id = self.fleet.nodes.get(key).id.clone();
        self.log.mirror.remove_peer(key);
        self.log.rebuild.mirror_marks.remove(&key);
        self.log.rebuild.partly_mirrored.remove(&key);
        self.log.rebuild.disks_seen.remove(&key);
        if self.log.rebuild.mirror_read.as_ref().is_some_and(|gather| gather.node == key) {
            self.log.rebuild.mirror_read = None;
        }
        if self.log.rebuild.members.contains(&id) {
            self.log.rebuild.absent.insert(id);
        }
    }

    /// Forgets a node that will never come back; nothing waits for it any longer.
    pub(crate) fn forget_member(&mut self, now: Now, id: &NodeId) {
        self.log.rebuild.absent.remove(id);
        let mut changes = self.note_node_reported(id);
        changes.extend(self.clear_tombstones(id, |_| true));
        changes.extend(self.clear_missed_changes_of(id));
        if self.log.rebuild.members.remove(id) {
            changes.push(RowChange::Remove { table: MEMBERS_TABLE, key: id.as_str().into() });
        }
        self.save(now, changes, Vec::new());
        self.finish_rebuild_if_complete(now);
    }

    /// The refusal of a request that would change names during a rebuild.
    pub(crate) fn refuse_while_rebuilding(&self, asked: &Properties<'_>) -> Option<Refusal> {
        (self.log.rebuild.is_running() && !asked.is_answered_during_rebuild).then(|| self.rebuilding_refusal())
    }

    /// The refusal during a rebuild.
    pub(crate) fn rebuilding_refusal(&self) -> Refusal {
        Refusal::new(Reason::Rebuilding, format!("nothing can be changed yet: {}", self.rebuild_message()))
    }

    /// The progress of a rebuild, as text for people.
    pub(crate) fn rebuild_message(&self) -> String {
        let (missing, all) = (self.log.rebuild.absent.len(), self.log.rebuild.members.len());
        let names: Vec<_> = self.log.rebuild.absent.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        let who = if missing > names.len() { format!("{} and others", names.join(", ")) } else { names.join(", ") };
        let rest = match missing {
            0 => "it waits for nodes that nobody may know of".to_owned(),
            _ => format!("{missing} of {all} nodes have not told what they hold ({who}); start them"),
        };
        let why = match self.log.rebuild.fork {
            Some(_) => "the journal was older than what the nodes know, as after a backup was put back: ",
            None => "",
        };
        format!("{why}the names are being put together from the nodes' disks and {rest}, or `sector rebuild finish`")
    }

    /// Does the timed work of a rebuild.
    pub(crate) fn watch_rebuild(&mut self, now: Now) {
        let is_due = now.monotonic >= self.log.rebuild.ends;
        match self.log.rebuild.state {
            // An unused journal stays new, however long: the nodes of an old cloud may still come.
            RebuildState::New if is_due && !self.log.rebuild.members.is_empty() => {
                self.set_rebuild_state(RebuildState::Settled);
                let row = self.log.rebuild.state_row();
                self.save(now, vec![row], Vec::new());
            }
            RebuildState::Running if is_due => self.finish_rebuild(now),
            // If no node has a copy, nobody knows which nodes exist: those that come, come soon.
            RebuildState::Running
                if self.log.rebuild.restored_mirror.is_none() && self.log.rebuild.absent.is_empty() =>
            {
                self.advance_mirror_read(now);
                let is_quiet = now.monotonic >= self.log.rebuild.last_inventory + self.config.replicate_after;
                if is_quiet && self.log.rebuild.mirror_read.is_none() && self.log.rebuild.restored_mirror.is_none() {
                    self.finish_rebuild(now);
                }
            }
            RebuildState::New | RebuildState::Running | RebuildState::Settled => self.advance_mirror_read(now),
        }
    }

    /// The catalogue is told too: during a rebuild it trusts no folder's list of rights.
    pub(super) fn set_rebuild_state(&mut self, state: RebuildState) {
        self.log.rebuild.state = state;
        self.catalog.set_rebuilding(self.log.rebuild.is_running());
    }

    /// Something of another journal was seen: if this one is young, names are rebuilt before anything else.
    pub(crate) fn begin_rebuild(&mut self, now: Now) {
        if self.log.rebuild.state != RebuildState::New {
            return;
        }
        tracing::warn!(journal = %self.log.rebuild.id, "the nodes know an older journal; the names are put together anew");
        self.set_rebuild_state(RebuildState::Running);
        self.log.rebuild.ends = now.monotonic + self.config.rebuild_wait;
        // Changes that people have made meanwhile stand.
        (self.log.rebuild.local_changes, _) = self.collect_local_changes(true);
        let mut changes = vec![self.log.rebuild.state_row()];
        changes.extend(local_changes::set_rows(&self.log.rebuild.local_changes));
        changes.extend(self.note_all_reported());
        // Copies that were given away already belong to a journal without a past.
        for key in self.fleet.nodes.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            self.log.mirror.remove_peer(key);
        }
        self.save(now, changes, Vec::new());
    }

    /// This journal is young, and had nodes before this master's life. What a node kept is not of its successor, so names
    /// are rebuilt as if no node had come. Nodes join again: their reports were judged while nothing was rebuilt.
    pub(super) fn begin_rebuild_of_reported(&mut self, now: Now) {
        self.begin_rebuild(now);
        for key in self.fleet.nodes.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            if self.fleet.nodes.get(key).session.is_some() {
                self.mark_node_lost(now, key);
            }
        }
    }

    /// Ends a rebuild that waits for nobody any more.
    pub(crate) fn finish_rebuild_if_complete(&mut self, now: Now) {
        // A stale journal names its nodes itself, if any had reported by the time of its state.
        let names_nodes = self.log.rebuild.fork.is_some() && !self.log.rebuild.members.is_empty();
        // A copy that tells of nodes alone is believed if there are files beside it. A node without any may have come
        // first, with a copy of a journal that was lost before others joined it.
        let is_beside_files =
            !self.log.rebuild.nodes_told.is_empty() && !self.catalog.names().children(ROOT).is_empty();
        let knows_nodes = self.log.rebuild.restored_mirror.is_some() || names_nodes || is_beside_files;
        let knows_all = knows_nodes && self.log.rebuild.absent.is_empty();
        if self.log.rebuild.is_running()
            && knows_all
            && self.newest_mirror().is_none()
            && self.log.rebuild.mirror_read.is_none()
        {
            self.finish_rebuild(now);
        }
    }

    /// Nothing is taken any more from copies that may know less of nodes.
    pub(super) fn forget_nodes_told(&mut self) -> Option<RowChange> {
        let was_told = !std::mem::take(&mut self.log.rebuild.nodes_told).is_empty();
        was_told.then(|| rebuild_rows::nodes_told_row(&self.log.rebuild.nodes_told))
    }

    /// Ends a rebuild: names may be changed again, and the nodes' disks are brought into agreement with them.
    pub(crate) fn finish_rebuild(&mut self, now: Now) {
        let mut changes = self.remove_empty_made_folders();
        changes.extend(self.forget_conflicts_of_nothing(now));
        let (missing, looks) = self.list_missing();
        changes.extend(missing);
        self.set_rebuild_state(RebuildState::Settled);
        self.log.rebuild.runs_since_start = false;
        self.log.rebuild.mirror_read = None;
        changes.extend(self.forget_nodes_told());
        self.log.rebuild.version_floor = self.catalog.names().last_version();
        self.log.rebuild.retired.clear();
        self.log.rebuild.renamed.clear();
        changes.extend(self.forget_not_in_mirror());
        let was_aside = std::mem::take(&mut self.log.rebuild.was_archived);
        changes.extend(was_aside.into_iter().map(rebuild_rows::remove_archived_row));
        changes.extend(self.forget_incarnations());
        changes.extend(self.forget_outdated_paths());
        changes.extend(self.forget_forks());
        changes.extend(local_changes::clear_rows(&self.log.rebuild.local_changes));
        self.log.rebuild.local_changes = LocalChanges::default();
        changes.extend(self.log.rebuild.fork.take().map(|_| rebuild_rows::remove_fork_row()));
        changes.push(self.log.rebuild.state_row());
        tracing::info!(
            files = self.log.rebuild.files,
            conflicts = self.log.rebuild.conflicts.len(),
            "the names are rebuilt"
        );
        let up: Vec<_> = self.fleet.nodes.iter().filter(|(_, node)| node.is_up()).map(|(key, _)| key).collect();
        let effects = up.iter().copied().map(Effect::InventoryTaken).chain(looks).collect();
        self.save(now, changes, effects);
        self.delay_replication(now);
        self.replicas.sweeps.push_back(Sweep::All(0));
        self.replicas.sweeps.extend(up.into_iter().map(|key| Sweep::Node(key, 0)));
    }
}

/// Nodes named in a sentence.
const NAMED_MAX: usize = 5;
