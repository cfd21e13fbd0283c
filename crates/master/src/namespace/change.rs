//! What changes names: make a folder, publish a file, rename, remove. Serves upload, `mkdir`, `mv`, `rm`. Each call
//! checks everything first and changes nothing when it refuses; whoever calls has checked the rights.

use std::collections::BTreeMap;

use protocol::{
    FileId, Now, Refusal, SectorPath, SliceId, Status, UserName, limits, message::client_master::FileContent,
};
use store::RowChange;

use super::{Item, ItemKind, Namespace, PathSize, ROOT, nothing_at, rows};

/// What a change of names did.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The rows that make it durable; none when nothing changed.
    pub(crate) rows: Vec<RowChange>,
    /// Slices that are no file's content any more.
    pub(crate) freed: Vec<SliceId>,
    /// The entry that was made, changed or moved.
    pub(crate) entry: Option<FileId>,
}

impl Namespace {
    /// Makes a folder. With `parents`, also those above it, and an existing folder is no error.
    pub(crate) fn make_folder(
        &mut self,
        now: Now,
        path: &SectorPath,
        parents: bool,
        owner: &UserName,
    ) -> Result<Change, Refusal> {
        if let Some(id) = self.find(path) {
            if parents && self.is_folder(id) {
                return Ok(Change { entry: Some(id), ..Change::default() });
            }
            return Err(Refusal::new(Status::Exists, format!("`{path}` exists already")));
        }
        self.check_parent(path, parents)?;
        let mut change = Change::default();
        let mut at = ROOT;
        for name in path.components() {
            at = match self.child(at, name) {
                Some(child) => child,
                None => {
                    let kind = ItemKind::Folder(BTreeMap::new());
                    let item = Item {
                        parent: at,
                        name: name.into(),
                        owner: owner.clone(),
                        modified_unix_millis: now.unix_millis,
                        kind,
                    };
                    let child = self.insert(now, item);
                    change.rows.extend(self.row(child));
                    child
                }
            };
        }
        self.longest = self.longest.max(PathSize::of(path));
        change.entry = Some(at);
        Ok(change)
    }

    /// Makes `content` the content of the file at `path`, which is made or replaced. A file that is replaced keeps its
    /// identity and its owner.
    pub(crate) fn put_file(
        &mut self,
        now: Now,
        path: &SectorPath,
        parents: bool,
        owner: &UserName,
        content: FileContent,
        modified_unix_millis: u64,
    ) -> Result<Change, Refusal> {
        self.last_version = self.last_version.max(content.version.0);
        if let Some(id) = self.find(path) {
            return self.replace_content(id, path, content, modified_unix_millis);
        }
        let (Some(name), Some(folder)) = (path.name(), path.parent()) else {
            return Err(is_a_folder(path));
        };
        self.check_parent(path, parents)?;
        let mut change = self.make_folder(now, &folder, true, owner)?;
        let Some(parent) = change.entry else { return Err(nothing_at(&folder)) };
        let slice = content.slice;
        let id = self.insert(
            now,
            Item {
                parent,
                name: name.into(),
                owner: owner.clone(),
                modified_unix_millis,
                kind: ItemKind::File(Box::new(content)),
            },
        );
        self.by_slice.insert(slice, id);
        self.longest = self.longest.max(PathSize::of(path));
        change.rows.extend(self.row(id));
        change.entry = Some(id);
        Ok(change)
    }

    /// Gives an entry another path; a file at `to` is replaced by a file. One row changes, whatever lies below.
    pub(crate) fn rename(&mut self, from: &SectorPath, to: &SectorPath) -> Result<Change, Refusal> {
        let id = self.get(from)?;
        if from.is_root() || to.is_root() {
            return Err(Refusal::new(Status::Refused, "the root folder `/` can be neither renamed nor replaced"));
        }
        if from == to {
            return Ok(Change { entry: Some(id), ..Change::default() });
        }
        if to.is_within(from) && self.is_folder(id) {
            return Err(Refusal::new(
                Status::Refused,
                format!("the folder `{from}` cannot be moved into itself, to `{to}`"),
            ));
        }
        self.check_parent(to, false)?;
        let mut change = Change { entry: Some(id), ..Change::default() };
        if let Some(replaced) = self.find(to) {
            if self.is_folder(replaced) || self.is_folder(id) {
                return Err(Refusal::new(
                    Status::Exists,
                    format!("`{to}` exists already; only a file replaces a file"),
                ));
            }
            change = self.remove_item(replaced, change);
        } else {
            self.check_lengths_below(id, from, to)?;
        }
        self.move_item(id, from, to);
        change.rows.extend(self.row(id));
        Ok(change)
    }

    /// Removes an entry; a folder that is not empty only when `recursive`.
    pub(crate) fn remove(&mut self, path: &SectorPath, recursive: bool) -> Result<Change, Refusal> {
        let id = self.get(path)?;
        if id == ROOT {
            return Err(Refusal::new(Status::Refused, "the root folder `/` cannot be removed"));
        }
        if !recursive && !self.children(id).is_empty() {
            return Err(Refusal::new(
                Status::Refused,
                format!("the folder `{path}` is not empty; remove it with `-r`"),
            ));
        }
        Ok(self.remove_item(id, Change::default()))
    }

