//! What the sessions of many users share (decision 36): a port for messages, the carriers to nodes, and idle
//! connections. So a gateway for a thousand users has one of each. It knows no user, and never lends a session the
//! connection of another.

pub(crate) mod connections;
mod idle_connections;
pub mod peers_file;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use net::{
    clock::Clock,
    datagram::bind_udp_towards,
    identity::TlsIdentity,
    messenger::{Messenger, MessengerEvent},
    transfer::{CachedPeer, CarrierSettings, Carriers, QuicSettings, TcpCarrier},
};
use protocol::{CarrierChoice, ControllerKind, HostAddress};

use crate::{ClientError, cloud::idle_connections::IdleConnections, session::profile::Profile};

/// A cloud as one process sees it. Clones are the same. [`log_in`](Self::log_in) begins the session of a user.
///
/// ```no_run
/// use client::{Cloud, CloudSettings, Profile};
///
/// # async fn example(alice: Profile, bob: Profile) -> Result<(), client::ClientError> {
/// let cloud = Cloud::open(CloudSettings::of(&alice), Vec::new()).await?;
/// let (alice, bob) = (cloud.log_in(&alice).await?, cloud.log_in(&bob).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cloud {
    inner: Arc<Inner>,
}

struct Inner {
    settings: CloudSettings,
    /// For messages at the master's port, which are few and must get through everywhere.
    carrier: TcpCarrier,
    carriers: Carriers,
    messenger: Messenger,
    idle: Arc<IdleConnections>,
    /// The shortest time, in microseconds, in which the master answered anything: its round trip, and a little.
    answer_micros_min: AtomicU64,
}

/// Where a cloud is, whom to trust there, and how bytes travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudSettings {
    /// Where the master is: TCP for logins, UDP for the messages after them.
    pub address: HostAddress,
    /// The certificate of the cloud's authority, PEM.
    pub authority: String,
    /// What carries bytes to and from nodes.
    pub carrier: CarrierChoice,
    /// The congestion control of QUIC, if one is chosen.
    pub controller: Option<ControllerKind>,
}

impl CloudSettings {
    /// Those of a user's profile.
    pub fn of(profile: &Profile) -> Self {
        Self {
            address: profile.address.clone(),
            authority: profile.authority.clone(),
            carrier: profile.carrier,
            controller: profile.controller,
        }
    }
}

impl Cloud {
    /// Opens the port for messages. `kept` is what an earlier process [learned](Self::cached_peers) of the network
    /// paths to nodes. Nothing is sent before a user logs in.
    ///
    /// # Errors
    /// If the authority's certificate cannot be used, or no port can be opened.
    pub async fn open(settings: CloudSettings, kept: Vec<CachedPeer>) -> Result<Self, ClientError> {
        let identity =
            TlsIdentity::client(&settings.authority).map_err(ClientError::net("cannot use the profile's authority"))?;
        let quic = QuicSettings { controller: settings.controller.unwrap_or_default(), ..QuicSettings::default() };
        let carriers = CarrierSettings { choice: settings.carrier, quic, cached_peers: kept };
        let socket =
            bind_udp_towards(&settings.address).await.map_err(ClientError::net("cannot open a port for messages"))?;
        let (messenger, mut events) = Messenger::start(socket, Clock::start());
        // The master sends a client no requests; the events are drained so that nothing ever waits for them. The task
        // ends with the messenger.
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if let MessengerEvent::SessionLost(session) = event {
                    tracing::debug!(%session, "the master cannot be reached in this session");
                }
            }
        });
        let inner = Inner {
            settings,
            carrier: TcpCarrier::new(identity.clone()),
            carriers: Carriers::new(identity, carriers),
            messenger,
            idle: Arc::default(),
            answer_micros_min: AtomicU64::new(u64::MAX),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where it is, and whom to trust there.
    pub fn settings(&self) -> &CloudSettings {
        &self.inner.settings
    }

    /// The round trip to the farthest of the master and the nodes, as far as it is known by now. It determines how much
    /// should be under way at once.
    pub fn round_trip(&self) -> Option<Duration> {
        let micros = self.inner.answer_micros_min.load(Ordering::Relaxed);
        let master = (micros < u64::MAX).then(|| Duration::from_micros(micros));
        master.max(self.inner.carriers.longest_round_trip())
    }

    /// What was learned of the network paths to nodes, for the next process to [begin with](Self::open).
    pub fn cached_peers(&self) -> Vec<CachedPeer> {
        self.inner.carriers.cached_peers()
    }

    /// Ends all sessions and connections, for a process that is about to end. The users should have logged out before.
    pub async fn close(&self) {
        self.inner.messenger.close().await;
        self.inner.carriers.close().await;
    }

    /// For messages at the master's port.
    pub(crate) fn carrier(&self) -> &TcpCarrier {
        &self.inner.carrier
    }

    /// How bytes travel to nodes.
    pub(crate) fn carriers(&self) -> &Carriers {
        &self.inner.carriers
    }

    /// The sessions with the master.
    pub(crate) fn messenger(&self) -> &Messenger {
        &self.inner.messenger
    }

    /// The connections that no session uses now.
    pub(crate) fn idle_connections(&self) -> &Arc<IdleConnections> {
        &self.inner.idle
    }

    /// The master has answered after this time.
    pub(crate) fn note_answer(&self, after: Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.inner.answer_micros_min.fetch_min(micros, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cloud(at {})", self.inner.settings.address)
    }
}
