//! Who may do what to names (paper, 2.3: "the master will check whether the user has access privileges for that
//! file"). Plain rules, from the user's rights and the entry's owner; there are no finer rights yet.
//!
//! - Whoever is logged in may read and list everything.
//! - A file or folder may be changed, replaced, renamed and removed by its owner and by administrators. The owner of a
//!   folder may remove it with all that is in it.
//! - In a folder, its owner and administrators may make new entries. The root folder is open to everyone who is logged
//!   in, and is sticky like `/tmp`: what stands there still belongs to who made it.

use protocol::{FileId, Refusal, SectorPath, Status, UserName, message::master_security::UserRights};

use crate::namespace::{Namespace, ROOT};

/// Whether `by` may change, replace or remove the entry `id`.
pub(crate) fn check_change(names: &Namespace, by: &UserRights, id: FileId, path: &SectorPath) -> Result<(), Refusal> {
    if id == ROOT {
        return Err(Refusal::new(Status::Refused, "the root folder `/` can be neither changed nor removed"));
    }
    let Some(owner) = names.owner(id) else { return Ok(()) };
    if by.admin || *owner == by.user {
        return Ok(());
    }
    Err(Refusal::new(
        Status::Refused,
        format!("`{path}` belongs to {owner}: {} may not change it; ask {owner} or an administrator", by.user),
    ))
}

/// Whether `by` may make entries in the folder `id`.
pub(crate) fn check_create_in(names: &Namespace, by: &UserRights, id: FileId) -> Result<(), Refusal> {
    let Some(owner) = names.owner(id) else { return Ok(()) };
    if id == ROOT || by.admin || *owner == by.user {
        return Ok(());
    }
    let path = names.path(id).map_or_else(String::new, |path| path.to_string());
    Err(Refusal::new(
        Status::Refused,
        format!(
            "the folder `{path}` belongs to {owner}: {} may not make anything in it; use a folder of your own",
            by.user
        ),
    ))
}

/// Whether `by` may act for `owner`: on a lease or a job.
pub(crate) fn acts_for(by: &UserRights, owner: &UserName) -> bool {
    by.admin || by.user == *owner
}
