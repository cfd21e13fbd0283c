//! Takes the small rows back from the node with the newest copy. They are folders with ids and owners, policies,
//! quotas, known nodes, and removals that some node missed. Copies come in pages, on request. A node that comes later
//! may have a newer copy. Then that one is taken, and the files found so far are named again in it. It never takes a
//! table that it does not know.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    FileId, Now, SliceId, UserName,
    message::{
        client_master::Entry,
        node_master::Order,
        rebuild::{ConflictKind, MirrorKey, MirrorPosition, MirrorRow, RebuildState},
    },
};
use store::RowChange;

use crate::{
    Master,
    actions::{
        CONFLICTS_TABLE, LINEAGE_TABLE, MEMBERS_TABLE, NAMES_TABLE, NODES_TABLE, POLICIES_TABLE, QUOTAS_TABLE,
        REMOVED_TABLE, StoredRow,
    },
    catalog::namespace::{self, Namespace, ROOT, change::NamespaceChange, file_key},
    fleet::nodes::NodeKey,
    log::{
        journal_lineage,
        journal_writes::Effect,
        metadata_mirror::mirrored_table,
        rebuild::{
            mirror_read::{MirrorRead, mark_order},
            rebuild_rows,
        },
    },
    replicas::{
        orders::OrderKind,
        replica_table::{HeaderFingerprint, ReplicaState},
        sweeps::Sweep,
    },
};

impl Master {
    /// Asks for the best copy, unless it has been taken already or is being read.
    pub(super) fn advance_mirror_read(&mut self, now: Now) {
        if self.log.rebuild.mirror_read.is_some() {
            return;
        }
        let Some((node, mark)) = self.newest_mirror() else { return self.finish_rebuild_if_complete(now) };
        self.log.rebuild.mirror_read = Some(MirrorRead { node, mark, after: None, rows: Vec::new() });
        self.order_now(node, OrderKind::ReadMirror, Order::ReadMirror { after: None });
    }

    /// The newest copy of a reachable node, among those that know something no taken copy knew.
    pub(super) fn newest_mirror(&self) -> Option<(NodeKey, MirrorPosition)> {
        let marks = self.log.rebuild.mirror_marks.iter().map(|(key, mark)| (*key, *mark));
        let usable =
            marks.filter(|(key, mark)| self.is_unmerged_mirror(mark) && self.fleet.nodes.get(*key).session.is_some());
        usable.max_by_key(|(key, mark)| (mark_order(mark), std::cmp::Reverse(*key)))
    }

    /// A request for a copy was answered. If it was not done, it is sent again later.
    pub(crate) fn note_mirror_read_ack(&mut self, node: NodeKey, is_done: bool) {
        if !is_done && self.log.rebuild.mirror_read.as_ref().is_some_and(|gather| gather.node == node) {
            self.log.rebuild.mirror_read = None;
        }
    }

    /// Takes a page of a copy.
    pub(crate) fn note_mirror_page(
        &mut self,
        now: Now,
        key: NodeKey,
        mark: MirrorPosition,
        after: Option<MirrorKey>,
        page: Vec<MirrorRow>,
        last: bool,
    ) {
        let Some(gather) = self.log.rebuild.mirror_read.as_mut().filter(|gather| gather.node == key) else { return };
        // An answer to an older request, or not the copy that was chosen.
        if gather.after != after || gather.mark != mark {
            return;
        }
        gather.after = page.last().map(|row| MirrorKey { table: row.table.clone(), key: row.key.clone() });
        let is_stuck = gather.after.is_none();
        gather.rows.extend(page);
        let next = gather.after.clone();
        if !last && !is_stuck {
            return self.order_now(key, OrderKind::ReadMirror, Order::ReadMirror { after: next });
        }
        let Some(gather) = self.log.rebuild.mirror_read.take() else { return };
        self.restore_mirror(now, key, mark, gather.rows);
        self.advance_mirror_read(now);
    }

