//! Who has connected and proved nothing yet: each such **stranger** has a [`Place`], for a while, for a few words, and each
//! address has so many. It serves every door that a [`Listener`](crate::transfer::Listener) stands in, over TCP and QUIC.
//!
//! Whoever listens takes every connection at once and never waits for a place, so that the system's queue stays empty for
//! those who come from elsewhere. Where an address has all its places taken, its oldest stranger gives way, if it has had
//! [`PATIENCE`]; else the newcomer is hung up on. So an address of many honest clients (behind one translation of
//! addresses) has its share again and again, since who is honest proves itself within milliseconds; whoever stands still in
//! there loses its place to the next; and no address costs us more handshakes than its share in each [`PATIENCE`], however
//! fast it knocks. Where the whole room is full, the address that has most of it gives way to one that has less.

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
pub struct Room {
    /// Together.
    pub in_all: usize,
    /// From one address; of IPv6, from one network of 64 bits, which is what one subscriber has.
    pub of_an_address: usize,
}

impl Room {
    /// What suits this process: no more than a part of the files that it may have open.
    pub fn of_this_process() -> Self {
        Self::within(getrlimit(Resource::Nofile).current)
    }

    fn within(descriptors: Option<u64>) -> Self {
        let descriptors = descriptors.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let in_all = (descriptors / DESCRIPTORS_PER_STRANGER).clamp(STRANGERS_MIN, STRANGERS_MAX);
        Self { in_all, of_an_address: in_all / ADDRESSES_AT_LEAST }
    }
}

/// The strangers at one door.
#[derive(Debug)]
pub struct Strangers {
    room: Room,
    crowd: Mutex<Crowd>,
}

#[derive(Debug, Default)]
struct Crowd {
    /// Who came last; numbers count up, so that the lowest is the oldest.
    last: u64,
    present: BTreeMap<u64, Present>,
    networks: HashMap<IpAddr, Network>,
}

#[derive(Debug)]
struct Present {
    network: IpAddr,
    since: Instant,
    standing: watch::Sender<Standing>,
}

/// What one address has here.
#[derive(Debug)]
struct Network {
    present: BTreeSet<u64>,
    /// Those of them whose proof is being looked at: what takes long is not theirs.
    judged: BTreeSet<u64>,
    turns: Arc<Semaphore>,
}

/// How it stands with one who came as a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Stranger,
    /// It has proved something.
    Known,
    /// Its place went to another.
    GaveWay,
}

impl Default for Network {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(TURNS_OF_AN_ADDRESS));
        Self { present: BTreeSet::new(), judged: BTreeSet::new(), turns }
    }
}

impl Strangers {
    /// A door with room for so many.
    pub fn new(room: Room) -> Arc<Self> {
        Arc::new(Self { room, crowd: Mutex::default() })
    }

