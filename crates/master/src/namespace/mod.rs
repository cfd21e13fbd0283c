//! The names: every file and folder, in memory, as a tree by [`FileId`] (paper, 2.2: "the master maintains the metadata
//! index ... and supports file system queries, such as file lookup and directory services"). Serves every path that
//! names a file.
//!
//! A name is an entry's own property, not part of its children's: so a rename touches one entry and one row, whatever
//! lies below. Each change gives the rows that make it durable. This room never knows where copies lie, who may
//! do what, or whether a row has reached the disk.

pub(crate) mod change;
mod listing;
mod rows;

#[cfg(test)]
mod reference;

use std::collections::BTreeMap;

use protocol::{
    FileId, Now, Refusal, SectorPath, SliceHeader, SliceId, Status, UserName, Version,
    message::client_master::{Entry, EntryKind, FileContent, Usage},
};
use store::RowChange;

use crate::{
    actions::{StoredRow, VERSIONS_TABLE},
    error::MasterError,
};

pub(crate) use change::is_a_folder;
pub(crate) use rows::{damaged, decode_row, encode_row};

/// Every file and folder of the cloud.
#[derive(Debug)]
pub struct Namespace {
    items: BTreeMap<FileId, Item>,
    by_slice: BTreeMap<SliceId, FileId>,
    last_file: u64,
    last_version: u64,
    /// What the journal has: the largest version of a file that was removed.
    removed_version: u64,
    /// No path is longer or deeper than this. Only ever raised: while there is room to spare, a renamed folder need not
    /// be searched for a path that would become too long.
    longest: PathSize,
}

impl Namespace {
    /// The names that these rows hold. An empty journal gives an empty root folder, and the row that must be saved for
    /// it; the root's time of birth tells later which slices are older than the journal.
    pub(crate) fn load(now: Now, rows: impl Iterator<Item = StoredRow>) -> Result<(Self, Vec<RowChange>), MasterError> {
        let mut names = Self {
            items: BTreeMap::new(),
            by_slice: BTreeMap::new(),
            last_file: ROOT.0,
            last_version: 0,
            removed_version: 0,
            longest: PathSize::default(),
        };
        for row in rows {
            if row.table == VERSIONS_TABLE {
                names.removed_version = rows::parse_removed_version(&row)?;
                continue;
            }
            let (id, item) = rows::parse(&row)?;
            names.last_file = names.last_file.max(id.0);
            if let ItemKind::File(content) = &item.kind {
                names.last_version = names.last_version.max(content.version.0);
            }
            names.items.insert(id, item);
        }
        if names.items.is_empty() {
            names.items.insert(ROOT, Item::root(now.unix_millis));
            names.last_version = names.birth().0;
            let row = names.row(ROOT);
            return Ok((names, row));
        }
        // Also of files that were removed, and whatever the clock says now.
        names.last_version = names.last_version.max(names.removed_version).max(names.birth().0);
        names.link_all()?;
        Ok((names, Vec::new()))
    }

    /// When this name space began, as a version: an older slice was written before there was this journal.
    pub(crate) fn birth(&self) -> Version {
        Version(self.items.get(&ROOT).map_or(0, |root| root.modified_unix_millis))
    }

    /// A version larger than any before (the wall clock's, unless it lags).
    pub(crate) fn next_version(&mut self, now: Now) -> Version {
        self.last_version = now.unix_millis.max(self.last_version + 1);
        Version(self.last_version)
    }

    /// The newest version given so far.
    pub(crate) fn last_version(&self) -> Version {
        Version(self.last_version)
    }

    /// What stands at a path.
    pub fn find(&self, path: &SectorPath) -> Option<FileId> {
        path.components().try_fold(ROOT, |folder, name| self.child(folder, name))
    }

    /// What stands at a path, or the refusal that says there is nothing.
    pub(crate) fn get(&self, path: &SectorPath) -> Result<FileId, Refusal> {
        self.find(path).ok_or_else(|| nothing_at(path))
    }

    /// The deepest existing entry on the way to `path`, and how many components are missing below it.
    pub(crate) fn nearest(&self, path: &SectorPath) -> (FileId, usize) {
        let mut at = ROOT;
        for (index, name) in path.components().enumerate() {
            match self.child(at, name) {
                Some(child) => at = child,
                None => return (at, path.components().count() - index),
            }
        }
        (at, 0)
    }

