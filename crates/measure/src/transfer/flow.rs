//! What flows over a path: by which system, how much, and what came of it. It never opens a connection.

use std::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use net::transfer::ControllerKind;
use testbed::{Rate, Share, TestbedError};
use thiserror::Error;

/// An emulated path.
#[derive(Clone, Debug)]
pub struct EmulatedPath {
    /// What its links carry.
    pub rate: Rate,
    /// The round-trip time.
    pub round_trip: Duration,
    /// Packets lost by chance.
    pub loss: Share,
    /// The seed of all random draws.
    pub seed: u64,
}

/// What moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Our TCP with TLS.
    Tcp,
    /// Our QUIC.
    Quic(ControllerKind),
    /// Our QUIC, to a peer whose rate is known from a transfer before.
    QuicKnown(ControllerKind),
    /// The QUIC library by itself, with BBR and large windows, over eight streams.
    PlainQuic,
    /// The kernel's TCP without encryption, with this controller.
    Iperf(&'static str),
}

/// Why a measurement failed.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The emulated path could not be made.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A system failed.
    #[error("{system} failed: {reason}")]
    System {
        /// Which one.
        system: System,
        /// In its own words.
        reason: String,
    },
    /// A system is not on this machine.
    #[error("iperf3 is not on this machine: install it to measure beside the kernel's TCP, or leave it out")]
    NoIperf,
}

/// How much a flow carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    Bytes(u64),
    Time(Duration),
}

impl System {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp | Self::Quic(_) | Self::QuicKnown(_) => "sector",
            Self::PlainQuic => "noq",
            Self::Iperf(_) => "iperf3",
        }
    }

    pub(super) fn carrier(self) -> &'static str {
        match self {
            Self::Tcp | Self::Iperf(_) => "tcp",
            Self::Quic(_) | Self::QuicKnown(_) | Self::PlainQuic => "quic",
        }
    }

    pub(super) fn controller(self) -> &'static str {
        match self {
            Self::Tcp => "kernel",
            Self::Quic(kind) | Self::QuicKnown(kind) => kind.name(),
            Self::PlainQuic => ControllerKind::Bbr.name(),
            Self::Iperf(controller) => controller,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name(), self.carrier(), self.controller())
    }
}

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
    pub(super) is_over: AtomicBool,
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

/// How long a rate must last to count.
const REACHED_OVER: Duration = Duration::from_millis(200);

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