    /// A place for one who calls from `peer`; none where the address has its share, and none of it is old enough to give
    /// way.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let (now, network) = (Instant::now(), network_of(peer));
        let mut crowd = self.lock();
        if crowd.count(network) >= self.room.of_an_address {
            let oldest = crowd.oldest_unjudged_of(network)?;
            crowd.give_way(oldest, now, PATIENCE)?;
        } else if crowd.present.len() >= self.room.in_all {
            let (greediest, count) = crowd.greediest()?;
            let oldest = crowd.oldest_of(greediest)?;
            // Among equals nobody is robbed of the time that a proof takes.
            let patience = if count > crowd.count(network) + 1 { Duration::ZERO } else { PATIENCE };
            crowd.give_way(oldest, now, patience)?;
        }
        crowd.last += 1;
        let (number, standing) = (crowd.last, watch::Sender::new(Standing::Stranger));
        crowd.present.insert(number, Present { network, since: now, standing: standing.clone() });
        let of = crowd.networks.entry(network).or_default();
        of.present.insert(number);
        let turns = Arc::clone(&of.turns);
        drop(crowd);
        let words_left = AtomicUsize::new(limits::JOIN_BYTES_MAX);
        let (strangers, until) = (Arc::clone(self), now + STRANGER_TIME_MAX);
        Some(Place { strangers, network, number, until, standing, words_left, turns })
    }

    /// The system has no room for another connection: the oldest stranger of the address that has most goes.
    pub fn make_room(&self) {
        let mut crowd = self.lock();
        if let Some((greediest, _)) = crowd.greediest()
            && let Some(oldest) = crowd.oldest_of(greediest)
        {
            crowd.give_way(oldest, Instant::now(), Duration::ZERO);
        }
    }

    /// How many there may be.
    pub fn room(&self) -> Room {
        self.room
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().present.len()
    }

    fn lock(&self) -> MutexGuard<'_, Crowd> {
        // Each change under this lock is complete in itself.
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crowd {
    fn count(&self, network: IpAddr) -> usize {
        self.networks.get(&network).map_or(0, |of| of.present.len())
    }

    /// Who of an address goes first where somebody has to: whose proof is being looked at is the last.
    fn oldest_of(&self, network: IpAddr) -> Option<u64> {
        let oldest = || self.networks.get(&network)?.present.first().copied();
        self.oldest_unjudged_of(network).or_else(oldest)
    }

    fn oldest_unjudged_of(&self, network: IpAddr) -> Option<u64> {
        let of = self.networks.get(&network)?;
        of.present.difference(&of.judged).next().copied()
    }

    /// Notes whether a stranger's proof is being looked at.
    fn judge(&mut self, network: IpAddr, number: u64, is_judged: bool) {
        let Some(of) = self.networks.get_mut(&network) else { return };
        if !is_judged {
            of.judged.remove(&number);
        } else if of.present.contains(&number) {
            of.judged.insert(number);
        }
    }

    /// The address that has most, and how many; of several the one that is longest here.
    fn greediest(&self) -> Option<(IpAddr, usize)> {
        let oldest_first = |of: &Network| std::cmp::Reverse(of.present.first().copied());
        let most = self.networks.iter().max_by_key(|(_, of)| (of.present.len(), oldest_first(of)));
        most.map(|(network, of)| (*network, of.present.len()))
    }

    /// Ends a stranger's stay, if it has lasted for `patience`.
    fn give_way(&mut self, number: u64, now: Instant, patience: Duration) -> Option<()> {
        let present = self.present.get(&number)?;
        if now.duration_since(present.since) < patience {
            return None;
        }
        present.standing.send_replace(Standing::GaveWay);
        self.leave(number);
        Some(())
    }

    fn leave(&mut self, number: u64) {
        let Some(Present { network, .. }) = self.present.remove(&number) else { return };
        if let Some(of) = self.networks.get_mut(&network) {
            of.present.remove(&number);
            of.judged.remove(&number);
            if of.present.is_empty() {
                self.networks.remove(&network);
            }
        }
    }
}

/// A stranger's place, which it leaves when it has proved something or this is dropped.
#[derive(Debug)]
pub struct Place {
    strangers: Arc<Strangers>,
    network: IpAddr,
    number: u64,
    until: Instant,
    standing: watch::Sender<Standing>,
    words_left: AtomicUsize,
    turns: Arc<Semaphore>,
}

/// A stranger's turn to have its proof looked at, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    place: &'a Place,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Place { strangers, network, number, .. } = self.place;
        strangers.lock().judge(*network, *number, false);
    }
}

/// Why a stranger is heard no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It has proved nothing in [`STRANGER_TIME_MAX`].
    TooLate,
    /// Its place went to another.
    GaveWay,
}

impl Place {
    /// It has proved something: from now on no bound of strangers is its own, and its place is another's.
    pub fn leave(&self) {
        self.standing.send_if_modified(|standing| {
            let is_stranger = *standing == Standing::Stranger;
            if is_stranger {
                *standing = Standing::Known;
            }
            is_stranger
        });
        self.strangers.lock().leave(self.number);
    }

    /// Whether it has proved something.
    pub fn is_known(&self) -> bool {
        *self.standing.borrow() == Standing::Known
    }

    /// Waits until it has proved something.
    pub async fn known(&self) {
        // The sender is our own.
        let _ = self.standing.subscribe().wait_for(|standing| *standing == Standing::Known).await;
    }

