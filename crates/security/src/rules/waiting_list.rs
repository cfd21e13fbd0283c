//! Machines that asked for a certificate without a ticket (`node join`) and wait until an administrator has decided.
//! Anyone can ask, so the list is short, and shorter for each address. It is never stored: a waiting machine asks
//! again, and so is back after a restart.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use protocol::{KeyDigest, NodeId, Now, message::admission::WaitingMachine, refusals::network};

/// Machines that wait, and those that were recently rejected.
#[derive(Debug, Default)]
pub(crate) struct WaitingList {
    waiting: BTreeMap<KeyDigest, Waiting>,
    /// Rejected keys, so that their machines are told when they ask again, instead of waiting anew.
    rejected: BTreeMap<KeyDigest, Duration>,
}

/// Why a machine may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitRefused {
    /// Too many wait.
    Full,
    /// Too many wait from its address.
    FullForAddress,
    /// An administrator has rejected it.
    Rejected,
}

#[derive(Debug)]
struct Waiting {
    name: NodeId,
    address: IpAddr,
    asked_unix_millis: u64,
    /// Both as [`Now::monotonic`].
    first_asked: Duration,
    last_asked: Duration,
}

impl WaitingList {
    /// Notes that a key asks (again) for a name.
    pub(crate) fn ask(&mut self, now: Now, key: KeyDigest, name: &NodeId, address: IpAddr) -> Result<(), WaitRefused> {
        self.forget_old(now);
        if self.rejected.contains_key(&key) {
            return Err(WaitRefused::Rejected);
        }
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.last_asked = now.monotonic;
            waiting.name = name.clone();
            return Ok(());
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(WaitRefused::Full);
        }
        let neighbours = self.waiting.values().filter(|waiting| network(waiting.address) == network(address)).count();
        if neighbours >= WAITING_PER_ADDRESS_MAX {
            return Err(WaitRefused::FullForAddress);
        }
        let waiting = Waiting {
            name: name.clone(),
            address: address.to_canonical(),
            asked_unix_millis: now.unix_millis,
            first_asked: now.monotonic,
            last_asked: now.monotonic,
        };
        self.waiting.insert(key, waiting);
        Ok(())
    }

    /// The keys that want this name.
    pub(crate) fn keys(&self, name: &NodeId) -> Vec<KeyDigest> {
        self.waiting.iter().filter(|(_, waiting)| waiting.name == *name).map(|(key, _)| *key).collect()
    }

    /// Takes a key off the list, because it got what it asked for.
    pub(crate) fn remove(&mut self, key: KeyDigest) {
        self.waiting.remove(&key);
    }

    /// Rejects a key.
    pub(crate) fn reject(&mut self, now: Now, key: KeyDigest) {
        self.waiting.remove(&key);
        if self.rejected.len() >= REJECTED_MAX {
            let oldest = self.rejected.iter().min_by_key(|(_, at)| **at).map(|(key, _)| *key);
            oldest.and_then(|key| self.rejected.remove(&key));
        }
        self.rejected.insert(key, now.monotonic);
    }

    /// All machines that wait, those that asked first in front.
    pub(crate) fn list(&self) -> Vec<WaitingMachine> {
        let machine = |(key, waiting): (&KeyDigest, &Waiting)| WaitingMachine {
            name: waiting.name.clone(),
            key: *key,
            address: waiting.address,
            asked_unix_millis: waiting.asked_unix_millis,
        };
        let mut machines: Vec<_> = self.waiting.iter().map(machine).collect();
        machines.sort_by_key(|machine| (machine.asked_unix_millis, machine.key));
        machines
    }

    /// Forgets machines that have not asked for long, and those that have waited for too long.
    pub(crate) fn forget_old(&mut self, now: Now) {
        self.waiting.retain(|_, waiting| waiting.ends() > now.monotonic);
        self.rejected.retain(|_, at| *at + REJECTED_LIFE > now.monotonic);
    }

    /// When there will next be something to forget, as [`Now::monotonic`].
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let waiting = self.waiting.values().map(Waiting::ends);
        waiting.chain(self.rejected.values().map(|at| *at + REJECTED_LIFE)).min()
    }
}

