//! Logins with a password that a directory knows, and what becomes of a user whom a provider proved. Serves the login.
//!
//! An account belongs to whoever it was made for: to this server's own database, or to one provider. No other can prove
//! its user, whatever names it gives. A provider that does not answer lets nobody in.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use protocol::{
    CredentialId, Now, Refusal, Status, UserName,
    message::master_security::{KnownUser, SecurityReply, UserRights},
};

use super::{Action, Caller, CheckId, Security, device::Devices, login::WRONG_LOGIN, too_busy};
use crate::{
    AddressRange,
    accounts::{self, Origin, User},
    provider::{Answer, Concealed, Failure, Plan, ProviderUser, Question, plan::unknown},
};

/// What the rules know of providers.
#[derive(Debug, Default)]
pub(super) struct ProviderLogins {
    pub(super) plan: Plan,
    pub(super) devices: Devices,
    /// Questions under way.
    asked: BTreeMap<CheckId, Asked>,
    /// Providers that did not answer, and until when nobody is made to wait for them, as [`Now::monotonic`].
    down: BTreeMap<String, Duration>,
}

/// A question under way.
#[derive(Debug)]
struct Asked {
    provider: String,
    purpose: Purpose,
}

/// What a question is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A login with a password.
    Password(PasswordLogin),
    /// The beginning of a login with a browser, for one at this address.
    Begin(Caller, IpAddr),
    /// Whether one that has begun is finished.
    Poll(Caller, [u8; 32]),
}

/// A login whose password providers are asked about.
#[derive(Debug)]
pub(super) struct PasswordLogin {
    caller: Caller,
    user: UserName,
    address: IpAddr,
    password: Concealed,
    /// Who is asked next, where this one does not know the user.
    to_ask: VecDeque<String>,
}

impl Security {
    /// Takes the providers of the settings.
    #[must_use]
    pub fn with_providers(mut self, plan: Plan) -> Self {
        self.providers.plan = plan;
        self
    }

    /// Whom to ask about the password of this name: its account's provider, or, where there is no account yet, those
    /// that may know it. Nobody where the account is this server's own.
    pub(super) fn providers_of(&self, user: &UserName) -> VecDeque<String> {
        match (self.accounts.user(user), self.accounts.origin(user)) {
            (Some(_), Some(origin)) => [origin.provider.clone()].into(),
            (Some(_), None) => VecDeque::new(),
            (None, _) => self.providers.plan.to_ask(user).into(),
        }
    }

    pub(super) fn begin_password_login(
        &mut self,
        now: Now,
        (caller, user, address): (Caller, UserName, IpAddr),
        password: String,
        to_ask: VecDeque<String>,
    ) {
        self.ask_next(now, PasswordLogin { caller, user, address, password: Concealed(password), to_ask });
    }

    /// Asks the next provider, or ends the login.
    fn ask_next(&mut self, now: Now, mut login: PasswordLogin) {
        let Some(provider) = login.to_ask.pop_front() else { return self.fail_password(now, login) };
        let user = self.providers.plan.name_at(&provider, &login.user);
        let question = Question::Password { user, password: login.password.clone() };
        let caller = login.caller;
        if let Err(refusal) = self.ask_provider(now, provider, Purpose::Password(login), question) {
            self.refuse(caller, refusal);
        }
    }

    /// Has a provider asked.
    ///
    /// # Errors
    /// Where it cannot be asked now.
    pub(super) fn ask_provider(
        &mut self,
        now: Now,
        provider: String,
        purpose: Purpose,
        question: Question,
    ) -> Result<(), Refusal> {
        if !self.providers.plan.knows(&provider) {
            return Err(unknown(&provider));
        }
        if self.providers.down.get(&provider).is_some_and(|until| *until > now.monotonic) {
            return Err(unreachable(&provider));
        }
        if self.providers.asked.len() >= QUESTIONS_MAX {
            return Err(too_busy());
        }
        let check = self.new_check();
        self.providers.asked.insert(check, Asked { provider: provider.clone(), purpose });
        self.actions.push_back(Action::AskProvider { check, provider, question });
        Ok(())
    }

