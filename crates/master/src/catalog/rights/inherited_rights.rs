//! What a user may do with an entry: the nearest list decides, of the entry and the folders above it; at the root, the
//! settings. An owner may do everything, up to and including the folder whose list decides. It never refuses a request:
//! the [checks](super) do.

use protocol::{Acl, AclEntry, FileId, Principal, Rights, message::master_security::UserRights};

use crate::{
    catalog::{
        Catalog,
        namespace::{Ancestor, ROOT},
    },
    log::events::audience::Audience,
};

impl Catalog {
    /// What a user may do with an entry.
    pub(crate) fn rights_on(&self, by: &UserRights, id: FileId) -> Rights {
        if by.admin {
            return Rights::ALL;
        }
        self.rights_from(by, self.names.self_and_ancestors(id), id == ROOT)
    }

    /// The user's rights on the first of these, which follow each other upwards. `is_root`: it is the root itself.
    pub(super) fn rights_from<'a>(
        &self,
        by: &UserRights,
        lineage: impl Iterator<Item = Ancestor<'a>>,
        is_root: bool,
    ) -> Rights {
        for at in lineage {
            if at.is_root {
                return at.acl.map_or_else(|| self.rights_by_default(is_root), |acl| acl.rights_of(by));
            }
            if *at.owner == by.user {
                return Rights::ALL;
            }
            let is_certain = !self.is_rebuilding;
            // A folder's list comes from a copy that may be old.
            if let Some(acl) = at.acl.filter(|_| is_certain || !at.is_folder) {
                return acl.rights_of(by);
            }
            if !is_certain {
                // A folder above may have had a list that is not known again yet.
                break;
            }
        }
        Rights::default()
    }

    /// Who may read an entry now, for an event that tells of it.
    pub(crate) fn audience(&self, id: FileId) -> Audience {
        let everyone_reads = self.config.everyone.has(Rights::READ);
        if self.names.has_no_acls() && everyone_reads && !self.is_rebuilding {
            return Audience::Everyone;
        }
        let mut owners = Vec::new();
        for at in self.names.self_and_ancestors(id) {
            if at.is_root {
                let default = || if everyone_reads { Acl::everyone_reads() } else { Acl::default() };
                return Audience::of(owners, at.acl.cloned().unwrap_or_else(default));
            }
            if !owners.contains(at.owner) {
                owners.push(at.owner.clone());
            }
            if let Some(acl) = at.acl.filter(|_| !self.is_rebuilding || !at.is_folder) {
                return Audience::of(owners, acl.clone());
            }
            if self.is_rebuilding {
                break;
            }
        }
        Audience::of(owners, Acl::default())
    }

    /// Everyone's rights if no entry has a list. The root itself is open and sticky, like `/tmp`: every user sees the
    /// entries they may read, and may add some.
    fn rights_by_default(&self, is_root: bool) -> Rights {
        let everyone = self.config.everyone;
        if is_root { everyone.and(Rights::READ).and(Rights::WRITE) } else { everyone }
    }

    /// The list that holds for an entry, and the entry that has it; `None`: the settings.
    pub(super) fn effective_acl(&self, id: FileId) -> (Acl, Option<FileId>) {
        let said = self.names.self_and_ancestors(id).find_map(|at| Some((at.acl?.clone(), self.names.id_of(&at))));
        said.unwrap_or_else(|| {
            let rights = self.rights_by_default(id == ROOT);
            let everyone = (!rights.is_empty()).then_some(AclEntry { principal: Principal::Everyone, rights });
            // A list of one entry with a right breaks no rule of lists.
            (Acl::new(everyone.into_iter().collect()).unwrap_or_default(), None)
        })
    }
}
