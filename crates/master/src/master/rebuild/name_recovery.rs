//! Gives slices of a lost journal their names back, each when a node first reports it. Two slices may claim one path.
//! One that some node has there, or staged for it, wins over one that every node has set aside. Else the newer version
//! wins. A staged slice counts as published: restoring too much does less harm than losing acknowledged data. The order
//! in which nodes come never matters.

use std::collections::BTreeSet;

use protocol::{
    FileId, Now, SectorPath, SliceHeader, SliceId, SliceMetadata,
    acl::Acl,
    message::{
        client_master::FileContent,
        node_master::HeldState,
        rebuild::{Conflict, ConflictKind, MirrorPosition, RebuildState},
    },
};
use store::RowChange;

use crate::{
    Master,
    catalog::trash::is_in_trash,
    fleet::nodes::NodeKey,
    log::{
        journal_writes::Effect,
        rebuild::{rebuild_rows, recency::Recency},
    },
    replicas::replica_table::{HeaderFingerprint, ReplicaState},
};

impl Master {
    /// A node reported a slice in its inventory. Gives it a name if it is of another journal and has no decided name
    /// yet.
    pub(crate) fn adopt_foreign_slice(&mut self, now: Now, key: NodeKey, metadata: &SliceMetadata, state: HeldState) {
        let header = &metadata.header;
        let is_foreign =
            self.log.rebuild.is_foreign(header, self.catalog.names().birth()) || self.is_of_a_lost_end(header, state);
        if !is_foreign || self.has_seen_disks(key) {
            return;
        }
        // The node's rows come first, and then its slices once more: the rows say whose folders these are.
        if !self.log.rebuild.is_running() && self.has_unmerged_mirror(key) {
            return;
        }
        self.begin_rebuild(now);
        self.catalog.raise_version(header.version);
        match self.catalog.names().file_of_slice(header.slice) {
            Some(file) => self.compare_names(now, key, file, metadata, state),
            None if self.log.rebuild.tombstones.contains_key(&header.slice) => {}
            None if self.log.rebuild.stays_archived(header, state) => {}
            None => self.adopt(now, key, metadata, state),
        }
    }

    /// Whether a slice was placed under this journal but belongs to no file. It must be older than this life, or the
    /// rebuild must have been running all this life. Then a later life named it in the rebuild. The disk lost that, or
    /// a copy from before the rebuild's end was restored.
    fn is_of_a_lost_end(&self, header: &SliceHeader, state: HeldState) -> bool {
        state == HeldState::Placed
            && self.log.rebuild.is_running()
            && (self.log.rebuild.runs_since_start || header.version <= self.version_at_start)
            && self.catalog.names().file_of_slice(header.slice).is_none()
    }

    /// Gives a slice the name in its sidecar, unless a better one has it.
    fn adopt(&mut self, now: Now, key: NodeKey, metadata: &SliceMetadata, state: HeldState) {
        let (slice, path) = (metadata.header.slice, &metadata.header.path);
        let there = self
            .catalog
            .names()
            .find(path)
            .and_then(|file| self.catalog.names().content(file))
            .map(|content| content.slice);
        if let Some(other) = there {
            let is_settled = self.log.rebuild.state == RebuildState::Settled;
            // What was written there since is what people want, whatever the versions say: clocks may differ.
            if is_settled || self.log.rebuild.local_changes.slices.contains(&other) {
                return self.archive_slice(now, key, metadata, ConflictKind::WrittenSince, Some(other));
            }
            if !self.wins(metadata, state, other) {
                return self.archive_slice(now, key, metadata, ConflictKind::OlderVersion, Some(other));
            }
        }
        let loser = there.and_then(|other| self.published(other));
        let made_before = self.catalog.names().deepest_existing(path);
        let owner = metadata.header.owner.clone();
        let mut rows = match &loser {
            // Another file of that name, removed and made again by someone else: the newer one's owner keeps it.
            Some(loser) if loser.header.owner != owner => {
                self.catalog.remove_entry(path, false).unwrap_or_default().rows
            }
            _ => Vec::new(),
        };
        match self.catalog.put_entry(
            now,
            path,
            true,
            &owner,
            content_of(metadata),
            metadata.header.modified_unix_millis,
        ) {
            Ok(change) => {
                self.note_made_folders(made_before, path);
                rows.extend(self.close_made_folders(made_before, path));
                if state == HeldState::Retired {
                    self.log.rebuild.retired.insert(slice);
                }
                self.note_staged(key, metadata, state);
                rows.extend(change.rows);
                rows.extend(self.adopt_trashed(now, change.entry, path));
                let said = metadata.header.acl.clone();
                rows.extend(change.entry.map(|file| self.catalog.set_acl(file, said)).unwrap_or_default());
                let mut effects = vec![Effect::Reconcile(slice)];
                effects.extend(loser.iter().map(|loser| Effect::Reconcile(loser.header.slice)));
                rows.extend(self.forget_conflict(slice));
                if let Some(loser) = loser {
                    self.log.rebuild.retired.remove(&loser.header.slice);
                    rows.push(self.add_conflict(key, loser, ConflictKind::OlderVersion, Some(slice), true));
                } else {
                    self.log.rebuild.files += 1;
                }
                if state != HeldState::Placed {
                    rows.push(self.add_conflict(key, metadata.clone(), ConflictKind::NeverPlaced, None, false));
                }
                self.save(now, rows, effects);
            }
            Err(_) => self.archive_slice(now, key, metadata, ConflictKind::PathTaken, None),
        }
    }

