//! Peers that have connected and proved nothing yet, called **strangers**. Each has an [`UnauthenticatedSlot`] for a
//! limited time and few bytes, and each address has a share of slots ([`UnauthenticatedPeers`]). It serves every door
//! with a [`Listener`](crate::transfer::Listener), over TCP and QUIC. It never makes a listener wait, and never checks
//! a proof itself.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use protocol::limits;
use rustix::process::{Resource, getrlimit};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until},
};

/// How many strangers there may be at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnauthenticatedLimits {
    /// In total.
    pub total: usize,
    /// From one address; for IPv6, from one network of 64 bits, which is what one subscriber has.
    pub per_address: usize,
}

impl UnauthenticatedLimits {
    /// What suits this process: no more than a part of the files that it may have open.
    pub fn for_this_process() -> Self {
        Self::within(getrlimit(Resource::Nofile).current)
    }

    fn within(descriptors: Option<u64>) -> Self {
        let descriptors = descriptors.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let in_all = (descriptors / DESCRIPTORS_PER_STRANGER).clamp(STRANGERS_MIN, STRANGERS_MAX);
        Self { total: in_all, per_address: in_all / ADDRESSES_AT_LEAST }
    }
}

/// The strangers at one door.
///
/// A listener takes every connection at once and never waits for a slot, so that the system's queue stays empty for
/// callers from elsewhere. Where an address has all its slots taken, its oldest stranger is evicted, if it has had
/// [`EVICTION_GRACE`]; otherwise the newcomer is disconnected. This has three effects:
///
/// - An address of many honest clients (behind one address translation) gets its share again and again, since an honest
///   client proves itself within milliseconds.
/// - A client that stands still loses its slot to the next.
/// - No address costs us more handshakes than its share in each [`EVICTION_GRACE`], however fast it connects.
///
/// Where all slots are taken, the address that has most of them gives way to one that has fewer.
#[derive(Debug)]
pub struct UnauthenticatedPeers {
    limits: UnauthenticatedLimits,
    slots: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    /// The number of the newest stranger; numbers count up, so the lowest is the oldest.
    last: u64,
    present: BTreeMap<u64, SlotEntry>,
    networks: HashMap<IpAddr, Network>,
}

#[derive(Debug)]
struct SlotEntry {
    network: IpAddr,
    since: Instant,
    state: watch::Sender<SlotState>,
}

/// The strangers of one address.
#[derive(Debug)]
struct Network {
    present: BTreeSet<u64>,
    /// Those whose proof is being checked: a check that takes long is not their fault.
    proving: BTreeSet<u64>,
    turns: Arc<Semaphore>,
}

/// The state of a peer that came as a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Unauthenticated,
    /// It has proved something.
    Authenticated,
    /// Its slot went to another.
    Evicted,
}

impl Default for Network {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(TURNS_OF_AN_ADDRESS));
        Self { present: BTreeSet::new(), proving: BTreeSet::new(), turns }
    }
}

impl UnauthenticatedPeers {
    /// A door with so many slots.
    pub fn new(room: UnauthenticatedLimits) -> Arc<Self> {
        Arc::new(Self { limits: room, slots: Mutex::default() })
    }