    /// The path of an entry, built from its ancestors' names.
    pub fn path(&self, id: FileId) -> Option<SectorPath> {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            let item = self.items.get(&at)?;
            names.push(&*item.name);
            at = item.parent;
        }
        names.push("");
        names.reverse();
        let text = if names.len() == 1 { "/".to_owned() } else { names.join("/") };
        SectorPath::parse(&text).ok()
    }

    /// An entry as listings show it, without its nodes.
    pub fn entry(&self, id: FileId) -> Option<Entry> {
        self.entry_at(id, self.path(id)?)
    }

    /// The owner of an entry.
    pub(crate) fn owner(&self, id: FileId) -> Option<&UserName> {
        self.items.get(&id).map(|item| &item.owner)
    }

    /// Whether an entry is a folder.
    pub(crate) fn is_folder(&self, id: FileId) -> bool {
        matches!(self.items.get(&id), Some(Item { kind: ItemKind::Folder(_), .. }))
    }

    /// The content of a file; `None` for folders.
    pub(crate) fn content(&self, id: FileId) -> Option<&FileContent> {
        match &self.items.get(&id)?.kind {
            ItemKind::File(content) => Some(content),
            ItemKind::Folder(_) => None,
        }
    }

    /// The content that a slice is, where it is the current one of a file.
    pub(crate) fn content_of_slice(&self, slice: SliceId) -> Option<&FileContent> {
        self.content(self.file_of_slice(slice)?)
    }

    /// The file whose current content a slice is.
    pub(crate) fn file_of_slice(&self, slice: SliceId) -> Option<FileId> {
        self.by_slice.get(&slice).copied()
    }

    /// The header that a copy of this slice should have now.
    pub(crate) fn header_of_slice(&self, slice: SliceId) -> Option<SliceHeader> {
        let id = self.file_of_slice(slice)?;
        let (item, content) = (self.items.get(&id)?, self.content(id)?);
        Some(SliceHeader {
            slice,
            path: self.path(id)?,
            version: content.version,
            owner: item.owner.clone(),
            modified_unix_millis: item.modified_unix_millis,
            copies: content.copies,
            records: content.records,
            user: content.user.clone(),
        })
    }

    /// The slices after `after`, in order, at most `count`: for walks over all files in steps.
    pub(crate) fn slices_after(&self, after: Option<SliceId>, count: usize) -> Vec<SliceId> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.by_slice.range((from, std::ops::Bound::Unbounded)).take(count).map(|(slice, _)| *slice).collect()
    }

    /// The entries of a folder, by name; nothing for a file.
    pub(crate) fn children(&self, id: FileId) -> Vec<FileId> {
        match self.items.get(&id).map(|item| &item.kind) {
            Some(ItemKind::Folder(children)) => children.values().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Files, folders and bytes at and below an entry. Walks all of it.
    pub fn usage(&self, id: FileId) -> Usage {
        let mut usage = Usage::default();
        let mut rest = vec![id];
        while let Some(at) = rest.pop() {
            match self.items.get(&at).map(|item| &item.kind) {
                Some(ItemKind::Folder(children)) => {
                    usage.folders += 1;
                    rest.extend(children.values());
                }
                Some(ItemKind::File(content)) => {
                    usage.files += 1;
                    usage.bytes = usage.bytes.saturating_add(content.bytes);
                }
                None => {}
            }
        }
        usage
    }

    fn child(&self, folder: FileId, name: &str) -> Option<FileId> {
        match &self.items.get(&folder)?.kind {
            ItemKind::Folder(children) => children.get(name).copied(),
            ItemKind::File(_) => None,
        }
    }

    fn entry_at(&self, id: FileId, path: SectorPath) -> Option<Entry> {
        let item = self.items.get(&id)?;
        let kind = match &item.kind {
            ItemKind::Folder(_) => EntryKind::Folder,
            ItemKind::File(content) => EntryKind::File((**content).clone()),
        };
        Some(Entry {
            path,
            id,
            owner: item.owner.clone(),
            modified_unix_millis: item.modified_unix_millis,
            kind,
            nodes: Vec::new(),
        })
    }

    /// Hangs loaded items below their parents and proves that they form one tree.
    fn link_all(&mut self) -> Result<(), MasterError> {
        let links: Vec<_> = self.items.iter().map(|(id, item)| (*id, item.parent, item.name.clone())).collect();
        for (id, parent, name) in links {
            if let Some(content) = self.content(id) {
                let slice = content.slice;
                if self.by_slice.insert(slice, id).is_some() {
                    return Err(MasterError::Names { file: id, why: "its slice belongs to another file too" });
                }
            }
            if id == ROOT {
                continue;
            }
            let Some(Item { kind: ItemKind::Folder(children), .. }) = self.items.get_mut(&parent) else {
                return Err(MasterError::Names { file: id, why: "its folder is missing" });
            };
            if children.insert(name, id).is_some() {
                return Err(MasterError::Names { file: id, why: "its folder has the name twice" });
            }
        }
        self.measure_all()
    }

    /// Reaches every item from the root, which also finds the longest path.
    fn measure_all(&mut self) -> Result<(), MasterError> {
        let mut reached = 0;
        let mut rest = vec![(ROOT, PathSize::default())];
        while let Some((id, size)) = rest.pop() {
            reached += 1;
            self.longest = self.longest.max(size);
            if let Some(Item { kind: ItemKind::Folder(children), .. }) = self.items.get(&id) {
                rest.extend(children.iter().map(|(name, child)| (*child, size.below(name))));
            }
        }
        if reached != self.items.len() {
            return Err(MasterError::Names { file: ROOT, why: "folders lie within each other" });
        }
        Ok(())
    }
}

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    parent: FileId,
    name: Box<str>,
    owner: UserName,
    modified_unix_millis: u64,
    kind: ItemKind,
}

/// What an item is. A folder's children are found again at loading; they are in no row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ItemKind {
    Folder(BTreeMap<Box<str>, FileId>),
    File(Box<FileContent>),
}

impl Item {
    fn root(born_unix_millis: u64) -> Self {
        // The name is a constant that is a valid user name; there is a test that loads an empty journal.
        #[allow(clippy::expect_used)]
        let owner = UserName::new(ROOT_OWNER).expect("a valid name");
        Self {
            parent: ROOT,
            name: "".into(),
            owner,
            modified_unix_millis: born_unix_millis,
            kind: ItemKind::Folder(BTreeMap::new()),
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

/// The refusal for a path at which nothing stands.
pub(crate) fn nothing_at(path: &SectorPath) -> Refusal {
    Refusal::new(Status::NotFound, format!("there is no file or folder `{path}`"))
}

/// The root folder's id, the same in every cloud.
pub const ROOT: FileId = FileId(1);
/// Who owns the root folder. Everyone may make entries in it (see `rights`).
const ROOT_OWNER: &str = "admin";
