//! A network in memory, driven by one seed. Its datagrams are delayed, lost, duplicated, reordered or cut off, as the
//! test sets while it runs. It keeps the runtime's time, so a paused runtime makes it both fast and repeatable. It
//! serves tests and the simulation, and never opens a real socket.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use tokio::{sync::Notify, time::Instant};

use crate::{
    NetError,
    datagram::{DatagramFuture, DatagramSocket},
};

/// The network. Clones are the same network.
#[derive(Clone, Debug)]
pub struct MemoryNetwork {
    inner: Arc<Mutex<Inner>>,
}

/// The conditions on a link. Shares are from 0.0 to 1.0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConditions {
    /// Shortest delay.
    pub delay: Duration,
    /// Added to the delay at random, up to this much: datagrams overtake each other where it is not zero.
    pub jitter: Duration,
    /// Share that is lost.
    pub loss: f64,
    /// Share that arrives twice.
    pub duplication: f64,
    /// Share that is held back by [`REORDER_DELAY`] more, so that later datagrams overtake it.
    pub reorder: f64,
}

impl MemoryNetwork {
    /// A network with ideal conditions, whose random choices come from `seed`.
    pub fn new(seed: u64) -> Self {
        let inner = Inner {
            rng: Rng::with_seed(seed),
            conditions: LinkConditions::IDEAL,
            links: BTreeMap::new(),
            cuts: BTreeSet::new(),
            inboxes: BTreeMap::new(),
            order: 0,
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Binds an address; port 0 takes a free one.
    pub fn bind(&self, address: SocketAddr) -> Result<Arc<dyn DatagramSocket>, NetError> {
        let mut inner = self.lock();
        let mut local = address;
        if address.port() == 0 {
            let free = (PORT_FIRST..=u16::MAX).find(|port| {
                local.set_port(*port);
                !inner.inboxes.contains_key(&local)
            });
            free.ok_or(NetError::Bind { address, source: io::ErrorKind::AddrNotAvailable.into() })?;
        }
        if inner.inboxes.contains_key(&local) {
            return Err(NetError::Bind { address, source: io::ErrorKind::AddrInUse.into() });
        }
        let inbox = Inbox::default();
        let arrived = Arc::clone(&inbox.arrived);
        inner.inboxes.insert(local, inbox);
        Ok(Arc::new(MemorySocket { network: self.clone(), local, arrived }))
    }

    /// Sets the conditions everywhere, except where a link has its own.
    pub fn set_conditions(&self, weather: LinkConditions) {
        self.lock().conditions = weather;
    }

    /// Sets the conditions between two addresses, both ways.
    pub fn set_link(&self, a: SocketAddr, b: SocketAddr, weather: LinkConditions) {
        self.lock().links.insert(pair(a, b), weather);
    }

    /// Cuts two addresses off from each other. Datagrams already on their way still arrive.
    pub fn cut(&self, a: SocketAddr, b: SocketAddr) {
        self.lock().cuts.insert(pair(a, b));
    }

    /// Ends a cut.
    pub fn heal(&self, a: SocketAddr, b: SocketAddr) {
        self.lock().cuts.remove(&pair(a, b));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A test that panicked elsewhere shows its own panic, not this lock's.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LinkConditions {
    /// Nothing is lost, and the delay is a tenth of a millisecond.
    pub const IDEAL: Self =
        Self { delay: Duration::from_micros(100), jitter: Duration::ZERO, loss: 0.0, duplication: 0.0, reorder: 0.0 };
}

impl Inner {
    fn send(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr) {
        let weather = self.links.get(&pair(from, to)).copied().unwrap_or(self.conditions);
        // Drawn in any case, so a cut or a full inbox does not change what happens to later datagrams.
        let is_lost = self.rng.f64() < weather.loss;
        let copies = 1 + usize::from(self.rng.f64() < weather.duplication);
        for _ in 0..copies {
            let jitter = weather.jitter.mul_f64(self.rng.f64());
            let held = if self.rng.f64() < weather.reorder { REORDER_DELAY } else { Duration::ZERO };
            let arrival = Instant::now() + weather.delay + jitter + held;
            self.order += 1;
            let Some(inbox) = self.inboxes.get_mut(&to) else { continue };
            let is_cut = self.cuts.contains(&pair(from, to));
            if !is_lost && !is_cut && inbox.on_the_way.len() < INBOX_DATAGRAMS_MAX {
                inbox.on_the_way.insert((arrival, self.order), (from, datagram.to_vec()));
                inbox.arrived.notify_one();
            }
        }
    }

    /// The next datagram for `local` if it has arrived, otherwise its time of arrival.
    fn receive(&mut self, local: SocketAddr) -> Result<(SocketAddr, Vec<u8>), Option<Instant>> {
        let inbox = self.inboxes.get_mut(&local).ok_or(None)?;
        let first = inbox.on_the_way.first_entry().ok_or(None)?;
        let (arrival, _) = *first.key();
        if arrival <= Instant::now() { Ok(first.remove()) } else { Err(Some(arrival)) }
    }
}

struct MemorySocket {
    network: MemoryNetwork,
    local: SocketAddr,
    arrived: Arc<Notify>,
}

impl DatagramSocket for MemorySocket {
    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn send_to<'a>(&'a self, datagram: &'a [u8], to: SocketAddr) -> DatagramFuture<'a, ()> {
        Box::pin(async move {
            self.network.lock().send(datagram, self.local, to);
            Ok(())
        })
    }

    fn receive_from<'a>(&'a self, buffer: &'a mut [u8]) -> DatagramFuture<'a, (usize, SocketAddr)> {
        Box::pin(async move {
            loop {
                let received = self.network.lock().receive(self.local);
                match received {
                    Ok((from, datagram)) => {
                        let length = datagram.len().min(buffer.len());
                        buffer[..length].copy_from_slice(&datagram[..length]);
                        return Ok((length, from));
                    }
                    Err(None) => self.arrived.notified().await,
                    // Another datagram may be sent meanwhile that arrives earlier.
                    Err(Some(arrival)) => tokio::select! {
                        () = tokio::time::sleep_until(arrival) => {}
                        () = self.arrived.notified() => {}
                    },
                }
            }
        })
    }
}

impl Drop for MemorySocket {
    fn drop(&mut self) {
        self.network.lock().inboxes.remove(&self.local);
    }
}

#[derive(Debug)]
struct Inner {
    rng: Rng,
    conditions: LinkConditions,
    links: BTreeMap<(SocketAddr, SocketAddr), LinkConditions>,
    cuts: BTreeSet<(SocketAddr, SocketAddr)>,
    inboxes: BTreeMap<SocketAddr, Inbox>,
    /// Tells datagrams apart that arrive at one instant.
    order: u64,
}

#[derive(Debug, Default)]
struct Inbox {
    on_the_way: BTreeMap<(Instant, u64), (SocketAddr, Vec<u8>)>,
    arrived: Arc<Notify>,
}

fn pair(a: SocketAddr, b: SocketAddr) -> (SocketAddr, SocketAddr) {
    (a.min(b), a.max(b))
}

/// How long a datagram is held back when it is to be overtaken: several datagrams' time on a busy link.
pub const REORDER_DELAY: Duration = Duration::from_millis(5);
/// Datagrams on their way to one address; more are lost, as in a full socket buffer.
const INBOX_DATAGRAMS_MAX: usize = 4_096;
/// First port given for port 0.
const PORT_FIRST: u16 = 49_152;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn any(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 0))
    }

