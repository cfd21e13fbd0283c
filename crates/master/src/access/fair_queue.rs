//! Client requests that wait for the master's single task, taken from each user in turn. A user with a thousand costly
//! requests waits for their own; others wait for at most one of these. Serves every request; nodes' reports do not wait
//! here. It never looks into a request and never drops one: a request that finds no room is given back.

use std::collections::{BTreeMap, VecDeque};

use protocol::UserName;

use crate::access::per_user::PerUser;

/// The waiting requests; see the module.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    waiting: BTreeMap<UserName, VecDeque<(T, u64)>>,
    /// Whose turn is next; each user with waiting requests appears once.
    order: VecDeque<UserName>,
    requests: PerUser,
    bytes: PerUser,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            requests: PerUser::default(),
            bytes: PerUser::default(),
        }
    }
}

impl<T> FairQueue<T> {
    /// Takes a request of this many bytes.
    ///
    /// # Errors
    /// Gives it back if too many of this user's requests wait already.
    pub(crate) fn push(&mut self, user: &UserName, request: T, bytes: u64) -> Result<(), T> {
        let has_room =
            self.requests.may_add(user, 1, WAITING_MAX) && self.bytes.may_add(user, bytes, WAITING_BYTES_MAX);
        if !has_room {
            return Err(request);
        }
        self.requests.add(user, 1);
        self.bytes.add(user, bytes);
        match self.waiting.get_mut(user) {
            Some(waiting) => waiting.push_back((request, bytes)),
            None => {
                self.waiting.insert(user.clone(), VecDeque::from([(request, bytes)]));
                self.order.push_back(user.clone());
            }
        }
        Ok(())
    }

    /// The next request, of the user whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let user = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&user)?;
        let (request, bytes) = waiting.pop_front()?;
        self.requests.take(&user, 1);
        self.bytes.take(&user, bytes);
        if waiting.is_empty() {
            self.waiting.remove(&user);
        } else {
            self.order.push_back(user);
        }
        Some(request)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many requests of a user wait.
    pub(crate) fn waiting_of(&self, user: &UserName) -> u64 {
        self.requests.has(user)
    }
}

/// Most requests that wait. At some microseconds each they take a tenth of a second. With a page of a listing each,
/// they take some seconds, less than clients wait for an answer. One user alone may have half.
const WAITING_MAX: u64 = 8_192;
/// Most bytes of them: requests are short, but may have a megabyte each.
const WAITING_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn user(name: &str) -> UserName {
        UserName::new(name).unwrap()
    }

    // Promise 38.
    #[test]
    fn users_have_turns_and_requests_of_one_keep_their_order() {
        let mut turns = FairQueue::default();
        for number in 0..1_000 {
            turns.push(&user("ann"), ("ann", number), 10).unwrap();
        }
        turns.push(&user("bob"), ("bob", 0), 10).unwrap();
        turns.push(&user("bob"), ("bob", 1), 10).unwrap();
        let first: Vec<_> = (0..6).filter_map(|_| turns.pop()).collect();
        assert_eq!(first, [("ann", 0), ("bob", 0), ("ann", 1), ("bob", 1), ("ann", 2), ("ann", 3)]);
        // A user who arrives later waits for one of the other's requests.
        turns.push(&user("bob"), ("bob", 2), 10).unwrap();
        assert_eq!((turns.pop(), turns.pop()), (Some(("ann", 4)), Some(("bob", 2))));
        assert_eq!(std::iter::from_fn(|| turns.pop()).count(), 995);
        assert!(turns.is_empty() && turns.waiting_of(&user("ann")) == 0 && turns.bytes.total() == 0);
    }

    // Promise 38.
    #[test]
    fn who_has_too_many_waiting_is_turned_away_and_another_is_not() {
        let mut turns = FairQueue::default();
        let taken = (0..WAITING_MAX).take_while(|number| turns.push(&user("ann"), *number, 1).is_ok()).count();
        assert_eq!(taken as u64, WAITING_MAX / 2);
        assert_eq!(turns.push(&user("ann"), 7, 1), Err(7));
        assert_eq!(turns.push(&user("bob"), 8, 1), Ok(()));
    }

    #[test]
    fn large_requests_are_bounded_by_their_bytes() {
        let mut turns = FairQueue::default();
        let mebibyte = 1 << 20;
        let taken = (0..WAITING_MAX).take_while(|number| turns.push(&user("ann"), *number, mebibyte).is_ok()).count();
        assert_eq!(taken, 32);
        assert_eq!(turns.push(&user("bob"), 8, mebibyte), Ok(()));
    }
}
