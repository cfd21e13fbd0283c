//! The control law: how fast to send, from what was sent, acknowledged and lost. It serves every bulk conversation
//! between sites. After UDT (UDT4; Sector/Sphere, 2.4) the rate is set every [`SYN`] and rises by a step made of spare
//! capacity. It falls by one ninth, once per overload, where packets show a full path; the window is only a net.
//! Differences: `docs/decisions/0020-udt-controller.md`. Pure: times since the start are told. It never panics, never
//! sends slower than [`RATE_BYTES_PER_SECOND_MIN`], and never takes a sender's silence for a property of the path.

use std::time::Duration;

use fastrand::Rng;

use super::{
    delay::{Delay, full_at},
    delivery::{Delivery, Sample},
    losses::Losses,
    pacing_deficit::PacingDeficit,
    short_path::ShortPath,
    stall::StallDetector,
    start::Start,
};

/// What one connection learned of a path, for the next one to begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathEstimate {
    /// What the path carried.
    pub rate_bytes_per_second: u64,
    /// The shortest round trip.
    pub round_trip: Duration,
}

/// The control law for one path.
///
/// It is told what was sent, acknowledged and lost, and says how fast to send. `delivery.rs` measures how fast packets
/// arrive, and `delay.rs` how long the queue is. `losses.rs` tells the link's loss from ours. `pacing_deficit.rs` says
/// whether the sender keeps up, `stall.rs` whether an end or the path stood still. `start.rs` finds a rate;
/// `short_path.rs` is the law of paths within a site. `controller.rs` connects the law to QUIC.
#[derive(Clone, Debug)]
pub struct Rules {
    rng: Rng,
    packet_bytes: f64,
    learned: Option<PathEstimate>,
    delivery: Delivery,
    delay: Delay,
    losses: Losses,
    pacing_deficit: PacingDeficit,
    stall: StallDetector,
    phase: Phase,
    /// Bytes a second.
    rate: f64,
    /// Bytes a second that the path was last seen to carry; zero before it was.
    delivery_rate: f64,
    round: Round,
    tick: Tick,
    overload: Overload,
    newest_sent_at: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The rate is unknown.
    Start(Start),
    /// The start overshot: waits until no more is under way than the path holds.
    Drain,
    /// UDT's law.
    Steady,
    /// The path is shorter than timers are exact.
    Short(ShortPath),
}

/// A round trip, measured by packets.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began_at: Duration,
    /// Best samples of this round trip and of the one before.
    best: f64,
    best_before: f64,
    /// Best arrival rate within a part of it, and of the one before.
    recent_rate: f64,
    recent_rate_before: f64,
    /// Most bytes under way in this one and in the one before.
    most: u64,
    most_before: u64,
}

impl Round {
    /// Whether the sender makes use of a window of so many bytes. An idle sender makes no queue, and its arrivals
    /// cannot measure the path.
    fn fills(self, window: f64) -> bool {
        2.0 * self.most.max(self.most_before) as f64 >= window
    }
}

/// The last evaluation of the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    at: Duration,
    sent_bytes: u64,
    /// Share of the rate that is used.
    used: f64,
    /// When the sender last had nothing more to send.
    idle_at: Option<Duration>,
    /// What the path carried when the rate began to rise without causing a queue.
    rising_from: Option<f64>,
}

/// The last overload of the path.
#[derive(Clone, Copy, Debug, Default)]
struct Overload {
    /// Packets that left before this were sent too fast; the controller has reacted to them.
    answered_at: Duration,
    has_been: bool,
    reports: u32,
    cuts: u32,
    reports_usual: f64,
    cut_every: u32,
    /// Until when the queue drains.
    drain_until: Option<Duration>,
    /// The queue at the last cut, and how many cuts did not shorten it.
    queue: Duration,
    in_vain: u32,
}

impl Rules {
    /// The law of a new connection. `seed` decides its random choices; `learned` is what an earlier connection to the
    /// same peer knew.
    pub fn new(seed: u64, packet_bytes: u16, learned: Option<PathEstimate>) -> Self {
        let packet_bytes = f64::from(packet_bytes.max(1));
        let start = Start::new(packet_bytes);
        Self {
            rng: Rng::with_seed(seed),
            packet_bytes,
            learned,
            delivery: Delivery::default(),
            delay: Delay::default(),
            losses: Losses::default(),
            pacing_deficit: PacingDeficit::default(),
            stall: StallDetector::default(),
            phase: Phase::Start(start),
            rate: start.window() / START_ROUND_TRIP.as_secs_f64(),
            delivery_rate: 0.0,
            round: Round::default(),
            tick: Tick::default(),
            overload: Overload::default(),
            newest_sent_at: None,
        }
    }

