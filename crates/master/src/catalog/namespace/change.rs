//! Changes of names: make a folder, publish a file, rename (for removing see `subtree_removal`). Serves upload,
//! `mkdir`, `mv`. Each call checks everything first and changes nothing if it refuses. It never checks rights: the
//! caller has.

use protocol::{
    FileId, Now, Reason, Refusal, SectorPath, SliceId, UserName, limits, message::client_master::FileContent,
};
use store::RowChange;

use super::{Namespace, NewItem, PathSize, not_found_refusal};
use crate::catalog::compact_storage::Slot;

/// The result of a change of names.
#[derive(Debug, Default)]
pub(crate) struct NamespaceChange {
    /// The rows that make it durable; none when nothing changed.
    pub(crate) rows: Vec<RowChange>,
    /// Slices that are no file's content any more.
    pub(crate) freed: Vec<SliceId>,
    /// The entry that was made, changed or moved.
    pub(crate) entry: Option<FileId>,
    /// Slices of further files that have another path now, or none any more.
    pub(crate) touched: Vec<SliceId>,
}

impl Namespace {
    /// Makes a folder. With `parents`, the folders above it are made too, and an existing folder is no error.
    pub(crate) fn make_folder(
        &mut self,
        now: Now,
        path: &SectorPath,
        parents: bool,
        owner: &UserName,
    ) -> Result<NamespaceChange, Refusal> {
        if let Some(slot) = self.find_slot(path) {
            if parents && self.items.is_folder(slot) {
                return Ok(NamespaceChange { entry: self.items.id(slot), ..NamespaceChange::default() });
            }
            return Err(Refusal::new(Reason::Exists, format!("`{path}` exists already")));
        }
        self.check_parent(path, parents)?;
        let mut change = NamespaceChange::default();
        let mut at = self.root;
        for name in path.components() {
            at = match self.items.child(at, name) {
                Some(child) => child,
                None => {
                    let modified_unix_millis = now.unix_millis;
                    let id = FileId(0);
                    let new = NewItem { id, parent: at, name, owner, modified_unix_millis, content: None };
                    let child = self.add(now, new)?;
                    change.rows.extend(self.row(child));
                    child
                }
            };
        }
        self.longest = self.longest.max(PathSize::of(path));
        change.entry = self.items.id(at);
        Ok(change)
    }

    /// Makes `content` the content of the file at `path`, which is created or replaced. A replaced file keeps its
    /// identity and its owner.
    pub(crate) fn put_file(
        &mut self,
        now: Now,
        path: &SectorPath,
        parents: bool,
        owner: &UserName,
        content: FileContent,
        modified_unix_millis: u64,
    ) -> Result<NamespaceChange, Refusal> {
        self.last_version = self.last_version.max(content.version.0);
        if let Some(slot) = self.find_slot(path) {
            return self.replace_content(slot, path, content, modified_unix_millis);
        }
        let (Some(name), Some(folder)) = (path.name(), path.parent()) else {
            return Err(folder_refusal(path));
        };
        self.check_parent(path, parents)?;
        self.check_slice(&content, path)?;
        let mut change = self.make_folder(now, &folder, true, owner)?;
        let Some(parent) = self.find_slot(&folder) else { return Err(not_found_refusal(&folder)) };
        let new = NewItem { id: FileId(0), parent, name, owner, modified_unix_millis, content: Some(content) };
        let slot = self.add(now, new)?;
        self.longest = self.longest.max(PathSize::of(path));
        change.rows.extend(self.row(slot));
        change.entry = self.items.id(slot);
        Ok(change)
    }

    /// Gives an entry another path; a file at `to` is replaced by a file. Only one row changes, however much lies
    /// below.
    pub(crate) fn rename(&mut self, from: &SectorPath, to: &SectorPath) -> Result<NamespaceChange, Refusal> {
        let slot = self.find_slot(from).ok_or_else(|| not_found_refusal(from))?;
        let id = self.items.id(slot);
        if from.is_root() || to.is_root() {
            return Err(Refusal::new(Reason::NotPermitted, "the root folder `/` can be neither renamed nor replaced"));
        }
        if from == to {
            return Ok(NamespaceChange { entry: id, ..NamespaceChange::default() });
        }
        let is_folder = self.items.is_folder(slot);
        if to.is_within(from) && is_folder {
            return Err(Refusal::new(
                Reason::NotPermitted,
                format!("the folder `{from}` cannot be moved into itself, to `{to}`"),
            ));
        }
        self.check_parent(to, false)?;
        let mut change = NamespaceChange { entry: id, ..NamespaceChange::default() };
        if let Some(replaced) = self.find_slot(to) {
            let reason = match (is_folder, self.items.is_folder(replaced)) {
                (false, false) => None,
                (false, true) => Some(Reason::IsFolder),
                (true, false) => Some(Reason::NotFolder),
                (true, true) => Some(Reason::Exists),
            };
            if let Some(reason) = reason {
                return Err(Refusal::new(reason, format!("`{to}` exists already; only a file replaces a file")));
            }
            self.remove_item(replaced, to, &mut change);
        } else {
            self.check_lengths_below(slot, from, to)?;
        }
        self.move_item(slot, from, to);
        change.rows.extend(self.row(slot));
        Ok(change)
    }