    /// A further copy of a named slice: checks whether it agrees.
    fn compare_names(&mut self, now: Now, key: NodeKey, file: FileId, metadata: &SliceMetadata, state: HeldState) {
        let (slice, path) = (metadata.header.slice, &metadata.header.path);
        let (mut rows, mut effects) = (Vec::new(), vec![Effect::Reconcile(slice)]);
        if state != HeldState::Retired {
            self.log.rebuild.retired.remove(&slice);
        }
        // Somewhere it stands at its path: so it was published.
        let known = self.log.rebuild.conflicts.get(&slice).map(|conflict| conflict.kind);
        if state == HeldState::Placed && known == Some(ConflictKind::NeverPlaced) {
            rows.extend(self.forget_conflict(slice));
        }
        let Some(named) = self.catalog.names().path(file) else { return };
        let has_other_details = |content: FileContent| {
            let SliceHeader { copies, user, .. } = &metadata.header;
            content.copies != *copies || content.user != *user
        };
        let says_other = self.catalog.names().own_acl(file) != metadata.header.acl.as_ref();
        let differs = named != *path || says_other || self.catalog.names().content(file).is_none_or(has_other_details);
        if !differs {
            self.note_staged(key, metadata, state);
        }
        if differs && state != HeldState::Retired && self.log.rebuild.is_running() {
            let (knowledge, of_name) = (self.path_recency(key, slice, path), self.name_recency(slice, file));
            let is_staged = state == HeldState::Staged;
            let mut moved = (named == *path).then(Vec::new);
            if self.log.rebuild.local_changes.slices.contains(&slice) {
                // Later changes stand; of two lists of rights both hold.
                rows.extend(if says_other && !is_staged {
                    self.take_common_acl(key, file, metadata)
                } else {
                    Vec::new()
                });
                moved = Some(Vec::new());
            } else if knowledge > of_name {
                let older = self.older_at_path(metadata, state, knowledge).filter(|_| moved.is_none());
                moved = moved.or_else(|| self.move_name(now, &named, path, older.is_some()));
                if let Some(older) = older.filter(|_| moved.is_some()) {
                    effects.push(Effect::Reconcile(older.header.slice));
                    self.log.rebuild.retired.remove(&older.header.slice);
                    self.log.rebuild.files = self.log.rebuild.files.saturating_sub(1);
                    rows.push(self.add_conflict(key, older, ConflictKind::OlderVersion, Some(slice), true));
                }
                if let Some(rows) = &mut moved {
                    rows.extend(self.take_details(now, file, metadata));
                    // A staged copy may never have received the rights.
                    rows.extend(match is_staged {
                        true if says_other => self.take_common_acl(key, file, metadata),
                        true => Vec::new(),
                        false => self.catalog.set_acl(file, metadata.header.acl.clone()),
                    });
                    self.log.rebuild.renamed.insert(slice, knowledge);
                }
            } else if says_other && knowledge == of_name && !is_staged {
                rows.extend(self.take_common_acl(key, file, metadata));
                self.log.rebuild.renamed.insert(slice, knowledge);
            }
            // It is listed only if nobody can say which name is newer.
            if moved.is_none() && (knowledge > of_name || (knowledge == of_name && !is_staged)) {
                rows.push(self.add_conflict(key, metadata.clone(), ConflictKind::TwoPaths, None, false));
            }
            rows.extend(moved.unwrap_or_default());
        }
        if self.catalog.names().owner(file).is_some_and(|owner| *owner != metadata.header.owner) && known.is_none() {
            rows.push(self.add_conflict(key, metadata.clone(), ConflictKind::TwoOwners, None, false));
        }
        if !rows.is_empty() {
            self.save(now, rows, effects);
        }
    }