    /// Those of 1,000 numbered datagrams that arrive under such conditions.
    async fn arrivals(seed: u64, weather: LinkConditions) -> Vec<u16> {
        let network = MemoryNetwork::new(seed);
        network.set_conditions(weather);
        let (a, b) = (network.bind(any(1)).unwrap(), network.bind(any(2)).unwrap());
        for number in 0..1_000u16 {
            a.send_to(&number.to_be_bytes(), b.local_address()).await.unwrap();
        }
        let (mut buffer, mut arrived) = ([0; 2], Vec::new());
        while let Ok(received) = tokio::time::timeout(Duration::from_secs(60), b.receive_from(&mut buffer)).await {
            assert_eq!(received.unwrap(), (2, a.local_address()));
            arrived.push(u16::from_be_bytes(buffer));
        }
        arrived
    }

    #[tokio::test(start_paused = true)]
    async fn in_fine_weather_everything_arrives_in_order() {
        assert_eq!(arrivals(1, LinkConditions::IDEAL).await, (0..1_000).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn bad_weather_loses_doubles_and_reorders_alike_for_the_same_seed() {
        let weather = LinkConditions { loss: 0.2, duplication: 0.1, reorder: 0.1, ..LinkConditions::IDEAL };
        let arrived = arrivals(7, weather).await;
        let different: BTreeSet<_> = arrived.iter().collect();
        assert!((750..850).contains(&different.len()), "{}", different.len());
        assert!((50..120).contains(&(arrived.len() - different.len())));
        assert!(!arrived.is_sorted());
        assert_eq!(arrivals(7, weather).await, arrived);
        assert_ne!(arrivals(8, weather).await, arrived);
    }

    #[tokio::test(start_paused = true)]
    async fn a_datagram_takes_its_links_delay() {
        let network = MemoryNetwork::new(1);
        let (a, b) = (network.bind(any(1)).unwrap(), network.bind(any(2)).unwrap());
        let far = LinkConditions { delay: Duration::from_millis(80), ..LinkConditions::IDEAL };
        network.set_link(b.local_address(), a.local_address(), far);
        let start = Instant::now();
        a.send_to(b"x", b.local_address()).await.unwrap();
        b.receive_from(&mut [0; 1]).await.unwrap();
        assert!(start.elapsed() >= far.delay && start.elapsed() < 2 * far.delay);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_separates_two_and_no_others_until_it_heals() {
        let network = MemoryNetwork::new(1);
        let [a, b, c] = [1, 2, 3].map(|host| network.bind(any(host)).unwrap());
        network.cut(a.local_address(), b.local_address());
        let mut buffer = [0; 8];
        a.send_to(b"cut", b.local_address()).await.unwrap();
        c.send_to(b"other", b.local_address()).await.unwrap();
        assert_eq!(b.receive_from(&mut buffer).await.unwrap(), (5, c.local_address()));
        network.heal(b.local_address(), a.local_address());
        a.send_to(b"whole", b.local_address()).await.unwrap();
        assert_eq!(b.receive_from(&mut buffer).await.unwrap(), (5, a.local_address()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_bound_once_and_free_again_when_its_socket_is_gone() {
        let network = MemoryNetwork::new(1);
        let socket = network.bind(any(1)).unwrap();
        let address = socket.local_address();
        assert!(network.bind(address).is_err());
        drop(socket);
        assert!(network.bind(address).is_ok());
    }
}
