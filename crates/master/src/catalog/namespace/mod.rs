//! The names: every file and folder, in memory, as a tree by [`FileId`]. (Paper, 2.2: "the master maintains the
//! metadata index ... and supports file system queries, such as file lookup and directory services".) Serves every path
//! that names a file. Each change returns the rows that make it durable. Inside, an entry is a four-byte slot of
//! [`items`]; outside, its [`FileId`]. The module never knows where copies lie, who may do what, or whether a row has
//! reached the disk.

mod acl_table;
mod acls;
mod attributes;
pub(crate) mod change;
mod children;
mod entry_rows;
mod items;
mod listing;
mod namespace_loader;
mod record;
mod subtree_removal;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use acls::Ancestor;
pub(crate) use change::folder_refusal;
pub(crate) use entry_rows::{
    damaged_row, decode_extended_row, decode_row, encode_extended_row, encode_row, file_key, is_folder_row,
    parse_file_key, remove_row,
};
pub(crate) use items::hash_of_slice;
use items::{Items, NewItem, SubtreeUsage};
pub(crate) use listing::ListedPage;
pub(crate) use namespace_loader::NamespaceLoader;
use protocol::{
    FileId, JournalId, Now, Reason, Refusal, SectorPath, SliceHeader, SliceId, UserName, Version,
    message::client_master::{Entry, EntryKind, FileContent, Usage},
};
use store::RowChange;

use crate::{StoredRow, catalog::compact_storage::Slot, error::MasterError};

/// Every file and folder of the cloud.
///
/// A name is an entry's own property, not part of its children's. So a rename touches one entry and one row, whatever
/// lies below. A large folder that is removed is cut off, which is one row too, and its entries are removed in steps.
#[derive(Debug)]
pub struct Namespace {
    items: Items,
    /// The root folder's slot.
    root: Slot,
    /// Cut-off folders whose entries are still to be removed, with the path at which each stood.
    pending_removals: BTreeMap<Slot, SectorPath>,
    /// Entries that are removed at once; a folder with more is cut off.
    remove_at_once_max: u64,
    last_file: u64,
    last_version: u64,
    /// The journal's record of the largest version of a removed file.
    removed_version: u64,
    /// No path is longer or deeper than this. It is only ever raised. With room to spare, a renamed folder need not be
    /// searched for a path that would become too long.
    longest: PathSize,
}

impl Namespace {
    /// The names in these rows. An empty journal gives an empty root folder, and the row that must be saved for it. The
    /// root's time of birth later shows which slices are older than the journal.
    pub(crate) fn load(now: Now, rows: impl Iterator<Item = StoredRow>) -> Result<(Self, Vec<RowChange>), MasterError> {
        let mut loading = NamespaceLoader::new();
        for row in rows {
            loading.add_row(row.table, &row.key, &row.value)?;
        }
        loading.finish(now)
    }

    /// Checks that a row of the names can be read.
    pub(crate) fn check_row(row: &StoredRow) -> Result<(), MasterError> {
        entry_rows::parse(&row.key, &row.value).map(drop).ok_or_else(|| damaged_row(row))
    }

    /// When this namespace began, as a version: an older slice was written before this journal existed.
    pub(crate) fn birth(&self) -> Version {
        Version(self.items.modified_unix_millis(self.root))
    }

    /// A version larger than any before (the wall clock's, unless it lags).
    pub(crate) fn next_version(&mut self, now: Now) -> Version {
        self.last_version = now.unix_millis.max(self.last_version.saturating_add(1));
        Version(self.last_version)
    }

    /// Makes every version from now on larger than this one.
    pub(crate) fn raise_version(&mut self, version: Version) {
        self.last_version = self.last_version.max(version.0);
    }

    /// The newest version given so far.
    pub(crate) fn last_version(&self) -> Version {
        Version(self.last_version)
    }

    /// The entry at a path.
    pub fn find(&self, path: &SectorPath) -> Option<FileId> {
        self.items.id(self.find_slot(path)?)
    }

    /// The entry at a path, or a refusal that says there is none.
    pub(crate) fn get(&self, path: &SectorPath) -> Result<FileId, Refusal> {
        self.find(path).ok_or_else(|| not_found_refusal(path))
    }

