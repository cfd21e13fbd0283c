//! Loads names from the rows of a journal, one row at a time, so that ten million take no more memory than the names
//! themselves. Serves the start of the master. It never accepts rows that do not form one tree.

use std::collections::BTreeMap;

use protocol::{FileId, Now, SectorPath, UserName};
use store::RowChange;

use super::{
    Items, NO_PARENT, NO_PARENT_ID, Namespace, NewItem, PathSize, REMOVE_AT_ONCE_MAX, ROOT, ROOT_OWNER,
    children::Children,
    entry_rows::{self, damaged_row},
    items::SubtreeUsage,
};
use crate::{
    actions::{NAMES_TABLE, StoredRow, VERSIONS_TABLE},
    catalog::compact_storage::Slot,
    error::MasterError,
};

/// Names being loaded.
pub(crate) struct NamespaceLoader {
    names: Namespace,
    /// The parent's id of every item, by slot: a folder may come after its entries.
    parents: Vec<u64>,
    /// The owner of the previous row: most files of a journal share a few owners.
    owner: Option<UserName>,
}

impl NamespaceLoader {
    pub(crate) fn new() -> Self {
        let names = Namespace {
            items: Items::new(),
            root: NO_PARENT,
            pending_removals: BTreeMap::new(),
            remove_at_once_max: REMOVE_AT_ONCE_MAX,
            last_file: ROOT.0,
            last_version: 0,
            removed_version: 0,
            longest: PathSize::default(),
        };
        Self { names, parents: Vec::new(), owner: None }
    }

    /// Whether no row was taken yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.items.len() == 0
    }

    /// Whether the rows of a table belong to the names.
    pub(crate) fn is_own_table(table: &str) -> bool {
        table == NAMES_TABLE || table == VERSIONS_TABLE
    }

    /// Takes a row; they may come in any order.
    pub(crate) fn add_row(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<(), MasterError> {
        if table == VERSIONS_TABLE {
            let bad = || damaged_row(&StoredRow { table, key: key.to_vec(), value: Vec::new() });
            self.names.removed_version = entry_rows::parse_removed_version(value).ok_or_else(bad)?;
            return Ok(());
        }
        self.take_name(key, value)
    }

    fn take_name(&mut self, key: &[u8], value: &[u8]) -> Result<(), MasterError> {
        let bad = || damaged_row(&StoredRow { table: NAMES_TABLE, key: key.to_vec(), value: Vec::new() });
        let (id, read) = entry_rows::parse(key, value).ok_or_else(bad)?;
        if self.owner.as_ref().is_none_or(|owner| owner.as_str() != read.owner) {
            self.owner = Some(UserName::new(read.owner).map_err(|_| bad())?);
        }
        let Some(owner) = &self.owner else { return Err(bad()) };
        let names = &mut self.names;
        names.last_file = names.last_file.max(id.0);
        if let Some(content) = &read.content {
            names.last_version = names.last_version.max(content.version.0);
        }
        let new = NewItem {
            id,
            parent: NO_PARENT,
            name: read.name,
            owner,
            modified_unix_millis: read.modified_unix_millis,
            content: read.content,
        };
        let slot = names.items.insert(new).map_err(|why| MasterError::Names { file: id, why })?;
        debug_assert_eq!(slot as usize, self.parents.len(), "nothing is removed while rows are loaded");
        if read.acl.is_some() {
            names.items.set_acl(slot, read.acl);
        }
        self.parents.push(read.parent.0);
        if id == ROOT {
            names.root = slot;
        }
        Ok(())
    }

    /// The names, and the row to be saved if there was none.
    pub(crate) fn finish(mut self, now: Now) -> Result<(Namespace, Vec<RowChange>), MasterError> {
        if self.names.items.len() == 0 {
            self.begin(now)?;
            let row = self.names.row(self.names.root);
            return Ok((self.names, row));
        }
        if self.names.root == NO_PARENT {
            return Err(MasterError::Names { file: ROOT, why: "the root folder has no row" });
        }
        self.find_parents()?;
        self.link_all()?;
        self.measure_all()?;
        let names = &mut self.names;
        // Covers removed files too, whatever the clock says now.
        names.last_version = names.last_version.max(names.removed_version).max(names.birth().0);
        Ok((self.names, Vec::new()))
    }

    /// The root folder of an empty cloud.
    fn begin(&mut self, now: Now) -> Result<(), MasterError> {
        let failed = |why| MasterError::Names { file: ROOT, why };
        let owner = UserName::new(ROOT_OWNER).map_err(|_| failed("its owner has no valid name"))?;
        let modified_unix_millis = now.unix_millis;
        let new = NewItem { id: ROOT, parent: NO_PARENT, name: "", owner: &owner, modified_unix_millis, content: None };
        self.names.root = self.names.items.insert(new).map_err(failed)?;
        self.names.last_version = self.names.birth().0;
        Ok(())
    }

    /// Sets the slot of each item's folder.
    fn find_parents(&mut self) -> Result<(), MasterError> {
        let names = &mut self.names;
        // Neighbours in the journal were created one after the other, most of them in the same folder.
        let mut last = (NO_PARENT_ID.0, NO_PARENT);
        for (slot, parent) in (0..).zip(&self.parents) {
            if slot == names.root {
                continue;
            }
            if *parent == NO_PARENT_ID.0 {
                // Cut off before the start; its former path no longer matters.
                names.pending_removals.insert(slot, SectorPath::root());
                continue;
            }
            if last.0 != *parent {
                let found = names.items.find(FileId(*parent)).filter(|found| names.items.is_folder(*found));
                last = (*parent, found.unwrap_or(NO_PARENT));
            }
            if last.1 == NO_PARENT {
                return Err(names.broken(slot, "its folder is missing"));
            }
            names.items.set_parent(slot, last.1);
        }
        self.parents = Vec::new();
        Ok(())
    }

    /// Gives each folder its entries, by name.
    fn link_all(&mut self) -> Result<(), MasterError> {
        let items = &mut self.names.items;
        let slots = 0..items.end();
        // Where each folder's entries end in a list of all, and later where they begin: a counting sort by folder.
        let mut places = vec![0u32; slots.len() + 1];
        let parent_of = |items: &Items, slot| items.parent(slot).filter(|parent| *parent != NO_PARENT);
        for parent in slots.clone().filter_map(|slot| parent_of(items, slot)) {
            places[parent as usize] += 1;
        }
        let mut end = 0;
        for place in &mut places {
            end += *place;
            *place = end;
        }
        let mut all = vec![NO_PARENT; end as usize];
        for slot in slots.clone().rev() {
            if let Some(parent) = parent_of(items, slot) {
                places[parent as usize] -= 1;
                all[places[parent as usize] as usize] = slot;
            }
        }
        let mut keyed = Vec::new();
        for folder in slots {
            let entries = &mut all[places[folder as usize] as usize..places[folder as usize + 1] as usize];
            if entries.is_empty() {
                continue;
            }
            if let Some(twice) = sort_by_name(items, entries, &mut keyed) {
                return Err(self.names.broken(twice, "its folder has the name twice"));
            }
            if let Some(found) = items.folder_mut(folder) {
                found.children = Children::from_sorted(entries);
            }
        }
        Ok(())
    }

    /// Visits every item from the root and from cut-off folders, and counts everything below each folder.
    fn measure_all(&mut self) -> Result<(), MasterError> {
        let names = &mut self.names;
        let mut folders = Vec::new();
        let mut reached = 0;
        let roots = names.pending_removals.keys().map(|slot| (*slot, None));
        let mut rest: Vec<_> = roots.chain([(names.root, Some(PathSize::default()))]).collect();
        while let Some((at, size)) = rest.pop() {
            reached += 1;
            let Some(folder) = names.items.folder(at) else { continue };
            let mut below = SubtreeUsage::default();
            for child in folder.children.iter() {
                let child_size = size.map(|size| size.below(names.items.name(child)));
                names.longest = names.longest.max(child_size.unwrap_or_default());
                if names.items.is_folder(child) {
                    rest.push((child, child_size));
                } else {
                    reached += 1;
                    below.add(names.items.subtree_usage(child));
                }
            }
            folders.push(at);
            if let Some(folder) = names.items.folder_mut(at) {
                folder.below = below;
            }
        }
        // Each folder came before those in it. In reverse, all folders below one are counted before the folder itself.
        for folder in folders.into_iter().rev() {
            let usage = names.items.subtree_usage(folder);
            if let Some(above) = names.items.parent(folder).and_then(|parent| names.items.folder_mut(parent)) {
                above.below.add(usage);
            }
        }
        if reached != names.items.len() {
            return Err(MasterError::Names { file: ROOT, why: "folders lie within each other" });
        }
        Ok(())
    }
}

