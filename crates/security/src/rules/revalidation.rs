//! Whether users of directories may stay logged in (docs/paths/login.md). Every few minutes the directory is asked
//! about each user who holds a session or a token. So anyone who leaves an organization leaves the cloud too, and
//! groups follow the directory. A directory that gives no answer never logs anyone out.

use std::time::Duration;

use protocol::{Now, UserName};

use super::{Security, provider_questions::QuestionPurpose};
use crate::provider::{ProviderAnswer, ProviderQuestion};

impl Security {
    /// At the start everyone is revalidated at once, within the limit on questions: it is unknown what has changed
    /// meanwhile.
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

    /// Something happened after which the directory should be asked about this user soon, if possible.
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

    /// Asks about the users who are due.
    pub(super) fn revalidate_due_users(&mut self, now: Now) {
        while self.providers.revalidations.under_way < REVALIDATIONS_MAX
            && let Some(user) = self.providers.revalidations.pop_due(now)
        {
            self.revalidate_user(now, user);
        }
    }

    fn revalidate_user(&mut self, now: Now, user: UserName) {
        // A user who was removed is no longer revalidated.
        let Some(provider) = self.accounts.origin(&user).map(|origin| origin.provider.clone()) else { return };
        self.schedule_revalidation(now, &user, &provider);
        // A user who holds nothing has nothing to lose, and is asked about at the login.
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
        // Looked up again: meanwhile the account may have been removed, or got another owner.
        let Some(origin) = self.accounts.origin(user).filter(|origin| origin.provider == provider).cloned() else {
            return;
        };
        let mapped = match answer {
            ProviderAnswer::User(found) => {
                self.providers.mapping.admit(provider, &found).ok().filter(|mapped| mapped.name == *user)
            }
            ProviderAnswer::NoSuchUser => None,
            // Any other answer does not say that the user is gone.
            _ => return,
        };
        // Best effort: what cannot be written now is found again at the next revalidation.
        let _ = self.update_account(now, user, &origin, mapped);
    }

    /// Whether use may extend a login session. It may not where the user cannot be revalidated: then each session ends
    /// twelve hours after the login.
    pub(super) fn may_renew(&self, user: &UserName) -> bool {
        let asks_again = |provider: &String| self.providers.mapping.recheck_interval(provider).is_some();
        self.accounts.origin(user).is_none_or(|origin| asks_again(&origin.provider))
    }
}

/// Revalidations at once: this many, at a few hundredths of a second each, make some ten thousand in five minutes.
const REVALIDATIONS_MAX: usize = 2;

#[cfg(test)]
#[path = "revalidation_tests.rs"]
mod tests;
