//! Logins with a password that a directory knows, and the accounts of users whom a provider proved. An account belongs
//! to what it was made for: this server's own database, or one provider. No other can prove its user, whatever names it
//! gives. A provider that does not answer never lets anyone in.

use std::{collections::VecDeque, net::IpAddr, time::Duration};

use protocol::{
    CredentialId, Now, Reason, Refusal, UserName,
    message::master_security::{KnownUser, SecurityReply, UserRights},
};

use super::{
    CheckId, Security, SecurityAction,
    login::WRONG_LOGIN,
    pending::{LoginPurpose, PasswordLogin},
    provider_questions::{Asked, QuestionPurpose},
    too_busy,
    users::USERS_MAX,
};
use crate::{
    SecurityError,
    accounts::{self, Origin, User, credentials::SESSION_LIFE_MILLIS},
    provider::{
        ProviderAnswer, ProviderFailure, ProviderMapping, ProviderQuestion, ProviderUser,
        mapping::{MappedUser, unknown},
    },
};

impl Security {
    /// Takes the providers of the settings.
    #[must_use]
    pub fn with_providers(mut self, plan: ProviderMapping) -> Self {
        self.providers.mapping = plan;
        self.begin_revalidation();
        self
    }

    /// The providers to ask about the password of this name: its account's provider or, if there is no account yet,
    /// those that may know it. None if the account is this server's own.
    pub(super) fn providers_of(&self, user: &UserName) -> VecDeque<String> {
        match (self.accounts.user(user), self.accounts.origin(user)) {
            (Some(_), Some(origin)) => [origin.provider.clone()].into(),
            (Some(_), None) => VecDeque::new(),
            (None, _) => self.providers.mapping.candidates(user).into(),
        }
    }

    /// Asks the next provider, or ends the login.
    pub(super) fn ask_next(&mut self, now: Now, mut login: PasswordLogin) {
        let Some(provider) = login.to_ask.pop_front() else { return self.fail_password(now, login) };
        let user = self.providers.mapping.name_at(&provider, &login.user);
        let question = ProviderQuestion::Password { user, password: login.password.clone() };
        let (caller, user, address) = (login.caller, login.user.clone(), login.address);
        if let Err(refusal) = self.ask_provider(now, provider, QuestionPurpose::Password(login), question) {
            self.failed.end(&user, address);
            self.refuse(caller, refusal);
        }
    }

    /// Has a provider asked.
    ///
    /// # Errors
    /// If it cannot be asked now.
    pub(super) fn ask_provider(
        &mut self,
        now: Now,
        provider: String,
        what_for: QuestionPurpose,
        question: ProviderQuestion,
    ) -> Result<(), Refusal> {
        if !self.providers.mapping.knows(&provider) {
            return Err(unknown(&provider));
        }
        if self.providers.down.get(&provider).is_some_and(|until| *until > now.monotonic) {
            return Err(unreachable(&provider));
        }
        // Revalidations have a limit of their own.
        let is_login = |asked: &&Asked| !matches!(asked.what_for, QuestionPurpose::Revalidate(_));
        if self.providers.asked.values().filter(is_login).count() >= QUESTIONS_MAX {
            return Err(too_busy());
        }
        let check = self.new_check();
        self.providers.asked.insert(check, Asked { provider: provider.clone(), what_for });
        self.actions.push_back(SecurityAction::AskProvider { check, provider, question });
        Ok(())
    }

    /// A provider answered.
    pub(super) fn handle_provider(&mut self, now: Now, check: CheckId, answer: ProviderAnswer) {
        let Some(Asked { provider, what_for }) = self.providers.asked.remove(&check) else { return };
        if let ProviderAnswer::Failed(ProviderFailure::Unreachable(_)) = &answer {
            self.providers.down.insert(provider.clone(), now.monotonic + DOWN_FOR);
        }
        match what_for {
            QuestionPurpose::Password(login) => self.judge_password(now, &provider, login, answer),
            QuestionPurpose::Begin(caller, address, machine) => {
                self.note_begun(now, caller, (provider, address, machine), answer);
            }
            QuestionPurpose::Poll(caller, login) => self.note_polled(now, caller, login, answer),
            QuestionPurpose::Revalidate(user) => self.note_revalidated(now, &provider, &user, answer),
        }
    }

    fn judge_password(&mut self, now: Now, provider: &str, login: PasswordLogin, answer: ProviderAnswer) {
        let caller = login.caller;
        match answer {
            ProviderAnswer::User(user) => {
                let PasswordLogin { user: name, address, purpose, .. } = login;
                self.failed.end(&name, address);
                match (self.admit_user(now, provider, &user, Some(&name), address), purpose) {
                    (Ok(rights), LoginPurpose::MasterSession) => {
                        self.failed.note_success(now, &name, address);
                        // Nothing renews a session opened with a password, and only time ends it.
                        let until_unix_millis = Some(now.unix_millis.saturating_add(SESSION_LIFE_MILLIS));
                        let known = KnownUser { rights, credential: CredentialId(0), until_unix_millis };
                        self.answer(caller, SecurityReply::User(known));
                    }
                    (Ok(_), LoginPurpose::LoginSession(machine)) => {
                        self.failed.note_success(now, &name, address);
                        self.begin_session(now, caller, name, address, machine);
                    }
                    (Err(refusal), _) => {
                        self.revalidate_soon(now, &name);
                        self.refuse(caller, refusal);
                    }
                }
            }
            ProviderAnswer::NoSuchUser => {
                self.revalidate_soon(now, &login.user);
                self.ask_next(now, login);
            }
            // A user of that name at another provider is another person.
            ProviderAnswer::WrongSecret => self.fail_password(now, login),
            other => {
                self.failed.end(&login.user, login.address);
                self.refuse(caller, failure(provider, &other));
            }
        }
    }

