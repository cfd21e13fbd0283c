//! Logins: whether users are who they say and may log in from their address. It serves the login, every session with a
//! master after it, and its end. Whether an address is allowed or an account disabled is told only to users who proved
//! themselves. It never tells an unknown user from a wrong secret: both get the same message at the same cost.

use std::{net::IpAddr, time::Duration};

use protocol::{
    CredentialId, Now, Reason, Refusal, UserName,
    message::{
        accounts::NewSession,
        join::Secret,
        master_security::{HeldSession, KnownUser, RECHECKED_MAX, SecurityReply, UserRights},
    },
};

use super::{
    Security, SecurityCaller,
    pending::{Login, LoginPurpose, PasswordLogin, Pending, QueuedLogin, Work},
    refused, too_busy,
};
use crate::{
    AddressRange, SecurityError,
    accounts::{
        self, User,
        credentials::{LoginSession, SESSION_LIFE_MILLIS, SESSIONS_OF_USER_MAX},
        failed_logins::LoginAttempt,
        password_hash::{SecretMatch, TokenHash, Verification},
    },
    provider::SecretText,
};

impl Security {
    pub(super) fn check_user(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        (user, secret, address): (UserName, Secret, IpAddr),
        purpose: LoginPurpose,
    ) {
        let address = address.to_canonical();
        // A token cannot be guessed, so logins with one are not slowed down.
        let guessable = matches!(secret, Secret::Password(_));
        if !guessable && matches!(purpose, LoginPurpose::LoginSession(_)) {
            return self.answer(caller, refused(Reason::Invalid, "a token begins no login session; give the password"));
        }
        if guessable {
            match self.failed.begin(now, &user, address) {
                LoginAttempt::Begun => {}
                LoginAttempt::Wait(wait) => return self.refuse(caller, must_wait(&user, address, wait)),
                LoginAttempt::Queued if self.queued_logins.len() >= QUEUED_LOGINS_MAX => {
                    return self.refuse(caller, too_busy());
                }
                LoginAttempt::Queued => {
                    return self.queued_logins.push(QueuedLogin { caller, user, secret, address, purpose });
                }
            }
        }
        if let Secret::Password(password) = &secret
            && !password.is_empty()
            && let to_ask = self.providers_of(&user)
            && !to_ask.is_empty()
        {
            let password = SecretText(password.clone());
            return self.ask_next(now, PasswordLogin { caller, user, address, purpose, password, to_ask });
        }
        if !self.has_room() {
            if guessable {
                self.failed.end(&user, address);
            }
            return self.refuse(caller, too_busy());
        }
        let known = self.accounts.user(&user);
        // The decoy's own password is in the source: giving it must not log anyone in.
        let against = known.and_then(|user| user.password.clone()).filter(|_| guessable);
        let password = against.as_ref().unwrap_or(&self.decoy);
        let verification = Verification::new(secret, password, self.tokens_of(now, &user));
        let login = Login { caller, user, address, purpose, guessable, against };
        self.begin_work(Pending::Login(login), Work::Verify(verification));
    }

    /// Resumes the logins that had to wait for others, of which one may have ended.
    pub(super) fn resume_queued_logins(&mut self, now: Now) {
        for QueuedLogin { caller, user, secret, address, purpose } in std::mem::take(&mut self.queued_logins) {
            self.check_user(now, caller, (user, secret, address), purpose);
        }
    }

    pub(super) fn finish_login(&mut self, now: Now, login: Login, found: Option<SecretMatch>) {
        let Login { caller, user, address, purpose, guessable, against } = login;
        if guessable {
            self.failed.end(&user, address);
        }
        // Looked up again: the account must be the current one, not the one when the question came.
        let account = self.accounts.user(&user).filter(|account| !guessable || account.password == against);
        let proved = account.zip(found).filter(|_| !guessable || against.is_some());
        let Some((account, SecretMatch { credential, rehashed })) = proved else {
            if guessable {
                self.failed.note_failure(now, user, address);
            }
            return self.answer(caller, refused(Reason::NotAuthenticated, WRONG_LOGIN));
        };
        if let Err(refusal) = self.check_may_enter(&user, account, address) {
            return self.refuse(caller, refusal);
        }
        if guessable {
            self.failed.note_success(now, &user, address);
        }
        if rehashed.is_some() {
            let row = accounts::set_user(&user, &User { password: rehashed, ..account.clone() });
            // Best effort: the old hash is as good as before.
            let _ = row.and_then(|row| self.apply(vec![row]));
        }
        match purpose {
            LoginPurpose::LoginSession(machine) => self.begin_session(now, caller, user, address, machine),
            LoginPurpose::MasterSession => {
                self.note_use(now, &user, credential);
                match self.current_rights(now, &HeldSession { user, credential, address }) {
                    Some(known) => self.answer(caller, SecurityReply::User(known)),
                    // It ended while it was compared.
                    None => self.answer(caller, refused(Reason::NotAuthenticated, WRONG_LOGIN)),
                }
            }
        }
    }

    /// Refuses a user who is proved but may not log in all the same.
    pub(super) fn check_may_enter(&self, user: &UserName, account: &User, address: IpAddr) -> Result<(), Refusal> {
        let refused = |message: String| Err(Refusal::new(Reason::NoRight, message));
        if account.disabled {
            return refused(format!("`{user}` is disabled; ask an administrator to enable it"));
        }
        if let Some(origin) = self.accounts.origin(user).filter(|origin| origin.is_disowned) {
            let provider = &origin.provider;
            return refused(format!(
                "the identity provider `{provider}` lets `{user}` in no more; ask who looks after it"
            ));
        }
        if !AddressRange::allows(&account.addresses, address) {
            return refused(format!("`{user}` may not log in from {address}; ask an administrator to allow it"));
        }
        Ok(())
    }

