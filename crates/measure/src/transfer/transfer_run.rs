//! Runs transfers and samples them: how much had arrived at which time, and what it cost. It never compares systems.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;

use super::{
    Amount, System, TransferError, bare_quic,
    bench_network::{BenchNetwork, End},
    iperf, sector_carrier,
};

/// One transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferSpec {
    pub(super) system: System,
    pub(super) amount: Amount,
    pub(super) flows: u32,
}

/// The outcome of a transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct TransferRun {
    pub(super) bytes: u64,
    pub(super) took: Duration,
    pub(super) processor_s: f64,
    /// Seconds since the measurement began, and bytes that had arrived by then.
    pub(super) samples: Vec<(f64, u64)>,
    /// When the measured part began, in the same seconds.
    pub(super) from_s: f64,
}

impl TransferRun {
    /// Bytes that arrived between two moments, in seconds.
    pub(super) fn bytes_between(&self, from: f64, until: f64) -> f64 {
        self.bytes_at(until) - self.bytes_at(from)
    }

    /// When bytes first came at this rate for [`REACHED_OVER`], in seconds.
    pub(super) fn reached(&self, bytes_per_s: f64) -> Option<f64> {
        let over = REACHED_OVER.as_secs_f64();
        let ends = self.samples.iter().map(|(at, _)| *at).filter(|at| *at >= self.from_s + over);
        let mut spans = ends.map(|end| (end - over, end));
        let reached = |(from, until): &(f64, f64)| self.bytes_between(*from, *until) >= bytes_per_s * over;
        spans.find(reached).map(|(from, _)| from - self.from_s)
    }

    fn bytes_at(&self, moment: f64) -> f64 {
        let behind = self.samples.partition_point(|(at, _)| *at <= moment);
        match (behind.checked_sub(1).map(|at| self.samples[at]), self.samples.get(behind)) {
            (Some((before, least)), Some((after, most))) => {
                least as f64 + (most - least) as f64 * (moment - before) / (after - before)
            }
            (Some((_, bytes)), None) => bytes as f64,
            (None, _) => 0.0,
        }
    }
}

/// Counted by a receiver, sampled by the watching thread.
#[derive(Debug, Default)]
pub(super) struct ByteCounter {
    pub(super) bytes: AtomicU64,
    is_over: AtomicBool,
}

impl ByteCounter {
    /// Adds bytes that have arrived.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// How long a sender goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// This many bytes on each flow, but not beyond a moment.
    Bytes(u64, Instant),
    /// Until a moment.
    Moment(Instant),
}

impl Until {
    /// How many bytes to send next, after `sent` bytes and at most `bytes_max`; `None` at the end.
    pub(super) fn next(self, sent: u64, bytes_max: usize) -> Option<usize> {
        match self {
            Self::Bytes(all, end) => (sent < all && Instant::now() < end).then(|| bytes_max.min((all - sent) as usize)),
            Self::Moment(end) => (Instant::now() < end).then_some(bytes_max),
        }
    }
}

/// Runs the transfers at once, each after its pause.
pub(super) fn run(
    place: &BenchNetwork,
    courses: &[(TransferSpec, Duration)],
) -> Result<Vec<TransferRun>, TransferError> {
    let began = Instant::now();
    thread::scope(|scope| {
        let running: Vec<_> = courses
            .iter()
            .map(|(course, pause)| {
                scope.spawn(move || {
                    thread::park_timeout(*pause);
                    one(place, *course, began)
                })
            })
            .collect();
        running.into_iter().map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn one(place: &BenchNetwork, course: TransferSpec, began: Instant) -> Result<TransferRun, TransferError> {
    let meter = Arc::new(ByteCounter::default());
    let samples = Mutex::new(Vec::new());
    let outcome = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&meter, &samples, began));
        let outcome = carry(place, course, &meter, began);
        meter.is_over.store(true, Ordering::Relaxed);
        // The watching thread only sleeps and samples.
        let _ = watching.join();
        outcome
    });
    let mut run = outcome?;
    if run.samples.is_empty() {
        run.samples = samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    Ok(run)
}

