//! What every messaging system under measurement is: two ends, and how each may fail. It never measures anything.

use std::{io::Write, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use thiserror::Error;

use super::latency::MeasurementWindow;

/// Why a measurement failed.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A system has no such name.
    #[error("there is no messaging system called `{0}` to measure")]
    NoSuchSystem(String),
    /// What a system needs is not on this machine.
    #[error("{0}")]
    Missing(String),
    /// The end that answers did not start.
    #[error("the answering end of {system} did not say where it is: run the command again, and look at its messages")]
    Mute {
        /// Which one.
        system: &'static str,
    },
    /// A call of the system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// GMP failed.
    #[error(transparent)]
    Gmp(#[from] net::NetError),
    /// Another system failed.
    #[error("{system} failed: {reason}")]
    System {
        /// Which one.
        system: &'static str,
        /// In its own words.
        reason: String,
    },
}

/// A system that carries messages: its two ends.
pub(super) trait System: Send + Sync {
    /// Its name in the figures.
    fn name(&self) -> &'static str;
    /// Whether this machine has what it needs.
    fn is_here(&self) -> Result<(), MeasureError> {
        Ok(())
    }
    /// How many turns' time one turn of this system takes: more where few messages fit into one.
    fn turns(&self) -> u32 {
        1
    }
    /// Runs the answering end on the loopback: announces its address, and answers until the process ends.
    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()>;
    /// Makes the requesting end.
    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>>;
}

/// The requesting end of a system, connected if the system has connections.
pub(super) trait Requester: Send + Sync {
    /// Sends requests until the window is over; returns how long each answer took.
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>>;
    /// Checks that every request ran, and ran once.
    fn check(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What an end returns, later.
pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, MeasureError>> + Send>>;

/// Announces the address of this end to the process that started it.
pub(super) struct Announce;

impl Announce {
    pub(super) fn say(self, address: SocketAddr) -> Result<(), MeasureError> {
        let mut out = std::io::stdout();
        writeln!(out, "{address}").and_then(|()| out.flush()).map_err(io("saying where the answering end is"))
    }
}

pub(super) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> MeasureError {
    move |source| MeasureError::Io { what, source }
}

/// Where every end is bound.
pub(super) const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Bytes of a request, and of its answer.
pub const PAYLOAD_BYTES: usize = 100;
/// Requests under way at once where the rate is measured.
pub const MANY_IN_FLIGHT: usize = 64;
/// Unmeasured time before each turn, in which connections and caches get warm.
pub const WARM_UP: Duration = Duration::from_millis(50);
