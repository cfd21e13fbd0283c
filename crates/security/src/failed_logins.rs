//! Failed logins, so that passwords cannot be guessed at the speed of the network. It slows down one name from one
//! address: others at the same address, and the same person elsewhere, are not locked out by it. It never looks at
//! whether the name exists.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use protocol::{Now, UserName};

/// Recent failed logins by name and address.
#[derive(Debug, Default)]
pub struct FailedLogins {
    failures: BTreeMap<(UserName, IpAddr), Failures>,
}

impl FailedLogins {
    /// How long this name must wait at this address before it is heard again; `None`: not at all.
    pub fn wait(&self, now: Now, user: &UserName, address: IpAddr) -> Option<Duration> {
        let failures = self.failures.get(&(user.clone(), address))?;
        let until = failures.last + delay(failures.count);
        until.checked_sub(now.monotonic).filter(|left| !left.is_zero())
    }

    /// Counts a failure.
    pub fn note_failure(&mut self, now: Now, user: UserName, address: IpAddr) {
        let key = (user, address);
        if self.failures.len() >= FAILURES_MAX && !self.failures.contains_key(&key) {
            // The table is full only under attack. Forgetting the oldest then keeps memory bounded, and costs far less
            // than the password hash that brought us here.
            let oldest = self.failures.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.failures.remove(&key));
        }
        let failures = self.failures.entry(key).or_default();
        failures.count = failures.count.saturating_add(1);
        failures.last = now.monotonic;
    }

    /// Forgets the failures of a name that proved itself.
    pub fn note_success(&mut self, user: &UserName, address: IpAddr) {
        self.failures.remove(&(user.clone(), address));
    }

    /// Forgets what is old.
    pub fn forget_old(&mut self, now: Now) {
        self.failures.retain(|_, failures| failures.last + FORGET_AFTER > now.monotonic);
    }

    /// When there will next be something to forget, as [`Now::monotonic`].
    pub fn next_timeout(&self) -> Option<Duration> {
        self.failures.values().map(|failures| failures.last + FORGET_AFTER).min()
    }
}

fn delay(count: u32) -> Duration {
    let Some(doublings) = count.checked_sub(FAILURES_FREE) else { return Duration::ZERO };
    DELAY_MIN.saturating_mul(2u32.saturating_pow(doublings)).min(DELAY_MAX)
}

#[derive(Debug, Default)]
struct Failures {
    count: u32,
    /// The last one, as [`Now::monotonic`].
    last: Duration,
}

/// Failures after which a wait begins: people mistype.
const FAILURES_FREE: u32 = 5;
/// The first wait; each further failure doubles it.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// The longest wait: 1,440 guesses a day find no password that is worth the name.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// After this long without a failure, all is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Most names and addresses remembered: about 1 MiB.
const FAILURES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(seconds: u64) -> Now {
        Now::default().after(Duration::from_secs(seconds))
    }

    fn alice() -> UserName {
        UserName::new("alice").unwrap()
    }

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 1));

    #[test]
    fn a_few_failures_are_free_and_then_the_wait_doubles_to_its_limit() {
        let mut failed = FailedLogins::default();
        let mut waits = Vec::new();
        for _ in 0..14 {
            failed.note_failure(at(0), alice(), HOME);
            waits.push(failed.wait(at(0), &alice(), HOME).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(failed.wait(at(59), &alice(), HOME), Some(Duration::from_secs(1)));
        assert_eq!(failed.wait(at(60), &alice(), HOME), None);
    }

    #[test]
    fn others_and_elsewhere_are_not_locked_out() {
        let mut failed = FailedLogins::default();
        for _ in 0..20 {
            failed.note_failure(at(0), alice(), HOME);
        }
        assert!(failed.wait(at(0), &alice(), HOME).is_some());
        assert_eq!(failed.wait(at(0), &alice(), AWAY), None);
        assert_eq!(failed.wait(at(0), &UserName::new("bob").unwrap(), HOME), None);
    }

    #[test]
    fn success_and_time_wipe_the_slate() {
        let mut failed = FailedLogins::default();
        for _ in 0..20 {
            failed.note_failure(at(0), alice(), HOME);
            failed.note_failure(at(100), alice(), AWAY);
        }
        failed.note_success(&alice(), AWAY);
        assert_eq!(failed.wait(at(100), &alice(), AWAY), None);
        assert_eq!(failed.next_timeout(), Some(FORGET_AFTER));
        failed.forget_old(at(599));
        assert_eq!(failed.failures.len(), 1);
        failed.forget_old(at(600));
        assert_eq!(failed.failures.len(), 0);
        assert_eq!(failed.next_timeout(), None);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_oldest() {
        let mut failed = FailedLogins::default();
        for number in 0..=FAILURES_MAX as u64 {
            failed.note_failure(at(number), UserName::new(format!("user-{number}")).unwrap(), HOME);
        }
        assert_eq!(failed.failures.len(), FAILURES_MAX);
        assert_eq!(failed.next_timeout(), Some(Duration::from_secs(1) + FORGET_AFTER));
    }
}
