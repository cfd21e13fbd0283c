//! Failed logins, so that passwords cannot be guessed at the speed of the network. Failures are counted by name and
//! address, by address alone (one source tries many names), and by name alone (many sources try one name). Guesses by
//! others must not lock a person out. So the count by name alone does not apply where the name recently proved itself,
//! and asks only for a short wait elsewhere. It never checks whether the name exists.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use protocol::{Now, UserName, refusals::network};

/// Recent failed logins.
#[derive(Debug)]
pub struct FailedLogins {
    pairs: Table<(UserName, IpAddr)>,
    addresses: Table<IpAddr>,
    names: Table<UserName>,
    /// Where a name proved itself, and when.
    proved: BTreeMap<(UserName, IpAddr), Duration>,
}

impl Default for FailedLogins {
    fn default() -> Self {
        Self {
            pairs: Table::new(PAIR_FAILURES_FREE, DELAY_MAX),
            addresses: Table::new(ADDRESS_FAILURES_FREE, DELAY_MAX),
            names: Table::new(NAME_FAILURES_FREE, NAME_DELAY_MAX),
            proved: BTreeMap::new(),
        }
    }
}

impl FailedLogins {
    /// How long this name must wait at this address before the next attempt; `None` if it need not wait.
    pub fn wait(&self, now: Now, user: &UserName, address: IpAddr) -> Option<Duration> {
        let address = network(address);
        let pair = (user.clone(), address);
        let of_name = if self.proved.contains_key(&pair) { None } else { self.names.wait(now, user) };
        let waits = [self.pairs.wait(now, &pair), self.addresses.wait(now, &address), of_name];
        waits.into_iter().flatten().max()
    }

    /// Begins an attempt to prove this name. It counts as a failure until it [ends](Self::end). Otherwise many attempts
    /// at the same moment would all be compared before the first is known to be wrong.
    pub fn begin(&mut self, now: Now, user: &UserName, address: IpAddr) -> LoginAttempt {
        if let Some(wait) = self.wait(now, user, address) {
            return LoginAttempt::Wait(wait);
        }
        let pair = (user.clone(), network(address));
        let has_room = self.pairs.has_room(&pair)
            && self.addresses.has_room(&pair.1)
            && (self.proved.contains_key(&pair) || self.names.has_room(user));
        if !has_room {
            return LoginAttempt::Queued;
        }
        self.addresses.begin(pair.1);
        self.names.begin(user.clone());
        self.pairs.begin(pair);
        LoginAttempt::Begun
    }

    /// Ends an attempt that had begun, whatever its result.
    pub fn end(&mut self, user: &UserName, address: IpAddr) {
        let address = network(address);
        self.addresses.end(&address);
        self.names.end(user);
        self.pairs.end(&(user.clone(), address));
    }

    /// Counts a failure.
    pub fn note_failure(&mut self, now: Now, user: UserName, address: IpAddr) {
        let address = network(address);
        self.addresses.note(now, address);
        self.names.note(now, user.clone());
        self.pairs.note(now, (user, address));
    }

    /// Forgets the failures of a name that proved itself at this address. Those of the address stay: an account must
    /// not serve to wipe out failed attempts with other names.
    pub fn note_success(&mut self, now: Now, user: &UserName, address: IpAddr) {
        let pair = (user.clone(), network(address));
        self.pairs.failures.remove(&pair);
        if self.proved.len() >= TABLE_MAX && !self.proved.contains_key(&pair) {
            let oldest = self.proved.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.proved.remove(&key));
        }
        self.proved.insert(pair, now.monotonic);
    }

    /// Forgets old entries.
    pub fn forget_old(&mut self, now: Now) {
        self.pairs.forget_old(now);
        self.addresses.forget_old(now);
        self.names.forget_old(now);
        self.proved.retain(|_, at| *at + PROVED_FOR > now.monotonic);
    }

    /// When there will next be something to forget, as [`Now::monotonic`].
    pub fn next_timeout(&self) -> Option<Duration> {
        let proved = self.proved.values().map(|at| *at + PROVED_FOR).min();
        [self.pairs.next_timeout(), self.addresses.next_timeout(), self.names.next_timeout(), proved]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Whether an attempt may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAttempt {
    /// It has begun.
    Begun,
    /// It must wait until others that are under way have ended.
    Queued,
    /// Not before this time has passed.
    Wait(Duration),
}

/// Failures of one kind of thing.
#[derive(Debug)]
struct Table<K> {
    failures: BTreeMap<K, Failures>,
    /// Attempts under way; bounded by the number of attempts that callers may make at once.
    under_way: BTreeMap<K, u32>,
    /// Failures after which a wait begins.
    free: u32,
    delay_max: Duration,
}

impl<K: Ord + Clone> Table<K> {
    fn new(free: u32, delay_max: Duration) -> Self {
        Self { failures: BTreeMap::new(), under_way: BTreeMap::new(), free, delay_max }
    }

    fn wait(&self, now: Now, key: &K) -> Option<Duration> {
        let failures = self.failures.get(key)?;
        let until = failures.last + self.delay(failures.count);
        until.checked_sub(now.monotonic).filter(|left| !left.is_zero())
    }

    /// Whether one more attempt may be made beside those under way. If all of them were wrong, no wait would have been
    /// skipped.
    fn has_room(&self, key: &K) -> bool {
        let under_way = self.under_way.get(key).copied().unwrap_or(0);
        let failed = self.failures.get(key).map_or(0, |failures| failures.count);
        under_way == 0 || failed.saturating_add(under_way) < self.free
    }

    fn begin(&mut self, key: K) {
        *self.under_way.entry(key).or_default() += 1;
    }

    fn end(&mut self, key: &K) {
        if let Some(count) = self.under_way.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.under_way.remove(key);
            }
        }
    }

    fn delay(&self, count: u32) -> Duration {
        let Some(doublings) = count.checked_sub(self.free) else { return Duration::ZERO };
        DELAY_MIN.saturating_mul(2u32.saturating_pow(doublings)).min(self.delay_max)
    }

    fn note(&mut self, now: Now, key: K) {
        if self.failures.len() >= TABLE_MAX && !self.failures.contains_key(&key) {
            // The table is full only under attack. Forgetting the oldest entry then keeps memory bounded, and costs far
            // less than the password hash that led here.
            let oldest = self.failures.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.failures.remove(&key));
        }
        let failures = self.failures.entry(key).or_default();
        failures.count = failures.count.saturating_add(1);
        failures.last = now.monotonic;
    }

    fn forget_old(&mut self, now: Now) {
        self.failures.retain(|_, failures| failures.last + FORGET_AFTER > now.monotonic);
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.failures.values().map(|failures| failures.last + FORGET_AFTER).min()
    }
}