    /// A staged copy has the same name as its slice. A crash may have taken it back into staging on its way to a new
    /// path, which is what the master said last. So it counts, though it will never be among the placed copies.
    fn note_staged(&mut self, key: NodeKey, metadata: &SliceMetadata, state: HeldState) {
        if state == HeldState::Staged && self.log.rebuild.is_running() {
            let slice = metadata.header.slice;
            let knowledge = self.path_recency(key, slice, &metadata.header.path);
            let known = self.log.rebuild.renamed.entry(slice).or_insert(knowledge);
            *known = knowledge.max(*known);
        }
    }

    /// Archives a slice, and lists it.
    fn archive_slice(
        &mut self,
        now: Now,
        key: NodeKey,
        metadata: &SliceMetadata,
        kind: ConflictKind,
        other: Option<SliceId>,
    ) {
        if self.log.rebuild.is_archived(metadata.header.slice) {
            return;
        }
        let row = self.add_conflict(key, metadata.clone(), kind, other, true);
        self.save(now, vec![row], Vec::new());
    }

    /// Lists a slice, and returns its row.
    pub(super) fn add_conflict(
        &mut self,
        key: NodeKey,
        metadata: SliceMetadata,
        kind: ConflictKind,
        other: Option<SliceId>,
        aside: bool,
    ) -> RowChange {
        let node = self.fleet.nodes.get(key).id.clone();
        tracing::warn!(slice = %metadata.header.slice, path = %metadata.header.path, ?kind, aside, "a slice is in doubt");
        let conflict = Conflict { metadata, node, kind, other, is_archived: aside };
        let row = rebuild_rows::conflict_row(&conflict);
        self.log.rebuild.conflicts.insert(conflict.metadata.header.slice, conflict);
        row
    }

    /// Takes a slice off the list.
    pub(super) fn forget_conflict(&mut self, slice: SliceId) -> Option<RowChange> {
        self.log.rebuild.conflicts.remove(&slice).map(|_| rebuild_rows::remove_conflict_row(slice))
    }

    /// Drops conflicts that only an old journal named and no node has: there is nothing to decide. If a node comes
    /// later with the slice, it is listed then. While a known node has not reported, the conflicts stay.
    pub(super) fn forget_conflicts_of_nothing(&mut self, now: Now) -> Vec<RowChange> {
        if !self.log.rebuild.absent.is_empty() {
            return Vec::new();
        }
        let of_nothing = |conflict: &&Conflict| {
            let slice = conflict.metadata.header.slice;
            conflict.is_archived && self.replicas.table.of(slice).is_empty()
        };
        let slices: Vec<_> = self.log.rebuild.conflicts.values().filter(of_nothing).collect();
        let slices: Vec<_> = slices.into_iter().map(|conflict| conflict.metadata.header.slice).collect();
        let mut changes = Vec::new();
        for slice in slices {
            changes.extend(self.forget_conflict(slice));
            // It counted as lost while it was a file's content.
            self.check_replication(now, slice);
        }
        changes
    }

    /// Metadata of a slice that is a file's content.
    pub(super) fn published(&self, slice: SliceId) -> Option<SliceMetadata> {
        let content = self.catalog.names().content_of_slice(slice)?;
        let (bytes, digest) = (content.bytes, content.digest);
        Some(SliceMetadata { header: self.catalog.names().header_of_slice(slice, self.log.rebuild.id)?, bytes, digest })
    }

    /// Closes folders that exist only for a file that came after the rebuild. Nobody knows their rights, so their
    /// owners set them again.
    fn close_made_folders(&mut self, before: (FileId, usize), path: &SectorPath) -> Vec<RowChange> {
        if self.log.rebuild.is_running() || is_in_trash(path) {
            return Vec::new();
        }
        let (_, missing) = before;
        let folders: Vec<_> = std::iter::successors(path.parent(), SectorPath::parent).collect();
        let made =
            folders.iter().take(missing.saturating_sub(1)).filter_map(|folder| self.catalog.names().find(folder));
        let made: Vec<_> = made.collect();
        made.into_iter().flat_map(|id| self.catalog.set_acl(id, Some(Acl::default()))).collect()
    }

