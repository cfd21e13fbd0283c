//! Storage of files and folders, some 140 bytes each. A record of fixed size is in a [`Slab`], the name in a
//! [`StringPool`], and each owner is stored once. Rare parts (user metadata, rights, unusual numbers) are in separate
//! tables. Serves every call of the namespace. It never handles a path or decides what may be done.

use std::{collections::BTreeMap, sync::Arc};

use protocol::{
    Acl, Digest, FileId, RecordFraming, SliceId, UserName, Version,
    message::client_master::{FileContent, Usage},
};

use super::{
    acl_table::Acls,
    children::Children,
    record::{ACL, FIXED, FOLDER, LINES, RARE, Record, USER, halves, narrow, pack_format, wide},
};
use crate::catalog::compact_storage::{Index, Slab, Slot, StringPool, hash_of};

/// All files and folders.
#[derive(Debug)]
pub(super) struct Items {
    records: Slab<Record>,
    names: StringPool,
    folders: Vec<Folder>,
    /// Free places in `folders`.
    folders_free: Vec<u32>,
    by_id: Index,
    by_slice: Index,
    owners: Owners,
    /// What does not fit into a record, by slot.
    rare: BTreeMap<Slot, Rare>,
    user: BTreeMap<Slot, Arc<BTreeMap<String, String>>>,
    /// What was added to `user` last: most that have any say the same, that a file is a program.
    last_user: Arc<BTreeMap<String, String>>,
    acls: Acls,
}

/// The parts of a new item.
pub(super) struct NewItem<'a> {
    pub(super) id: FileId,
    pub(super) parent: Slot,
    pub(super) name: &'a str,
    pub(super) owner: &'a UserName,
    pub(super) modified_unix_millis: u64,
    /// `None` for a folder.
    pub(super) content: Option<FileContent>,
}

/// The parts of a folder outside its record.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) children: Children,
    /// Everything below, without the folder itself.
    pub(super) below: SubtreeUsage,
}

/// Counts of everything below a folder. Bytes are wider than in [`Usage`]: each addition must be subtracted again
/// exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SubtreeUsage {
    pub(super) files: u64,
    pub(super) folders: u64,
    pub(super) bytes: u128,
}

