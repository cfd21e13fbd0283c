//! New passwords (`sector user passwd`): one's own with the old one, another's by an administrator. Someone who has
//! taken over a session can never guess the old password faster than at the login.

use protocol::{
    Now, Reason, Refusal, UserName,
    message::{accounts::Password, join::Secret, master_security::Asker},
};

use super::{
    Security, SecurityCaller,
    login::must_wait,
    pending::{PasswordChange, Pending, Work},
    too_busy,
    users::{AccountsResult, check_password},
};
use crate::{
    SecurityError,
    accounts::{
        self, User,
        failed_logins::LoginAttempt,
        password_hash::{PasswordHash, PasswordHashing, SecretMatch, Verification},
    },
};

impl Security {
    pub(super) fn set_password(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        by: Asker,
        user: UserName,
        old: Option<Password>,
        new: Password,
    ) -> AccountsResult {
        let admin = self.check_own(now, &by, &user, "give others a password")?;
        let account = self.account(&user)?;
        if account.service {
            let message = format!("`{user}` is a service account and has no password; give it a token");
            return Err(Refusal::new(Reason::NotPermitted, message));
        }
        self.check_is_ours(&user)?;
        check_password(&user, &new.0)?;
        let hashing = PasswordHashing::new(new.0).map_err(|error| error.refusal())?;
        let against = account.password.clone();
        let is_own = by.rights.user == user;
        let must_prove = match (&against, is_own) {
            (Some(kept), true) => Some(kept.clone()),
            (None, true) if !admin => {
                let message = format!("`{user}` has no password yet; ask an administrator for the first one");
                return Err(Refusal::new(Reason::NoRight, message));
            }
            _ => None,
        };
        if !self.has_room() {
            return Err(too_busy());
        }
        let Some(kept) = must_prove else {
            let renewal = PasswordChange { caller, by, user, new: None, against };
            self.begin_work(Pending::Password(renewal), Work::Hash(hashing));
            return Ok(None);
        };
        let Some(old) = old else {
            return Err(Refusal::new(Reason::Invalid, "give the password that you have so far, too"));
        };
        let address = by.address.to_canonical();
        match self.failed.begin(now, &user, address) {
            LoginAttempt::Begun => {}
            LoginAttempt::Queued => return Err(too_busy()),
            LoginAttempt::Wait(wait) => return Err(must_wait(&user, address, wait)),
        }
        let verification = Verification::new(Secret::Password(old.0), &kept, Vec::new());
        let renewal = PasswordChange { caller, by, user, new: Some(hashing), against };
        self.begin_work(Pending::Password(renewal), Work::Verify(verification));
        Ok(None)
    }

    /// The old password is compared.
    pub(super) fn continue_password_change(
        &mut self,
        now: Now,
        mut renewal: PasswordChange,
        found: Option<SecretMatch>,
    ) {
        let address = renewal.by.address.to_canonical();
        self.failed.end(&renewal.user, address);
        match (found, renewal.new.take()) {
            (Some(_), Some(hashing)) => {
                self.failed.note_success(now, &renewal.user, address);
                self.begin_work(Pending::Password(renewal), Work::Hash(hashing));
            }
            _ => {
                self.failed.note_failure(now, renewal.user, address);
                let message = "the password so far is another one; try again";
                self.refuse(renewal.caller, Refusal::new(Reason::NotAuthenticated, message));
            }
        }
    }

    /// The new password is hashed.
    pub(super) fn finish_password_change(
        &mut self,
        now: Now,
        renewal: PasswordChange,
        hash: Result<PasswordHash, SecurityError>,
    ) {
        let PasswordChange { caller, by, user, against, .. } = renewal;
        // Checked again: much may have changed meanwhile.
        let checked = self.check_own(now, &by, &user, "give others a password").and_then(|_| self.account(&user));
        let account = match checked {
            Ok(account) if account.password == against => account,
            Ok(_) => {
                let message = format!("`{user}` got another password at the same moment; try again");
                return self.refuse(caller, Refusal::new(Reason::VersionChanged { current: None }, message));
            }
            Err(refusal) => return self.refuse(caller, refusal),
        };
        let row = hash.and_then(|hash| accounts::set_user(&user, &User { password: Some(hash), ..account.clone() }));
        // Someone who knew the old password may be logged in with one of them.
        let ends = self.ends_of_sessions(&user, Some(by.credential));
        self.change_of(caller, user, row.map(|row| ends.into_iter().chain([row]).collect()));
    }
}