    /// Remembers folders that exist only for a found file; `before` is the part of its path that existed.
    pub(super) fn note_made_folders(&mut self, before: (FileId, usize), path: &SectorPath) {
        let (_, missing) = before;
        let folders = std::iter::successors(path.parent(), SectorPath::parent).take(missing.saturating_sub(1));
        for folder in folders.collect::<Vec<_>>() {
            self.log.rebuild.made_folders.extend(self.catalog.names().find(&folder));
        }
    }

    /// Removes the folders that were made for files which have other names by now.
    pub(super) fn remove_empty_made_folders(&mut self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        let mut made: Vec<_> = std::mem::take(&mut self.log.rebuild.made_folders).into_iter().collect();
        made.retain(|id| self.catalog.names().path(*id).is_some());
        // The deepest first, so that a folder of empty folders is empty when its turn comes.
        made.sort_by_key(|id| std::cmp::Reverse(self.catalog.names().path(*id).map(|path| path.components().count())));
        for id in made.into_iter().filter(|id| self.catalog.names().is_folder(*id)).collect::<Vec<_>>() {
            let Some(path) = self.catalog.names().path(id).filter(|_| self.catalog.names().children(id).is_empty())
            else {
                continue;
            };
            changes.extend(self.catalog.remove_entry(&path, false).map(|change| change.rows).unwrap_or_default());
        }
        changes
    }

    /// Whether a slice should have the path that `other` has.
    fn wins(&self, metadata: &SliceMetadata, state: HeldState, other: SliceId) -> bool {
        let other_version = self.catalog.names().content_of_slice(other).map(|content| content.version);
        let rank = (state != HeldState::Retired, Some(metadata.header.version), metadata.header.slice);
        rank > (!self.log.rebuild.retired.contains(&other), other_version, other)
    }

    /// How new a node's knowledge is: which copy of the small rows it had.
    pub(super) fn node_recency(&self, key: NodeKey) -> Recency {
        self.log.rebuild.mirror_marks.get(&key).map_or(Recency::NONE, |mark| self.mark_recency(mark))
    }

    pub(super) fn mark_recency(&self, mark: &MirrorPosition) -> Recency {
        // Numbers that this life counted before it knew that the journal was stale are no newer than the journal was
        // then.
        let fork = self.log.rebuild.fork.as_ref().filter(|fork| fork.journal == mark.journal);
        match fork.and_then(|fork| Some((fork.base, fork.incarnation?))) {
            Some((base, (first, last))) if (first..=last).contains(&mark.sequence) => {
                Recency { sequence: base, ..Recency::of(mark) }
            }
            _ => Recency::of(mark),
        }
    }

    /// How new the knowledge behind a slice's name is. Counted are the nodes that hold it under that name, the source
    /// of the name, and the taken copy if that names the file. The newest decides.
    fn name_recency(&self, slice: SliceId, file: FileId) -> Recency {
        let header = self.catalog.names().header_of_slice(slice, self.log.rebuild.id);
        let there = header.map(|header| ReplicaState::Placed(HeaderFingerprint::of(&header)));
        let replicas = self.replicas.table.of(slice);
        let holders = replicas.iter().filter(|replica| Some(replica.state) == there);
        let named = self.catalog.names().path(file);
        let known = |key| named.as_ref().map(|path| self.path_recency(key, slice, path));
        let of_holders = holders.filter_map(|replica| known(replica.node)).max();
        // Trash entries known only from an older copy, or a sidecar, are pinned too; this copy knows nothing of them.
        let names_it = self.is_pinned(file) && !self.log.rebuild.not_in_mirror.contains(&slice);
        let of_copy =
            self.log.rebuild.restored_mirror.as_ref().filter(|_| names_it).map(|(_, mark)| self.mark_recency(mark));
        of_holders.max(self.log.rebuild.renamed.get(&slice).copied()).max(of_copy).unwrap_or(Recency::NONE)
    }

    /// Gives a file the number of copies and the user metadata from newer knowledge.
    fn take_details(&mut self, now: Now, file: FileId, metadata: &SliceMetadata) -> Vec<RowChange> {
        let Some(content) = self.catalog.names().content(file) else { return Vec::new() };
        let (copies, user) = (metadata.header.copies, metadata.header.user.clone());
        self.catalog.set_content_details(now, file, FileContent { copies, user, ..content })
    }