impl Items {
    pub(super) fn new() -> Self {
        Self {
            records: Slab::new(),
            names: StringPool::new(),
            folders: Vec::new(),
            folders_free: Vec::new(),
            by_id: Index::new(),
            by_slice: Index::new(),
            owners: Owners::default(),
            rare: BTreeMap::new(),
            user: BTreeMap::new(),
            last_user: Arc::default(),
            acls: Acls::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The slots in use.
    #[cfg(test)]
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.records.slots(0)
    }

    /// The end of a walk over all slots.
    pub(super) fn end(&self) -> Slot {
        self.records.end()
    }

    /// The slot of an item.
    pub(super) fn find(&self, id: FileId) -> Option<Slot> {
        self.by_id.find(hash_of(id.0), |slot| self.records.get(slot).is_some_and(|record| record.id() == id.0))
    }

    /// The slot of the file whose content is this slice.
    pub(super) fn find_slice(&self, slice: SliceId) -> Option<Slot> {
        let is_it = |slot| self.records.get(slot).is_some_and(|record| record.slice() == slice);
        self.by_slice.find(hash_of_slice(slice), is_it)
    }

    /// Adds an item below `parent`, whose entries and counts the caller changes. Refuses with a reason if another item
    /// already has its id or its slice.
    pub(super) fn insert(&mut self, new: NewItem<'_>) -> Result<Slot, &'static str> {
        if self.find(new.id).is_some() {
            return Err("it stands in two rows");
        }
        if new.content.as_ref().is_some_and(|content| self.find_slice(content.slice).is_some()) {
            return Err("its slice belongs to another file too");
        }
        let text = self.names.insert(new.name);
        let mut record = Record::of_folder(new.id, new.parent, text);
        record.owner = self.owners.number(new.owner);
        record.set(FOLDER, new.content.is_none());
        let slot = self.records.insert(record);
        if record.owner == OWNER_RARE {
            self.owners.beyond.insert(slot, new.owner.clone());
        }
        let (records, hash) = (&self.records, hash_of(new.id.0));
        self.by_id.insert(hash, slot, |_| false, |slot| records.get(slot).map_or(0, |record| hash_of(record.id())));
        match new.content {
            Some(content) => self.set_content(slot, content, new.modified_unix_millis),
            None => self.begin_folder(slot, new.modified_unix_millis),
        }
        Ok(slot)
    }

    /// Removes an item, and returns a file's slice.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<SliceId> {
        let record = *self.records.get(slot)?;
        self.by_id.remove(hash_of(record.id()), slot);
        self.names.remove(record.text());
        self.owners.beyond.remove(&slot);
        if record.is(ACL) {
            self.acls.remove(slot);
        }
        let slice = if record.is(FOLDER) {
            self.folders[record.folder()] = Folder::default();
            self.folders_free.push(record.folder() as u32);
            None
        } else {
            self.clear_content(slot);
            Some(record.slice())
        };
        self.records.remove(slot);
        slice
    }

    /// Gives a file another content; its slice must be no other file's. Returns the slice it had.
    pub(super) fn replace_content(
        &mut self,
        slot: Slot,
        content: FileContent,
        modified_unix_millis: u64,
    ) -> Option<SliceId> {
        let old = self.records.get(slot).filter(|record| !record.is(FOLDER))?.slice();
        self.clear_content(slot);
        self.set_content(slot, content, modified_unix_millis);
        Some(old)
    }

    /// Gives an item another place and name; the caller changes the entries of both folders.
    pub(super) fn rename(&mut self, slot: Slot, parent: Slot, name: &str) {
        let Some(record) = self.records.get_mut(slot) else { return };
        self.names.remove(record.text());
        let text = self.names.insert(name);
        (record.parent, record.name_place, record.name_bytes) = (parent, text.place, text.bytes);
    }

    pub(super) fn set_parent(&mut self, slot: Slot, parent: Slot) {
        if let Some(record) = self.records.get_mut(slot) {
            record.parent = parent;
        }
    }

    pub(super) fn id(&self, slot: Slot) -> Option<FileId> {
        self.records.get(slot).map(|record| FileId(record.id()))
    }

    pub(super) fn parent(&self, slot: Slot) -> Option<Slot> {
        self.records.get(slot).map(|record| record.parent)
    }

    pub(super) fn name(&self, slot: Slot) -> &str {
        self.records.get(slot).map_or("", |record| self.names.get(record.text()))
    }

    pub(super) fn name_bytes(&self, slot: Slot) -> &[u8] {
        self.records.get(slot).map_or(&[], |record| self.names.bytes(record.text()))
    }

    pub(super) fn owner(&self, slot: Slot) -> Option<&UserName> {
        let record = self.records.get(slot)?;
        match record.owner {
            OWNER_RARE => self.owners.beyond.get(&slot),
            owner => self.owners.names.get(usize::from(owner)),
        }
    }

    pub(super) fn set_owner(&mut self, slot: Slot, owner: &UserName) {
        let number = self.owners.number(owner);
        let Some(record) = self.records.get_mut(slot) else { return };
        record.owner = number;
        self.owners.beyond.remove(&slot);
        if number == OWNER_RARE {
            self.owners.beyond.insert(slot, owner.clone());
        }
    }

    /// An item's own list of rights.
    pub(super) fn acl(&self, slot: Slot) -> Option<&Acl> {
        self.records.get(slot).filter(|record| record.is(ACL)).and_then(|_| self.acls.get(slot))
    }

    pub(super) fn set_acl(&mut self, slot: Slot, acl: Option<Acl>) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.set(ACL, acl.is_some());
        match acl {
            Some(acl) => self.acls.set(slot, acl),
            None => self.acls.remove(slot),
        }
    }

    pub(super) fn acls(&self) -> &Acls {
        &self.acls
    }

    pub(super) fn is_folder(&self, slot: Slot) -> bool {
        self.records.get(slot).is_some_and(|record| record.is(FOLDER))
    }

    pub(super) fn modified_unix_millis(&self, slot: Slot) -> u64 {
        match (self.records.get(slot), self.rare.get(&slot)) {
            (Some(record), Some(rare)) if record.is(RARE) => rare.modified_unix_millis,
            (Some(record), _) => record.version().wrapping_add_signed(record.modified_after_version.into()),
            (None, _) => 0,
        }
    }

