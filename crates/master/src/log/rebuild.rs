//! What is known of this journal's birth, and how complete the names are. Serves `docs/paths/rebuild.md`; the reasons
//! are in `docs/decisions/0012-lost-journal.md`. It never changes a name itself.

pub(crate) mod local_changes;
pub(crate) mod mirror_read;
pub(crate) mod outdated_paths;
pub(crate) mod rebuild_rows;
pub(crate) mod recency;
pub(crate) mod stale_journal;
pub(crate) mod unverified_incarnations;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;
use local_changes::{ChangedRows, LocalChanges};
use mirror_read::MirrorRead;
use outdated_paths::OutdatedPaths;
use protocol::{
    FileId, JournalId, NodeId, Now, SliceHeader, SliceId, Version,
    message::{
        node_master::HeldState,
        rebuild::{Conflict, MirrorPosition, RebuildState},
    },
};
pub(crate) use rebuild_rows::{
    check_row, identity, is_archived_row, new_identity, restored_identity, sequence, slice_key_of,
};
use recency::Recency;
use stale_journal::{DecidedSlices, Fork};
use store::RowChange;
use unverified_incarnations::Incarnation;

use crate::{
    MasterConfig, MasterError, catalog::namespace::Namespace, fleet::nodes::NodeKey, log::journal_loader::JournalLoader,
};

/// What is known of this journal's birth, and how complete the names are. A slice that loses its name is kept until a
/// person dismisses it.
///
/// Every slice records the journal under which it was written. So slices older than this journal are recognised without
/// comparing clocks. A rebuild begins by itself when a young journal meets something of another one. It ends when all
/// known nodes have reported what they hold, when an operator says so, or after a time.
#[derive(Debug)]
pub(crate) struct Rebuild {
    /// The journal.
    pub(crate) id: JournalId,
    /// Its number in the life of the cloud.
    pub(crate) generation: u64,
    pub(crate) state: RebuildState,
    /// When the state ends by itself, on the monotonic clock.
    pub(crate) ends: Duration,
    /// No version that this journal gives is as old as this.
    pub(crate) version_floor: Version,
    /// The nodes that ever reported an inventory, under this journal or one before.
    pub(crate) members: BTreeSet<NodeId>,
    /// Those of them that are not up, or have not yet reported everything in this master's life.
    pub(crate) absent: BTreeSet<NodeId>,
    /// Which copy of the small rows each node had when it joined, by its own report.
    pub(crate) mirror_marks: BTreeMap<NodeKey, MirrorPosition>,
    /// Nodes with disks that were not there when they got that copy.
    pub(crate) partly_mirrored: BTreeSet<NodeKey>,
    /// Each node's last word on the disks whose slices it is reporting. It names the copy that was given when a master
    /// had been told what lies on the disk. For a node that says nothing, its own mark holds for all its disks.
    pub(crate) disks_seen: BTreeMap<NodeKey, Option<MirrorPosition>>,
    /// When a node last completed its inventory.
    pub(crate) last_inventory: Duration,
    /// The copy that was taken.
    pub(crate) restored_mirror: Option<(NodeId, MirrorPosition)>,
    /// What copies told that were taken and tell of nothing but nodes: for each node, which copy told of it.
    pub(crate) nodes_told: BTreeMap<NodeId, MirrorPosition>,
    /// Files that only another copy, or a sidecar, pins: the copy that was taken does not mention them.
    pub(crate) not_in_mirror: BTreeSet<SliceId>,
    /// Slices that the journal had archived already when it proved to be stale, or was restored.
    pub(crate) was_archived: BTreeSet<SliceId>,
    /// Slices that an earlier life saw being written when it published a newer version, and whose end it never saved.
    pub(crate) overtaken: BTreeSet<SliceId>,
    pub(crate) mirror_read: Option<MirrorRead>,
    /// Slices that are no longer any file's content, with the nodes that were away when that was decided.
    pub(crate) tombstones: BTreeMap<SliceId, BTreeSet<NodeId>>,
    /// Slices that nodes hold under paths which their files no longer have.
    pub(crate) outdated_paths: BTreeMap<SliceId, OutdatedPaths>,
    pub(crate) conflicts: BTreeMap<SliceId, Conflict>,
    /// Named slices that every reporting node so far has set aside for another slice at their path.
    pub(crate) retired: BTreeSet<SliceId>,
    /// Slices whose name or number of copies came from newer knowledge, and how new that is.
    pub(crate) renamed: BTreeMap<SliceId, Recency>,
    /// Changes made under this journal before it met another.
    pub(crate) local_changes: LocalChanges,
    /// The journal that this one was, if nodes showed that it was stale.
    pub(crate) fork: Option<Fork>,
    /// Known nodes that have reported nothing in this master's life.
    pub(crate) unreported_nodes: BTreeSet<NodeId>,
    /// Whether any node has reported.
    pub(crate) has_any_report: bool,
    /// Whether nodes had reported before this life: then the journal has a past.
    pub(crate) has_past: bool,
    /// Whether the rebuild has been running ever since this life began: then nobody has changed anything in it.
    pub(crate) runs_since_start: bool,
    /// Decisions of this master's life, kept while some nodes have not reported.
    pub(crate) decided: DecidedSlices,
    pub(crate) changed_rows: ChangedRows,
    /// The lives that have not heard all nodes, this one included.
    pub(crate) incarnations: Vec<Incarnation>,
    /// Where the lines may have parted later than `fork` says, and which life made which local change, by key.
    pub(crate) forks: Vec<Fork>,
    pub(crate) local_change_incarnations: BTreeMap<Vec<u8>, u64>,
    /// When this life began, and how far the journal was then.
    pub(crate) started: Duration,
    pub(crate) version_at_start: Version,
    pub(crate) sequence_at_start: u64,
    /// Folders that exist only because a file below them was found.
    pub(crate) made_folders: BTreeSet<FileId>,
    pub(crate) files: u64,
    pub(crate) folders: u64,
}

