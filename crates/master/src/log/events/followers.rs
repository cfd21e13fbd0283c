//! Requests that wait for the next event. Serves `sector events --follow`. Their number is bounded, and so is how many are
//! answered at a time: a thousand followers take a few percent of the master. It never builds an answer.

use std::{collections::VecDeque, time::Duration};

use protocol::message::request::EventsRequest;

use crate::actions::SessionCaller;

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) caller: SessionCaller,
    /// Goes on after the last event that was looked at for it.
    pub(crate) asked: EventsRequest,
    /// When it is answered whatever happens, on the monotonic clock.
    pub(crate) deadline: Duration,
}

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// Nothing has happened since these were looked at. By deadline: all wait equally long.
    waiting: VecDeque<Follower>,
    /// There is an event that these have not been asked about.
    ready: VecDeque<Follower>,
    next_round: Duration,
}

impl Followers {
    /// Lets a request wait; gives it back if there is no room.
    pub(crate) fn add(&mut self, follower: Follower) -> Option<Follower> {
        if self.count() >= FOLLOWERS_MAX {
            return Some(follower);
        }
        self.waiting.push_back(follower);
        None
    }

    /// Nothing in the new events was for this one: it waits on.
    pub(crate) fn put_back(&mut self, follower: Follower) {
        let at = self.waiting.partition_point(|other| other.deadline <= follower.deadline);
        self.waiting.insert(at, follower);
    }

    /// There are new events.
    pub(crate) fn wake(&mut self) {
        self.ready.append(&mut self.waiting);
    }

    /// Some of those for whom there may be events now; none before the next round is due.
    pub(crate) fn take_ready(&mut self, now: Duration) -> Vec<Follower> {
        if self.ready.is_empty() || now < self.next_round {
            return Vec::new();
        }
        self.next_round = now + ROUND;
        let count = self.ready.len().min(ROUND_FOLLOWERS_MAX);
        self.ready.drain(..count).collect()
    }

    /// Those who have waited long enough.
    pub(crate) fn take_expired(&mut self, now: Duration) -> Vec<Follower> {
        let count = self.waiting.partition_point(|follower| follower.deadline <= now);
        self.waiting.drain(..count).collect()
    }

    /// When some of those for whom there may be events are looked at next.
    pub(crate) fn next_round(&self) -> Option<Duration> {
        (!self.ready.is_empty()).then_some(self.next_round)
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len() + self.ready.len()
    }
}

/// Requests that wait at once, some 300 bytes each. Whoever comes beyond is answered at once, and asks again a second later.
pub(crate) const FOLLOWERS_MAX: usize = 4_096;
/// Between two rounds. What happens meanwhile comes in one answer.
const ROUND: Duration = Duration::from_millis(50);
/// Answered in a round: a thousand followers hear of an event within a second.
const ROUND_FOLLOWERS_MAX: usize = 64;