    /// A slot for a caller from `peer`. None where the address has used its share, and no stranger of it is old enough
    /// to be evicted.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<UnauthenticatedSlot> {
        let (now, network) = (Instant::now(), network_of(peer));
        let mut crowd = self.lock();
        if crowd.count(network) >= self.limits.per_address {
            let oldest = crowd.oldest_not_proving(network)?;
            crowd.evict(oldest, now, EVICTION_GRACE)?;
        } else if crowd.present.len() >= self.limits.total {
            let (greediest, count) = crowd.largest()?;
            let oldest = crowd.oldest_of(greediest)?;
            // Among equals no stranger loses the time that a proof takes.
            let patience = if count > crowd.count(network) + 1 { Duration::ZERO } else { EVICTION_GRACE };
            crowd.evict(oldest, now, patience)?;
        }
        crowd.last += 1;
        let (number, standing) = (crowd.last, watch::Sender::new(SlotState::Unauthenticated));
        crowd.present.insert(number, SlotEntry { network, since: now, state: standing.clone() });
        let of = crowd.networks.entry(network).or_default();
        of.present.insert(number);
        let turns = Arc::clone(&of.turns);
        drop(crowd);
        let words_left = AtomicUsize::new(limits::JOIN_BYTES_MAX);
        let (strangers, until) = (Arc::clone(self), now + UNAUTHENTICATED_TIME_MAX);
        Some(UnauthenticatedSlot {
            peers: strangers,
            network,
            number,
            until,
            state: standing,
            bytes_left: words_left,
            turns,
        })
    }

    /// The system has no room for another connection: evicts the oldest stranger of the address that has most.
    pub fn evict_oldest(&self) {
        let mut crowd = self.lock();
        if let Some((greediest, _)) = crowd.largest()
            && let Some(oldest) = crowd.oldest_of(greediest)
        {
            crowd.evict(oldest, Instant::now(), Duration::ZERO);
        }
    }

    /// How many there may be.
    pub fn limits(&self) -> UnauthenticatedLimits {
        self.limits
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().present.len()
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        // Each change under this lock is complete in itself.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    fn count(&self, network: IpAddr) -> usize {
        self.networks.get(&network).map_or(0, |of| of.present.len())
    }

    /// The stranger of an address that is evicted first where one must be. Those whose proof is being checked come
    /// last.
    fn oldest_of(&self, network: IpAddr) -> Option<u64> {
        let oldest = || self.networks.get(&network)?.present.first().copied();
        self.oldest_not_proving(network).or_else(oldest)
    }

    fn oldest_not_proving(&self, network: IpAddr) -> Option<u64> {
        let of = self.networks.get(&network)?;
        of.present.difference(&of.proving).next().copied()
    }

    /// Notes whether a stranger's proof is being checked.
    fn set_proving(&mut self, network: IpAddr, number: u64, is_judged: bool) {
        let Some(of) = self.networks.get_mut(&network) else { return };
        if !is_judged {
            of.proving.remove(&number);
        } else if of.present.contains(&number) {
            of.proving.insert(number);
        }
    }

    /// The address that has most, and how many; of several, the one that is here longest.
    fn largest(&self) -> Option<(IpAddr, usize)> {
        let oldest_first = |of: &Network| std::cmp::Reverse(of.present.first().copied());
        let most = self.networks.iter().max_by_key(|(_, of)| (of.present.len(), oldest_first(of)));
        most.map(|(network, of)| (*network, of.present.len()))
    }

    /// Evicts a stranger, if it has been here for `patience`.
    fn evict(&mut self, number: u64, now: Instant, patience: Duration) -> Option<()> {
        let present = self.present.get(&number)?;
        if now.duration_since(present.since) < patience {
            return None;
        }
        present.state.send_replace(SlotState::Evicted);
        self.release(number);
        Some(())
    }

    fn release(&mut self, number: u64) {
        let Some(SlotEntry { network, .. }) = self.present.remove(&number) else { return };
        if let Some(of) = self.networks.get_mut(&network) {
            of.present.remove(&number);
            of.proving.remove(&number);
            if of.present.is_empty() {
                self.networks.remove(&network);
            }
        }
    }
}

/// A stranger's slot, which is freed when the stranger has proved something or this is dropped.
#[derive(Debug)]
pub struct UnauthenticatedSlot {
    peers: Arc<UnauthenticatedPeers>,
    network: IpAddr,
    number: u64,
    until: Instant,
    state: watch::Sender<SlotState>,
    bytes_left: AtomicUsize,
    turns: Arc<Semaphore>,
}

/// A stranger's turn to have its proof checked, until it is dropped.
#[derive(Debug)]
pub struct ProofPermit<'a> {
    slot: &'a UnauthenticatedSlot,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ProofPermit<'_> {
    fn drop(&mut self) {
        let UnauthenticatedSlot { peers: strangers, network, number, .. } = self.slot;
        strangers.lock().set_proving(*network, *number, false);
    }
}

/// Why a stranger is no longer served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotLoss {
    /// It has proved nothing in [`UNAUTHENTICATED_TIME_MAX`].
    TimedOut,
    /// Its slot went to another.
    Evicted,
}

impl UnauthenticatedSlot {
    /// It has proved something: from now on no bound of strangers applies to it, and its slot is free for another.
    pub fn release(&self) {
        self.state.send_if_modified(|standing| {
            let is_stranger = *standing == SlotState::Unauthenticated;
            if is_stranger {
                *standing = SlotState::Authenticated;
            }
            is_stranger
        });
        self.peers.lock().release(self.number);
    }

    /// Whether it has proved something.
    pub fn is_authenticated(&self) -> bool {
        *self.state.borrow() == SlotState::Authenticated
    }

    /// Waits until it has proved something.
    pub async fn authenticated(&self) {
        // The sender is our own.
        let _ = self.state.subscribe().wait_for(|standing| *standing == SlotState::Authenticated).await;
    }