    /// The deepest existing entry on the way to `path`, and how many components are missing below it.
    pub(crate) fn deepest_existing(&self, path: &SectorPath) -> (FileId, usize) {
        let (slot, missing) = self.deepest_existing_slot(path);
        (self.items.id(slot).unwrap_or(ROOT), missing)
    }

    /// The path of an entry, built from its ancestors' names.
    pub fn path(&self, id: FileId) -> Option<SectorPath> {
        self.path_of(self.items.find(id)?)
    }

    /// An entry as listings show it, without its nodes.
    pub fn entry(&self, id: FileId) -> Option<Entry> {
        let slot = self.items.find(id)?;
        self.entry_at(slot, self.path_of(slot)?)
    }

    /// The owner of an entry.
    pub(crate) fn owner(&self, id: FileId) -> Option<&UserName> {
        self.items.owner(self.items.find(id)?)
    }

    /// Whether an entry is a folder.
    pub(crate) fn is_folder(&self, id: FileId) -> bool {
        self.items.find(id).is_some_and(|slot| self.items.is_folder(slot))
    }

    /// The content of a file; `None` for folders.
    pub(crate) fn content(&self, id: FileId) -> Option<FileContent> {
        self.items.content(self.items.find(id)?)
    }

    /// The slice of a file; `None` for folders.
    pub(crate) fn slice_of(&self, id: FileId) -> Option<SliceId> {
        self.items.slice(self.items.find(id)?)
    }

    /// The content that a slice is, if it is the current one of a file.
    pub(crate) fn content_of_slice(&self, slice: SliceId) -> Option<FileContent> {
        self.items.content(self.items.find_slice(slice)?)
    }

    /// The file whose current content is this slice.
    pub(crate) fn file_of_slice(&self, slice: SliceId) -> Option<FileId> {
        self.items.id(self.items.find_slice(slice)?)
    }

    /// The header that a copy of this slice should have now, if it is made under `journal`.
    pub(crate) fn header_of_slice(&self, slice: SliceId, journal: JournalId) -> Option<SliceHeader> {
        let slot = self.items.find_slice(slice)?;
        let content = self.items.content(slot)?;
        Some(SliceHeader {
            slice,
            path: self.path_of(slot)?,
            version: content.version,
            owner: self.items.owner(slot)?.clone(),
            modified_unix_millis: self.items.modified_unix_millis(slot),
            copies: content.copies,
            records: content.records,
            user: content.user,
            journal,
            acl: self.items.acl(slot).cloned(),
        })
    }