impl Namespace {
    fn broken(&self, slot: Slot, why: &'static str) -> MasterError {
        MasterError::Names { file: self.items.id(slot).unwrap_or(ROOT), why }
    }
}

/// Sorts the entries of a folder by name; returns one whose name is used twice. Names of one folder often begin alike,
/// so the common prefix is skipped. The eight bytes after it decide most comparisons without looking further.
fn sort_by_name(items: &Items, entries: &mut [Slot], keyed: &mut Vec<(u64, Slot)>) -> Option<Slot> {
    let first = items.name_bytes(entries[0]);
    let alike = |name: &[u8]| first.iter().zip(name).take_while(|(a, b)| a == b).count();
    let shared = entries.iter().map(|slot| alike(items.name_bytes(*slot))).min().unwrap_or(0);
    let key = |slot: Slot| {
        let mut eight = [0; 8];
        let rest = &items.name_bytes(slot)[shared..];
        let length = rest.len().min(8);
        eight[..length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(eight)
    };
    keyed.clear();
    keyed.extend(entries.iter().map(|slot| (key(*slot), *slot)));
    keyed.sort_unstable_by(|(key, slot), (other_key, other)| {
        key.cmp(other_key).then_with(|| items.name_bytes(*slot).cmp(items.name_bytes(*other)))
    });
    entries.iter_mut().zip(keyed.iter()).for_each(|(entry, (_, slot))| *entry = *slot);
    let twice = entries.windows(2).find(|pair| items.name_bytes(pair[0]) == items.name_bytes(pair[1]));
    twice.map(|pair| pair[1])
}
