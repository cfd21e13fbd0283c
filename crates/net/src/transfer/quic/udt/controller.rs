//! Connects the control law to QUIC. It translates what a connection tells its congestion controller, and returns the
//! rate that its pacer obeys. It never decides anything itself.

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

use super::rate_control::{PathEstimate, Rules};

/// The controller of one path of one connection.
#[derive(Clone, Debug)]
pub struct Udt {
    rules: Rules,
    born: Instant,
    first_window_bytes: u64,
}

/// Makes controllers, each with its own random seed.
#[derive(Debug)]
pub struct UdtFactory {
    seed: u64,
    built: AtomicU64,
    learned: Option<PathEstimate>,
}

impl UdtFactory {
    /// Controllers whose random choices come from `seed`. They begin with what was `learned` of the peer, if anything
    /// was.
    pub fn new(seed: u64, learned: Option<PathEstimate>) -> Self {
        Self { seed, built: AtomicU64::new(0), learned }
    }
}

impl ControllerFactory for UdtFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let seed = self.seed.wrapping_add(self.built.fetch_add(1, Ordering::Relaxed));
        let rules = Rules::new(seed, current_mtu, self.learned);
        let first_window_bytes = rules.window_bytes();
        Box::new(Udt { rules, born: now, first_window_bytes })
    }
}

impl Udt {
    /// What a later connection to this peer may begin with; `None` before anything is known.
    ///
    /// Of a connection: `Udt::new(connection.congestion_state(PathId::ZERO)?)?.learned()`.
    pub fn learned(&self) -> Option<PathEstimate> {
        self.rules.learned()
    }

    /// The controller that a connection showed, if it is of this kind.
    pub fn of(shown: Box<dyn Controller>) -> Option<Box<Self>> {
        shown.into_any().downcast().ok()
    }

    /// When the sender last had nothing more to send, although the path would have taken it; at first, the beginning.
    /// Since then the path has been the limit.
    pub fn idle_at(&self) -> Instant {
        self.born + self.rules.idle_at()
    }

    /// The control law, for inspection.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    fn since_birth(&self, time: Instant) -> Duration {
        time.saturating_duration_since(self.born)
    }
}

impl Controller for Udt {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, _number: u64) {
        self.rules.on_sent(self.since_birth(now), bytes.into());
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, _number: u64, _is_idle: bool, _rtt: &RttEstimator) {
        self.rules.on_acknowledged(self.since_birth(sent), bytes);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        self.rules.on_acknowledgement(self.since_birth(now), in_flight, app_limited);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let (now, sent) = (self.since_birth(now), self.since_birth(sent));
        if is_ecn {
            self.rules.on_marked(now, sent);
        } else {
            self.rules.on_lost(now, sent, lost_bytes, is_persistent_congestion);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.rules.set_packet_bytes(new_mtu);
    }

    fn window(&self) -> u64 {
        self.rules.window_bytes()
    }

    fn metrics(&self) -> ControllerMetrics {
        let rate = self.rules.rate_bytes_per_second();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = Some(rate);
        metrics.bandwidth_estimate =
            self.rules.learned().map(|learned| learned.rate_bytes_per_second.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.first_window_bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