impl Rebuild {
    /// The state in the journal's rows, or that of a new journal.
    pub(crate) fn load(
        now: Now,
        config: &MasterConfig,
        rng: &mut Rng,
        stored: &JournalLoader,
    ) -> Result<(Self, u64), MasterError> {
        let mut read = rebuild_rows::RebuildRows::of(&stored.others)?;
        let is_born = stored.is_empty();
        let state = match read.state.take() {
            Some(state) => state,
            None if is_born => rebuild_rows::StateRow::born(JournalId(rng.u64(1..))),
            // Written by a build whose slices did not record their journal.
            None => {
                rebuild_rows::StateRow { state: RebuildState::Settled, ..rebuild_rows::StateRow::born(JournalId(0)) }
            }
        };
        let span = if state.state == RebuildState::New { NEW_FOR } else { config.rebuild_wait };
        let has_past = !read.members.is_empty();
        let rebuild = Self {
            id: state.id,
            generation: state.generation,
            state: state.state,
            ends: now.monotonic + span,
            version_floor: state.version_floor,
            absent: read.members.clone(),
            unreported_nodes: if state.state == RebuildState::Running { BTreeSet::new() } else { read.members.clone() },
            members: read.members,
            mirror_marks: BTreeMap::new(),
            partly_mirrored: BTreeSet::new(),
            disks_seen: BTreeMap::new(),
            last_inventory: now.monotonic,
            restored_mirror: state.restored_mirror,
            nodes_told: read.nodes_told,
            not_in_mirror: read.not_in_mirror,
            was_archived: read.was_archived,
            overtaken: read.overtaken,
            mirror_read: None,
            tombstones: read.tombstones,
            outdated_paths: read.outdated_paths,
            conflicts: read.conflicts,
            retired: BTreeSet::new(),
            renamed: BTreeMap::new(),
            local_changes: read.local_changes,
            fork: read.fork,
            has_any_report: false,
            has_past,
            runs_since_start: state.state == RebuildState::Running,
            decided: DecidedSlices::default(),
            changed_rows: read.changed_rows,
            incarnations: read.incarnations,
            forks: read.forks,
            local_change_incarnations: read.local_change_incarnations,
            started: now.monotonic,
            // Known when the names are loaded.
            version_at_start: Version(0),
            sequence_at_start: read.sequence,
            made_folders: BTreeSet::new(),
            files: state.files,
            folders: state.folders,
        };
        Ok((rebuild, read.sequence))
    }