    /// Does `work`, but no longer than the stranger may stay; without bound where it has proved something meanwhile.
    ///
    /// # Errors
    /// [`Over`]; what was done of the work is lost then.
    pub async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Over> {
        self.bounded(Some(self.until), work).await
    }

    /// The same without the end of its time: what it waits for now is ours to do.
    ///
    /// # Errors
    /// [`Over::GaveWay`].
    pub async fn unless_it_gives_way<T>(&self, work: impl Future<Output = T>) -> Result<T, Over> {
        self.bounded(None, work).await
    }

    /// Waits for this address's turn to have a proof looked at, where that costs others time too. Until the turn is dropped
    /// nobody of its own address takes its place: whom it waits for then is not its fault.
    pub async fn turn(&self) -> Option<Turn<'_>> {
        let permit = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        self.strangers.lock().judge(self.network, self.number, true);
        Some(Turn { place: self, _permit: permit })
    }

    /// Takes `bytes` from what it may say; false where that is used up.
    #[must_use]
    pub fn may_say(&self, bytes: usize) -> bool {
        // An empty word is one too.
        let bytes = bytes.max(1);
        let taken = |left: usize| left.checked_sub(bytes);
        self.words_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    async fn bounded<T>(&self, until: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Over> {
        let late = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let over = async {
            let mut told = self.standing.subscribe();
            tokio::select! {
                biased;
                // The sender is our own.
                _ = told.wait_for(|standing| *standing != Standing::Stranger) => {}
                () = late => return Over::TooLate,
            }
            if self.is_known() { std::future::pending().await } else { Over::GaveWay }
        };
        tokio::select! {
            biased;
            over = over => Err(over),
            done = work => Ok(done),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.strangers.lock().leave(self.number);
    }
}

/// What counts as one address.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(peer) => peer.into(),
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() & NETWORK_MASK).into(),
    }
}

