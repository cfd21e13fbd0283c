//! Letting people in: whether a user is who they say and may come from where they come. Serves the login.
//!
//! An unknown user and a wrong secret get the same sentence at the same cost; what the address allows is said only to
//! those who proved themselves.

use std::net::IpAddr;

use protocol::{
    CredentialId, Now, Status, UserName,
    message::{
        join::Secret,
        master_security::{KnownUser, SecurityReply, UserRights},
    },
};

use super::{Caller, Pending, Security, Work, refused, too_busy};
use crate::{AddressRange, secret::Verification};

/// A login whose secret is being compared.
#[derive(Debug)]
pub(super) struct Login {
    caller: Caller,
    user: UserName,
    address: IpAddr,
    /// Whether the secret is one that can be guessed.
    guessable: bool,
    /// Whether there is anything a match would prove; false where the comparison is for the sake of its cost.
    possible: bool,
}

impl Security {
    pub(super) fn check_user(&mut self, now: Now, caller: Caller, user: UserName, secret: Secret, address: IpAddr) {
        let address = address.to_canonical();
        // A token cannot be guessed, so nobody is slowed down over one.
        let guessable = matches!(secret, Secret::Password(_));
        if guessable && let Some(wait) = self.failed.wait(now, &user, address) {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let sentence = format!("too many failed logins as `{user}` from {address}; wait {seconds} s and try again");
            return self.answer(caller, refused(Status::Refused, sentence));
        }
        if !self.has_room() {
            return self.refuse(caller, too_busy());
        }
        let known = self.accounts.user(&user);
        let password = known.and_then(|user| user.password.as_ref()).unwrap_or(&self.decoy);
        let tokens = known.map_or(&[][..], |user| &user.tokens);
        let verification = Verification::new(secret, password, tokens);
        // The decoy's own password is in the source: whoever gives it must not come in with it.
        let possible = known.is_some_and(|user| !guessable || user.password.is_some());
        let login = Login { caller, user, address, guessable, possible };
        self.begin_work(Pending::Login(login), Work::Verify(verification));
    }

    pub(super) fn judge(&mut self, now: Now, login: Login, matches: bool) {
        let Login { caller, user, address, guessable, possible } = login;
        // Looked up again: the account is that of now, not that of when the question came.
        let Some(account) = self.accounts.user(&user).filter(|_| matches && possible) else {
            if guessable {
                self.failed.note_failure(now, user, address);
            }
            return self.answer(caller, refused(Status::Refused, WRONG_LOGIN));
        };
        if !AddressRange::allows(&account.addresses, address) {
            let sentence = format!("`{user}` may not log in from {address}; ask an administrator to allow it");
            return self.answer(caller, refused(Status::Refused, sentence));
        }
        if guessable {
            self.failed.note_success(&user, address);
        }
        let rights = UserRights { groups: account.groups.clone(), admin: account.admin, user };
        let known = KnownUser { rights, credential: CredentialId(0), until_unix_millis: None };
        self.answer(caller, SecurityReply::User(known));
    }
}

/// The one sentence for an unknown user and for a wrong secret.
pub(super) const WRONG_LOGIN: &str = "the user name or the password or token is wrong; look at the profile";
