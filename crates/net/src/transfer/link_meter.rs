//! What all connections with one site have met on their way: packets, losses, round trips, as the transports count them.
//! Serves the path *links*. A meter reads its connections when it is asked, so that sending costs nothing more. What
//! connections have counted stays when they end. It never counts bytes of files: a
//! [`LimiterChain`](crate::rate_limiter::LimiterChain) does.

use std::{
    mem,
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use noq::{Connection, PathId};

use super::{quic::udt::Udt, tcp_info};

/// Counts of all connections that were ever given to a [`LinkMeter`]. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportCounts {
    /// Packets of QUIC and segments of TCP that left.
    pub sent_packets: u64,
    /// How many of them were lost, as the sender sees it: TCP has sent a segment again, QUIC has declared a packet
    /// lost.
    pub lost_packets: u64,
    /// Bytes in them, which were sent again.
    pub retransmitted_bytes: u64,
    /// The smoothed round trip in microseconds, added up once for each packet that left. Between two readings, its
    /// growth divided by that of `sent_packets` is the mean. It wraps.
    pub round_trip_micros: u64,
    /// How long the network has held up the connection that it held up most, in microseconds. The connection had more to
    /// send, and neither its ends nor a limit of ours was in the way.
    pub held_up_micros: u64,
}

/// Reads a set of connections.
#[derive(Debug, Default)]
pub struct LinkMeter {
    state: Mutex<MeterState>,
}

#[derive(Debug, Default)]
struct MeterState {
    counts: TransportCounts,
    connections: Vec<Metered>,
    /// When they were last read.
    read_at: Option<Instant>,
}

/// A connection, and what of it was counted so far.
#[derive(Debug)]
struct Metered {
    connection: Arc<MeteredConnection>,
    counted: ConnectionTotals,
}

/// What one connection has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionTotals {
    pub(super) sent_packets: u64,
    pub(super) lost_packets: u64,
    pub(super) retransmitted_bytes: u64,
    /// As it is now.
    pub(super) round_trip: Duration,
    pub(super) held_up: HeldUp,
}

/// What a connection tells of the time in which the network held it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldUp {
    /// All of it since the beginning.
    InAll(Duration),
    /// It has been held up since then, while it sent anything.
    Since(Instant),
}

impl Default for HeldUp {
    fn default() -> Self {
        Self::InAll(Duration::ZERO)
    }
}

/// A connection as its meter sees it.
#[derive(Debug)]
struct MeteredConnection {
    state: Mutex<MeteredState>,
}

#[derive(Debug)]
enum MeteredState {
    Open(TransportHandle),
    Ended(Option<ConnectionTotals>),
}

/// Where the totals of a connection are read.
#[derive(Debug)]
pub(super) enum TransportHandle {
    /// A socket that stays open until its [`Metering`] is dropped.
    Tcp(RawFd),
    Quic(Connection),
}

/// Belongs to a metered connection. It is dropped before the connection goes, and then takes the last reading.
#[derive(Debug)]
pub(super) struct Metering(Arc<MeteredConnection>);

impl LinkMeter {
    /// What its connections have counted by now, those that have ended included.
    pub fn counts(&self) -> TransportCounts {
        let mut state = self.lock();
        state.take_readings();
        state.counts
    }

    /// Counts for a connection from its beginning on, until the returned value is dropped.
    pub(super) fn add(&self, connection: TransportHandle) -> Metering {
        let connection = Arc::new(MeteredConnection { state: Mutex::new(MeteredState::Open(connection)) });
        let mut state = self.lock();
        // Nobody may ever ask: those that have ended must not gather.
        if state.connections.len() == state.connections.capacity() {
            state.take_readings();
        }
        let counted = ConnectionTotals::default();
        state.connections.push(Metered { connection: Arc::clone(&connection), counted });
        Metering(connection)
    }