    /// Does `work`, but no longer than the stranger may stay; without bound where it has proved something meanwhile.
    ///
    /// # Errors
    /// [`SlotLoss`]; the work done so far is lost then.
    pub async fn run_bounded<T>(&self, work: impl Future<Output = T>) -> Result<T, SlotLoss> {
        self.bounded(Some(self.until), work).await
    }

    /// The same without a time limit: the stranger now waits for our own work.
    ///
    /// # Errors
    /// [`SlotLoss::Evicted`].
    pub async fn run_until_evicted<T>(&self, work: impl Future<Output = T>) -> Result<T, SlotLoss> {
        self.bounded(None, work).await
    }

    /// Waits for this address's turn to have a proof checked, where that costs others time too. Until the permit is
    /// dropped nobody of its own address takes its slot: the wait is then not its fault.
    pub async fn proof_permit(&self) -> Option<ProofPermit<'_>> {
        let permit = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        self.peers.lock().set_proving(self.network, self.number, true);
        Some(ProofPermit { slot: self, _permit: permit })
    }

    /// Takes `bytes` from what it may send; false where that is used up.
    #[must_use]
    pub fn try_consume(&self, bytes: usize) -> bool {
        // An empty message counts too.
        let bytes = bytes.max(1);
        let taken = |left: usize| left.checked_sub(bytes);
        self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    async fn bounded<T>(&self, until: Option<Instant>, work: impl Future<Output = T>) -> Result<T, SlotLoss> {
        let late = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let over = async {
            let mut told = self.state.subscribe();
            tokio::select! {
                biased;
                // The sender is our own.
                _ = told.wait_for(|standing| *standing != SlotState::Unauthenticated) => {}
                () = late => return SlotLoss::TimedOut,
            }
            if self.is_authenticated() { std::future::pending().await } else { SlotLoss::Evicted }
        };
        tokio::select! {
            biased;
            over = over => Err(over),
            done = work => Ok(done),
        }
    }
}

impl Drop for UnauthenticatedSlot {
    fn drop(&mut self) {
        self.peers.lock().release(self.number);
    }
}

/// The unit that counts as one address.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(peer) => peer.into(),
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() & NETWORK_MASK).into(),
    }
}