    /// A packet that will be acknowledged leaves at `now`.
    pub fn on_sent(&mut self, now: Duration, bytes: u64) {
        self.pacing_deficit.on_sent(now, bytes, self.rate);
        self.delivery.on_sent(now, bytes);
        self.round.most = self.round.most.max(self.delivery.in_flight_bytes());
        self.mark_limited_where_full();
        self.tick.sent_bytes = self.tick.sent_bytes.saturating_add(bytes);
    }

    /// A packet that left at `sent_at` has arrived.
    pub fn on_acknowledged(&mut self, sent_at: Duration, bytes: u64) {
        self.delivery.on_acknowledged(bytes);
        self.losses.on_arrived(bytes as f64 / self.packet_bytes);
        self.newest_sent_at = Some(self.newest_sent_at.map_or(sent_at, |newest| newest.max(sent_at)));
        if let Phase::Start(start) = &mut self.phase {
            start.on_acknowledged(bytes);
        }
    }

    /// When the sender last had nothing more to send; zero where it always had.
    pub fn idle_at(&self) -> Duration {
        self.tick.idle_at.unwrap_or_default()
    }

    /// All packets of an acknowledgement were told. `in_flight_bytes` is the connection's count. `is_idle` says that it
    /// had nothing more to send.
    pub fn on_acknowledgement(&mut self, now: Duration, in_flight_bytes: u64, is_idle: bool) {
        let Some(newest_sent_at) = self.newest_sent_at.take() else { return };
        if is_idle {
            self.pacing_deficit.mark_limited();
            self.tick.idle_at = Some(now);
        }
        let sample = self.delivery.on_batch(now, newest_sent_at, in_flight_bytes, is_idle);
        if !self.stall.on_acknowledgement(now, newest_sent_at) && self.delay.shortest().is_some() {
            // Neither its delay nor its rate is meaningful.
            self.on_time(now);
            return;
        }
        self.delay.on_round_trip(now, now.saturating_sub(newest_sent_at));
        if let Some(sample) = sample {
            self.round.best = self.round.best.max(sample.rate_bytes_per_second);
        }
        if let (Phase::Start(start), Some(learned), Some(shortest)) =
            (&mut self.phase, self.learned, self.delay.shortest())
        {
            start.resume(learned, shortest);
        }
        self.choose_law(now);
        match self.phase {
            Phase::Start(_) => self.start(now, sample),
            Phase::Drain => self.drain(now),
            Phase::Steady | Phase::Short(_) => {}
        }
        if newest_sent_at >= self.round.began_at {
            self.end_round(now, sample);
        }
        self.on_time(now);
        self.mark_limited_where_full();
    }

    /// Packets were lost, the newest of which left at `sent_at`. `is_persistent`: nothing came through for long.
    pub fn on_lost(&mut self, now: Duration, sent_at: Duration, bytes: u64, is_persistent: bool) {
        self.delivery.on_lost(bytes);
        if is_persistent {
            self.begin_anew(now);
            return;
        }
        if self.overload.has_been && sent_at < self.overload.answered_at {
            self.cut_further(now);
            return;
        }
        self.losses.on_lost((bytes as f64 / self.packet_bytes).ceil());
        let expected = self.delivery_rate.min(self.rate) * self.round_trip().as_secs_f64() / self.packet_bytes;
        let is_congestion = self.losses.is_congestion(expected);
        match self.phase {
            Phase::Start(_) if is_congestion => self.leave_start(now),
            Phase::Steady if is_congestion || self.is_contended() => self.cut(now),
            Phase::Start(_) | Phase::Drain | Phase::Steady | Phase::Short(_) => {}
        }
    }

    /// The path marks packets instead of dropping them: it is full.
    pub fn on_marked(&mut self, now: Duration, sent_at: Duration) {
        if !self.overload.has_been || sent_at >= self.overload.answered_at {
            match self.phase {
                Phase::Start(_) => self.leave_start(now),
                Phase::Drain => {}
                Phase::Short(_) => self.delivery_rate = ShortPath::on_marked(self.delivery_rate),
                Phase::Steady => self.cut(now),
            }
        }
    }