    /// Two copies have different rights for a file, and neither is newer: what both grant holds. A copy without rights
    /// does not count: it is older, or its rights come from folders.
    fn take_common_acl(&mut self, key: NodeKey, file: FileId, metadata: &SliceMetadata) -> Vec<RowChange> {
        let acl = match (self.catalog.names().own_acl(file), &metadata.header.acl) {
            (Some(one), Some(other)) => Some(one.common(other)),
            (one, other) => one.or(other.as_ref()).cloned(),
        };
        let mut rows = self.catalog.set_acl(file, acl);
        if !self.log.rebuild.conflicts.contains_key(&metadata.header.slice) {
            rows.push(self.add_conflict(key, metadata.clone(), ConflictKind::TwoAcls, None, false));
        }
        rows
    }

    /// The entry at the path that newer knowledge gives to another slice, if it is older and gives way. It gives way as
    /// to a slice found there. A folder does not give way, nor does a file written since.
    fn older_at_path(&self, metadata: &SliceMetadata, state: HeldState, knowledge: Recency) -> Option<SliceMetadata> {
        let file = self.catalog.names().find(&metadata.header.path)?;
        let other = self.catalog.names().content(file)?.slice;
        let gives_way = !self.log.rebuild.local_changes.slices.contains(&other)
            && self.wins(metadata, state, other)
            && knowledge > self.name_recency(other, file);
        self.published(other).filter(|_| gives_way)
    }

    /// Gives a file the path from newer knowledge; `None` if another entry is there, unless that gives way.
    fn move_name(&mut self, now: Now, from: &SectorPath, to: &SectorPath, gives_way: bool) -> Option<Vec<RowChange>> {
        let owner = self.catalog.names().find(from).and_then(|file| self.catalog.names().owner(file)).cloned()?;
        let mut rows = if self.catalog.names().find(to).is_none() {
            let before = self.catalog.names().deepest_existing(to);
            let rows = self.catalog.make_folder(now, &to.parent()?, true, &owner).ok()?.rows;
            self.note_made_folders(before, to);
            rows
        } else if gives_way {
            self.catalog.remove_entry(to, false).ok()?.rows
        } else {
            return None;
        };
        let change = self.catalog.move_entry(from, to).ok()?;
        rows.extend(change.rows);
        if let Some(file) = change.entry {
            if !is_in_trash(to) {
                rows.extend(self.catalog.forget_trashed(file));
            }
            rows.extend(self.adopt_trashed(now, Some(file), to));
        }
        Some(rows)
    }

    /// Notes a file whose sidecar, or an older copy, puts it in the trash.
    pub(super) fn adopt_trashed(&mut self, now: Now, file: Option<FileId>, path: &SectorPath) -> Vec<RowChange> {
        let Some(file) = file.filter(|_| is_in_trash(path)) else { return Vec::new() };
        let slice = self.catalog.names().content(file).map(|content| content.slice);
        let unsaid =
            slice.filter(|slice| self.log.rebuild.not_in_mirror.insert(*slice)).map(rebuild_rows::not_in_mirror_row);
        unsaid.into_iter().chain(self.catalog.adopt_trash(now, file, path)).collect()
    }

    /// A taken copy names these files itself. For other files that this journal mentions, it does not say where they
    /// are.
    pub(super) fn note_not_in_mirror(&mut self, said: &BTreeSet<SliceId>) -> Vec<RowChange> {
        let with_policy = self.log.rebuild.local_changes.policies.keys();
        let with_policy =
            with_policy.filter_map(|path| Some(self.catalog.names().content(self.catalog.names().find(path)?)?.slice));
        let own = with_policy.chain(self.log.rebuild.outdated_paths.keys().copied());
        let own: Vec<_> = own.filter(|slice| !said.contains(slice)).collect();
        let new = own.into_iter().filter(|slice| self.log.rebuild.not_in_mirror.insert(*slice));
        new.map(rebuild_rows::not_in_mirror_row).collect()
    }

    /// Another copy is taken, or the rebuild has ended: these notes are void.
    pub(super) fn forget_not_in_mirror(&mut self) -> Vec<RowChange> {
        std::mem::take(&mut self.log.rebuild.not_in_mirror)
            .into_iter()
            .map(rebuild_rows::remove_not_in_mirror)
            .collect()
    }
}

/// A slice as the content of a file.
pub(super) fn content_of(metadata: &SliceMetadata) -> FileContent {
    let header = &metadata.header;
    FileContent {
        slice: header.slice,
        version: header.version,
        bytes: metadata.bytes,
        digest: metadata.digest,
        records: header.records,
        copies: header.copies,
        user: header.user.clone(),
    }
}
