//! Sessions that were closed lately. A client that has left may still have tickets, and transfers begun with them go on
//! without the master. So a user who is shut out must lose these too. Serves revocation (docs/paths/login.md). It only
//! keeps a table and never closes a session itself.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    Now, UserName, limits,
    message::master_security::{HeldSession, KnownUser, UserRights},
};

use crate::{access::per_user::PerUser, access::session_recheck::has_lost_rights};

/// Closed sessions, one for each user, proof and address.
#[derive(Debug, Default)]
pub(crate) struct ClosedSessions {
    sessions: BTreeMap<HeldSession, ClosedSession>,
    /// How many each user has.
    per_user: PerUser,
}

/// What is left of a session.
#[derive(Debug)]
struct ClosedSession {
    /// The rights of its user.
    rights: UserRights,
    /// When the last thing it began has ended, as [`Now::monotonic`].
    until: Duration,
}

impl ClosedSessions {
    /// Remembers a closed session. If there are too many, one is forgotten: the one that the user with the most closed
    /// first.
    pub(crate) fn add(&mut self, now: Now, held: HeldSession, rights: UserRights) {
        if self.sessions.len() >= CLOSED_SESSIONS_MAX
            && !self.sessions.contains_key(&held)
            && let Some(first) = self.first_of_greediest()
        {
            self.remove(&first);
        }
        let rest = ClosedSession { rights, until: now.monotonic + limits::TICKET_LIFE + limits::READING_TIME_MAX };
        let user = held.user.clone();
        if self.sessions.insert(held, rest).is_none() {
            self.per_user.add(&user, 1);
        }
    }

    fn first_of_greediest(&self) -> Option<HeldSession> {
        let greediest = self.per_user.greediest()?;
        let of_greediest = self.sessions.iter().filter(|(held, _)| held.user == *greediest);
        of_greediest.min_by_key(|(_, rest)| rest.until).map(|(held, _)| held.clone())
    }

    fn remove(&mut self, held: &HeldSession) -> Option<ClosedSession> {
        let rest = self.sessions.remove(held)?;
        self.per_user.take(&held.user, 1);
        Some(rest)
    }

    /// The sessions of these users; all if none are named.
    pub(crate) fn of_users(&self, users: Option<&[UserName]>) -> Vec<HeldSession> {
        let is_meant = |held: &&HeldSession| users.is_none_or(|users| users.contains(&held.user));
        self.sessions.keys().filter(is_meant).cloned().collect()
    }

    /// Takes over the user's current rights. Returns the user if those are fewer than before.
    pub(crate) fn recheck(&mut self, held: &HeldSession, known: Option<KnownUser>) -> Option<UserName> {
        let Some(known) = known else { return self.remove(held).map(|_| held.user.clone()) };
        let rest = self.sessions.get_mut(held)?;
        let lost = has_lost_rights(&known.rights, &rest.rights).then(|| held.user.clone());
        rest.rights = known.rights;
        lost
    }

    /// Forgets sessions of which nothing is running any more.
    pub(crate) fn forget_old(&mut self, now: Now) {
        let Self { sessions, per_user } = self;
        sessions.retain(|held, rest| {
            let goes_on = now.monotonic < rest.until;
            if !goes_on {
                per_user.take(&held.user, 1);
            }
            goes_on
        });
    }
}

/// Most closed sessions remembered, some 200 bytes each: as many as may be open. Each command of a person opens one,
/// but all those with one profile count as one here.
const CLOSED_SESSIONS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::CredentialId;

    use super::*;

    fn held(number: u64) -> HeldSession {
        let address = "192.0.2.1".parse().unwrap();
        HeldSession { user: UserName::new("ann").unwrap(), credential: CredentialId(number), address }
    }

    fn rights() -> UserRights {
        UserRights { user: UserName::new("ann").unwrap(), groups: vec!["astro".into()], admin: false }
    }

    fn at(seconds: u64) -> Now {
        Now { monotonic: Duration::from_secs(seconds), ..Now::default() }
    }

    #[test]
    fn who_left_is_kept_in_mind_until_the_last_read_must_have_ended() {
        let mut left = ClosedSessions::default();
        left.add(at(0), held(1), rights());
        left.add(at(100), held(1), rights());
        left.forget_old(at(3_700));
        assert_eq!(left.of_users(None), [held(1)]);
        left.forget_old(at(3_760));
        assert_eq!(left.of_users(None), []);
    }

    #[test]
    fn there_are_never_too_many_and_the_first_goes_first() {
        let mut left = ClosedSessions::default();
        for number in 0..=CLOSED_SESSIONS_MAX as u64 {
            left.add(at(number), held(number), rights());
        }
        let kept = left.of_users(None);
        assert!(
            kept.len() == CLOSED_SESSIONS_MAX
                && !kept.contains(&held(0))
                && kept.contains(&held(CLOSED_SESSIONS_MAX as u64))
        );
    }

    // Promise 38.
    #[test]
    fn what_one_user_closes_makes_nobody_forget_what_another_closed() {
        let mut left = ClosedSessions::default();
        let bobs = HeldSession { user: UserName::new("bob").unwrap(), ..held(0) };
        left.add(at(0), bobs.clone(), rights());
        for number in 1..=2 * CLOSED_SESSIONS_MAX as u64 {
            left.add(at(1), held(number), rights());
        }
        let kept = left.of_users(None);
        assert!(kept.len() == CLOSED_SESSIONS_MAX && kept.contains(&bobs));
    }

    #[test]
    fn a_group_that_was_lost_counts_also_for_who_has_left() {
        let mut left = ClosedSessions::default();
        left.add(at(0), held(1), rights());
        let known = |groups| KnownUser {
            rights: UserRights { groups, ..rights() },
            credential: CredentialId(1),
            until_unix_millis: None,
        };
        assert_eq!(left.recheck(&held(1), Some(known(vec!["astro".into()]))), None);
        assert_eq!(left.recheck(&held(1), Some(known(vec![]))), Some(rights().user));
        assert_eq!(left.recheck(&held(1), Some(known(vec![]))), None, "that is known");
    }
}