    /// A provider answered.
    pub(super) fn handle_provider(&mut self, now: Now, check: CheckId, answer: Answer) {
        let Some(Asked { provider, purpose }) = self.providers.asked.remove(&check) else { return };
        if let Answer::Failed(Failure::Unreachable(_)) = &answer {
            self.providers.down.insert(provider.clone(), now.monotonic + DOWN_FOR);
        }
        match purpose {
            Purpose::Password(login) => self.judge_password(now, &provider, login, answer),
            Purpose::Begin(caller, address) => self.note_begun(now, caller, &provider, address, answer),
            Purpose::Poll(caller, login) => self.note_polled(now, caller, login, answer),
        }
    }

    fn judge_password(&mut self, now: Now, provider: &str, login: PasswordLogin, answer: Answer) {
        let caller = login.caller;
        match answer {
            Answer::User(user) => {
                let (name, address) = (login.user.clone(), login.address);
                match self.let_in(provider, &user, Some(&name), address) {
                    Ok(rights) => {
                        self.failed.note_success(&name, address);
                        let known = KnownUser { rights, credential: CredentialId(0), until_unix_millis: None };
                        self.answer(caller, SecurityReply::User(known));
                    }
                    Err(refusal) => self.refuse(caller, refusal),
                }
            }
            Answer::NoSuchUser => self.ask_next(now, login),
            // Another provider that has such a user has another person.
            Answer::WrongSecret => self.fail_password(now, login),
            other => self.refuse(caller, failure(provider, &other)),
        }
    }

    fn fail_password(&mut self, now: Now, login: PasswordLogin) {
        self.failed.note_failure(now, login.user, login.address);
        self.refuse(login.caller, Refusal::new(Status::Refused, WRONG_LOGIN));
    }

    /// What a user whom `provider` proved may do; makes or changes the account. `expected` is the name they gave, if
    /// they gave one.
    pub(super) fn let_in(
        &mut self,
        provider: &str,
        user: &ProviderUser,
        expected: Option<&UserName>,
        address: IpAddr,
    ) -> Result<UserRights, Refusal> {
        let mapped = self.providers.plan.admit(provider, user)?;
        let name = mapped.name;
        let origin = Origin { provider: provider.to_owned(), subject: user.subject.clone() };
        let known = self.accounts.user(&name);
        let is_theirs = known.is_none() || self.accounts.origin(&name) == Some(&origin);
        if !is_theirs || expected.is_some_and(|expected| *expected != name) {
            let sentence = format!(
                "the account `{name}` is not that of the user whom the provider `{provider}` proved; ask an administrator"
            );
            return Err(Refusal::new(Status::Refused, sentence));
        }
        if known.is_some_and(|account| !AddressRange::allows(&account.addresses, address)) {
            let sentence = format!("`{name}` may not log in from {address}; ask an administrator to allow it");
            return Err(Refusal::new(Status::Refused, sentence));
        }
        let is_new = known.is_none();
        let account = User { groups: mapped.groups, admin: mapped.admin, ..known.cloned().unwrap_or_default() };
        let rights = UserRights { user: name.clone(), groups: account.groups.clone(), admin: account.admin };
        if is_new || known != Some(&account) {
            let mut changes = vec![accounts::set_user(&name, &account)];
            changes.extend(is_new.then(|| accounts::set_origin(&name, &origin)));
            let changes = changes.into_iter().collect::<Result<Vec<_>, _>>();
            changes.and_then(|changes| self.apply(changes)).map_err(|error| error.refusal())?;
        }
        Ok(rights)
    }
}

/// The refusal where a provider gave no answer that can be used. Why it did not is for the log: whoever logs in may be
/// anyone.
pub(super) fn failure(provider: &str, answer: &Answer) -> Refusal {
    match answer {
        Answer::Failed(Failure::Unreachable(_)) => unreachable(provider),
        Answer::Refused(why) => Refusal::new(Status::Refused, format!("the identity provider `{provider}` {why}")),
        _ => {
            let sentence = format!(
                "the identity provider `{provider}` does not work as it is set up; the log of the security server says why"
            );
            Refusal::new(Status::Failed, sentence)
        }
    }
}

fn unreachable(provider: &str) -> Refusal {
    let sentence = format!("the identity provider `{provider}` cannot be reached; try again in a moment");
    Refusal::new(Status::Unavailable, sentence)
}

/// Questions to providers at once. A master asks this server eight things at once, and a provider may take seconds: two
/// ways stay free for those whom no provider needs to be asked about.
const QUESTIONS_MAX: usize = 6;
/// For how long nobody waits for a provider that did not answer: a second try of the same person comes later.
const DOWN_FOR: Duration = Duration::from_secs(2);

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
