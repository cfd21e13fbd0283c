//! Entries' own lists of rights, and their owners. Serves rights. It never decides who may do what.

use protocol::{Acl, FileId, UserName};
use store::RowChange;

use super::{Namespace, Slot};

/// An entry, or one of the folders above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ancestor<'a> {
    slot: Slot,
    pub(crate) owner: &'a UserName,
    /// Its own list of rights.
    pub(crate) acl: Option<&'a Acl>,
    pub(crate) is_root: bool,
    pub(crate) is_folder: bool,
}

impl Namespace {
    /// An entry's own list of rights.
    pub(crate) fn own_acl(&self, id: FileId) -> Option<&Acl> {
        self.items.acl(self.items.find(id)?)
    }

    /// An entry and the folders above it, upwards.
    pub(crate) fn self_and_ancestors(&self, id: FileId) -> impl Iterator<Item = Ancestor<'_>> {
        self.ancestors_of_slot(self.items.find(id))
    }

    /// The id of an ancestor.
    pub(crate) fn id_of(&self, ancestor: &Ancestor<'_>) -> Option<FileId> {
        self.items.id(ancestor.slot)
    }

    /// Gives an entry a list of its own, or none. Returns its row if the list has changed.
    pub(crate) fn set_acl(&mut self, id: FileId, acl: Option<Acl>) -> Vec<RowChange> {
        let Some(slot) = self.items.find(id).filter(|slot| self.items.acl(*slot) != acl.as_ref()) else {
            return Vec::new();
        };
        self.items.set_acl(slot, acl);
        self.row(slot)
    }

    /// Gives an entry to another user. Returns its row if the owner has changed.
    pub(crate) fn set_owner(&mut self, id: FileId, owner: &UserName) -> Vec<RowChange> {
        let Some(slot) = self.items.find(id).filter(|slot| self.items.owner(*slot) != Some(owner)) else {
            return Vec::new();
        };
        self.items.set_owner(slot, owner);
        self.row(slot)
    }

    /// The entries below a folder, itself not among them, that have a list of their own. Checks every entry of the
    /// cloud that has a list: they are few.
    pub(crate) fn own_acls_below(&self, folder: FileId) -> Vec<FileId> {
        let Some(folder) = self.items.find(folder) else { return Vec::new() };
        let is_below = |slot: &Slot| {
            let mut above = std::iter::successors(self.items.parent(*slot), |at| self.items.parent(*at));
            above.any(|at| at == folder)
        };
        self.items.acls().slots().filter(is_below).filter_map(|slot| self.items.id(slot)).collect()
    }

    /// Whether no entry has a list.
    pub(crate) fn has_no_acls(&self) -> bool {
        self.items.acls().is_empty()
    }

    fn ancestors_of_slot(&self, slot: Option<Slot>) -> impl Iterator<Item = Ancestor<'_>> {
        let above = std::iter::successors(slot, |at| if *at == self.root { None } else { self.items.parent(*at) });
        // A cut-off folder names a parent that does not exist.
        above.map_while(|slot| {
            let owner = self.items.owner(slot)?;
            let (is_root, is_folder) = (slot == self.root, self.items.is_folder(slot));
            Some(Ancestor { slot, owner, acl: self.items.acl(slot), is_root, is_folder })
        })
    }
}
