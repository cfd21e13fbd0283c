//! Whether users of directories may stay in: everyone who holds a session or a token is asked about again every few
//! minutes, so that whoever leaves an organization leaves the cloud too, and groups follow the directory. Serves
//! revocation (docs/paths/login.md). A directory that gives no answer puts nobody out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{Now, UserName};

use super::{Security, providers::QuestionPurpose};
use crate::provider::{ProviderAnswer, ProviderQuestion};

/// When who is looked after.
#[derive(Debug, Default)]
pub(super) struct Revalidations {
    at: BTreeMap<UserName, Duration>,
    /// The same, in the order of time, as [`Now::monotonic`].
    order: BTreeSet<(Duration, UserName)>,
    under_way: usize,
}

impl Revalidations {
    fn set(&mut self, user: &UserName, at: Duration) {
        if let Some(before) = self.at.insert(user.clone(), at) {
            self.order.remove(&(before, user.clone()));
        }
        self.order.insert((at, user.clone()));
    }

    fn pop_due(&mut self, now: Now) -> Option<UserName> {
        self.order.first().filter(|(at, _)| *at <= now.monotonic)?;
        let (_, user) = self.order.pop_first()?;
        self.at.remove(&user);
        Some(user)
    }
}

impl Security {
    /// At the start everyone is looked after at once, as far as providers may be asked at once: nobody knows what has
    /// changed meanwhile.
    pub(super) fn begin_revalidation(&mut self) {
        let (plan, looks) = (&self.providers.mapping, &mut self.providers.revalidations);
        let of_directories =
            self.accounts.origins().filter(|(_, origin)| plan.recheck_interval(&origin.provider).is_some());
        of_directories.for_each(|(user, _)| looks.set(user, Duration::ZERO));
    }

    /// A user was just proved.
    pub(super) fn schedule_revalidation(&mut self, now: Now, user: &UserName, provider: &str) {
        if let Some(pause) = self.providers.mapping.recheck_interval(provider) {
            self.providers.revalidations.set(user, now.monotonic + pause);
        }
    }

    /// Something was heard that the directory should be asked about soon, if it can be.
    pub(super) fn revalidate_soon(&mut self, now: Now, user: &UserName) {
        if self.providers.revalidations.at.contains_key(user) {
            self.providers.revalidations.set(user, now.monotonic);
        }
    }

    /// When [`revalidate_due_users`](Self::revalidate_due_users) has something to do, as [`Now::monotonic`].
    pub(super) fn next_revalidation(&self) -> Option<Duration> {
        let looks = &self.providers.revalidations;
        looks.order.first().filter(|_| looks.under_way < REVALIDATIONS_MAX).map(|(at, _)| *at)
    }

    /// Asks about those whose time has come.
    pub(super) fn revalidate_due_users(&mut self, now: Now) {
        while self.providers.revalidations.under_way < REVALIDATIONS_MAX
            && let Some(user) = self.providers.revalidations.pop_due(now)
        {
            self.revalidate_user(now, user);
        }
    }

    fn revalidate_user(&mut self, now: Now, user: UserName) {
        // Who was removed is looked after no more.
        let Some(provider) = self.accounts.origin(&user).map(|origin| origin.provider.clone()) else { return };
        self.schedule_revalidation(now, &user, &provider);
        // Who holds nothing has nothing to lose, and is asked about at the login.
        if self.tokens_of(now, &user).is_empty() {
            return;
        }
        let question = ProviderQuestion::LookUp { user: self.providers.mapping.name_at(&provider, &user) };
        if self.ask_provider(now, provider, QuestionPurpose::Revalidate(user), question).is_ok() {
            self.providers.revalidations.under_way += 1;
        }
    }

    /// A provider said whether a user may stay in.
    pub(super) fn note_revalidated(&mut self, now: Now, provider: &str, user: &UserName, answer: ProviderAnswer) {
        self.providers.revalidations.under_way -= 1;
        // Looked up again: meanwhile the account may have been removed, or become someone else's.
        let Some(origin) = self.accounts.origin(user).filter(|origin| origin.provider == provider).cloned() else {
            return;
        };
        let mapped = match answer {
            ProviderAnswer::User(found) => {
                self.providers.mapping.admit(provider, &found).ok().filter(|mapped| mapped.name == *user)
            }
            ProviderAnswer::NoSuchUser => None,
            // Whatever it is, it does not say that the user is gone.
            _ => return,
        };
        // Best effort: what cannot be written now is found again at the next look.
        let _ = self.update_account(now, user, &origin, mapped);
    }

    /// Whether use may prolong a login session. Not where nobody can be asked whether its user is still one: then each
    /// ends twelve hours after the login.
    pub(super) fn may_renew(&self, user: &UserName) -> bool {
        let asks_again = |provider: &String| self.providers.mapping.recheck_interval(provider).is_some();
        self.accounts.origin(user).is_none_or(|origin| asks_again(&origin.provider))
    }
}

/// Looks at once: so many at a few hundredths of a second each are some ten thousand in five minutes.
const REVALIDATIONS_MAX: usize = 2;

#[cfg(test)]
#[path = "revalidation_tests.rs"]
mod tests;
