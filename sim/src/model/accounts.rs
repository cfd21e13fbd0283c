//! Who may come in: the data of the security server. In the simulation it is reached at once and never unavailable.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    CredentialId, Reason, Refusal, UserName,
    message::master_security::{AccountChanges, ChangeCursor, KnownUser, SecurityReply, SecurityRequest, UserRights},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    /// The user of each client; all others are the administrator.
    users: BTreeMap<usize, UserName>,
    /// The owner of each proof, in the order in which they were given.
    proofs: Vec<Proof>,
    /// Users whose accounts have changed, oldest first.
    changed: Vec<UserName>,
    /// Users barred until this time.
    barred: BTreeMap<UserName, Duration>,
}

/// A proof of identity, from a login until it is revoked.
#[derive(Debug)]
struct Proof {
    user: UserName,
    revoked: Option<Duration>,
}

impl Accounts {
    /// A client is this user, and no administrator.
    pub(crate) fn add(&mut self, client: usize, user: UserName) {
        self.users.insert(client, user);
    }

    /// A client logs in; `None` while its user is barred.
    pub(crate) fn login(&mut self, now: Duration, client: usize) -> Option<KnownUser> {
        let user = self.users.get(&client).cloned().unwrap_or_else(administrator);
        if self.barred.get(&user).is_some_and(|until| now < *until) {
            return None;
        }
        self.proofs.push(Proof { user: user.clone(), revoked: None });
        Some(self.known(self.proofs.len() - 1, user))
    }

    /// All proofs of a user become worthless, and for a while the user cannot log in.
    pub(crate) fn revoke(&mut self, now: Duration, user: &UserName, barred_for: Duration) {
        for proof in self.proofs.iter_mut().filter(|proof| proof.user == *user) {
            proof.revoked.get_or_insert(now);
        }
        self.changed.push(user.clone());
        self.barred.insert(user.clone(), now + barred_for);
    }

    /// When a proof of a user was revoked.
    pub(crate) fn revoked_at(&self, proof: CredentialId) -> Option<Duration> {
        self.proof(proof)?.revoked
    }

    /// The answer to a question of the master's.
    ///
    /// # Errors
    /// If the simulation does not support the question.
    pub(crate) fn answer(&self, request: &SecurityRequest) -> Result<SecurityReply, Refusal> {
        match request {
            SecurityRequest::Changes(mark) => {
                let from = usize::try_from(mark.number).unwrap_or(usize::MAX).min(self.changed.len());
                let users = (mark.epoch == RUN).then(|| self.changed[from..].to_vec());
                let mark = ChangeCursor { epoch: RUN, number: self.changed.len() as u64 };
                Ok(SecurityReply::Changes(AccountChanges { cursor: mark, users }))
            }
            SecurityRequest::Recheck(held) => {
                let known = held.iter().map(|held| {
                    let is_good = self.proof(held.credential).is_some_and(|proof| proof.revoked.is_none());
                    let number = usize::try_from(held.credential.0).unwrap_or(usize::MAX);
                    is_good.then(|| self.known(number, held.user.clone()))
                });
                Ok(SecurityReply::Rechecked(known.collect()))
            }
            SecurityRequest::StruckOff => Ok(SecurityReply::StruckOff(Vec::new())),
            SecurityRequest::Health => Ok(SecurityReply::Health(Vec::new())),
            _ => Err(Refusal::new(Reason::Unavailable, "the security server cannot be reached; start it")),
        }
    }

    fn proof(&self, proof: CredentialId) -> Option<&Proof> {
        self.proofs.get(usize::try_from(proof.0).ok()?)
    }

    fn known(&self, number: usize, user: UserName) -> KnownUser {
        let admin = user == administrator();
        let rights = UserRights { user, groups: Vec::new(), admin };
        KnownUser { rights, credential: CredentialId(number as u64), until_unix_millis: None }
    }
}

/// A user of this name.
pub(crate) fn user(name: &str) -> UserName {
    // Only called with words of letters, which are valid names.
    #[allow(clippy::expect_used)]
    UserName::new(name).expect("a valid name")
}

/// The administrator of the cloud.
pub(crate) fn administrator() -> UserName {
    user("ada")
}

/// The one run of the security server.
const RUN: u64 = 1;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_revocation_ends_what_was_there_and_masters_hear_whose() {
        let mut accounts = Accounts::default();
        accounts.add(1, user("ann"));
        let at = Duration::from_secs;
        let (first, ada) = (accounts.login(at(1), 1).unwrap(), accounts.login(at(1), 0).unwrap());
        assert!(ada.rights.admin && !first.rights.admin);
        accounts.revoke(at(2), &first.rights.user, at(3));
        assert_eq!(accounts.login(at(4), 1), None);
        let next = accounts.login(at(5), 1).unwrap();
        let revoked: Vec<_> = [&first, &next, &ada].map(|known| accounts.revoked_at(known.credential)).into();
        assert_eq!(revoked, [Some(at(2)), None, None]);
        let told = accounts.answer(&SecurityRequest::Changes(ChangeCursor { epoch: RUN, number: 0 })).unwrap();
        assert!(matches!(told, SecurityReply::Changes(changes) if changes.users == Some(vec![user("ann")])));
    }
}
