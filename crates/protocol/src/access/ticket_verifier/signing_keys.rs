//! The master's keys for tickets as a node knows them, through their rotations. It serves doors 5 and 6. It never takes
//! a key that the master has not announced.

use std::time::Duration;

use super::IsSigned;
use crate::{
    limits,
    ticket::{SignedTicket, TicketKeys},
    time::Now,
};

/// The keys that sign now and next, and those that signed before.
#[derive(Clone, Debug)]
pub(super) struct KnownKeys {
    keys: TicketKeys,
    /// Keys that signed before, newest last.
    retired: Vec<Retired>,
}

/// A key that no longer signs. What it signed is good for as long as a ticket lives, and no longer, whatever the ticket
/// says. So a stolen old key is useless.
#[derive(Clone, Copy, Debug)]
struct Retired {
    key: [u8; 32],
    /// The latest expiry of a ticket that it may have signed, in milliseconds since the Unix epoch.
    until_unix_millis: u64,
}

impl KnownKeys {
    pub(super) fn new(keys: TicketKeys) -> Self {
        Self { keys, retired: Vec::new() }
    }

    /// Whether these are keys of the same master, and of the same run of it.
    pub(super) fn is_same_signer(&self, keys: TicketKeys) -> bool {
        [self.keys.current, self.keys.next].contains(&keys.current)
    }

    /// Takes newer keys of the same master; the one that they replace stays good for what it has signed.
    pub(super) fn rotate(&mut self, now: Now, keys: TicketKeys) {
        if keys.current == self.keys.next {
            // The announcement comes a little later than the change, and by a clock that may differ.
            let until = now.after(limits::TICKET_LIFE + KEY_OVERLAP);
            self.retired.push(Retired { key: self.keys.current, until_unix_millis: until.unix_millis });
            if self.retired.len() > RETIRED_KEYS_MAX {
                self.retired.remove(0);
            }
        }
        self.keys = keys;
    }

    /// The latest allowed expiry of a ticket with this signature; `None` where no known key signed it.
    pub(super) fn limit_of(&self, is_signed: IsSigned, signed: &SignedTicket) -> Option<u64> {
        let is_by = |key: &[u8; 32]| is_signed(key, &signed.ticket, &signed.signature);
        if is_by(&self.keys.current) || is_by(&self.keys.next) {
            return Some(u64::MAX);
        }
        self.retired.iter().rev().find(|retired| is_by(&retired.key)).map(|retired| retired.until_unix_millis)
    }
}

/// How late a node may learn that a key was replaced. It covers the time that an order takes at worst, and clocks that
/// disagree by some seconds.
const KEY_OVERLAP: Duration = Duration::from_secs(60);
/// Replaced keys that are remembered: those of a week, while a task's pieces may come hours after its ticket's end.
pub(super) const RETIRED_KEYS_MAX: usize = 7;
