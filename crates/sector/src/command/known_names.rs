//! Refusals of users and groups that the cloud does not know. The client library finds them. It never changes anything.

use client::{Client, names::known_names::unknown_message};
use protocol::{Acl, Principal, Reason, UserName};
use terminal::failure::Failure;

/// Refuses an access list that names users or groups which the cloud does not know.
pub(super) async fn check_list(cloud: &Client, acl: &Acl) -> Result<(), Failure> {
    refuse(cloud.unknown_principal(acl).await?, &format!("; {OPTION}"))
}

/// Refuses a user whom the cloud does not know.
pub(super) async fn check_user(cloud: &Client, user: &UserName) -> Result<(), Failure> {
    let unknown = cloud.unknown_user(std::slice::from_ref(user)).await?;
    refuse(unknown.map(Principal::User), &format!("; {OPTION}"))
}

/// The same for a command that has no use for unknown users.
pub(super) async fn check_known_user(cloud: &Client, user: &UserName) -> Result<(), Failure> {
    let unknown = cloud.unknown_user(std::slice::from_ref(user)).await?;
    refuse(unknown.map(Principal::User), "")
}

fn refuse(unknown: Option<Principal>, advice: &str) -> Result<(), Failure> {
    match unknown.as_ref().and_then(unknown_message) {
        Some(named) => Err(Failure::new(Reason::NotFound, named + advice)),
        None => Ok(()),
    }
}

/// What takes such a name.
const OPTION: &str = "--unknown takes the name all the same, as for one of a directory that has not been here yet";
