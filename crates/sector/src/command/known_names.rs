//! Whether the users and groups that a command names exist: a right or a quota of a mistyped name helps nobody, and
//! looks done. Only administrators may list users, so nobody else's names are checked. It never changes anything.

use client::Client;
use protocol::{Acl, Principal, Reason, Status, UserName};
use terminal::failure::Failure;

/// Refuses an access list that names users or groups which the cloud does not know.
pub(super) async fn check_list(cloud: &Client, acl: &Acl) -> Result<(), Failure> {
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for entry in acl.entries() {
        match &entry.principal {
            Principal::User(user) => users.push(user),
            Principal::Group(group) => groups.push(group.as_str()),
            Principal::Everyone => {}
        }
    }
    check_users(cloud, &users).await?;
    if groups.is_empty() {
        return Ok(());
    }
    let known = match cloud.groups().await {
        Err(error) if error.status() == Status::Refused => return Ok(()),
        known => known?,
    };
    match groups.iter().find(|group| known.iter().all(|known| known.group != **group)) {
        Some(group) => Err(unknown("group", group, "sector group list")),
        None => Ok(()),
    }
}

/// Refuses users whom the cloud does not know.
pub(super) async fn check_users(cloud: &Client, users: &[&UserName]) -> Result<(), Failure> {
    if users.is_empty() {
        return Ok(());
    }
    let known = match cloud.users().await {
        Err(error) if error.status() == Status::Refused => return Ok(()),
        known => known?,
    };
    match users.iter().find(|user| known.iter().all(|known| known.user != ***user)) {
        Some(user) => Err(unknown("user", user.as_str(), "sector user list")),
        None => Ok(()),
    }
}

fn unknown(kind: &str, name: &str, list: &str) -> Failure {
    let message = format!(
        "there is no {kind} `{name}` (`{list}`); --unknown takes the name all the same, as for one of a directory that \
         has not been here yet"
    );
    Failure::new(Reason::NotFound, message)
}