    pub(super) fn begin_session(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        user: UserName,
        address: IpAddr,
        machine: String,
    ) {
        match self.new_session(now, user, address, machine) {
            Ok(new) => self.answer(caller, SecurityReply::Session(new)),
            Err(error) => self.refuse(caller, error.refusal()),
        }
    }

    /// Makes a login session, and has it saved.
    pub(super) fn new_session(
        &mut self,
        now: Now,
        user: UserName,
        address: IpAddr,
        machine: String,
    ) -> Result<NewSession, SecurityError> {
        let (token, credential) = ((self.random)(), self.random_id());
        let until_unix_millis = now.unix_millis.saturating_add(SESSION_LIFE_MILLIS);
        let session = LoginSession {
            user: user.clone(),
            hash: TokenHash::new(&token),
            machine,
            address,
            began_unix_millis: now.unix_millis,
            until_unix_millis,
            used_unix_millis: now.unix_millis,
        };
        let mut changes = vec![accounts::set_session(credential, &session)?];
        if self.accounts.sessions_of(&user).count() >= SESSIONS_OF_USER_MAX {
            let oldest = self.accounts.sessions_of(&user).min_by_key(|(_, session)| session.used_unix_millis);
            changes.extend(oldest.map(|(id, _)| accounts::remove_session(id)));
            self.changes.note(user);
        }
        self.apply(changes)?;
        Ok(NewSession { credential, token, until_unix_millis })
    }

    /// Checks sessions that a master has open. An open session counts as used, so this renews a login session.
    pub(super) fn recheck(&mut self, now: Now, caller: SecurityCaller, held: &[HeldSession]) {
        if held.len() > RECHECKED_MAX {
            return self.answer(caller, refused(Reason::Invalid, "too many sessions at once; ask in parts"));
        }
        let mut known = Vec::with_capacity(held.len());
        for session in held {
            // Begun with a password: it ends at any change, since nothing says whether the password was changed.
            let stands = session.credential != CredentialId(0) && self.current_rights(now, session).is_some();
            if stands {
                self.note_use(now, &session.user, session.credential);
            }
            known.push(if stands { self.current_rights(now, session) } else { None });
        }
        self.answer(caller, SecurityReply::Rechecked(known));
    }

    /// The current rights of a session's user; `None` if the session is no longer valid.
    pub(super) fn current_rights(&self, now: Now, held: &HeldSession) -> Option<KnownUser> {
        let account = self.accounts.user(&held.user)?;
        self.check_may_enter(&held.user, account, held.address).ok()?;
        let until_unix_millis = self.valid_until(now, &held.user, account, held.credential)?;
        let rights = UserRights { user: held.user.clone(), groups: account.groups.clone(), admin: account.admin };
        Some(KnownUser { rights, credential: held.credential, until_unix_millis })
    }

    /// Until when a credential is valid; `None` if it is no longer.
    fn valid_until(&self, now: Now, user: &UserName, account: &User, id: CredentialId) -> Option<Option<u64>> {
        if id == CredentialId(0) {
            return Some(None);
        }
        if let Some(token) = account.tokens.iter().find(|token| token.id == id) {
            return token.is_good(now).then_some(token.until_unix_millis);
        }
        let session = self.accounts.sessions().get(&id).filter(|session| session.user == *user)?;
        session.is_good(now).then_some(Some(session.until_unix_millis))
    }

    /// Records that a token or session was used, now and then; no answer waits for that.
    fn note_use(&mut self, now: Now, user: &UserName, id: CredentialId) {
        let row = if let Some(session) = self.accounts.sessions().get(&id) {
            session.used(now, self.may_renew(user)).map(|used| accounts::set_session(id, &used))
        } else {
            self.accounts.user(user).and_then(|account| {
                let at = account.tokens.iter().position(|token| token.id == id)?;
                let used = account.tokens[at].used(now)?;
                let mut account = account.clone();
                account.tokens[at] = used;
                Some(accounts::set_user(user, &account))
            })
        };
        if let Some(Ok(row)) = row {
            // Best effort: only the time of its use is lost.
            let _ = self.apply(vec![row]);
        }
    }

    /// The digests of all credentials that are valid for a user now.
    pub(super) fn tokens_of(&self, now: Now, user: &UserName) -> Vec<(CredentialId, TokenHash)> {
        let Some(account) = self.accounts.user(user) else { return Vec::new() };
        let tokens = account.tokens.iter().filter(|token| token.is_good(now)).map(|token| (token.id, token.hash));
        let sessions = self.accounts.sessions_of(user).filter(|(_, session)| session.is_good(now));
        tokens.chain(sessions.map(|(id, session)| (id, session.hash))).collect()
    }
}

/// The refusal of a password while its user must wait at this address.
pub(super) fn must_wait(user: &UserName, address: IpAddr, wait: Duration) -> Refusal {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let message = format!("too many failed logins as `{user}` from {address}; wait {seconds} s and try again");
    Refusal::new(Reason::LockedOut { seconds: u32::try_from(seconds).unwrap_or(u32::MAX) }, message)
}

/// Logins that wait for others of the same name or address, as when two masters ask at once. They wait for comparisons
/// and not for time, and take up requests that a master could make meanwhile.
const QUEUED_LOGINS_MAX: usize = 16;

/// The one message for an unknown user and for a wrong secret.
pub(super) const WRONG_LOGIN: &str = "the user name or the password or token is wrong, or the session has ended; look at the profile, or log in again \
     with `sector login`";
