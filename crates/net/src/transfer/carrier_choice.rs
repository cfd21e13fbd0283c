//! Which carrier a conversation takes: TCP within a site, QUIC between sites, TCP where UDP does not get through
//! (decision 17). It serves every path that moves bytes between two machines. QUIC is tried first, and TCP a little
//! later beside it. TCP wins only when QUIC stays silent for longer than one lost packet explains. Links that need QUIC
//! lose packets easily, and TCP would then crawl for a whole long transfer. It never gives up a peer that either
//! carrier can reach.

use std::{
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::CarrierChoice;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    Carrier, Listener, QuicCarrier, QuicSettings, RateCache, TcpCarrier, TransferStream,
    carrier::Dial,
    local_network::is_on_local_network,
    peer_cache::{CachedPeer, DialPlan, Locality, PeerCache},
    udt::PathEstimate,
};
use crate::{NetError, identity::TlsIdentity};

/// The settings of carriers.
#[derive(Clone, Debug, Default)]
pub struct CarrierSettings {
    /// The carrier to take.
    pub choice: CarrierChoice,
    /// The settings of QUIC.
    pub quic: QuicSettings,
    /// The peers that an earlier process learned about.
    pub cached_peers: Vec<CachedPeer>,
}

/// TCP and QUIC; each conversation takes the one that suits its path. Clones are the same.
#[derive(Clone)]
pub struct Carriers {
    selector: Arc<CarrierSelector<TcpCarrier, QuicCarrier>>,
}

impl Carriers {
    /// Carriers that show `identity`'s certificate, if it has one. A UDP port is opened when QUIC is first needed.
    pub fn new(identity: TlsIdentity, settings: CarrierSettings) -> Self {
        let book = SharedPeerCache::new(settings.cached_peers);
        let quic = QuicCarrier::new(identity.clone(), with_rate_cache(settings.quic, &book));
        Self::of(identity, quic, settings.choice, book)
    }

    /// Carriers of a process that listens. QUIC connects from the same UDP port, so that there is one port for all.
    pub fn with_listener(listener: &Listener, identity: TlsIdentity, settings: CarrierSettings) -> Self {
        let book = SharedPeerCache::new(settings.cached_peers);
        let settings =
            CarrierSettings { quic: with_rate_cache(settings.quic, &book), cached_peers: Vec::new(), ..settings };
        let quic = listener.quic_carrier(settings.quic.clone());
        let quic = quic.unwrap_or_else(|| QuicCarrier::new(identity.clone(), settings.quic));
        Self::of(identity, quic, settings.choice, book)
    }

    fn of(identity: TlsIdentity, quic: QuicCarrier, choice: CarrierChoice, book: Arc<SharedPeerCache>) -> Self {
        Self { selector: Arc::new(CarrierSelector::new(TcpCarrier::new(identity), quic, choice, book)) }
    }

    /// Opens a conversation with `server` at `address`, whose distance is `way`.
    ///
    /// # Errors
    /// As [`Carrier::connect`].
    pub async fn connect(&self, address: SocketAddr, server: &str, way: Locality) -> Result<TransferStream, NetError> {
        self.selector.connect(address, server, way).await
    }

    /// Opens a conversation by TCP, whatever the settings say. It is for one that will go on without encryption, which
    /// QUIC cannot do.
    ///
    /// # Errors
    /// As [`Carrier::connect`].
    pub async fn connect_by_tcp(&self, address: SocketAddr, server: &str) -> Result<TransferStream, NetError> {
        self.selector.tcp.connect(address, server).await
    }

    /// Whether a peer is at another site, as far as that is known by now.
    pub fn is_far(&self, address: SocketAddr, way: Locality) -> bool {
        let may_be = self.selector.choice == CarrierChoice::Quic || !address.ip().is_loopback();
        may_be && self.selector.peers.lock().is_far(address, way)
    }

    /// Ends all connections over QUIC, for a process that is about to end.
    pub async fn close(&self) {
        self.selector.quic.close().await;
    }

    /// The longest round trip to any peer so far.
    pub fn longest_round_trip(&self) -> Option<Duration> {
        self.selector.peers.lock().longest_round_trip()
    }

    /// The peers that are worth keeping for the next process.
    pub fn cached_peers(&self) -> Vec<CachedPeer> {
        self.selector.peers.cached_peers()
    }
}

/// Chooses between two carriers.
pub(super) struct CarrierSelector<T, Q> {
    tcp: T,
    quic: Q,
    choice: CarrierChoice,
    peers: Arc<SharedPeerCache>,
}

/// The cache of peers, shared with the carrier that fills it.
#[derive(Debug)]
pub(super) struct SharedPeerCache {
    peers: Mutex<PeerCache>,
    began: Instant,
}

impl<T: Dial, Q: Carrier> CarrierSelector<T, Q> {
    pub(super) fn new(tcp: T, quic: Q, choice: CarrierChoice, book: Arc<SharedPeerCache>) -> Self {
        Self { tcp, quic, choice, peers: book }
    }

