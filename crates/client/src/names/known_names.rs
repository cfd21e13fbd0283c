//! Whether users and groups exist (door 2 alone): a right or a quota of a mistyped name helps nobody, and looks done.
//! Only administrators may list users, so nobody else's names are checked. It never changes anything.

use protocol::{Acl, Principal, Status, UserName};

use crate::{Client, ClientError};

/// The sentence about a user or group whom the cloud does not know; none for everyone.
pub fn unknown_message(principal: &Principal) -> Option<String> {
    match principal {
        Principal::User(user) => Some(format!("there is no user `{user}` (`sector user list`)")),
        Principal::Group(group) => Some(format!("there is no group `{group}` (`sector group list`)")),
        Principal::Everyone => None,
    }
}

impl Client {
    /// A user or group of an access list whom the cloud does not know; none for callers who may not list users.
    ///
    /// # Errors
    /// If the cloud does not answer.
    pub async fn unknown_principal(&self, acl: &Acl) -> Result<Option<Principal>, ClientError> {
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        for entry in acl.entries() {
            match &entry.principal {
                Principal::User(user) => users.push(user.clone()),
                Principal::Group(group) => groups.push(group),
                Principal::Everyone => {}
            }
        }
        if let Some(user) = self.unknown_user(&users).await? {
            return Ok(Some(Principal::User(user)));
        }
        if groups.is_empty() {
            return Ok(None);
        }
        let known = match self.groups().await {
            Err(error) if error.status() == Status::Refused => return Ok(None),
            known => known?,
        };
        let unknown = groups.into_iter().find(|group| known.iter().all(|known| known.group != **group));
        Ok(unknown.map(|group| Principal::Group(group.clone())))
    }

    /// The first of these users whom the cloud does not know; none for callers who may not list users.
    ///
    /// # Errors
    /// If the cloud does not answer.
    pub async fn unknown_user(&self, users: &[UserName]) -> Result<Option<UserName>, ClientError> {
        if users.is_empty() {
            return Ok(None);
        }
        let known = match self.users().await {
            Err(error) if error.status() == Status::Refused => return Ok(None),
            known => known?,
        };
        Ok(users.iter().find(|user| known.iter().all(|known| known.user != **user)).cloned())
    }
}
