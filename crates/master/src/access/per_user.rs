//! How much of a table each user has, and the two rules for sharing it. A user may add while they have less than is
//! free. So a single user may have half of it, and two a third each; the next one finds as much as the greediest has.
//! If an old entry makes room for a new one, it is one of the greediest user's. Serves every table that users can fill
//! (docs/decisions/0029-shares-of-users.md). It never knows what it counts.

use std::collections::BTreeMap;

use protocol::UserName;

/// Each user's part of a resource that is bounded for all together.
#[derive(Debug, Default)]
pub(crate) struct PerUser {
    of: BTreeMap<UserName, u64>,
    total: u64,
}

impl PerUser {
    /// Adds to a user's count.
    pub(crate) fn add(&mut self, user: &UserName, more: u64) {
        if more == 0 {
            return;
        }
        self.total = self.total.saturating_add(more);
        match self.of.get_mut(user) {
            Some(has) => *has = has.saturating_add(more),
            None => drop(self.of.insert(user.clone(), more)),
        }
    }

    /// Subtracts from a user's count.
    pub(crate) fn take(&mut self, user: &UserName, less: u64) {
        self.total = self.total.saturating_sub(less);
        if let Some(has) = self.of.get_mut(user) {
            *has = has.saturating_sub(less);
            if *has == 0 {
                self.of.remove(user);
            }
        }
    }

    /// A user's count.
    pub(crate) fn has(&self, user: &UserName) -> u64 {
        self.of.get(user).copied().unwrap_or(0)
    }

    /// Whether a user may have this much more of a table with room for `most`.
    pub(crate) fn may_add(&self, user: &UserName, more: u64, most: u64) -> bool {
        self.has(user).saturating_add(more) <= most.saturating_sub(self.total)
    }

    /// The user with the most; among equals, the first by name.
    pub(crate) fn greediest(&self) -> Option<&UserName> {
        self.of.iter().rev().max_by_key(|(_, has)| **has).map(|(user, _)| user)
    }

    /// All counts, by user name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&UserName, u64)> {
        self.of.iter().map(|(user, has)| (user, *has))
    }

    /// How many users have a count.
    pub(crate) fn users(&self) -> u64 {
        self.of.len() as u64
    }

    /// The sum of all counts.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn user(name: &str) -> UserName {
        UserName::new(name).unwrap()
    }

    /// Lets each of these add one by one, in turn, until nobody may.
    fn fill(names: &[&str], most: u64) -> Vec<u64> {
        let users: Vec<_> = names.iter().map(|name| user(name)).collect();
        let mut shares = PerUser::default();
        loop {
            let before = shares.total();
            for user in &users {
                if shares.may_add(user, 1, most) {
                    shares.add(user, 1);
                }
            }
            if shares.total() == before {
                return users.iter().map(|user| shares.has(user)).collect();
            }
        }
    }

    // Promise 38.
    #[test]
    fn one_alone_has_half_and_each_of_many_as_much_as_is_left_for_the_next() {
        assert_eq!(fill(&["ann"], 1_200), [600]);
        assert_eq!(fill(&["ann", "bob"], 1_200), [400, 400]);
        assert_eq!(fill(&["ann", "bob", "eve"], 1_200), [300, 300, 300]);
    }

    #[test]
    fn who_was_alone_first_leaves_room_for_who_comes_later() {
        let mut shares = PerUser::default();
        let (ann, bob) = (user("ann"), user("bob"));
        while shares.may_add(&ann, 1, 1_200) {
            shares.add(&ann, 1);
        }
        while shares.may_add(&bob, 1, 1_200) {
            shares.add(&bob, 1);
        }
        assert_eq!((shares.has(&ann), shares.has(&bob)), (600, 300));
        // The second may have what the first gives back, up to the same amount.
        shares.take(&ann, 200);
        assert!(!shares.may_add(&ann, 1, 1_200) || shares.has(&ann) < 500);
        assert!(shares.may_add(&bob, 100, 1_200));
    }

    #[test]
    fn the_greediest_is_who_has_most_and_who_has_nothing_is_forgotten() {
        let mut shares = PerUser::default();
        assert_eq!(shares.greediest(), None);
        shares.add(&user("bob"), 2);
        shares.add(&user("ann"), 2);
        assert_eq!(shares.greediest(), Some(&user("ann")));
        shares.add(&user("bob"), 1);
        assert_eq!(shares.greediest(), Some(&user("bob")));
        shares.take(&user("bob"), 3);
        assert_eq!((shares.greediest(), shares.users(), shares.total()), (Some(&user("ann")), 1, 2));
    }
}