    /// A file's slice.
    pub(super) fn slice(&self, slot: Slot) -> Option<SliceId> {
        self.records.get(slot).filter(|record| !record.is(FOLDER)).map(Record::slice)
    }

    /// A file's version; `None` for a folder.
    pub(super) fn version(&self, slot: Slot) -> Option<Version> {
        let record = self.records.get(slot).filter(|record| !record.is(FOLDER))?;
        let rare = if record.is(RARE) { self.rare.get(&slot) } else { None };
        Some(Version(rare.map_or(record.version(), |rare| rare.version)))
    }

    /// A file's length; 0 for a folder.
    pub(super) fn content_bytes(&self, slot: Slot) -> u64 {
        match self.records.get(slot) {
            Some(record) if record.is(FOLDER) => 0,
            Some(record) if record.is(RARE) => self.rare.get(&slot).map_or(0, |rare| rare.bytes),
            Some(record) => wide(record.bytes),
            None => 0,
        }
    }

    /// A file's content; `None` for a folder.
    pub(super) fn content(&self, slot: Slot) -> Option<FileContent> {
        let record = self.records.get(slot).filter(|record| !record.is(FOLDER))?;
        let rare = if record.is(RARE) { self.rare.get(&slot).copied() } else { None };
        let (version, bytes, records) = match rare {
            Some(rare) => (rare.version, rare.bytes, rare.records),
            None => (record.version(), wide(record.bytes), record.format()),
        };
        Some(FileContent {
            slice: record.slice(),
            version: Version(version),
            bytes,
            digest: Digest(record.digest),
            records,
            copies: record.copies,
            user: match self.user.get(&slot) {
                Some(user) if record.is(USER) => BTreeMap::clone(user),
                _ => BTreeMap::new(),
            },
        })
    }

    /// A folder's parts; `None` for a file.
    pub(super) fn folder(&self, slot: Slot) -> Option<&Folder> {
        let record = self.records.get(slot).filter(|record| record.is(FOLDER))?;
        self.folders.get(record.folder())
    }

    pub(super) fn folder_mut(&mut self, slot: Slot) -> Option<&mut Folder> {
        let record = self.records.get(slot).filter(|record| record.is(FOLDER))?;
        self.folders.get_mut(record.folder())
    }

    /// The entry of this name in a folder.
    pub(super) fn child(&self, folder: Slot, name: &str) -> Option<Slot> {
        self.folder(folder)?.children.find(name.as_bytes(), |slot| self.name_bytes(slot))
    }

    /// Adds an item to its parent's entries.
    pub(super) fn link(&mut self, slot: Slot) {
        let (Some(record), Some(folder)) = (self.records.get(slot), self.folder_of_parent(slot)) else { return };
        let (records, names) = (&self.records, &self.names);
        let name_of = |slot| records.get(slot).map_or(&[][..], |record| names.bytes(record.text()));
        self.folders[folder].children.insert(slot, names.bytes(record.text()), name_of);
    }

    /// Removes an item from its parent's entries.
    pub(super) fn unlink(&mut self, slot: Slot) {
        let (Some(record), Some(folder)) = (self.records.get(slot), self.folder_of_parent(slot)) else { return };
        let (records, names) = (&self.records, &self.names);
        let name_of = |slot| records.get(slot).map_or(&[][..], |record| names.bytes(record.text()));
        self.folders[folder].children.remove(names.bytes(record.text()), name_of);
    }

    /// What an item counts for: itself and everything below it.
    pub(super) fn subtree_usage(&self, slot: Slot) -> SubtreeUsage {
        match self.folder(slot) {
            Some(folder) => SubtreeUsage { folders: folder.below.folders + 1, ..folder.below },
            None => SubtreeUsage { files: 1, folders: 0, bytes: self.content_bytes(slot).into() },
        }
    }