    /// Packets have this length from now on.
    pub fn set_packet_bytes(&mut self, packet_bytes: u16) {
        self.packet_bytes = f64::from(packet_bytes.max(1));
    }

    /// Bytes a second to send.
    pub fn rate_bytes_per_second(&self) -> u64 {
        let rate = match self.phase {
            Phase::Start(start) => start.rate(self.round_trip()),
            Phase::Steady if self.pacing_deficit.is_behind(self.rate) => self.rate * CATCH_UP,
            Phase::Drain | Phase::Steady => self.rate,
            Phase::Short(_) => ShortPath::rate(self.delivery_rate, self.packet_bytes),
        };
        rate.clamp(RATE_BYTES_PER_SECOND_MIN, RATE_BYTES_PER_SECOND_MAX) as u64
    }

    /// Bytes that may be under way: the rate's bytes of a round trip and one [`SYN`], and [`WINDOW_PACKETS`].
    pub fn window_bytes(&self) -> u64 {
        let least = WINDOW_PACKETS * self.packet_bytes;
        let window = match self.phase {
            Phase::Start(start) => start.window(),
            Phase::Drain => self.path_bytes() + least,
            Phase::Steady => {
                // Others' queue is a part of the path.
                let round_trip = self.delay.smoothed().unwrap_or(START_ROUND_TRIP);
                self.rate * (round_trip + SYN).as_secs_f64() + least
            }
            Phase::Short(law) => law.window(self.delivery_rate, self.round_trip(), self.packet_bytes),
        };
        window.clamp(least, WINDOW_BYTES_MAX) as u64
    }

    /// What a later connection to this peer may begin with.
    pub fn learned(&self) -> Option<PathEstimate> {
        let round_trip = self.delay.shortest()?;
        (self.delivery_rate > 0.0)
            .then_some(PathEstimate { rate_bytes_per_second: self.delivery_rate as u64, round_trip })
    }

    /// How long packets wait in the path's queue.
    pub fn queue(&self) -> Duration {
        self.delay.queue()
    }

    /// The start, at each acknowledgement. It ends where a queue shows that the path is full, or where the path carries
    /// what it once did.
    fn start(&mut self, now: Duration, sample: Option<Sample>) {
        let path_bytes = self.path_bytes();
        let target = self.queue_target();
        // A new flow meets the queue of those already there.
        let is_queueing = self.delay.queue() > target.max((target * 2).min(self.round_trip() / 4));
        let round_trip = self.round_trip();
        self.round.recent_rate = self.round.recent_rate.max(self.delivery.recent_rate(Start::looks_back(round_trip)));
        let of_late = self.round.recent_rate.max(self.round.recent_rate_before);
        let is_idle = sample.is_none_or(|sample| sample.is_idle);
        let used_bytes = is_idle.then_some(self.delivery.in_flight_bytes() as f64);
        let Phase::Start(start) = &mut self.phase else { return };
        start.hold(used_bytes, path_bytes, of_late, round_trip, WINDOW_PACKETS * self.packet_bytes);
        if is_queueing && self.round.fills(start.window()) {
            self.leave_start(now);
        } else if let Some(known) = start.reached(round_trip) {
            self.delivery_rate = known;
            self.leave_start(now);
        }
    }

    /// Chooses the law: a short path has another one.
    fn choose_law(&mut self, now: Duration) {
        let is_short = self.delay.shortest().is_some_and(ShortPath::is_short);
        match self.phase {
            Phase::Short(_) if !is_short => {
                self.rate = self.delivery_rate.max(RATE_BYTES_PER_SECOND_MIN);
                self.phase = Phase::Steady;
                self.answer(now);
            }
            Phase::Start(_) | Phase::Drain | Phase::Steady if is_short => {
                self.phase = Phase::Short(ShortPath::new());
            }
            Phase::Start(_) | Phase::Drain | Phase::Steady | Phase::Short(_) => {}
        }
    }