/// How long a connection may take from its first packet to its first good ticket or proof: a TLS handshake and two words,
/// with lost packets sent again, from the other side of the planet.
pub const STRANGER_TIME_MAX: Duration = Duration::from_secs(10);
/// How long nobody of its own address takes a stranger's place: a few round trips around the planet.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Most strangers at a door: each costs some tens of kilobytes, and at most [`limits::JOIN_BYTES_MAX`] more for its words.
const STRANGERS_MAX: usize = 1_024;
/// Room that there is also where hardly any files may be open.
const STRANGERS_MIN: usize = 32;
/// How many addresses it takes to fill the room.
const ADDRESSES_AT_LEAST: usize = 4;
/// Of the files that a process may have open, strangers get one in so many.
const DESCRIPTORS_PER_STRANGER: usize = 4;
/// Proofs of one address that are looked at together: half of what a master asks its security server at once.
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

    fn door(in_all: usize, of_an_address: usize) -> Arc<Strangers> {
        Strangers::new(Room { in_all, of_an_address })
    }

    /// Whether a place is still its stranger's.
    async fn stays(place: &Place) -> bool {
        place.unless_it_gives_way(std::future::ready(())).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_its_share_and_who_stood_still_in_it_gives_way() {
        let door = door(100, 2);
        let silent = door.enter(address("192.0.2.1")).unwrap();
        let second = door.enter(address("192.0.2.1")).unwrap();
        assert!(door.enter(address("192.0.2.1")).is_none(), "both have had no time yet");
        let elsewhere = door.enter(address("192.0.2.2"));
        assert!(elsewhere.is_some(), "another address is no matter of theirs");
        advance(PATIENCE).await;
        let third = door.enter(address("192.0.2.1")).unwrap();
        assert!(!stays(&silent).await && stays(&second).await && stays(&third).await);
        assert_eq!(door.count(), 3);
        // Who has proved something is counted no longer, and has no bound.
        third.leave();
        assert!(door.enter(address("192.0.2.1")).is_some());
        advance(STRANGER_TIME_MAX).await;
        assert_eq!(third.within(std::future::ready(())).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn whose_proof_is_being_looked_at_keeps_its_place_before_those_of_its_own_address() {
        let door = door(3, 2);
        let judged = door.enter(address("192.0.2.1")).unwrap();
        let turn = judged.turn().await.unwrap();
        let silent = door.enter(address("192.0.2.1")).unwrap();
        advance(PATIENCE).await;
        let third = door.enter(address("192.0.2.1")).unwrap();
        assert!(stays(&judged).await && !stays(&silent).await && stays(&third).await);
        // Where the whole room is full it is the last of its address to go, and it does go.
        let other = door.enter(address("192.0.2.2")).unwrap();
        let _another = door.enter(address("192.0.2.3"));
        assert!(stays(&judged).await && !stays(&third).await);
        drop(turn);
        advance(PATIENCE).await;
        assert!(door.enter(address("192.0.2.4")).is_some());
        assert!(!stays(&judged).await && stays(&other).await);
    }

    #[tokio::test(start_paused = true)]
    async fn where_the_room_is_full_the_greediest_address_gives_way_at_once() {
        let door = door(4, 3);
        let greedy: Vec<_> = (0..3).map(|_| door.enter(address("192.0.2.1")).unwrap()).collect();
        let _other = door.enter(address("192.0.2.2")).unwrap();
        let third = door.enter(address("192.0.2.3")).unwrap();
        assert!(!stays(&greedy[0]).await && stays(&greedy[1]).await);
        let fourth = door.enter(address("192.0.2.4")).unwrap();
        assert!(!stays(&greedy[1]).await);
        // One each: whoever comes now waits until someone has had its time.
        assert!(door.enter(address("192.0.2.5")).is_none());
        assert!(stays(&third).await && stays(&fourth).await && stays(&greedy[2]).await);
        advance(PATIENCE).await;
        assert!(door.enter(address("192.0.2.5")).is_some());
        assert!(!stays(&greedy[2]).await, "the oldest");
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_ipv6_counts_as_one_address_and_a_mapped_address_as_what_it_is() {
        let door = door(100, 1);
        let _one = door.enter(address("2001:db8:0:1::1")).unwrap();
        assert!(door.enter(address("2001:db8:0:1:ffff::2")).is_none());
        assert!(door.enter(address("2001:db8:0:2::1")).is_some());
        let _four = door.enter(address("192.0.2.1")).unwrap();
        assert!(door.enter(address("::ffff:192.0.2.1")).is_none());
        assert!(door.enter(address("::ffff:192.0.2.2")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_has_ten_seconds_in_all_whatever_it_says_meanwhile() {
        let door = door(4, 4);
        let (place, begun) = (door.enter(address("192.0.2.1")).unwrap(), Instant::now());
        for _ in 0..9 {
            assert_eq!(place.within(tokio::time::sleep(Duration::from_secs(1))).await, Ok(()));
        }
        // The clock is stopped, and moved by who waits for it alone.
        let silent = tokio::time::timeout(Duration::from_secs(60), place.within(std::future::pending::<()>()));
        assert_eq!(silent.await, Ok(Err(Over::TooLate)));
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        drop(place);
        assert_eq!(door.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_words_of_a_stranger_are_counted_in_all() {
        let place = door(4, 4).enter(address("192.0.2.1")).unwrap();
        assert!(place.may_say(limits::JOIN_BYTES_MAX - 2));
        assert!(place.may_say(0), "an empty word is one too");
        assert!(!place.may_say(2));
        assert!(place.may_say(1));
        assert!(!place.may_say(0));
    }

    #[tokio::test(start_paused = true)]
    async fn where_no_file_can_be_opened_any_more_a_stranger_goes() {
        let door = door(4, 4);
        let (first, second) = (door.enter(address("192.0.2.1")).unwrap(), door.enter(address("192.0.2.1")).unwrap());
        door.make_room();
        assert!(!stays(&first).await && stays(&second).await);
    }

    #[test]
    fn strangers_get_a_part_of_the_files_that_may_be_open() {
        assert_eq!(Room::within(None), Room { in_all: STRANGERS_MAX, of_an_address: STRANGERS_MAX / 4 });
        assert_eq!(Room::within(Some(1_024)), Room { in_all: 256, of_an_address: 64 });
        assert_eq!(Room::within(Some(20)).in_all, STRANGERS_MIN);
    }
}
