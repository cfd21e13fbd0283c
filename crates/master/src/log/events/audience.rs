//! Who may hear of an event: those who could read the entry when it happened. What is removed for good has no rights any
//! more by which that could be found later. It never decides a right: the catalogue does.

use protocol::{Acl, Rights, UserName, message::master_security::UserRights};
use serde::{Deserialize, Serialize};

/// Those who may hear of an event. Administrators hear of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Audience {
    /// Everyone who is logged in.
    Everyone,
    /// These owners, and whom the list lets read.
    Some(Vec<UserName>, Acl),
}

impl Audience {
    /// Owners, and a list. Where the list lets everyone read, nothing more has to be kept.
    pub(crate) fn of(owners: Vec<UserName>, acl: Acl) -> Self {
        let is_open = acl
            .entries()
            .iter()
            .any(|entry| entry.principal == protocol::Principal::Everyone && entry.rights.has(Rights::READ));
        if is_open { Self::Everyone } else { Self::Some(owners, acl) }
    }

    /// Whether a user is among them.
    pub(crate) fn has(&self, by: &UserRights) -> bool {
        by.admin
            || match self {
                Self::Everyone => true,
                Self::Some(owners, acl) => owners.contains(&by.user) || acl.rights_of(by).has(Rights::READ),
            }
    }
}