    /// Opens a conversation with `server` at `address`, whose distance is `way`.
    pub(super) async fn connect(
        &self,
        address: SocketAddr,
        server: &str,
        way: Locality,
    ) -> Result<TransferStream, NetError> {
        // On one machine QUIC would only cost processor time, whatever sites its nodes pretend to be at.
        let is_near = address.ip().is_loopback() || way == Locality::Unknown && is_on_local_network(address);
        let way = if is_near { Locality::Near } else { way };
        let plan = || self.peers.lock().plan(self.peers.now(), address, self.choice, way);
        match plan() {
            DialPlan::Tcp => self.tcp.finish(self.dial(address, server).await?, server).await,
            DialPlan::Quic => Ok(self.got_through(address, self.quic.connect(address, server).await?)),
            DialPlan::QuicFirst(head_start) => self.race(address, server, head_start, None).await,
            DialPlan::Measure => {
                let dialed = self.dial(address, server).await?;
                match plan() {
                    DialPlan::QuicFirst(head_start) => self.race(address, server, head_start, Some(dialed)).await,
                    _ => self.tcp.finish(dialed, server).await,
                }
            }
        }
    }

    /// QUIC first, and TCP beside it after `head_start`; TCP goes on with `dialed` where that was begun.
    async fn race(
        &self,
        address: SocketAddr,
        server: &str,
        head_start: Duration,
        dialed: Option<T::Dialed>,
    ) -> Result<TransferStream, NetError> {
        let began = Instant::now();
        let tcp_from = began + head_start;
        let mut quic = pin!(self.quic.connect(address, server));
        let mut tcp = pin!(async {
            sleep_until(tcp_from).await;
            let dialed = match dialed {
                Some(dialed) => dialed,
                None => self.dial(address, server).await?,
            };
            self.tcp.finish(dialed, server).await
        });
        tokio::select! {
            // Where both are ready, QUIC wins.
            biased;
            connected = &mut quic => match connected {
                Ok(stream) => Ok(self.got_through(address, stream)),
                // No reason to wait: the port refused, or a stranger answers, which TCP will report better.
                Err(error) => self.fall_back(address, tcp.await, &error.to_string()),
            },
            connected = &mut tcp => {
                let Ok(stream) = connected else { return quic.await };
                match timeout_at(began + QUIC_PATIENCE, &mut quic).await {
                    Ok(Ok(stream)) => Ok(self.got_through(address, stream)),
                    Ok(Err(error)) => self.fall_back(address, Ok(stream), &error.to_string()),
                    Err(_) => self.fall_back(address, Ok(stream), "no answer"),
                }
            }
        }
    }

    async fn dial(&self, address: SocketAddr, server: &str) -> Result<T::Dialed, NetError> {
        let (dialed, round_trip) = self.tcp.dial(address, server).await?;
        self.peers.lock().note_round_trip(self.peers.now(), address, round_trip);
        Ok(dialed)
    }

    /// A conversation over QUIC.
    fn got_through(&self, address: SocketAddr, stream: TransferStream) -> TransferStream {
        let (now, mut book) = (self.peers.now(), self.peers.lock());
        book.note_udp_through(now, address);
        if let Some(round_trip) = stream.round_trip() {
            book.note_round_trip(now, address, round_trip);
        }
        drop(book);
        stream
    }

    /// The result of TCP, where QUIC failed. Where TCP succeeded, UDP is blocked.
    fn fall_back(
        &self,
        address: SocketAddr,
        tcp: Result<TransferStream, NetError>,
        why: &str,
    ) -> Result<TransferStream, NetError> {
        if tcp.is_ok() {
            tracing::warn!(%address, why, "UDP does not get through; TCP is taken, and UDP tried again later");
            self.peers.lock().note_udp_blocked(self.peers.now(), address);
        }
        tcp
    }
}

impl SharedPeerCache {
    /// Nothing is known yet, except what another process kept.
    pub(super) fn new(kept: Vec<CachedPeer>) -> Arc<Self> {
        let mut peers = PeerCache::default();
        kept.into_iter().for_each(|peer| peers.restore(Duration::ZERO, peer));
        Arc::new(Self { peers: Mutex::new(peers), began: Instant::now() })
    }

    /// The peers that are worth keeping for another process.
    pub(super) fn cached_peers(&self) -> Vec<CachedPeer> {
        self.lock().cached_peers(self.now())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, PeerCache> {
        // Each change under this lock is complete in itself.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateCache for SharedPeerCache {
    fn learned(&self, peer: SocketAddr) -> Option<PathEstimate> {
        self.lock().learned(peer)
    }

    fn learn(&self, peer: SocketAddr, learned: PathEstimate) {
        let now = self.now();
        self.lock().learn(now, peer, learned);
    }
}

/// Settings that keep rates in `book`, unless they are kept elsewhere.
fn with_rate_cache(quic: QuicSettings, book: &Arc<SharedPeerCache>) -> QuicSettings {
    let rates = quic.rate_cache.unwrap_or_else(|| Arc::clone(book) as Arc<dyn RateCache>);
    QuicSettings { rate_cache: Some(rates), ..quic }
}

/// How long QUIC may stay silent while TCP has got through. That covers one lost flight (sent again after a second) and
/// the answer to it from the other side of the planet.
const QUIC_PATIENCE: Duration = Duration::from_millis(2_500);

#[cfg(test)]
mod tests;