/// How long a connection may take from its first packet to its first good ticket or proof. That covers a TLS handshake
/// and two messages, with lost packets sent again, from the other side of the planet.
pub const UNAUTHENTICATED_TIME_MAX: Duration = Duration::from_secs(10);
/// How long nobody of its own address takes a stranger's slot: a few round trips around the planet.
pub const EVICTION_GRACE: Duration = Duration::from_secs(2);
/// Most strangers at a door: each costs some tens of kilobytes, and at most [`limits::JOIN_BYTES_MAX`] more for its
/// messages.
const STRANGERS_MAX: usize = 1_024;
/// Slots that there are even where hardly any files may be open.
const STRANGERS_MIN: usize = 32;
/// How many addresses it takes to fill all slots.
const ADDRESSES_AT_LEAST: usize = 4;
/// Strangers get one in so many of the files that a process may have open.
const DESCRIPTORS_PER_STRANGER: usize = 4;
/// Proofs of one address that are checked together: half of what a master asks its security server at once.
const TURNS_OF_AN_ADDRESS: usize = 4;
/// The leading bits of an IPv6 address that are the network's.
const NETWORK_MASK: u128 = !0 << 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::time::advance;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn door(in_all: usize, of_an_address: usize) -> Arc<UnauthenticatedPeers> {
        UnauthenticatedPeers::new(UnauthenticatedLimits { total: in_all, per_address: of_an_address })
    }

    /// Whether a slot is still its stranger's.
    async fn stays(place: &UnauthenticatedSlot) -> bool {
        place.run_until_evicted(std::future::ready(())).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_its_share_and_who_stood_still_in_it_gives_way() {
        let door = door(100, 2);
        let silent = door.admit(address("192.0.2.1")).unwrap();
        let second = door.admit(address("192.0.2.1")).unwrap();
        assert!(door.admit(address("192.0.2.1")).is_none(), "both have had no time yet");
        let elsewhere = door.admit(address("192.0.2.2"));
        assert!(elsewhere.is_some(), "another address is no matter of theirs");
        advance(EVICTION_GRACE).await;
        let third = door.admit(address("192.0.2.1")).unwrap();
        assert!(!stays(&silent).await && stays(&second).await && stays(&third).await);
        assert_eq!(door.count(), 3);
        // A peer that has proved something is no longer counted, and has no bound.
        third.release();
        assert!(door.admit(address("192.0.2.1")).is_some());
        advance(UNAUTHENTICATED_TIME_MAX).await;
        assert_eq!(third.run_bounded(std::future::ready(())).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn whose_proof_is_being_looked_at_keeps_its_place_before_those_of_its_own_address() {
        let door = door(3, 2);
        let judged = door.admit(address("192.0.2.1")).unwrap();
        let turn = judged.proof_permit().await.unwrap();
        let silent = door.admit(address("192.0.2.1")).unwrap();
        advance(EVICTION_GRACE).await;
        let third = door.admit(address("192.0.2.1")).unwrap();
        assert!(stays(&judged).await && !stays(&silent).await && stays(&third).await);
        // Where all slots are taken it is the last of its address to go, and it does go.
        let other = door.admit(address("192.0.2.2")).unwrap();
        let _another = door.admit(address("192.0.2.3"));
        assert!(stays(&judged).await && !stays(&third).await);
        drop(turn);
        advance(EVICTION_GRACE).await;
        assert!(door.admit(address("192.0.2.4")).is_some());
        assert!(!stays(&judged).await && stays(&other).await);
    }

    #[tokio::test(start_paused = true)]
    async fn where_the_room_is_full_the_greediest_address_gives_way_at_once() {
        let door = door(4, 3);
        let greedy: Vec<_> = (0..3).map(|_| door.admit(address("192.0.2.1")).unwrap()).collect();
        let _other = door.admit(address("192.0.2.2")).unwrap();
        let third = door.admit(address("192.0.2.3")).unwrap();
        assert!(!stays(&greedy[0]).await && stays(&greedy[1]).await);
        let fourth = door.admit(address("192.0.2.4")).unwrap();
        assert!(!stays(&greedy[1]).await);
        // One each: a newcomer now waits until a stranger has had its time.
        assert!(door.admit(address("192.0.2.5")).is_none());
        assert!(stays(&third).await && stays(&fourth).await && stays(&greedy[2]).await);
        advance(EVICTION_GRACE).await;
        assert!(door.admit(address("192.0.2.5")).is_some());
        assert!(!stays(&greedy[2]).await, "the oldest");
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_ipv6_counts_as_one_address_and_a_mapped_address_as_what_it_is() {
        let door = door(100, 1);
        let _one = door.admit(address("2001:db8:0:1::1")).unwrap();
        assert!(door.admit(address("2001:db8:0:1:ffff::2")).is_none());
        assert!(door.admit(address("2001:db8:0:2::1")).is_some());
        let _four = door.admit(address("192.0.2.1")).unwrap();
        assert!(door.admit(address("::ffff:192.0.2.1")).is_none());
        assert!(door.admit(address("::ffff:192.0.2.2")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_has_ten_seconds_in_all_whatever_it_says_meanwhile() {
        let door = door(4, 4);
        let (place, begun) = (door.admit(address("192.0.2.1")).unwrap(), Instant::now());
        for _ in 0..9 {
            assert_eq!(place.run_bounded(tokio::time::sleep(Duration::from_secs(1))).await, Ok(()));
        }
        // The clock is stopped, and only waiting moves it.
        let silent = tokio::time::timeout(Duration::from_secs(60), place.run_bounded(std::future::pending::<()>()));
        assert_eq!(silent.await, Ok(Err(SlotLoss::TimedOut)));
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        drop(place);
        assert_eq!(door.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_words_of_a_stranger_are_counted_in_all() {
        let place = door(4, 4).admit(address("192.0.2.1")).unwrap();
        assert!(place.try_consume(limits::JOIN_BYTES_MAX - 2));
        assert!(place.try_consume(0), "an empty word is one too");
        assert!(!place.try_consume(2));
        assert!(place.try_consume(1));
        assert!(!place.try_consume(0));
    }

    #[tokio::test(start_paused = true)]
    async fn where_no_file_can_be_opened_any_more_a_stranger_goes() {
        let door = door(4, 4);
        let (first, second) = (door.admit(address("192.0.2.1")).unwrap(), door.admit(address("192.0.2.1")).unwrap());
        door.evict_oldest();
        assert!(!stays(&first).await && stays(&second).await);
    }

    #[test]
    fn strangers_get_a_part_of_the_files_that_may_be_open() {
        assert_eq!(
            UnauthenticatedLimits::within(None),
            UnauthenticatedLimits { total: STRANGERS_MAX, per_address: STRANGERS_MAX / 4 }
        );
        assert_eq!(UnauthenticatedLimits::within(Some(1_024)), UnauthenticatedLimits { total: 256, per_address: 64 });
        assert_eq!(UnauthenticatedLimits::within(Some(20)).total, STRANGERS_MIN);
    }
}