impl Waiting {
    fn ends(&self) -> Duration {
        (self.last_asked + SILENCE_MAX).min(self.first_asked + WAITING_LIFE)
    }
}

/// Most machines that wait at once: more than anyone sets up in one go, few enough to read.
const WAITING_MAX: usize = 64;
/// Most of them from one address: a machine, and some behind one gateway.
const WAITING_PER_ADDRESS_MAX: usize = 8;
/// A machine that has not asked for this long has given up; it asks every few seconds while it waits.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// A machine that nobody decided about for this long is forgotten, however often it asks.
const WAITING_LIFE: Duration = Duration::from_secs(24 * 3_600);
/// How long a rejected machine is told that it was rejected.
const REJECTED_LIFE: Duration = Duration::from_secs(3_600);
/// Most rejected machines that are remembered.
const REJECTED_MAX: usize = 256;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(seconds: u64) -> Now {
        Now::default().after(Duration::from_secs(seconds))
    }

    fn name() -> NodeId {
        "node-1".parse().unwrap()
    }

    fn address(number: usize) -> IpAddr {
        [10, 0, (number / 256) as u8, (number % 256) as u8].into()
    }

    #[test]
    fn the_list_is_bounded_in_all_and_for_each_address_and_who_waits_keeps_its_place() {
        let mut list = WaitingList::default();
        let ask =
            |list: &mut WaitingList, key: usize, address| list.ask(at(0), KeyDigest(key as u128), &name(), address);
        for key in 0..WAITING_PER_ADDRESS_MAX {
            assert_eq!(ask(&mut list, key, address(0)), Ok(()));
        }
        assert_eq!(ask(&mut list, 1_000, address(0)), Err(WaitRefused::FullForAddress));
        assert_eq!(ask(&mut list, 1, address(0)), Ok(()), "it asks again");
        for key in WAITING_PER_ADDRESS_MAX..WAITING_MAX {
            assert_eq!(ask(&mut list, key, address(key)), Ok(()));
        }
        assert_eq!(ask(&mut list, 1_000, address(999)), Err(WaitRefused::Full));
        assert_eq!(list.list().len(), WAITING_MAX);
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_count_as_one() {
        let mut list = WaitingList::default();
        for number in 0..=WAITING_PER_ADDRESS_MAX as u128 {
            let address: std::net::Ipv6Addr = "2001:db8::".parse().unwrap();
            let address = std::net::Ipv6Addr::from_bits(address.to_bits() + number).into();
            let outcome = list.ask(at(0), KeyDigest(number), &name(), address);
            assert_eq!(outcome.is_ok(), number < WAITING_PER_ADDRESS_MAX as u128);
        }
    }

    #[test]
    fn who_falls_silent_or_waits_for_too_long_is_forgotten() {
        let mut list = WaitingList::default();
        list.ask(at(0), KeyDigest(1), &name(), address(1)).unwrap();
        list.ask(at(0), KeyDigest(2), &name(), address(2)).unwrap();
        list.ask(at(599), KeyDigest(2), &name(), address(2)).unwrap();
        assert_eq!(list.next_timeout(), Some(SILENCE_MAX));
        list.forget_old(at(600));
        assert_eq!(list.keys(&name()), [KeyDigest(2)]);
        for second in (1_000..86_400).step_by(500) {
            list.ask(at(second), KeyDigest(2), &name(), address(2)).unwrap();
        }
        list.forget_old(at(86_400));
        assert!(list.list().is_empty());
    }

    #[test]
    fn who_was_turned_away_hears_it_for_an_hour() {
        let mut list = WaitingList::default();
        list.ask(at(0), KeyDigest(1), &name(), address(1)).unwrap();
        list.reject(at(1), KeyDigest(1));
        assert_eq!(list.ask(at(3_600), KeyDigest(1), &name(), address(1)), Err(WaitRefused::Rejected));
        assert_eq!(list.ask(at(3_601), KeyDigest(1), &name(), address(1)), Ok(()));
        for key in 0..2 * REJECTED_MAX as u128 {
            list.reject(at(4_000), KeyDigest(key));
        }
        assert_eq!(list.rejected.len(), REJECTED_MAX);
    }
}