    /// Puts a copy's rows into the journal and the names.
    fn restore_mirror(&mut self, now: Now, key: NodeKey, mark: MirrorPosition, kept: Vec<MirrorRow>) {
        let mut stored = Vec::new();
        for MirrorRow { table, key, value } in kept {
            // A table unknown to this build is of no use to it.
            if let (Some(table), Some(value)) = (mirrored_table(&table), value) {
                stored.push(StoredRow { table, key, value });
            }
        }
        // For a build that kept no such rows, nobody can say.
        let is_silent = stored.iter().all(|row| row.table != LINEAGE_TABLE);
        let is_doubtful = is_silent && !self.log.rebuild.is_running();
        let is_successor = is_doubtful || journal_lineage::mirror_contains(&mark, &stored, self.log.rebuild.id, None);
        if self.log.rebuild.has_past && is_successor {
            // The copy's journal was rebuilt from this one, which was restored since, perhaps to a time when its own
            // names were not rebuilt yet. Changes of this life are known only while not all nodes have reported.
            let is_known = self.log.rebuild.runs_since_start || !self.has_all_reports();
            return self.mark_journal_stale(now, key, mark.generation, is_silent || !is_known);
        }
        if self.log.rebuild.state == RebuildState::New {
            return self.begin_rebuild_of_reported(now);
        }
        let mut changes = self.locate_fork(&mark, &stored);
        let replaces = self.may_replace_names(&mark, &stored);
        changes.extend(self.log.lineage.merge(mark.journal, mark.sequence, &stored));
        let (rows, mut again) = self.restore_outdated_paths(&stored, replaces);
        changes.extend(rows);
        let mut gone = Vec::new();
        for row in stored.iter().filter(|row| row.table == MEMBERS_TABLE) {
            let Some(id) = rebuild_rows::parse_member(&row.key) else { continue };
            let is_up = self.fleet.nodes.of_id(&id).is_some_and(|key| self.fleet.nodes.get(key).is_up());
            if self.log.rebuild.members.insert(id.clone()) && !is_up {
                self.log.rebuild.absent.insert(id.clone());
            }
            changes.push(rebuild_rows::member_row(&id));
        }
        for row in stored.iter().filter(|row| row.table == REMOVED_TABLE) {
            let Some((slice, nodes)) = rebuild_rows::parse_tombstone(&row.key, &row.value) else { continue };
            // A slice that was named here meanwhile, under another journal, was not removed by a change of that
            // journal.
            if !replaces && self.catalog.names().file_of_slice(slice).is_some() {
                continue;
            }
            let missed = self.log.rebuild.tombstones.entry(slice).or_default();
            missed.extend(nodes);
            changes.push(rebuild_rows::tombstone_row(slice, missed));
            gone.push(slice);
            changes.extend(self.forget_conflict(slice));
        }
        changes.extend(self.restore_archived(&stored, replaces));
        let tree: Vec<_> = stored.iter().filter(|row| row.table == NAMES_TABLE).cloned().collect();
        let mut said = BTreeSet::new();
        match Namespace::load(now, tree.iter().cloned()) {
            Ok((new, _)) if !tree.is_empty() && !replaces => changes.extend(self.merge_mirror(now, &new, &stored)),
            Ok((new, _)) if !tree.is_empty() => {
                said.extend(new.all_slices());
                let (rows, freed) = self.restore_tables(now, &mark, &stored);
                changes.extend(rows);
                gone.extend(freed);
                changes.extend(self.replace_names(now, key, new, tree));
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the newest copy cannot be used; only files are named"),
        }
        changes.extend(self.reapply_memberships());
        self.catalog.recount();
        // Also notes when files expire.
        self.replicas.sweeps.push_back(Sweep::All(0));
        let node = self.fleet.nodes.get(key).id.clone();
        tracing::info!(%node, ?mark, folders = self.log.rebuild.folders, "folders and policies were restored");
        if is_blank(&mark, &stored) {
            changes.extend(self.note_nodes_told(&mark, &stored));
        } else if replaces || self.log.rebuild.restored_mirror.is_none() {
            self.log.rebuild.restored_mirror = Some((node, mark));
            changes.extend(self.note_not_in_mirror(&said));
        }
        changes.push(self.log.rebuild.state_row());
        let slices: Vec<_> = self.catalog.names().all_slices().filter(|_| self.log.rebuild.is_running()).collect();
        self.save(now, changes, slices.into_iter().chain(gone).map(Effect::Reconcile).collect());
        if !self.log.rebuild.is_running() {
            // It joins again, and reports its slices to a master that knows its folders.
            self.mark_node_lost(now, key);
        }
        if replaces {
            let aside = self.log.rebuild.conflicts.values().filter(|conflict| conflict.is_archived);
            let aside = aside.map(|conflict| conflict.metadata.header.slice);
            again.extend(aside.filter(|slice| !self.log.rebuild.was_archived.contains(slice)));
            again.extend(&self.log.rebuild.not_in_mirror);
        }
        self.request_inventories(now, &again);
        self.forget_removed_members(now);
    }

    /// Nobody waits for nodes that may not join, according to the copy just taken.
    fn forget_removed_members(&mut self, now: Now) {
        let removed: Vec<_> =
            self.log.rebuild.absent.iter().filter(|id| self.fleet.nodes.is_barred(id)).cloned().collect();
        for id in removed {
            self.forget_member(now, &id);
        }
    }

    /// Takes a copy's list of archived slices: they stay archived, whatever is at their paths now.
    fn restore_archived(&mut self, stored: &[StoredRow], replaces: bool) -> Vec<RowChange> {
        if !self.log.rebuild.is_running() {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for row in stored.iter().filter(|row| row.table == CONFLICTS_TABLE) {
            let Some(conflict) = rebuild_rows::parse_conflict(&row.value).filter(|conflict| conflict.is_archived)
            else {
                continue;
            };
            let slice = conflict.metadata.header.slice;
            let is_decided = self.log.rebuild.tombstones.contains_key(&slice)
                || self.log.rebuild.local_changes.slices.contains(&slice);
            // A copy that only adds brings nothing new about a slice that has a name here.
            let is_named = !replaces && self.catalog.names().file_of_slice(slice).is_some();
            if !is_decided && !is_named && self.log.rebuild.was_archived.insert(slice) {
                changes.extend([rebuild_rows::conflict_row(&conflict), rebuild_rows::archived_row(slice)]);
                self.log.rebuild.conflicts.insert(slice, conflict);
            }
        }
        changes
    }

    /// Whether a copy replaces the present names: the newest of the lost journal does. A copy of yet another journal,
    /// or one that comes after the rebuild, only adds to them.
    fn may_replace_names(&self, mark: &MirrorPosition, stored: &[StoredRow]) -> bool {
        let knows = |journal, sequence| journal_lineage::mirror_contains(mark, stored, journal, Some(sequence));
        let goes_on =
            self.log.rebuild.restored_mirror.as_ref().is_none_or(|(_, taken)| knows(taken.journal, taken.sequence));
        // Entries that two lines of one journal counted since they forked have the same ids but different meanings.
        let from_here =
            self.log.rebuild.fork.as_ref().is_none_or(|fork| !fork.merges && knows(fork.journal, fork.base));
        self.log.rebuild.is_running() && goes_on && from_here
    }

    /// Adds a copy's rows to the present ones.
    fn merge_mirror(&mut self, now: Now, tree: &Namespace, stored: &[StoredRow]) -> Vec<RowChange> {
        let of = |table: &'static str| stored.iter().filter(move |row| row.table == table);
        let policies: Vec<_> = of(POLICIES_TABLE).map(|row| (row.key.clone(), row.value.clone())).collect();
        let mut changes = self.merge_tree(now, tree, &policies);
        for row in of(QUOTAS_TABLE) {
            let user = std::str::from_utf8(&row.key).ok().and_then(|user| UserName::new(user).ok());
            if let Some(user) = user.filter(|user| !self.catalog.quotas().has_user(user)) {
                changes.extend(self.catalog.restore_quota(user, &row.value));
            }
        }
        for row in of(NODES_TABLE) {
            // This journal decides whether a node it knows leaves.
            if rebuild_rows::parse_member(&row.key).is_none_or(|id| self.fleet.nodes.of_id(&id).is_none()) {
                changes.extend(self.fleet.nodes.restore_row(now, row));
            }
        }
        changes
    }

    /// Takes the copy's rows of tables owned by other modules, and drops the present ones: entry ids meant something
    /// else in the names so far. Nodes are an exception, since those that have joined are present.
    fn restore_tables(
        &mut self,
        now: Now,
        mark: &MirrorPosition,
        stored: &[StoredRow],
    ) -> (Vec<RowChange>, Vec<SliceId>) {
        let NamespaceChange { rows: mut changes, freed, .. } = self.catalog.clear_tables();
        for row in stored {
            if row.table == NODES_TABLE {
                if !self.is_told_of(mark, stored, row) {
                    changes.extend(self.fleet.nodes.restore_row(now, row));
                }
                continue;
            }
            match self.catalog.load_row(row) {
                Some(Ok(())) => {
                    changes.push(RowChange::Set { table: row.table, key: row.key.clone(), value: row.value.clone() });
                }
                Some(Err(error)) => {
                    tracing::error!(table = row.table, %error, "a row of the newest copy cannot be read and is left out");
                }
                None => {}
            }
        }
        (changes, freed)
    }

    /// Keeps in mind what a copy says of nodes that says nothing else: it does not stand for the names.
    fn note_nodes_told(&mut self, mark: &MirrorPosition, stored: &[StoredRow]) -> Option<RowChange> {
        if !self.log.rebuild.is_running() {
            return None;
        }
        let of_nodes = stored.iter().filter(|row| matches!(row.table, MEMBERS_TABLE | NODES_TABLE));
        let untold = of_nodes.filter(|row| !self.is_told_of(mark, stored, row));
        let nodes: Vec<_> = untold.filter_map(|row| rebuild_rows::parse_member(&row.key)).collect();
        self.log.rebuild.nodes_told.extend(nodes.into_iter().map(|id| (id, *mark)));
        Some(rebuild_rows::nodes_told_row(&self.log.rebuild.nodes_told))
    }

    /// Whether another copy, which tells of nodes alone, told of this row's node, and this copy knows nothing of that.
    fn is_told_of(&self, mark: &MirrorPosition, stored: &[StoredRow], row: &StoredRow) -> bool {
        let told = rebuild_rows::parse_member(&row.key).and_then(|id| self.log.rebuild.nodes_told.get(&id));
        told.is_some_and(|told| !journal_lineage::mirror_contains(mark, stored, told.journal, Some(told.sequence)))
    }

    /// Replaces the names by the copy's, which `tree` holds, and names the files found so far in them.
    fn replace_names(&mut self, now: Now, key: NodeKey, new: Namespace, tree: Vec<StoredRow>) -> Vec<RowChange> {
        let entries = self.entries_below_root();
        let mut changes: Vec<_> = entries.iter().map(|entry| namespace::remove_row(entry.id)).collect();
        changes.extend(tree.into_iter().map(|row| RowChange::Set { table: row.table, key: row.key, value: row.value }));
        let before = self.catalog.replace_names(new);
        changes.extend(self.forget_not_in_mirror());
        let made = std::mem::take(&mut self.log.rebuild.made_folders);
        self.log.rebuild.folders = self.catalog.names().usage(ROOT).folders.saturating_sub(1);
        self.log.rebuild.files = self.catalog.names().usage(ROOT).files;
        changes.extend(self.reapply_folders(now));
        let moved = self.moved_folders(&before, &entries, &made);
        for entry in entries {
            changes.extend(self.restore_file_name(now, key, &before, entry, &moved));
        }
        changes.extend(self.reapply_policies());
        changes
    }

    /// Names one file of the previous names in those of the copy.
    fn restore_file_name(
        &mut self,
        now: Now,
        key: NodeKey,
        before: &Namespace,
        entry: Entry,
        moved: &BTreeMap<FileId, FileId>,
    ) -> Vec<RowChange> {
        let Some(content) = before.content(entry.id) else { return Vec::new() };
        let slice = content.slice;
        let header = before.header_of_slice(slice, self.log.rebuild.id);
        let Some(header) = header.filter(|_| !self.log.rebuild.tombstones.contains_key(&slice)) else {
            return Vec::new();
        };
        if let Some(file) = self.catalog.names().file_of_slice(slice) {
            // The copy names it itself. If a node that knows as much has it elsewhere, it is listed, as if the node
            // came later.
            let is_elsewhere = self.catalog.names().path(file).is_some_and(|path| path != entry.path);
            if !is_elsewhere
                || self.log.rebuild.local_changes.slices.contains(&slice)
                || !self.is_placed_there(key, &header)
            {
                return Vec::new();
            }
            let metadata = protocol::SliceMetadata { header, bytes: content.bytes, digest: content.digest };
            return vec![self.add_conflict(key, metadata, ConflictKind::TwoPaths, None, false)];
        }
        // Its node came before the copy that knows it as archived.
        let listed = self.log.rebuild.conflicts.get(&slice).filter(|_| self.log.rebuild.was_archived.contains(&slice));
        if listed.is_some_and(|listed| listed.metadata.header.path == header.path) {
            return Vec::new();
        }
        // A folder that has another path by now has its files with it. But a removed folder does not have files written
        // at its path since.
        let folder = entry.path.parent().and_then(|folder| moved.get(&before.find(&folder)?).copied());
        let above = |folder| std::iter::successors(Some(folder), |at| self.catalog.names().parent(*at));
        let was_removed = |folder| above(folder).find_map(|at| self.catalog.trash().removed_at(at));
        let folder = folder.filter(|folder| was_removed(*folder).is_none_or(|at| content.version.0 <= at));
        // Nor files written since into another folder at its path.
        let folder = folder.filter(|folder| !self.is_in_another_folder(key, *folder, &header));
        let path = folder.and_then(|folder| self.catalog.names().path(folder)?.join(entry.path.name()?).ok());
        let path = path.unwrap_or_else(|| entry.path.clone());
        let metadata = protocol::SliceMetadata { header, bytes: content.bytes, digest: content.digest };
        let there = self
            .catalog
            .names()
            .find(&path)
            .and_then(|file| self.catalog.names().content(file))
            .map(|content| content.version);
        if there.is_some_and(|there| there >= content.version) {
            return vec![self.add_conflict(key, metadata, ConflictKind::OlderVersion, None, true)];
        }
        let nearest = self.catalog.names().deepest_existing(&path);
        let loser = self
            .catalog
            .names()
            .find(&path)
            .and_then(|file| self.catalog.names().content(file))
            .map(|content| content.slice);
        let loser = loser.and_then(|loser| self.published(loser));
        match self.catalog.put_entry(now, &path, true, &entry.owner, content, entry.modified_unix_millis) {
            Ok(change) => {
                self.note_made_folders(nearest, &path);
                // Its folder has another path according to this copy. A sidecar that knows less does not undo that; one
                // that knows as much names the file's place itself.
                if path != entry.path {
                    self.log.rebuild.renamed.insert(slice, self.node_recency(key).of_folder());
                }
                // Whichever of the two was named first: the other one is archived.
                let aside =
                    loser.map(|loser| self.add_conflict(key, loser, ConflictKind::OlderVersion, Some(slice), true));
                self.log.rebuild.files += u64::from(aside.is_none());
                let trashed = self.adopt_trashed(now, change.entry, &path);
                let acl = before.own_acl(entry.id).cloned();
                let said = change.entry.map(|file| self.catalog.set_acl(file, acl)).unwrap_or_default();
                change.rows.into_iter().chain(aside).chain(trashed).chain(said).collect()
            }
            Err(_) => vec![self.add_conflict(key, metadata, ConflictKind::PathTaken, None, true)],
        }
    }

    /// Whether a file stands in another folder than this one. Two conditions must hold. The copy of `key` has another
    /// folder at the path in the file's sidecar. And a node that knows all that the copy knows has the file there. Then
    /// the file was written after the first folder was moved away.
    fn is_in_another_folder(&self, key: NodeKey, folder: FileId, header: &protocol::SliceHeader) -> bool {
        let there = header.path.parent().and_then(|above| self.catalog.names().find(&above));
        there.is_some_and(|there| there != folder) && self.is_placed_there(key, header)
    }

    /// Whether a node that knows all that the copy of `key` knows has a file at its place.
    fn is_placed_there(&self, key: NodeKey, header: &protocol::SliceHeader) -> bool {
        let placed = ReplicaState::Placed(HeaderFingerprint::of(header));
        let replicas = self.replicas.table.of(header.slice);
        let mut holders = replicas.iter().filter(|replica| replica.state == placed);
        let known = |node| self.path_recency(node, header.slice, &header.path);
        holders.any(|replica| known(replica.node) >= self.node_recency(key))
    }

    /// Folders of the previous names that the present ones have too. Folders made only for a file are left out: their
    /// ids mean nothing.
    fn moved_folders(
        &self,
        before: &Namespace,
        entries: &[Entry],
        made: &BTreeSet<FileId>,
    ) -> BTreeMap<FileId, FileId> {
        let folders = entries.iter().map(|entry| entry.id).filter(|id| before.is_folder(*id) && !made.contains(id));
        let known = folders.filter(|id| self.catalog.names().is_folder(*id) && !self.is_local_folder(before, *id));
        known.map(|id| (id, id)).collect()
    }

    fn is_local_folder(&self, names: &Namespace, id: FileId) -> bool {
        names.path(id).is_some_and(|path| self.log.rebuild.local_changes.folders.contains_key(&path))
    }

    /// Every entry but the root, folders before their content.
    pub(super) fn entries_below_root(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut rest = self.catalog.names().children(ROOT);
        while let Some(id) = rest.pop() {
            rest.extend(self.catalog.names().children(id));
            entries.extend(self.catalog.names().entry(id));
        }
        entries
    }
}

/// Whether a copy tells of nothing but nodes and the root. A journal that was lost before any node with data joined it gave such
/// copies away. The names of the journal before it are still to come, and the copy does not stand for them.
fn is_blank(mark: &MirrorPosition, stored: &[StoredRow]) -> bool {
    let is_of_nodes = |row: &StoredRow| matches!(row.table, MEMBERS_TABLE | NODES_TABLE);
    let is_root = |row: &StoredRow| row.table == NAMES_TABLE && row.key == file_key(ROOT);
    let is_of_its_line = |row: &StoredRow| journal_lineage::is_row_of(row, mark.journal);
    stored.iter().all(|row| is_of_nodes(row) || is_root(row) || is_of_its_line(row))
}