    /// The names are loaded: none of their versions is newer than this.
    pub(crate) fn note_loaded(&mut self, last_version: Version) {
        self.version_at_start = last_version;
    }

    /// Whether a rebuild is running: nothing is changed then.
    pub(crate) fn is_running(&self) -> bool {
        self.state == RebuildState::Running
    }

    /// Whether a slice is kept although no file has it.
    pub(crate) fn is_archived(&self, slice: SliceId) -> bool {
        self.conflicts.get(&slice).is_some_and(|conflict| conflict.is_archived)
    }

    /// Whether a slice was archived before the rebuild, and nothing has been done with it since: a newer one had its
    /// path then. One that stands at its path may have been recovered since, unless its header is the listed one.
    pub(crate) fn stays_archived(&self, header: &SliceHeader, state: HeldState) -> bool {
        let listed = self.conflicts.get(&header.slice).filter(|conflict| conflict.is_archived);
        let was_aside = listed.filter(|_| self.was_archived.contains(&header.slice));
        was_aside.is_some_and(|conflict| {
            let before = &conflict.metadata.header;
            before == header || (before.path == header.path && state != HeldState::Placed)
        })
    }

    /// The smallest version with which this journal may begin.
    pub(crate) fn version_floor(&self) -> Version {
        let in_doubt = self.conflicts.values().map(|conflict| conflict.metadata.header.version);
        in_doubt.fold(self.version_floor, Version::max)
    }

    /// The row with this journal's id and the state of the rebuild.
    pub(crate) fn state_row(&self) -> RowChange {
        rebuild_rows::StateRow {
            id: self.id,
            generation: self.generation,
            state: self.state,
            version_floor: self.version_floor,
            restored_mirror: self.restored_mirror.clone(),
            files: self.files,
            folders: self.folders,
        }
        .change()
    }

    /// Whether a slice was written under another journal than this one.
    pub(crate) fn is_foreign(&self, header: &SliceHeader, birth: Version) -> bool {
        // If neither knows its journal, only the clocks can tell.
        header.journal != self.id || (header.journal == JournalId(0) && header.version < birth)
    }

    /// Known nodes that have not reported everything.
    pub(crate) fn missing_nodes(&self) -> Vec<NodeId> {
        self.absent.iter().cloned().collect()
    }

    /// Whether nodes hold a slice under outdated paths: then its file's row is kept.
    pub(crate) fn pins(&self, slice: impl FnOnce() -> Option<SliceId>) -> bool {
        !self.outdated_paths.is_empty() && slice().is_some_and(|slice| self.outdated_paths.contains_key(&slice))
    }

    /// The files whose rows are kept for that.
    pub(crate) fn pinned<'a>(&'a self, names: &'a Namespace) -> impl Iterator<Item = FileId> + 'a {
        self.outdated_paths.keys().filter_map(|slice| names.file_of_slice(*slice))
    }

    /// The last such life before this one that can have given a version.
    pub(crate) fn incarnation_of(&self, version: Version) -> Option<u64> {
        self.incarnations.iter().rev().find(|life| version > life.version).map(|life| life.first)
    }
}

/// How long a journal counts as young after its birth or a start: enough time for the nodes of an old cloud to come.
const NEW_FOR: Duration = Duration::from_secs(600);