    /// The law of short paths, each [`SYN`].
    fn short(&mut self, mut law: ShortPath) {
        let arrived = self.delivery.recent_rate(SYN * 2);
        let expected = arrived * SYN.as_secs_f64() / self.packet_bytes;
        self.delivery_rate = law.on_time(arrived, self.delivery_rate, self.losses.is_congestion(expected));
        self.phase = Phase::Short(law);
        self.rate = self.delivery_rate.max(RATE_BYTES_PER_SECOND_MIN);
        self.losses.restart();
    }

    /// Bytes that the window holds back are not late.
    fn mark_limited_where_full(&mut self) {
        if self.delivery.in_flight_bytes() as f64 + self.packet_bytes > self.window_bytes() as f64 {
            self.pacing_deficit.mark_limited();
        }
    }

    fn leave_start(&mut self, now: Duration) {
        self.delivery_rate = self.delivery_rate.max(self.round.best).max(self.round.best_before);
        self.rate = self.delivery_rate.max(RATE_BYTES_PER_SECOND_MIN);
        self.phase = Phase::Drain;
        self.answer(now);
    }

    fn drain(&mut self, now: Duration) {
        self.delivery_rate = self.delivery_rate.max(self.round.best);
        self.rate = self.delivery_rate.max(RATE_BYTES_PER_SECOND_MIN);
        if self.delivery.in_flight_bytes() as f64 <= self.path_bytes() + WINDOW_PACKETS * self.packet_bytes {
            self.phase = Phase::Steady;
            self.tick.at = now;
            // What is still reported of the queue dates from before.
            self.overload.answered_at = now;
        }
    }

    fn end_round(&mut self, now: Duration, sample: Option<Sample>) {
        let is_idle = sample.is_none_or(|sample| sample.is_idle);
        let is_full = match &mut self.phase {
            Phase::Start(start) => start.end_round(self.round.best, is_idle),
            Phase::Drain | Phase::Steady | Phase::Short(_) => false,
        };
        if is_full {
            self.leave_start(now);
        }
        if matches!(self.phase, Phase::Steady) {
            // It falls only where the path shows that it is full (`cut`). A sender that was late, or had little to
            // send, says nothing about the path.
            self.delivery_rate = self.delivery_rate.max(self.round.best.max(self.round.best_before));
        }
        self.round = Round {
            began_at: now,
            best: 0.0,
            best_before: self.round.best,
            recent_rate: 0.0,
            recent_rate_before: self.round.recent_rate,
            most: 0,
            most_before: self.round.most,
        };
        if matches!(self.phase, Phase::Short(_)) {
            return;
        }
        self.losses.restart();
    }

