//! The names below one folder as a map from path to entry, with the effect of each change. It is slow and obvious. It
//! was written from the contract alone, never from the master's namespace, which is compared with it.

use std::collections::BTreeMap;

use protocol::{SectorPath, Status, message::client_master::Usage};

use super::ContentId;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tree(pub(crate) BTreeMap<SectorPath, Item>);

/// The entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Folder,
    File(ContentId),
}

/// A change that a client may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    MakeFolder { path: SectorPath, parents: bool },
    Put { path: SectorPath, content: ContentId, parents: bool, absent: bool },
    Rename { from: SectorPath, to: SectorPath },
    Remove { path: SectorPath, recursive: bool },
}

impl Tree {
    /// The names after a change, or its refusal.
    pub(crate) fn apply(&self, change: &Change) -> Result<Self, Status> {
        let mut after = self.clone();
        match change {
            Change::MakeFolder { path, parents } => match self.0.get(path) {
                Some(Item::Folder) if *parents => {}
                Some(_) => return Err(Status::Exists),
                None => after.make(path, *parents, Item::Folder)?,
            },
            Change::Put { path, content, parents, absent } => match self.0.get(path) {
                Some(Item::Folder) => return Err(Status::Exists),
                Some(Item::File(_)) if *absent => return Err(Status::Exists),
                Some(Item::File(_)) => _ = after.0.insert(path.clone(), Item::File(*content)),
                None => after.make(path, *parents, Item::File(*content))?,
            },
            Change::Rename { from, to } => after.rename(from, to)?,
            Change::Remove { path, recursive } => {
                let below = self.below(path);
                match self.0.get(path) {
                    None => return Err(Status::NotFound),
                    Some(_) if !recursive && !below.is_empty() => return Err(Status::Refused),
                    Some(_) => {}
                }
                after.0.remove(path);
                below.iter().for_each(|path| _ = after.0.remove(path));
            }
        }
        Ok(after)
    }

    /// The content of the file at a path.
    pub(crate) fn file(&self, path: &SectorPath) -> Option<ContentId> {
        match self.0.get(path) {
            Some(Item::File(content)) => Some(*content),
            _ => None,
        }
    }

    /// The files, by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&SectorPath, ContentId)> {
        self.0.iter().filter_map(|(path, item)| match item {
            Item::File(content) => Some((path, *content)),
            Item::Folder => None,
        })
    }

    /// Files, folders and bytes at and below a path.
    pub(crate) fn usage(&self, at: &SectorPath, bytes_of: impl Fn(ContentId) -> u64) -> Usage {
        let mut usage = Usage::default();
        for (_, item) in self.0.iter().filter(|(path, _)| path.is_within(at)) {
            match item {
                Item::Folder => usage.folders += 1,
                Item::File(content) => {
                    usage.files += 1;
                    usage.bytes += bytes_of(*content);
                }
            }
        }
        usage
    }

    /// Everything below a path, without the path itself.
    pub(crate) fn below(&self, at: &SectorPath) -> Vec<SectorPath> {
        self.0.keys().filter(|path| *path != at && path.is_within(at)).cloned().collect()
    }

    fn make(&mut self, path: &SectorPath, parents: bool, item: Item) -> Result<(), Status> {
        self.check_parents(path, parents)?;
        for folder in folders_above(path) {
            self.0.entry(folder).or_insert(Item::Folder);
        }
        self.0.insert(path.clone(), item);
        Ok(())
    }

    fn check_parents(&self, path: &SectorPath, parents: bool) -> Result<(), Status> {
        for folder in folders_above(path) {
            match self.0.get(&folder) {
                Some(Item::Folder) => {}
                Some(Item::File(_)) => return Err(Status::Exists),
                None if parents => return Ok(()),
                None => return Err(Status::NotFound),
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &SectorPath, to: &SectorPath) -> Result<(), Status> {
        let Some(moved) = self.0.get(from).copied() else { return Err(Status::NotFound) };
        if from == to {
            return Ok(());
        }
        if moved == Item::Folder && to.is_within(from) {
            return Err(Status::Refused);
        }
        self.check_parents(to, false)?;
        if let Some(there) = self.0.get(to)
            && (*there == Item::Folder || moved == Item::Folder)
        {
            return Err(Status::Exists);
        }
        for old in self.below(from) {
            let new = path(&format!("{to}{}", &old.as_str()[from.as_str().len()..]));
            if let Some(item) = self.0.remove(&old) {
                self.0.insert(new, item);
            }
        }
        self.0.remove(from);
        self.0.insert(to.clone(), moved);
        Ok(())
    }
}

/// A path made by this crate itself.
pub(crate) fn path(text: &str) -> SectorPath {
    // Only made from short names here; an invalid one would show as a refusal at once.
    SectorPath::parse(text).unwrap_or_else(|_| SectorPath::root())
}

/// The folders above a path, from the top down, without the root.
fn folders_above(path: &SectorPath) -> Vec<SectorPath> {
    let mut above: Vec<_> = std::iter::successors(path.parent(), SectorPath::parent).collect();
    above.retain(|folder| !folder.is_root());
    above.reverse();
    above
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::Contents;

    fn tree(folders: &[&str], files: &[&str]) -> (Tree, ContentId) {
        let content = Contents::default().add(vec![1]);
        let mut tree = Tree::default();
        folders.iter().for_each(|at| _ = tree.0.insert(path(at), Item::Folder));
        files.iter().for_each(|at| _ = tree.0.insert(path(at), Item::File(content)));
        (tree, content)
    }

    fn rename(from: &str, to: &str) -> Change {
        Change::Rename { from: path(from), to: path(to) }
    }

    #[test]
    fn a_folder_takes_along_what_lies_below_it_and_nothing_beside_it() {
        let (before, _) = tree(&["/a", "/a/b", "/ab"], &["/a/b/x", "/ab/y"]);
        let (after, _) = tree(&["/c", "/c/b", "/ab"], &["/c/b/x", "/ab/y"]);
        assert_eq!(before.apply(&rename("/a", "/c")).unwrap(), after);
    }

    #[test]
    fn what_a_rename_may_not_do() {
        let (tree, _) = tree(&["/a", "/b"], &["/x", "/y"]);
        let refused = |from, to| tree.apply(&rename(from, to)).unwrap_err();
        assert_eq!(refused("/n", "/m"), Status::NotFound);
        assert_eq!(refused("/a", "/a/c"), Status::Refused);
        assert_eq!(refused("/a", "/b"), Status::Exists);
        assert_eq!(refused("/a", "/x"), Status::Exists);
        assert_eq!(refused("/x", "/n/x"), Status::NotFound);
        assert_eq!(refused("/x", "/y/x"), Status::Exists);
        assert_eq!(tree.apply(&rename("/x", "/y")).unwrap().files().count(), 1);
    }

    #[test]
    fn a_put_makes_parents_only_when_asked() {
        let (tree, content) = tree(&[], &["/x"]);
        let put = |at, parents, absent| tree.apply(&Change::Put { path: path(at), content, parents, absent });
        assert_eq!(put("/n/f", false, false).unwrap_err(), Status::NotFound);
        assert_eq!(put("/n/f", true, false).unwrap().0.len(), 3);
        assert_eq!(put("/x", false, true).unwrap_err(), Status::Exists);
        assert!(put("/x", false, false).is_ok());
    }
}