    fn replace_content(
        &mut self,
        slot: Slot,
        path: &SectorPath,
        content: FileContent,
        modified_unix_millis: u64,
    ) -> Result<NamespaceChange, Refusal> {
        if self.items.is_folder(slot) {
            return Err(folder_refusal(path));
        }
        if self.items.slice(slot) != Some(content.slice) {
            self.check_slice(&content, path)?;
        }
        let (old, parent) = (self.items.subtree_usage(slot), self.items.parent(slot));
        let (version, replaced) = (content.version, self.items.version(slot));
        let freed = self.items.replace_content(slot, content, modified_unix_millis);
        let new = self.items.subtree_usage(slot);
        if let Some(parent) = parent {
            self.count_above(parent, |below| {
                below.subtract(old);
                below.add(new);
            });
        }
        let mut rows = self.row(slot);
        // A newer content may be replaced: one that was renamed to this path while the other was being written.
        rows.extend(replaced.filter(|replaced| *replaced > version).and_then(|replaced| self.note_removed(replaced)));
        Ok(NamespaceChange {
            rows,
            freed: freed.into_iter().collect(),
            entry: self.items.id(slot),
            ..NamespaceChange::default()
        })
    }

    /// Refuses a slice that is another file's content: every file has bytes of its own.
    fn check_slice(&self, content: &FileContent, path: &SectorPath) -> Result<(), Refusal> {
        match self.file_of_slice(content.slice).and_then(|file| self.path(file)) {
            Some(other) => Err(Refusal::new(
                Reason::NotPermitted,
                format!("`{path}` cannot have the slice {}, which is the content of `{other}`", content.slice),
            )),
            None => Ok(()),
        }
    }

    /// Refuses a path whose folder is missing (unless missing ones will be made) or is a file.
    pub(crate) fn check_parent(&self, path: &SectorPath, parents: bool) -> Result<(), Refusal> {
        let (nearest, missing) = self.deepest_existing_slot(path);
        if missing > 0 && !self.items.is_folder(nearest) {
            let file = self.path_of(nearest).map_or_else(String::new, |file| file.to_string());
            return Err(Refusal::new(Reason::NotFolder, format!("`{file}` is a file, so there can be no `{path}`")));
        }
        if missing > 1 && !parents {
            let folder = path.parent().unwrap_or_else(SectorPath::root);
            return Err(Refusal::new(Reason::NotFound, format!("there is no folder `{folder}`; make it first")));
        }
        Ok(())
    }

    /// Refuses a rename that would make some path below longer than a path may be.
    fn check_lengths_below(&self, slot: Slot, from: &SectorPath, to: &SectorPath) -> Result<(), Refusal> {
        let (before, after) = (PathSize::of(from), PathSize::of(to));
        let fits = |longest: PathSize| {
            longest.bytes - before.bytes + after.bytes <= limits::PATH_BYTES_MAX
                && longest.components - before.components + after.components <= limits::PATH_COMPONENTS_MAX
        };
        // Almost always true; then the folder need not be searched.
        if fits(self.longest.max(before)) {
            return Ok(());
        }
        let mut rest = vec![(slot, before)];
        while let Some((at, size)) = rest.pop() {
            if !fits(size) {
                return Err(Refusal::new(
                    Reason::NotPermitted,
                    format!(
                        "`{from}` cannot be renamed to `{to}`: \
                         a path in it would be longer than 3500 bytes or 256 components"
                    ),
                ));
            }
            if let Some(folder) = self.items.folder(at) {
                rest.extend(folder.children.iter().map(|child| (child, size.below(self.items.name(child)))));
            }
        }
        Ok(())
    }

    /// Whether every path at and below an entry is short enough once the entry is at `to`.
    pub(crate) fn fits_below(&self, id: FileId, from: &SectorPath, to: &SectorPath) -> bool {
        self.items.find(id).is_some_and(|slot| self.check_lengths_below(slot, from, to).is_ok())
    }

    fn move_item(&mut self, slot: Slot, from: &SectorPath, to: &SectorPath) {
        let (Some(name), Some(folder)) = (to.name(), to.parent().and_then(|folder| self.find_slot(&folder))) else {
            return;
        };
        let (usage, parent) = (self.items.subtree_usage(slot), self.items.parent(slot));
        self.items.unlink(slot);
        self.items.rename(slot, folder, name);
        self.items.link(slot);
        if let Some(parent) = parent.filter(|parent| *parent != folder) {
            self.count_above(parent, |below| below.subtract(usage));
            self.count_above(folder, |below| below.add(usage));
        }
        let (before, after) = (PathSize::of(from), PathSize::of(to));
        // Paths below a folder grew by as much as the folder's own; the longest path of all may be among them.
        let below = if self.items.is_folder(slot) { self.longest.max(before) } else { before };
        let moved = PathSize {
            bytes: (below.bytes - before.bytes + after.bytes).min(limits::PATH_BYTES_MAX),
            components: (below.components - before.components + after.components).min(limits::PATH_COMPONENTS_MAX),
        };
        self.longest = self.longest.max(moved);
    }
}

/// The refusal where a file is needed.
pub(crate) fn folder_refusal(path: &SectorPath) -> Refusal {
    Refusal::new(Reason::IsFolder, format!("`{path}` is a folder, not a file"))
}