    /// UDT's evaluation of the rate, when at least one [`SYN`] has passed.
    fn on_time(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.tick.at);
        if passed < SYN {
            return;
        }
        let used = self.tick.sent_bytes as f64 / (self.rate * passed.as_secs_f64());
        self.tick.used += (used.min(2.0) - self.tick.used) / USED_OVER;
        self.tick.at = now;
        self.tick.sent_bytes = 0;
        match self.phase {
            Phase::Start(_) | Phase::Drain => {}
            Phase::Steady => self.steady(now, passed),
            Phase::Short(law) => self.short(law),
        }
    }

    /// UDT's law, each [`SYN`].
    fn steady(&mut self, now: Duration, passed: Duration) {
        let queue = self.delay.queue();
        let target = self.queue_target();
        if queue < target / 2 {
            self.overload.in_vain = 0;
        }
        if queue > target && !self.is_contended() {
            self.tick.rising_from = None;
            // A reaction shows after a round trip, once the queue had time to drain.
            let shows_at = self.overload.drain_until.unwrap_or(self.overload.answered_at) + self.round_trip();
            let is_answered = self.overload.has_been && now < shows_at;
            if !is_answered {
                self.cut(now);
            }
            return;
        }
        if let Some(until) = self.overload.drain_until {
            if now < until {
                return;
            }
            self.overload.drain_until = None;
            self.rate = self.rate.max(self.delivery_rate * CRUISE);
        }
        if self.is_wanting(now) {
            let ticks = (passed.as_secs_f64() / SYN.as_secs_f64()).min(TICKS_MAX);
            let margin = 1.0 - queue.as_secs_f64() / target.as_secs_f64();
            self.rise(now, queue > target / 4, margin.max(0.0), ticks);
        } else {
            self.tick.rising_from = None;
        }
    }

    /// One step up for each [`SYN`]. UDT's step is a power of ten of the spare capacity that its receiver measures.
    /// Here the spare capacity is the part of the queue's target that is unused (`margin`, a share). The step grows
    /// with the root of the rate. With UDT's step the poorer of two flows would be a power of ten slower, and never
    /// catch up.
    fn rise(&mut self, now: Duration, is_queueing: bool, margin: f64, ticks: f64) {
        let margin = if self.is_contended() { CONTENDED_MARGIN } else { margin };
        let step = STEP_SHARE * (self.delivery_rate.max(self.rate) * STEP_REFERENCE).sqrt() * margin;
        if is_queueing || self.is_contended() {
            self.tick.rising_from = None;
        } else {
            let carried = *self.tick.rising_from.get_or_insert(self.delivery_rate);
            if carried > 0.0 && self.delivery_rate >= carried * FREE_GROWTH {
                return self.start_again(now);
            }
        }
        self.rate = (self.rate + step * ticks).min(RATE_BYTES_PER_SECOND_MAX);
        if self.delivery_rate > 0.0 {
            // The slowest flows are measured by so few packets that timers alone would keep them slow.
            let least = WINDOW_PACKETS * self.packet_bytes / MEASURED_OVER_MIN.as_secs_f64();
            self.rate = self.rate.min((self.delivery_rate * RATE_OVER_DELIVERY_MAX).max(self.delivery_rate + least));
        }
    }

    /// The path carries more than before, and no queue showed. So the start ended too soon, as on a machine that was
    /// busy then. It goes on from here.
    fn start_again(&mut self, now: Duration) {
        self.phase = Phase::Start(Start::from(self.rate * self.round_trip().as_secs_f64(), self.packet_bytes));
        self.tick.rising_from = None;
        self.round.began_at = now;
    }

    /// The path is full: sends one ninth less than it carries, until the queue is empty.
    fn cut(&mut self, now: Duration) {
        let queue = self.delay.queue();
        let is_contended = self.is_contended();
        if queue >= self.overload.queue.mul_f64(0.7) && self.overload.has_been {
            self.overload.in_vain += 1;
        } else {
            self.overload.in_vain = 0;
        }
        self.overload.queue = queue;
        let mut seen = self.round.best.max(self.round.best_before);
        let long = self.round_trip().max(QUEUE_LONG_MIN);
        if queue > long {
            // No flow makes such a queue: the path became slower, and a round trip is too long to wait for a sample.
            seen = seen.min(self.delivery.recent_rate(long));
            (self.round.best, self.round.best_before) = (seen, seen);
        }
        if seen > 0.0 {
            self.delivery_rate = seen;
        }
        let base = if self.delivery_rate > 0.0 { self.rate.min(self.delivery_rate) } else { self.rate };
        self.rate = (base * CUT).max(RATE_BYTES_PER_SECOND_MIN);
        let drain = queue.saturating_mul(DRAIN).min(DRAIN_MAX);
        self.overload.drain_until = (!is_contended).then(|| now.saturating_add(drain));
        self.answer(now);
    }

    /// More losses of an overload that was already reacted to. Some of them, at random, cut the rate again, so that
    /// flows which lost together do not rise together. The rate never falls below half (UDT).
    fn cut_further(&mut self, now: Duration) {
        self.overload.reports += 1;
        let is_due = self.overload.reports.is_multiple_of(self.overload.cut_every.max(1));
        if matches!(self.phase, Phase::Steady) && self.is_contended() && is_due && self.overload.cuts < CUTS_MAX {
            self.overload.cuts += 1;
            self.rate = (self.rate * CUT).max(RATE_BYTES_PER_SECOND_MIN);
            self.overload.answered_at = now;
        }
    }

    /// Packets that left up to now were sent too fast, and the controller has reacted to that.
    fn answer(&mut self, now: Duration) {
        let overload = &mut self.overload;
        overload.reports_usual += (f64::from(overload.reports) - overload.reports_usual) / 8.0;
        overload.cut_every = self.rng.u32(1..=(overload.reports_usual.ceil().clamp(1.0, 1e6) as u32));
        overload.reports = 1;
        overload.cuts = 1;
        overload.answered_at = now;
        overload.has_been = true;
        self.losses.restart();
        self.tick.rising_from = None;
    }

    /// The path was gone for long: starts again with what was learned.
    fn begin_anew(&mut self, now: Duration) {
        let learned = self.learned().or(self.learned);
        let rng = self.rng.fork();
        let mut delivery = Delivery::default();
        std::mem::swap(&mut delivery, &mut self.delivery);
        let silence = self.stall;
        *self = Self { rng, delivery, stall: silence, ..Self::new(0, self.packet_bytes as u16, learned) };
        self.round.began_at = now;
        self.tick.at = now;
        self.overload = Overload { answered_at: now, has_been: true, ..Overload::default() };
    }

    /// Whether the sender would send more if it might. A late sender does not use its rate either.
    fn is_wanting(&self, now: Duration) -> bool {
        let idle = self.tick.idle_at.map(|at| now.saturating_sub(at));
        self.tick.used > USED_ENOUGH || idle.is_none_or(|idle| idle > self.round_trip().max(MEASURED_OVER_MIN))
    }

    /// The queue belongs to another flow: it stays long though we sent less.
    fn is_contended(&self) -> bool {
        self.overload.in_vain >= CUTS_IN_VAIN
    }

    /// The queue at which the path counts as full.
    fn queue_target(&self) -> Duration {
        full_at(self.rate)
    }

    /// What the path holds without a queue.
    fn path_bytes(&self) -> f64 {
        let carried = self.delivery_rate.max(self.round.best).max(self.round.best_before);
        carried * self.round_trip().as_secs_f64()
    }

    fn round_trip(&self) -> Duration {
        self.delay.shortest().unwrap_or(START_ROUND_TRIP).clamp(ROUND_TRIP_MIN, ROUND_TRIP_MAX)
    }
}

