//! The names of a [`MemoryDisk`](super::MemoryDisk): as a process sees them and as a crash would leave them. Between
//! the two are the changes that no sync has made safe yet. It never decides what a crash keeps: the caller does.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use crate::{
    disk::{FolderItem, memory_disk::content::Content},
    locking::lock,
};

/// All names of a disk.
pub(super) struct Names {
    now: BTreeMap<PathBuf, Name>,
    safe: BTreeMap<PathBuf, Name>,
    /// `safe` with these applied in order is `now`.
    pending: VecDeque<Pending>,
}

/// What a name stands for.
#[derive(Clone)]
pub(super) enum Name {
    Folder,
    File(Arc<Mutex<Content>>),
}

/// One change, applied whole or not at all.
pub(super) enum NameChange {
    Create(PathBuf, Name),
    Rename { from: PathBuf, to: PathBuf },
    Remove(PathBuf),
}

impl Names {
    /// A disk with its root, absolute and relative.
    pub(super) fn new() -> Self {
        let roots = BTreeMap::from([(PathBuf::from("/"), Name::Folder), (PathBuf::new(), Name::Folder)]);
        Self { now: roots.clone(), safe: roots, pending: VecDeque::new() }
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<&Arc<Mutex<Content>>> {
        match self.now.get(path) {
            Some(Name::File(content)) => Ok(content),
            Some(Name::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        matches!(self.now.get(path), Some(Name::Folder))
    }

    /// All files, by path.
    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<Mutex<Content>>> {
        self.now.values().filter_map(|name| match name {
            Name::File(content) => Some(content),
            Name::Folder => None,
        })
    }

    pub(super) fn list(&self, folder: &Path) -> io::Result<Vec<FolderItem>> {
        if !self.is_folder(folder) {
            self.file(folder)?;
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let items = self.below(folder).filter(|(path, _)| path.parent() == Some(folder));
        Ok(items
            .filter_map(|(path, name)| {
                let (is_folder, bytes) = match name {
                    Name::Folder => (true, 0),
                    Name::File(content) => (false, lock(content).bytes()),
                };
                Some(FolderItem { name: path.file_name()?.to_str()?.to_owned(), is_folder, bytes })
            })
            .collect())
    }

    /// Makes a change if a real disk would.
    pub(super) fn change(&mut self, change: NameChange) -> io::Result<()> {
        match &change {
            NameChange::Create(path, _) => {
                if self.now.contains_key(path) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                self.check_parent(path)?;
            }
            NameChange::Rename { from, to } => {
                self.file(from)?;
                self.check_parent(to)?;
                if self.is_folder(to) {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                if from == to {
                    return Ok(());
                }
            }
            NameChange::Remove(path) => {
                if !self.now.contains_key(path) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                if self.below(path).next().is_some() {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
            }
        }
        change.apply(&mut self.now);
        self.pending.push_back(Pending::new(change));
        if self.pending.len() > PENDING_CHANGES_MAX
            && let Some(oldest) = self.pending.pop_front()
        {
            oldest.change.apply(&mut self.safe);
        }
        Ok(())
    }

    pub(super) fn create_folder_all(&mut self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        for folder in path.ancestors() {
            match self.now.get(folder) {
                Some(Name::Folder) => break,
                Some(Name::File(_)) if missing.is_empty() => return Err(io::ErrorKind::AlreadyExists.into()),
                Some(Name::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => missing.push(folder.to_owned()),
            }
        }
        missing.into_iter().rev().try_for_each(|folder| self.change(NameChange::Create(folder, Name::Folder)))
    }

    /// Makes the changes in a folder safe, and those that they presuppose.
    pub(super) fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        if !self.is_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut synced: Vec<bool> =
            self.pending.iter().map(|pending| pending.change.name().parent() == Some(folder)).collect();
        for later in (0..synced.len()).rev() {
            if synced[later] {
                let (earlier, _) = synced.split_at_mut(later);
                for (synced, earlier) in earlier.iter_mut().zip(&self.pending) {
                    *synced |= self.pending[later].presupposes(earlier);
                }
            }
        }
        let mut synced = synced.into_iter();
        let safe = &mut self.safe;
        self.pending.retain(|pending| {
            let safe_now = synced.next().unwrap_or(false);
            if safe_now {
                pending.change.apply(safe);
            }
            !safe_now
        });
        Ok(())
    }

    /// Loses each pending change that `keeps` rejects, and those that presuppose it.
    pub(super) fn crash(&mut self, keeps: &mut dyn FnMut() -> bool) {
        let mut lost: Vec<Pending> = Vec::new();
        for pending in std::mem::take(&mut self.pending) {
            if !keeps() || lost.iter().any(|earlier| pending.presupposes(earlier)) {
                lost.push(pending);
            } else {
                pending.change.apply(&mut self.safe);
            }
        }
        self.now = self.safe.clone();
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent().and_then(|parent| self.now.get(parent)) {
            Some(Name::Folder) => Ok(()),
            Some(Name::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Everything below a folder, at any depth.
    fn below<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Name)> {
        // Paths compare component by component, so all that lies below a folder follows it.
        self.now
            .range::<Path, _>((Bound::Excluded(folder), Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(folder))
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Name>) {
        match self {
            Self::Create(path, name) => {
                names.insert(path.clone(), name.clone());
            }
            Self::Rename { from, to } => {
                if let Some(name) = names.remove(from) {
                    names.insert(to.clone(), name);
                }
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }

    /// The name whose folder must be synced to make the change safe.
    fn name(&self) -> &Path {
        match self {
            Self::Create(path, _) | Self::Remove(path) | Self::Rename { to: path, .. } => path,
        }
    }

    fn names(&self) -> impl Iterator<Item = &Path> {
        let from = match self {
            Self::Rename { from, .. } => Some(from.as_path()),
            Self::Create(..) | Self::Remove(_) => None,
        };
        from.into_iter().chain([self.name()])
    }
}

/// A change that is not safe yet. Every sync compares all of these with each other, so their names are hashed once.
struct Pending {
    change: NameChange,
    /// The hash of each name concerned and of its folder.
    hashes: Vec<(u64, u64)>,
}

impl Pending {
    fn new(change: NameChange) -> Self {
        let hash = |path: Option<&Path>| {
            // Always with the same keys: a seed must give the same crash on every machine.
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            hasher.finish()
        };
        let hashes = change.names().map(|name| (hash(Some(name)), hash(name.parent()))).collect();
        Self { change, hashes }
    }

    /// Whether this change cannot have happened without the earlier one. It concerns the same name, needs the folder
    /// that the other created, or needs the folder empty that the other changed.
    fn presupposes(&self, earlier: &Self) -> bool {
        let removes = matches!(self.change, NameChange::Remove(_));
        self.hashes.iter().any(|(name, folder)| {
            let concerns = |(other, other_folder): &(u64, u64)| {
                name == other || folder == other || (removes && other_folder == name)
            };
            earlier.hashes.iter().any(concerns)
        })
    }
}

/// Most changes of names that are not safe yet; beyond that, the oldest becomes safe by itself. Large enough for every
/// sequence of steps that must be crash-safe, small enough to keep a simulation of hours fast.
const PENDING_CHANGES_MAX: usize = 256;