    fn lock(&self) -> MutexGuard<'_, MeterState> {
        // Each change under this lock is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MeterState {
    fn take_readings(&mut self) {
        let Self { counts, connections, read_at } = self;
        let now = Instant::now();
        let before = read_at.replace(now).unwrap_or(now);
        let mut most_held_up = Duration::ZERO;
        connections.retain_mut(|metered| {
            let (totals, has_ended) = metered.connection.read();
            if let Some(totals) = totals {
                counts.add(&metered.counted, &totals);
                most_held_up = most_held_up.max(totals.held_up_since(&metered.counted, before, now));
                metered.counted = totals;
            }
            !has_ended
        });
        // A connection that began in between may tell of more than the time between two readings.
        let held_up = most_held_up.min(now.saturating_duration_since(before));
        counts.held_up_micros += u64::try_from(held_up.as_micros()).unwrap_or(u64::MAX);
    }
}

impl ConnectionTotals {
    /// How long the network has held it up between two readings, of which `earlier` was the first.
    fn held_up_since(&self, earlier: &Self, before: Instant, now: Instant) -> Duration {
        match (self.held_up, earlier.held_up) {
            (HeldUp::InAll(now), HeldUp::InAll(before)) => now.saturating_sub(before),
            (HeldUp::Since(since), _) if self.sent_packets > earlier.sent_packets => {
                now.saturating_duration_since(since.max(before))
            }
            _ => Duration::ZERO,
        }
    }
}

impl TransportCounts {
    /// Counts what a connection did between two readings.
    fn add(&mut self, before: &ConnectionTotals, now: &ConnectionTotals) {
        let sent_packets = now.sent_packets.saturating_sub(before.sent_packets);
        self.sent_packets += sent_packets;
        self.lost_packets += now.lost_packets.saturating_sub(before.lost_packets);
        self.retransmitted_bytes += now.retransmitted_bytes.saturating_sub(before.retransmitted_bytes);
        let round_trip_micros = u64::try_from(now.round_trip.as_micros()).unwrap_or(u64::MAX);
        self.round_trip_micros = self.round_trip_micros.wrapping_add(round_trip_micros.wrapping_mul(sent_packets));
    }
}

impl MeteredConnection {
    /// Its totals, and whether they are the last.
    fn read(&self) -> (Option<ConnectionTotals>, bool) {
        match &*self.lock() {
            MeteredState::Open(handle) => (handle.read(), false),
            MeteredState::Ended(totals) => (*totals, true),
        }
    }

    fn lock(&self) -> MutexGuard<'_, MeteredState> {
        // Each change under this lock is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let ended = match &*state {
            MeteredState::Open(handle) => MeteredState::Ended(handle.read()),
            MeteredState::Ended(_) => return,
        };
        let before = mem::replace(&mut *state, ended);
        drop(state);
        // This may be what holds the connection open: it then ends here, outside the lock.
        drop(before);
    }
}

impl TransportHandle {
    fn read(&self) -> Option<ConnectionTotals> {
        match self {
            // Under the lock of its `MeteredState`, so it is still this connection's.
            Self::Tcp(descriptor) => tcp_info::read(*descriptor),
            Self::Quic(connection) => {
                let path = connection.path_stats(PathId::ZERO)?;
                // A probe for longer packets is lost wherever the path takes none. That is no loss of the link's.
                let lost_packets = path.lost_packets.saturating_sub(path.lost_plpmtud_probes);
                let lost_bytes = u128::from(path.lost_bytes) * u128::from(lost_packets);
                let retransmitted = lost_bytes.checked_div(path.lost_packets.into()).unwrap_or(0);
                Some(ConnectionTotals {
                    sent_packets: path.sent_packets.saturating_sub(path.sent_plpmtud_probes),
                    lost_packets,
                    retransmitted_bytes: u64::try_from(retransmitted).unwrap_or(u64::MAX),
                    round_trip: path.rtt,
                    held_up: connection
                        .congestion_state(PathId::ZERO)
                        .and_then(Udt::of)
                        .map_or_else(HeldUp::default, |udt| HeldUp::Since(udt.idle_at())),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