#[derive(Debug, Default)]
struct Failures {
    count: u32,
    /// The last one, as [`Now::monotonic`].
    last: Duration,
}

/// Failures of one name at one address after which a wait begins: people mistype.
const PAIR_FAILURES_FREE: u32 = 5;
/// The same for one address and all names: many people may share it.
const ADDRESS_FAILURES_FREE: u32 = 50;
/// The same for one name and all addresses: nobody mistypes that often.
const NAME_FAILURES_FREE: u32 = 50;
/// The first wait; each further failure doubles it.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// The longest wait: 1,440 guesses a day find no reasonable password.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// The longest wait for a name that is tried from many addresses. It allows 12 guesses a minute in all, however many
/// addresses there are. The name's owner can still log in from an address that was not seen before.
const NAME_DELAY_MAX: Duration = Duration::from_secs(5);
/// After this long without a failure, everything is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// How long a name's success at an address counts.
const PROVED_FOR: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Most entries of each table: about 1 MiB.
const TABLE_MAX: usize = 10_000;

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

    fn user(number: u32) -> UserName {
        UserName::new(format!("user-{number}")).unwrap()
    }

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0b00_0000 + number).into()
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
    fn trying_many_names_from_one_address_is_slowed_down_even_after_a_success() {
        let mut failed = FailedLogins::default();
        for number in 0..60 {
            failed.note_failure(at(0), user(number), HOME);
        }
        failed.note_success(at(0), &user(99), HOME);
        assert_eq!(failed.wait(at(0), &user(61), HOME), Some(DELAY_MAX));
        assert_eq!(failed.wait(at(0), &user(61), AWAY), None);
    }

    #[test]
    fn many_addresses_that_try_one_name_are_slowed_down_but_its_owner_is_not() {
        let mut failed = FailedLogins::default();
        failed.note_success(at(0), &alice(), HOME);
        for number in 0..60 {
            failed.note_failure(at(0), alice(), address(number));
        }
        assert_eq!(failed.wait(at(0), &alice(), address(99)), Some(NAME_DELAY_MAX));
        assert_eq!(failed.wait(at(0), &alice(), HOME), None);
        assert_eq!(failed.wait(at(0), &user(1), address(99)), None);
    }

    #[test]
    fn all_addresses_of_one_ipv6_network_count_as_one() {
        let mut failed = FailedLogins::default();
        for number in 0..6 {
            failed.note_failure(at(0), alice(), format!("2001:db8::{number}").parse().unwrap());
        }
        assert!(failed.wait(at(0), &alice(), "2001:db8::99".parse().unwrap()).is_some());
        assert_eq!(failed.wait(at(0), &alice(), "2001:db8:0:1::1".parse().unwrap()), None);
    }

    #[test]
    fn success_and_time_wipe_the_slate() {
        let mut failed = FailedLogins::default();
        for _ in 0..20 {
            failed.note_failure(at(0), alice(), HOME);
            failed.note_failure(at(100), alice(), AWAY);
        }
        failed.note_success(at(100), &alice(), AWAY);
        assert_eq!(failed.wait(at(100), &alice(), AWAY), None);
        assert_eq!(failed.next_timeout(), Some(FORGET_AFTER));
        failed.forget_old(at(600));
        assert_eq!(failed.pairs.failures.len(), 0);
        failed.forget_old(at(700));
        assert_eq!((failed.addresses.failures.len(), failed.names.failures.len()), (0, 0));
        assert_eq!(failed.next_timeout(), Some(Duration::from_secs(100) + PROVED_FOR));
        failed.forget_old(Now { monotonic: Duration::from_secs(100) + PROVED_FOR, unix_millis: 0 });
        assert_eq!(failed.next_timeout(), None);
    }

    #[test]
    fn every_table_is_bounded_and_forgets_the_oldest() {
        let mut failed = FailedLogins::default();
        for number in 0..=TABLE_MAX as u32 {
            failed.note_failure(at(number.into()), user(number), address(number));
            failed.note_success(at(number.into()), &user(number), HOME);
        }
        assert_eq!(failed.pairs.failures.len(), TABLE_MAX);
        assert_eq!(failed.addresses.failures.len(), TABLE_MAX);
        assert_eq!(failed.names.failures.len(), TABLE_MAX);
        assert_eq!(failed.proved.len(), TABLE_MAX);
        assert_eq!(failed.next_timeout(), Some(Duration::from_secs(1) + FORGET_AFTER));
    }
}
