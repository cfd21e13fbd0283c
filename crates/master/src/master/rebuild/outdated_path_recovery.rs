//! Paths under which nodes hold files that have other ones by now. Files are not moved until all nodes have reported
//! (`stale_journal_detection`), but a joining node gets the current small rows at once. If the journal is
//! lost then, the node's old paths would seem as new as these rows and undo renames and removals. So the rows that the
//! node had when it came are recorded, with the file's own row. They are never dropped before all have reported.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{Now, SectorPath, SliceId, SliceMetadata};
use store::RowChange;

use crate::{
    Master,
    actions::{OUTDATED_TABLE, StoredRow},
    fleet::nodes::NodeKey,
    log::rebuild::{
        mirror_read::mark_order,
        outdated_paths::{NO_MARK, OutdatedPaths},
        rebuild_rows,
        recency::Recency,
    },
};

impl Master {
    /// How new a node's knowledge of a slice's place is, if it has the slice under this path.
    pub(super) fn path_recency(&self, key: NodeKey, slice: SliceId, path: &SectorPath) -> Recency {
        let knowledge = self.node_recency(key);
        let Some(outdated) = self.log.rebuild.outdated_paths.get(&slice) else { return knowledge };
        let at = |path| outdated.get(&(self.fleet.nodes.get(key).id.clone(), path));
        let then = at(path.clone()).or_else(|| at(SectorPath::root()));
        then.map_or(knowledge, |mark| knowledge.min(self.mark_recency(mark)))
    }

    /// A node reported a slice. Records what the node knew, if the file has another path by now and the node is not
    /// told to move it yet.
    pub(crate) fn note_outdated_path(&mut self, now: Now, key: NodeKey, metadata: &SliceMetadata) {
        let (slice, path) = (metadata.header.slice, &metadata.header.path);
        // Its rows were never taken over: its paths may be the newer ones. It is given nothing before that, and then it
        // joins again.
        let is_unmerged = self.has_unmerged_mirror(key);
        if is_unmerged || self.has_all_reports() || self.log.rebuild.is_running() || !self.is_held_back(slice, key) {
            return;
        }
        let named = self.catalog.names().file_of_slice(slice).and_then(|file| self.catalog.names().path(file));
        if named.is_none_or(|named| named == *path) {
            return;
        }
        let outdated = &mut self.log.rebuild.outdated_paths;
        let of_node = (self.fleet.nodes.get(key).id.clone(), path.clone());
        let is_known = outdated.get(&slice).map(|outdated| outdated.contains_key(&of_node));
        // What it knew when it first came with the slice: since then it was given more rows, but not told of this path.
        if is_known == Some(true) || (is_known.is_none() && outdated.len() >= OUTDATED_MAX) {
            return;
        }
        let of_slice = outdated.entry(slice).or_default();
        of_slice.insert(of_node, self.log.rebuild.mirror_marks.get(&key).copied().unwrap_or(NO_MARK));
        let row = rebuild_rows::outdated_row(slice, of_slice);
        self.save(now, vec![row], Vec::new());
    }

    /// Takes a copy's outdated paths during a rebuild. With `replaces`, those known so far are dropped that it must know
    /// better. Returns the slices for which something is new.
    pub(super) fn restore_outdated_paths(
        &mut self,
        stored: &[StoredRow],
        replaces: bool,
    ) -> (Vec<RowChange>, Vec<SliceId>) {
        if !self.log.rebuild.is_running() {
            return (Vec::new(), Vec::new());
        }
        let (before, mut changes) = if replaces { self.drop_superseded() } else { (BTreeMap::new(), Vec::new()) };
        let mut news = Vec::new();
        for row in stored.iter().filter(|row| row.table == OUTDATED_TABLE) {
            let Some((slice, said)) = rebuild_rows::parse_outdated(row) else { continue };
            // A copy that only adds does not speak for the copy that was taken.
            let is_said =
                replaces || self.catalog.names().file_of_slice(slice).is_some_and(|file| self.is_pinned(file));
            if !is_said && self.log.rebuild.not_in_mirror.insert(slice) {
                changes.push(rebuild_rows::not_in_mirror_row(slice));
            }
            let known = self.log.rebuild.outdated_paths.entry(slice).or_default();
            let was_known =
                |of_node| known.contains_key(of_node) || before.get(&slice).is_some_and(|it| it.contains_key(of_node));
            if !said.keys().all(was_known) {
                // The source of its name may have been one of these.
                self.log.rebuild.renamed.remove(&slice);
                news.push(slice);
            }
            for (of_node, mark) in said {
                // The rows it had when it came first count, whoever reports them.
                let first = known.entry(of_node).or_insert(mark);
                *first = std::cmp::min_by_key(*first, mark, mark_order);
            }
            changes.push(rebuild_rows::outdated_row(slice, known));
        }
        (changes, news)
    }

    /// Drops what the newest copy says itself, if it is still so; returns it, and the rows. Of a journal that proved to be
    /// stale, that is what nodes had missed by then, unless the file was changed here since. What it says of their paths
    /// holds: it was so when they came.
    fn drop_superseded(&mut self) -> (BTreeMap<SliceId, OutdatedPaths>, Vec<RowChange>) {
        let rebuild = &mut self.log.rebuild;
        let (mut dropped, mut changes) = (BTreeMap::new(), Vec::new());
        for (slice, mut gone) in std::mem::take(&mut rebuild.outdated_paths) {
            if rebuild.fork.is_some() {
                let is_changed_here = rebuild.local_changes.slices.contains(&slice);
                let holds = |path: &SectorPath| !path.is_root() || is_changed_here;
                let kept: OutdatedPaths = gone.extract_if(.., |(_, path), _| holds(path)).collect();
                if !kept.is_empty() {
                    changes.extend((!gone.is_empty()).then(|| rebuild_rows::outdated_row(slice, &kept)));
                    rebuild.outdated_paths.insert(slice, kept);
                }
            }
            if !rebuild.outdated_paths.contains_key(&slice) {
                changes.push(rebuild_rows::remove_outdated_row(slice));
            }
            dropped.insert(slice, gone);
        }
        (dropped, changes)
    }

    /// Has nodes report again if they reported these slices before a copy mentioned them. These are slices that came
    /// with an outdated path, had no place among the previous names, or whose place this copy does not name.
    pub(super) fn request_inventories(&mut self, now: Now, slices: &[SliceId]) {
        let mut nodes = BTreeSet::new();
        for slice in slices {
            nodes.extend(self.replicas.table.of(*slice).iter().map(|replica| replica.node));
        }
        for key in nodes {
            if self.fleet.nodes.get(key).session.is_some() {
                self.mark_node_lost(now, key);
            }
        }
    }
}

/// Slices recorded in this way, some 10 MiB of memory. Beyond that, a rename or a removal may be undone if the journal
/// is lost before all have reported.
pub(super) const OUTDATED_MAX: usize = 30_000;