    /// The slices of all files, including those in cut-off folders.
    pub(crate) fn all_slices(&self) -> impl Iterator<Item = SliceId> + '_ {
        (0..self.items.end()).filter_map(|slot| self.items.slice(slot))
    }

    /// The slices of at most `count` files, and where the next call continues; for walks over all files in steps, from
    /// 0. A file that exists all the time is met once. One that comes or goes meanwhile is met once or not at all.
    pub(crate) fn slices_from(&self, from: Slot, count: usize) -> (Vec<SliceId>, Option<Slot>) {
        let until = self.items.end().min(from.saturating_add(count as Slot));
        let slices = (from..until).filter_map(|slot| self.items.slice(slot)).collect();
        (slices, (until < self.items.end()).then_some(until))
    }

    /// The entries of a folder, by name; nothing for a file.
    pub fn children(&self, id: FileId) -> Vec<FileId> {
        self.children_after(id, None, usize::MAX)
    }

    /// At most `count` entries of a folder, by name, starting after `after`; nothing for a file.
    pub(crate) fn children_after(&self, folder: FileId, after: Option<&str>, count: usize) -> Vec<FileId> {
        let Some(children) = self.items.find(folder).and_then(|slot| self.items.folder(slot)).map(|it| &it.children)
        else {
            return Vec::new();
        };
        let mut cursor = children.after(after.map(str::as_bytes), |slot| self.items.name_bytes(slot));
        let mut found = Vec::new();
        while let Some(slot) = children.at(cursor).filter(|_| found.len() < count) {
            found.extend(self.items.id(slot));
            cursor = children.next(cursor);
        }
        found
    }

    /// The name of an entry in its folder.
    pub(crate) fn name(&self, id: FileId) -> &str {
        self.items.find(id).map_or("", |slot| self.items.name(slot))
    }

    /// Files, folders and bytes at and below an entry.
    pub fn usage(&self, id: FileId) -> Usage {
        self.items.find(id).map_or_else(Usage::default, |slot| self.items.subtree_usage(slot).usage())
    }

    /// The same for all names.
    pub(crate) fn whole_usage(&self) -> Usage {
        self.items.subtree_usage(self.root).usage()
    }

    /// Memory that all names take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.items.memory_bytes()
    }

    fn find_slot(&self, path: &SectorPath) -> Option<Slot> {
        path.components().try_fold(self.root, |folder, name| self.items.child(folder, name))
    }

    fn deepest_existing_slot(&self, path: &SectorPath) -> (Slot, usize) {
        let mut at = self.root;
        for (index, name) in path.components().enumerate() {
            match self.items.child(at, name) {
                Some(child) => at = child,
                None => return (at, path.components().count() - index),
            }
        }
        (at, 0)
    }

    fn path_of(&self, slot: Slot) -> Option<SectorPath> {
        let mut slots = Vec::with_capacity(8);
        let mut at = slot;
        while at != self.root && !self.pending_removals.contains_key(&at) {
            slots.push(at);
            at = self.items.parent(at)?;
        }
        let mut text = self.pending_removals.get(&at).map_or_else(String::new, |path| path.as_str().to_owned());
        for slot in slots.iter().rev() {
            text.push('/');
            text.push_str(self.items.name(*slot));
        }
        if text.is_empty() { Some(SectorPath::root()) } else { SectorPath::parse(&text).ok() }
    }

    fn entry_at(&self, slot: Slot, path: SectorPath) -> Option<Entry> {
        Some(Entry {
            path,
            id: self.items.id(slot)?,
            owner: self.items.owner(slot)?.clone(),
            modified_unix_millis: self.items.modified_unix_millis(slot),
            kind: self.items.content(slot).map_or(EntryKind::Folder, EntryKind::File),
            nodes: Vec::new(),
            has_acl: self.items.acl(slot).is_some(),
        })
    }

    /// Creates the item and counts it in all folders above it.
    fn add(&mut self, now: Now, new: NewItem<'_>) -> Result<Slot, Refusal> {
        // Time in the upper bits: an id is not reused after a restart, although removed entries leave no trace.
        self.last_file = (self.last_file + 1).max(now.unix_millis << FILES_PER_MILLI_BITS);
        let (parent, name) = (new.parent, new.name);
        let refused = |why| Refusal::new(Reason::LimitReached, format!("the entry `{name}` cannot be made: {why}"));
        let slot = self.items.insert(NewItem { id: FileId(self.last_file), ..new }).map_err(refused)?;
        self.items.link(slot);
        let tally = self.items.subtree_usage(slot);
        self.count_above(parent, |below| below.add(tally));
        Ok(slot)
    }

    /// Changes the counts of a folder and of all above it.
    fn count_above(&mut self, folder: Slot, change: impl Fn(&mut SubtreeUsage)) {
        let mut at = folder;
        while let Some(found) = self.items.folder_mut(at) {
            change(&mut found.below);
            match self.items.parent(at) {
                Some(parent) => at = parent,
                None => return,
            }
        }
    }
}

/// How long and how deep a path is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PathSize {
    bytes: usize,
    components: usize,
}

impl PathSize {
    fn of(path: &SectorPath) -> Self {
        path.components().fold(Self::default(), Self::below)
    }

    fn below(self, name: &str) -> Self {
        Self { bytes: self.bytes + 1 + name.len(), components: self.components + 1 }
    }

    fn max(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), components: self.components.max(other.components) }
    }
}

/// The refusal for a path with no entry.
pub(crate) fn not_found_refusal(path: &SectorPath) -> Refusal {
    Refusal::new(Reason::NotFound, format!("there is no file or folder `{path}`"))
}

/// The root folder's id, the same in every cloud.
pub const ROOT: FileId = FileId(1);
/// The owner of the root folder. Everyone may make entries in it (see `rights`).
const ROOT_OWNER: &str = "admin";
/// The "parent" of the root and of a folder that was cut off.
const NO_PARENT: Slot = Slot::MAX;
/// The parent that the row of a cut-off folder names.
const NO_PARENT_ID: FileId = FileId(0);
/// Entries removed at once: a millisecond or two.
const REMOVE_AT_ONCE_MAX: u64 = 512;
/// 1,024 new entries a millisecond before ids run ahead of the clock, which does no harm.
const FILES_PER_MILLI_BITS: u32 = 10;