fn carry(
    place: &BenchNetwork,
    course: TransferSpec,
    meter: &Arc<ByteCounter>,
    began: Instant,
) -> Result<TransferRun, TransferError> {
    if let System::Iperf(controller) = course.system {
        return iperf::run(place, place.rate_bits_per_s(), controller, course, began);
    }
    let failed = |reason: String| TransferError::System { system: course.system, reason };
    // To a peer whose rate is to be known, a first transfer only learns the rate.
    let transfers = if matches!(course.system, System::QuicKnown(_)) { 2 } else { 1 };
    let flows = course.flows * transfers;
    let (say, door) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let end = async {
                match course.system {
                    System::PlainQuic => bare_quic::receive(place.receiver(), flows, meter, &say).await,
                    _ => sector_carrier::receive(place.receiver(), flows, meter, &say).await,
                }
            };
            place.run(End::Receiver, || on_a_runtime(end))
        });
        let sent = match door.recv() {
            Ok(door) => place.run(End::Sender, || on_a_runtime(send(&door, course, meter)))?,
            Err(_) => (Err("the receiver did not start".into()), 0.0),
        };
        let (received, receiver_s) = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        received.map_err(failed)?;
        let (sent, sender_s) = (sent.0.map_err(failed)?, sent.1);
        let carried_bytes = meter.bytes.load(Ordering::Relaxed);
        let bytes = carried_bytes - sent.bytes_before;
        // The learning transfer used processor time too; the measured bytes get their share of the total.
        let processor_s = (sender_s + receiver_s) * bytes as f64 / carried_bytes as f64;
        let from_s = (sent.start - began).as_secs_f64();
        Ok(TransferRun { bytes, took: sent.took, processor_s, samples: Vec::new(), from_s })
    })
}

/// What a sender returns at its end.
struct Sent {
    start: Instant,
    took: Duration,
    /// Bytes that are not measured.
    bytes_before: u64,
}

async fn send(
    door: &sector_carrier::ReceiverEndpoint,
    course: TransferSpec,
    meter: &ByteCounter,
) -> Result<Sent, String> {
    let TransferSpec { system, amount, flows } = course;
    let by = match system {
        System::Quic(kind) => sector_carrier::SendCarrier::Quic(kind),
        System::QuicKnown(kind) => sector_carrier::SendCarrier::known(kind),
        _ => sector_carrier::SendCarrier::Tcp,
    };
    if matches!(system, System::QuicKnown(_)) {
        let until = Until::Bytes(KNOWN_BYTES / u64::from(flows), Instant::now() + TURN_MAX);
        sector_carrier::send(door, by.clone(), flows, until).await?;
    }
    let (bytes_before, start) = (meter.bytes.load(Ordering::Relaxed), Instant::now());
    let until = match amount {
        Amount::Bytes(bytes) => Until::Bytes(bytes / u64::from(flows), start + TURN_MAX),
        Amount::Time(time) => Until::Moment(start + time),
    };
    match system {
        System::PlainQuic => bare_quic::send(door, flows, until).await?,
        _ => sector_carrier::send(door, by, flows, until).await?,
    }
    Ok(Sent { start, took: start.elapsed(), bytes_before })
}

/// Runs an end by itself on this thread. Returns its result and the processor seconds it took.
fn on_a_runtime<T>(end: impl Future<Output = Result<T, String>>) -> (Result<T, String>, f64) {
    let began = processor_s();
    let outcome = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(end),
        Err(error) => Err(error.to_string()),
    };
    (outcome, processor_s() - began)
}

/// Processor seconds of this thread.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Samples the counter at intervals.
fn watch(meter: &ByteCounter, samples: &Mutex<Vec<(f64, u64)>>, began: Instant) {
    while !meter.is_over.load(Ordering::Relaxed) {
        let sample = (began.elapsed().as_secs_f64(), meter.bytes.load(Ordering::Relaxed));
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        thread::park_timeout(SAMPLE_INTERVAL);
    }
}

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Longest turn: a controller that starves is measured by what it has carried by then.
pub(super) const TURN_MAX: Duration = Duration::from_secs(60);
/// How long a rate must last to count.
const REACHED_OVER: Duration = Duration::from_millis(200);
/// What is sent to learn a peer's rate.
const KNOWN_BYTES: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 bytes a second from second 1 on, 10,000 from second 3 on.
    fn run() -> TransferRun {
        let arrived = |at: u32| {
            if at <= 30 { u64::from(at.saturating_sub(10)) * 100 } else { 2_000 + u64::from(at - 30) * 1_000 }
        };
        let samples = (0..=50).map(|at| (f64::from(at) / 10.0, arrived(at))).collect();
        TransferRun { samples, from_s: 1.0, ..TransferRun::default() }
    }

    #[test]
    fn bytes_between_two_moments_are_those_of_the_samples_in_between() {
        let run = run();
        assert!((run.bytes_between(0.0, 1.0) - 0.0).abs() < 1e-6);
        assert!((run.bytes_between(1.25, 2.75) - 1_500.0).abs() < 1e-6);
        assert!((run.bytes_between(4.0, 9.0) - 10_000.0).abs() < 1e-6, "nothing comes after the last sample");
    }

    #[test]
    fn a_rate_is_reached_when_it_has_lasted() {
        let run = run();
        assert_eq!(run.reached(900.0), Some(0.0));
        let fast = run.reached(9_000.0).unwrap_or(f64::NAN);
        assert!((1.9..=2.1).contains(&fast), "{fast}");
        assert_eq!(run.reached(11_000.0), None);
    }
}
