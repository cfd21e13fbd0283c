//! Whose accounts have changed lately, so that masters learn within seconds whose sessions to look at again. Serves
//! revocation. It says whose, never what: what holds is asked for by itself, so a change that is told twice does no
//! harm.

use std::collections::{BTreeSet, VecDeque};

use protocol::{
    UserName,
    message::master_security::{AccountChanges, ChangeCursor},
};

/// The latest changes of one run of the server.
#[derive(Debug)]
pub struct ChangeLog {
    mark: ChangeCursor,
    /// Each with its number, oldest first.
    latest: VecDeque<(u64, UserName)>,
}

impl ChangeLog {
    /// A log of the run that has this number; no two runs may have the same, and none 0.
    pub fn new(run: u64) -> Self {
        Self { mark: ChangeCursor { epoch: run, number: 0 }, latest: VecDeque::new() }
    }

    /// Notes that a user's account has changed.
    pub fn note(&mut self, user: UserName) {
        self.mark.number += 1;
        self.latest.push_back((self.mark.number, user));
        if self.latest.len() > LATEST_MAX {
            self.latest.pop_front();
        }
    }

    /// Whose accounts have changed since.
    pub fn since(&self, mark: ChangeCursor) -> AccountChanges {
        let oldest = self.latest.front().map_or(self.mark.number + 1, |(number, _)| *number);
        let is_known = mark.epoch == self.mark.epoch && mark.number + 1 >= oldest;
        let users = is_known.then(|| {
            let newer = self.latest.iter().filter(|(number, _)| *number > mark.number);
            newer.map(|(_, user)| user.clone()).collect::<BTreeSet<_>>().into_iter().collect()
        });
        AccountChanges { cursor: self.mark, users }
    }
}

/// Changes kept: what an administrator's script makes in the seconds between two polls. Who comes later looks at all.
const LATEST_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn user(number: u64) -> UserName {
        UserName::new(format!("user-{number}")).unwrap()
    }

    #[test]
    fn each_change_is_told_once_and_who_asks_again_hears_nothing() {
        let mut log = ChangeLog::new(7);
        let begun = log.since(ChangeCursor::default());
        assert_eq!(begun, AccountChanges { cursor: ChangeCursor { epoch: 7, number: 0 }, users: None });
        for number in [2, 1, 2] {
            log.note(user(number));
        }
        let changes = log.since(begun.cursor);
        assert_eq!(changes.users, Some(vec![user(1), user(2)]));
        assert_eq!(log.since(changes.cursor).users, Some(vec![]));
    }

    #[test]
    fn who_was_away_for_too_long_or_knows_another_run_looks_at_everyone() {
        let mut log = ChangeLog::new(7);
        for number in 0..=LATEST_MAX as u64 {
            log.note(user(number));
        }
        assert_eq!(log.since(ChangeCursor { epoch: 7, number: 0 }).users, None);
        assert_eq!(log.since(ChangeCursor { epoch: 7, number: 1 }).users.map(|users| users.len()), Some(LATEST_MAX));
        assert_eq!(log.since(ChangeCursor { epoch: 6, number: 1 }).users, None);
    }
}
