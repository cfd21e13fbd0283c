//! What a user is shown of a folder: only entries that they may read. Entries below a folder they may not read are left
//! out too. Serves `ls`, `find`, `du` and the inputs of jobs. Never changes anything.

use std::{cell::Cell, collections::BTreeSet};

use protocol::{
    FileId, Refusal, Rights, SectorPath,
    message::{client_master::Usage, master_security::UserRights},
};

use crate::catalog::{
    Catalog,
    namespace::{ListedPage, ROOT},
    trash::trash_root,
};

impl Catalog {
    /// A page of what a user may see of a folder.
    pub(crate) fn readable_page(
        &self,
        by: &UserRights,
        folder: &SectorPath,
        recursive: bool,
        after: Option<&SectorPath>,
    ) -> Result<ListedPage, Refusal> {
        let trash = self.names.find(&trash_root());
        let sees_all = by.admin || (self.names.has_no_acls() && self.everyone_reads() && !self.is_rebuilding);
        // Neighbours share a folder: its rights are looked up once.
        let above = Cell::new(None::<(FileId, bool)>);
        let is_seen = |id: FileId| {
            // Only if it is named.
            if folder.is_root() && Some(id) == trash {
                return false;
            }
            if sees_all {
                return true;
            }
            let Some(own) = self.names.self_and_ancestors(id).next() else { return false };
            if *own.owner == by.user {
                return true;
            }
            if let Some(acl) = own.acl.filter(|_| !own.is_folder || !self.is_rebuilding) {
                return acl.rights_of(by).has(Rights::READ);
            }
            let Some(parent) = self.names.parent(id).filter(|_| !self.is_rebuilding) else { return false };
            match above.get().filter(|(of, _)| *of == parent) {
                Some((_, seen)) => seen,
                None => {
                    let seen = self.may_read_below(by, parent);
                    above.set(Some((parent, seen)));
                    seen
                }
            }
        };
        self.names.list_filtered(
            folder,
            recursive,
            after,
            if sees_all && !folder.is_root() { None } else { Some(&is_seen) },
        )
    }

    /// Usage at and below an entry. The trash is left out unless it was named, and so are parts whose own list denies
    /// the user reading.
    pub(crate) fn readable_usage(&self, by: &UserRights, id: FileId) -> Usage {
        let says_no = |entry: &FileId| !self.rights_on(by, *entry).has(Rights::READ);
        let mut hidden = Vec::new();
        if !by.admin && !self.names.has_no_acls() {
            hidden.extend(self.names.own_acls_below(id).into_iter().filter(says_no));
        }
        hidden.extend(self.names.find(&trash_root()).filter(|_| id == ROOT));
        let hidden = self.outermost(hidden);
        let without = |sum: Usage, entry: FileId| less(sum, self.names.usage(entry));
        if id != ROOT || self.may_read_below(by, ROOT) {
            return hidden.into_iter().fold(self.names.usage(id), without);
        }
        // Each entry in the root counts by itself.
        let seen: BTreeSet<_> =
            self.names.children(ROOT).into_iter().filter(|child| !hidden.contains(child) && !says_no(child)).collect();
        let root = Usage { folders: 1, ..Usage::default() };
        let all = seen.iter().map(|child| self.names.usage(*child)).fold(root, more);
        let is_in_seen = |entry: &FileId| self.above(*entry).any(|at| seen.contains(&at));
        hidden.into_iter().filter(is_in_seen).fold(all, without)
    }

    /// Those of some entries that are inside none of the others.
    fn outermost(&self, entries: Vec<FileId>) -> Vec<FileId> {
        let all: BTreeSet<_> = entries.iter().copied().collect();
        entries.into_iter().filter(|entry| !self.above(*entry).any(|at| all.contains(&at))).collect()
    }

    fn above(&self, id: FileId) -> impl Iterator<Item = FileId> {
        std::iter::successors(self.names.parent(id), |at| self.names.parent(*at))
    }

    /// Whether a user may read entries of a folder that have no list of their own.
    fn may_read_below(&self, by: &UserRights, folder: FileId) -> bool {
        by.admin || self.rights_from(by, self.names.self_and_ancestors(folder), false).has(Rights::READ)
    }

    fn everyone_reads(&self) -> bool {
        self.config.everyone.has(Rights::READ)
    }
}

fn more(sum: Usage, more: Usage) -> Usage {
    let bytes = sum.bytes.saturating_add(more.bytes);
    Usage { files: sum.files + more.files, folders: sum.folders + more.folders, bytes }
}

fn less(sum: Usage, less: Usage) -> Usage {
    Usage {
        files: sum.files.saturating_sub(less.files),
        folders: sum.folders.saturating_sub(less.folders),
        bytes: sum.bytes.saturating_sub(less.bytes),
    }
}
