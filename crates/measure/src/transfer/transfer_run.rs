//! Runs transfers and samples them: how much had arrived at which time, and what it cost. It never compares systems.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;

use super::{
    bare_quic,
    bench_network::{BenchNetwork, End},
    flow::{Amount, ByteCounter, System, TransferError, TransferRun, TransferSpec, Until},
    iperf, sector_carrier,
};

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
/// What is sent to learn a peer's rate.
const KNOWN_BYTES: u64 = 200_000_000;