/// UDT's period of control, the same for all round trips: that is why near and far flows rise alike.
pub const SYN: Duration = Duration::from_millis(10);
/// No path is slower: ten packets a second.
pub const RATE_BYTES_PER_SECOND_MIN: f64 = 15_000.0;
/// No path is faster: 10 Tbit/s.
pub const RATE_BYTES_PER_SECOND_MAX: f64 = 1.25e12;
/// UDT's window beside the rate.
const WINDOW_PACKETS: f64 = 16.0;
/// More than any path holds.
const WINDOW_BYTES_MAX: f64 = 1e12;
/// The round trip assumed before it is known.
const START_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Bounds of a believable round trip.
const ROUND_TRIP_MIN: Duration = Duration::from_micros(50);
const ROUND_TRIP_MAX: Duration = Duration::from_secs(10);
/// UDT's decrease.
const CUT: f64 = 8.0 / 9.0;
/// UDT's most cuts for one overload.
const CUTS_MAX: u32 = 5;
/// Cuts without a shorter queue after which the queue counts as another flow's.
const CUTS_IN_VAIN: u32 = 3;
/// After a cut a queue drains in so many times its length.
const DRAIN: u32 = 9;
/// A queue longer than a round trip, and than this, means that the path became slower.
const QUEUE_LONG_MIN: Duration = Duration::from_millis(100);
/// Longest time for a queue to drain.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How much faster than the rate a late sender catches up.
const CATCH_UP: f64 = 1.25;
/// Share of the path's rate that is sent once the queue is empty.
const CRUISE: f64 = 0.985;
/// Step each [`SYN`] on an empty path, as a share of the rate, at [`STEP_REFERENCE`]: 1 Gbit/s rises by a fifth in a
/// second.
const STEP_SHARE: f64 = 0.002;
/// Bytes a second: 1 Gbit/s. Slower flows rise by a larger share, faster ones by a smaller, with the root of the rate.
const STEP_REFERENCE: f64 = 125e6;
/// A shorter time says little of a slow flow.
const MEASURED_OVER_MIN: Duration = Duration::from_millis(100);
/// Steps that are caught up where no acknowledgement came.
const TICKS_MAX: f64 = 4.0;
/// How fast a rate rises beside a flow that keeps the queue full, relative to an empty path.
const CONTENDED_MARGIN: f64 = 0.1;
/// The rate is never further over what was seen to arrive.
const RATE_OVER_DELIVERY_MAX: f64 = 1.06;
/// The path carries so many times what it did at first, and still no queue: it has room for a new start.
const FREE_GROWTH: f64 = 1.25;
/// The use of the rate is averaged over so many evaluations.
const USED_OVER: f64 = 8.0;
/// A rate less used than that is not raised.
const USED_ENOUGH: f64 = 0.85;

#[cfg(test)]
mod tests;