    fn replace_content(
        &mut self,
        id: FileId,
        path: &SectorPath,
        content: FileContent,
        modified_unix_millis: u64,
    ) -> Result<Change, Refusal> {
        let Some(Item { kind: ItemKind::File(old), modified_unix_millis: modified, .. }) = self.items.get_mut(&id)
        else {
            return Err(is_a_folder(path));
        };
        *modified = modified_unix_millis;
        let (new_slice, old_slice) = (content.slice, old.slice);
        **old = content;
        self.by_slice.remove(&old_slice);
        self.by_slice.insert(new_slice, id);
        Ok(Change { rows: self.row(id), freed: vec![old_slice], entry: Some(id) })
    }

    /// Refuses a path whose folder is missing (unless missing ones will be made) or is a file.
    pub(crate) fn check_parent(&self, path: &SectorPath, parents: bool) -> Result<(), Refusal> {
        let (nearest, missing) = self.nearest(path);
        if missing > 0 && !self.is_folder(nearest) {
            let file = self.path(nearest).map_or_else(String::new, |file| file.to_string());
            return Err(Refusal::new(Status::Exists, format!("`{file}` is a file, so there can be no `{path}`")));
        }
        if missing > 1 && !parents {
            let folder = path.parent().unwrap_or_else(SectorPath::root);
            return Err(Refusal::new(Status::NotFound, format!("there is no folder `{folder}`; make it first")));
        }
        Ok(())
    }

    /// Refuses a rename after which some path below would be longer than a path may be.
    fn check_lengths_below(&self, id: FileId, from: &SectorPath, to: &SectorPath) -> Result<(), Refusal> {
        let (before, after) = (PathSize::of(from), PathSize::of(to));
        let fits = |longest: PathSize| {
            longest.bytes - before.bytes + after.bytes <= limits::PATH_BYTES_MAX
                && longest.components - before.components + after.components <= limits::PATH_COMPONENTS_MAX
        };
        // Almost always true, and then the folder need not be searched.
        if fits(self.longest.max(before)) {
            return Ok(());
        }
        let mut rest = vec![(id, before)];
        while let Some((at, size)) = rest.pop() {
            if !fits(size) {
                return Err(Refusal::new(
                    Status::Refused,
                    format!(
                        "`{from}` cannot be renamed to `{to}`: \
                         a path in it would be longer than 3500 bytes or 256 components"
                    ),
                ));
            }
            if let Some(Item { kind: ItemKind::Folder(children), .. }) = self.items.get(&at) {
                rest.extend(children.iter().map(|(name, child)| (*child, size.below(name))));
            }
        }
        Ok(())
    }

    fn move_item(&mut self, id: FileId, from: &SectorPath, to: &SectorPath) {
        let (Some(name), Some(folder)) = (to.name(), to.parent().and_then(|folder| self.find(&folder))) else {
            return;
        };
        self.unhang(id);
        if let Some(item) = self.items.get_mut(&id) {
            item.name = name.into();
            item.parent = folder;
        }
        self.hang(id);
        let (before, after) = (PathSize::of(from), PathSize::of(to));
        // What lies below a folder grew by as much as the folder's path did; it may hold the longest path of all.
        let below = if self.is_folder(id) { self.longest.max(before) } else { before };
        let moved = PathSize {
            bytes: (below.bytes - before.bytes + after.bytes).min(limits::PATH_BYTES_MAX),
            components: (below.components - before.components + after.components).min(limits::PATH_COMPONENTS_MAX),
        };
        self.longest = self.longest.max(moved);
    }

    fn remove_item(&mut self, id: FileId, mut change: Change) -> Change {
        self.unhang(id);
        let mut rest = vec![id];
        let mut newest = 0;
        while let Some(at) = rest.pop() {
            let Some(item) = self.items.remove(&at) else { continue };
            change.rows.push(rows::removal(at));
            match item.kind {
                ItemKind::Folder(children) => rest.extend(children.into_values()),
                ItemKind::File(content) => {
                    self.by_slice.remove(&content.slice);
                    change.freed.push(content.slice);
                    newest = newest.max(content.version.0);
                }
            }
        }
        // Versions go on growing over a restart, whatever the clock does and although the file is not there any more.
        if newest > self.removed_version {
            self.removed_version = newest;
            change.rows.push(rows::removed_version(newest));
        }
        change
    }

    fn insert(&mut self, now: Now, item: Item) -> FileId {
        // Time in the upper bits: an id is not given again after a restart, although removed entries leave no trace.
        self.last_file = (self.last_file + 1).max(now.unix_millis << FILES_PER_MILLI_BITS);
        let id = FileId(self.last_file);
        self.items.insert(id, item);
        self.hang(id);
        id
    }

    fn hang(&mut self, id: FileId) {
        let Some((parent, name)) = self.items.get(&id).map(|item| (item.parent, item.name.clone())) else { return };
        if let Some(Item { kind: ItemKind::Folder(children), .. }) = self.items.get_mut(&parent) {
            children.insert(name, id);
        }
    }

    fn unhang(&mut self, id: FileId) {
        let Some((parent, name)) = self.items.get(&id).map(|item| (item.parent, item.name.clone())) else { return };
        if let Some(Item { kind: ItemKind::Folder(children), .. }) = self.items.get_mut(&parent) {
            children.remove(&name);
        }
    }
}

/// The refusal where a file is needed.
pub(crate) fn is_a_folder(path: &SectorPath) -> Refusal {
    Refusal::new(Status::Exists, format!("`{path}` is a folder, not a file"))
}

/// 1,024 new entries a millisecond before ids run ahead of the clock, which does no harm.
const FILES_PER_MILLI_BITS: u32 = 10;