    fn fail_password(&mut self, now: Now, login: PasswordLogin) {
        self.failed.end(&login.user, login.address);
        self.failed.note_failure(now, login.user, login.address);
        self.refuse(login.caller, Refusal::new(Reason::NotAuthenticated, WRONG_LOGIN));
    }

    /// The rights of a user whom `provider` proved; makes or changes the account. `expected` is the name the user gave,
    /// if any.
    pub(super) fn admit_user(
        &mut self,
        now: Now,
        provider: &str,
        user: &ProviderUser,
        expected: Option<&UserName>,
        address: IpAddr,
    ) -> Result<UserRights, Refusal> {
        let mapped = self.providers.mapping.admit(provider, user)?;
        let name = mapped.name.clone();
        let known = self.accounts.user(&name);
        let is_same = |origin: &Origin| origin.provider == provider && origin.subject == user.subject;
        let is_theirs = known.is_none() || self.accounts.origin(&name).is_some_and(is_same);
        if !is_theirs || expected.is_some_and(|expected| *expected != name) {
            let message = format!(
                "the account `{name}` is not that of the user whom the provider `{provider}` proved; ask an administrator"
            );
            return Err(Refusal::new(Reason::NoRight, message));
        }
        if known.is_none() && self.accounts.users().count() >= USERS_MAX {
            return Err(SecurityError::TooMany { what: "users", most: USERS_MAX }.refusal());
        }
        let origin = Origin { provider: provider.to_owned(), subject: user.subject.clone(), is_disowned: false };
        self.update_account(now, &name, &origin, Some(mapped)).map_err(|error| error.refusal())?;
        self.schedule_revalidation(now, &name, provider);
        let account = self.account(&name)?;
        self.check_may_enter(&name, account, address)?;
        Ok(UserRights { user: name.clone(), groups: account.groups.clone(), admin: account.admin })
    }

    /// Makes or changes the account of a provider's user, if there is anything to change. With `mapped` it takes the
    /// provider's data. Without it, the account opens nothing.
    pub(super) fn update_account(
        &mut self,
        now: Now,
        name: &UserName,
        origin: &Origin,
        mapped: Option<MappedUser>,
    ) -> Result<(), SecurityError> {
        let before = self.accounts.user(name);
        let origin = Origin { is_disowned: mapped.is_none(), ..origin.clone() };
        let mut account = before.cloned().unwrap_or_default();
        let mut changes = Vec::new();
        if let Some(MappedUser { groups, admin, .. }) = mapped {
            let is_new = |group: &&String| !self.accounts.groups().contains(*group);
            let new: Result<Vec<_>, _> = groups.iter().filter(is_new).map(|group| accounts::set_group(group)).collect();
            changes = new?;
            account = User { groups, admin, ..account };
        }
        if before != Some(&account) {
            changes.push(accounts::set_user(name, &account)?);
        }
        if self.accounts.origin(name) != Some(&origin) {
            changes.push(accounts::set_origin(name, &origin)?);
        }
        if !changes.is_empty() {
            self.record_provider_change(now, name, &origin);
            self.changes.note(name.clone());
            self.apply(changes)?;
        }
        Ok(())
    }
}

/// The refusal if a provider gave no usable answer. The reason goes only to the log, since anyone may try to log in.
pub(super) fn failure(provider: &str, answer: &ProviderAnswer) -> Refusal {
    match answer {
        ProviderAnswer::Failed(ProviderFailure::Unreachable(_)) => unreachable(provider),
        ProviderAnswer::Refused(why) => {
            Refusal::new(Reason::NotAuthenticated, format!("the identity provider `{provider}` {why}"))
        }
        _ => {
            let message = format!(
                "the identity provider `{provider}` does not work as it is set up; the log of the security server says why"
            );
            Refusal::new(Reason::Failed, message)
        }
    }
}

fn unreachable(provider: &str) -> Refusal {
    let message = format!("the identity provider `{provider}` cannot be reached; try again in a moment");
    Refusal::new(Reason::Unavailable, message)
}

/// Questions to providers at once. A master asks this server eight questions at once, and a provider may take seconds.
/// So two slots stay free for users about whom no provider is asked.
const QUESTIONS_MAX: usize = 6;
/// For how long nobody waits for a provider that did not answer: a second try of the same person comes later.
const DOWN_FOR: Duration = Duration::from_secs(2);

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