    /// Memory taken by everything here, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let folders: usize = self.folders.iter().map(|folder| folder.children.bytes()).sum();
        self.records.bytes()
            + self.names.memory_bytes()
            + self.by_id.bytes()
            + self.by_slice.bytes()
            + self.acls.memory_bytes()
            + folders
            + self.folders.capacity() * size_of::<Folder>()
    }

    /// The place of the folder that an item is in.
    fn folder_of_parent(&self, slot: Slot) -> Option<usize> {
        let parent = self.records.get(self.records.get(slot)?.parent)?;
        parent.is(FOLDER).then(|| parent.folder())
    }

    fn begin_folder(&mut self, slot: Slot, modified_unix_millis: u64) {
        let place = match self.folders_free.pop() {
            Some(place) => place,
            None => {
                self.folders.push(Folder::default());
                // Each has a record, and there are fewer than 2^32 of these.
                (self.folders.len() - 1) as u32
            }
        };
        let Some(record) = self.records.get_mut(slot) else { return };
        record.bytes = narrow(place.into()).unwrap_or_default();
        match narrow(modified_unix_millis) {
            Some(modified) => record.version = modified,
            None => {
                record.set(RARE, true);
                self.rare.insert(slot, Rare { modified_unix_millis, ..Rare::default() });
            }
        }
    }

    fn set_content(&mut self, slot: Slot, content: FileContent, modified_unix_millis: u64) {
        let FileContent { slice, version, bytes, digest, records, copies, user } = content;
        let Some(record) = self.records.get_mut(slot) else { return };
        record.slice = halves(slice);
        record.digest = digest.0;
        record.copies = copies;
        record.set(USER, !user.is_empty());
        let after = i32::try_from(i128::from(modified_unix_millis) - i128::from(version.0)).ok();
        match (narrow(version.0), narrow(bytes), pack_format(records), after) {
            (Some(version), Some(bytes), Some(format), Some(after)) => {
                (record.version, record.bytes, record.modified_after_version) = (version, bytes, after);
                record.format_bytes = format.1;
                record.flags = record.flags & !(FIXED | LINES) | format.0;
                record.set(RARE, false);
            }
            _ => {
                record.set(RARE, true);
                self.rare.insert(slot, Rare { version: version.0, bytes, modified_unix_millis, records });
            }
        }
        if !user.is_empty() {
            if *self.last_user != user {
                self.last_user = Arc::new(user);
            }
            self.user.insert(slot, Arc::clone(&self.last_user));
        }
        let all = &self.records;
        let hash = |slot| all.get(slot).map_or(0, |record| hash_of_slice(record.slice()));
        self.by_slice.insert(hash_of_slice(slice), slot, |_| false, hash);
    }

    fn clear_content(&mut self, slot: Slot) {
        let Some(record) = self.records.get(slot) else { return };
        self.by_slice.remove(hash_of_slice(record.slice()), slot);
        if record.is(RARE) {
            self.rare.remove(&slot);
        }
        if record.is(USER) {
            self.user.remove(&slot);
        }
    }
}

impl SubtreeUsage {
    pub(super) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.folders += other.folders;
        self.bytes += other.bytes;
    }

    pub(super) fn subtract(&mut self, other: Self) {
        debug_assert!(self.files >= other.files && self.folders >= other.folders && self.bytes >= other.bytes);
        self.files = self.files.saturating_sub(other.files);
        self.folders = self.folders.saturating_sub(other.folders);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    /// In the form that clients get.
    pub(super) fn usage(self) -> Usage {
        let bytes = u64::try_from(self.bytes).unwrap_or(u64::MAX);
        Usage { files: self.files, folders: self.folders, bytes }
    }

    /// Files and folders.
    pub(super) fn entries(self) -> u64 {
        self.files + self.folders
    }
}

/// The parts that did not fit into a record.
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    version: u64,
    bytes: u64,
    modified_unix_millis: u64,
    records: RecordFraming,
}

/// Each owner's name, stored once. Names of owners whose files have gone stay until the next start. A name has 64 bytes
/// at most, and there are at most 65,535 here.
#[derive(Debug, Default)]
struct Owners {
    names: Vec<UserName>,
    numbers: BTreeMap<UserName, u16>,
    /// Owners beyond the last free number, by item.
    beyond: BTreeMap<Slot, UserName>,
}

impl Owners {
    fn number(&mut self, name: &UserName) -> u16 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u16::try_from(self.names.len()).unwrap_or(OWNER_RARE);
        if number != OWNER_RARE {
            self.names.push(name.clone());
            self.numbers.insert(name.clone(), number);
        }
        number
    }
}

pub(crate) fn hash_of_slice(slice: SliceId) -> u64 {
    hash_of((slice.0 >> 64) as u64 ^ slice.0 as u64)
}

/// An owner without a number: see [`Owners::beyond`].
const OWNER_RARE: u16 = u16::MAX;
