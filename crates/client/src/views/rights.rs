//! Rights as JSON. It never decides about a right.

use serde::Serialize;

use crate::{Acl, AclEntry, AclStatus};

/// Who may do what, as JSON.
#[derive(Serialize)]
pub struct AclView {
    pub path: String,
    pub owner: String,
    /// What is in effect, as a list and as text.
    pub acl: Vec<AclEntryView>,
    pub text: String,
    /// Whether the entry has its own list.
    pub own: bool,
    /// The entry whose list is in effect; null: the cloud's settings.
    pub from: Option<String>,
    /// What the asking user may do.
    pub yours: String,
}

/// What one user or group may do.
#[derive(Serialize)]
pub struct AclEntryView {
    pub who: String,
    pub rights: String,
}

impl From<&AclStatus> for AclView {
    fn from(status: &AclStatus) -> Self {
        Self {
            path: status.path.to_string(),
            owner: status.owner.to_string(),
            acl: entries(&status.effective),
            text: status.effective.to_string(),
            own: status.own.is_some(),
            from: status.from.as_ref().map(ToString::to_string),
            yours: status.mine.to_string(),
        }
    }
}

fn entries(acl: &Acl) -> Vec<AclEntryView> {
    let view = |entry: &AclEntry| AclEntryView { who: entry.principal.to_string(), rights: entry.rights.to_string() };
    acl.entries().iter().map(view).collect()
}
