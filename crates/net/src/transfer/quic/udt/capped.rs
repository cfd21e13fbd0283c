//! A limit over any controller: a connection sends no faster than it was allowed, and the allowance may change while it
//! runs. It never makes a connection faster, and lets the controller under it take the limit for an idle sender, not for a
//! full path.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use noq::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::RttEstimator;

/// How fast a connection may send, in bytes a second; 0 is no limit. Clones are the same limit.
#[derive(Clone, Debug, Default)]
pub struct RateLimit {
    bytes_per_second: Arc<AtomicU64>,
}

/// Makes the controllers of another factory, under a limit.
pub struct CappedFactory {
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    limit: RateLimit,
}

/// A controller under a limit.
#[derive(Debug)]
pub struct Capped {
    inner: Box<dyn Controller>,
    limit: RateLimit,
    round_trip: Duration,
    packet_bytes: u64,
}

impl RateLimit {
    /// A limit that is kept elsewhere too.
    pub fn shared(bytes_per_second: Arc<AtomicU64>) -> Self {
        Self { bytes_per_second }
    }

    /// Sets it for all connections that have it; 0 lifts it.
    pub fn set(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
    }

    /// The limit, if there is one.
    pub fn get(&self) -> Option<u64> {
        Some(self.bytes_per_second.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }
}

impl CappedFactory {
    /// Controllers of `factory` that obey `limit`.
    pub fn new(factory: Arc<dyn ControllerFactory + Send + Sync>, limit: RateLimit) -> Self {
        Self { factory, limit }
    }
}

impl ControllerFactory for CappedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.factory).build(now, current_mtu);
        let limit = self.limit.clone();
        Box::new(Capped { inner, limit, round_trip: Duration::ZERO, packet_bytes: current_mtu.into() })
    }
}

/// The controller under the limit, if there is one.
pub(super) fn inner(controller: Box<dyn Controller>) -> Box<dyn Controller> {
    match controller.clone_box().into_any().downcast::<Capped>() {
        Ok(capped) => capped.inner,
        Err(_) => controller,
    }
}

impl Capped {
    /// The rate that the limit leaves of `metrics`, where it leaves less.
    fn rate(&self, metrics: &ControllerMetrics) -> Option<u64> {
        let limit = self.limit.get()?;
        // What the pacer would send of a window without a rate.
        let window_rate = || {
            let seconds = self.round_trip.as_secs_f64();
            (seconds > 0.0).then(|| (metrics.congestion_window as f64 * PACE_OF_WINDOWS / seconds) as u64)
        };
        let wanted = metrics.pacing_rate.or_else(window_rate).unwrap_or(u64::MAX);
        (limit < wanted).then_some(limit)
    }

    fn is_limited(&self) -> bool {
        self.rate(&self.inner.metrics()).is_some()
    }
}

impl Controller for Capped {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        if !self.is_limited() {
            self.inner.on_cwnd_limited();
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, app_limited: bool, rtt: &RttEstimator) {
        self.round_trip = rtt.get();
        let is_idle = app_limited || self.is_limited();
        self.inner.on_ack(now, sent, bytes, pn, is_idle, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        let is_idle = app_limited || self.is_limited();
        self.inner.on_end_acks(now, in_flight, is_idle, largest);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, is_ecn, lost_bytes, largest_lost_pn);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet_bytes = new_mtu.into();
        self.inner.on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, ack_eliciting_threshold: u64, requested_max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(ack_eliciting_threshold, requested_max_ack_delay);
    }

    fn window(&self) -> u64 {
        let window = self.inner.window();
        match self.limit.get() {
            // Else what was limited grows a window that would leave at once when the limit is lifted.
            Some(limit) => {
                let round_trips = (limit as f64 * self.round_trip.as_secs_f64() * WINDOW_ROUND_TRIPS) as u64;
                window.min(round_trips.saturating_add(WINDOW_PACKETS * self.packet_bytes))
            }
            None => window,
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        if let Some(rate) = self.rate(&metrics) {
            metrics.pacing_rate = Some(rate);
        }
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            limit: self.limit.clone(),
            round_trip: self.round_trip,
            packet_bytes: self.packet_bytes,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// How much faster than a window a round trip QUIC's pacer sends.
const PACE_OF_WINDOWS: f64 = 1.25;
/// Round trips at the limited rate that may be on their way.
const WINDOW_ROUND_TRIPS: f64 = 2.0;
/// And packets beside.
const WINDOW_PACKETS: u64 = 16;
