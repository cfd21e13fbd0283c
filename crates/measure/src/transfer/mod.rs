//! Bulk bytes over a path, in turn and in one run: by this system's carriers, by the bare QUIC library, and by the
//! kernel (iperf3). See Open Cloud Testbed, section 6. It serves `sector bench transfer`, and never talks to a
//! running cloud.

mod bare_quic;
mod bench_network;
mod flow;
mod iperf;
mod sector_carrier;
mod transfer_run;

use std::time::Duration;

use bench_network::BenchNetwork;
use flow::{Amount, TransferRun, TransferSpec};
pub use flow::{EmulatedPath, System, TransferError};
pub use net::transfer::ControllerKind;
use serde::Serialize;
use testbed::{PathRules, TestbedError, TestbedPlan};

/// What is measured.
#[derive(Clone, Debug)]
pub struct TransferPlan {
    /// The path; without one, the loopback.
    pub path: Option<EmulatedPath>,
    /// Which systems, in this order.
    pub systems: Vec<System>,
    /// Concurrent flows, each over a connection of its own. They share the bytes.
    pub flows: u32,
    /// Bytes in all.
    pub bytes: u64,
    /// Turns of each system; the median is shown.
    pub rounds: u32,
}

/// One system's figures.
#[derive(Clone, Debug, Serialize)]
pub struct TransferFigure {
    /// `sector`, `noq` or `iperf3`.
    pub system: &'static str,
    /// `tcp` or `quic`.
    pub carrier: &'static str,
    /// `udt`, `bbr`, `cubic`; for the kernel's TCP, what it was set to.
    pub controller: &'static str,
    /// Whether the peer's rate was known before.
    pub is_known: bool,
    /// The path's rate, in bits a second; `None` for the loopback.
    pub rate_bps: Option<u64>,
    /// The round-trip time, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Share of packets that the path loses.
    pub loss: Option<f64>,
    /// Flows at once.
    pub flows: u32,
    /// Bits of user data in a second, from the first packet to the last.
    pub goodput_bps: f64,
    /// Goodput as a share of the path's rate.
    pub link_share: Option<f64>,
    /// Processor seconds of both ends for a gigabyte, without the emulation.
    pub cpu_s_per_gb: f64,
    /// When nine tenths of the path's rate came through for the first time, in seconds.
    pub full_rate_after_s: Option<f64>,
    /// Why it did not finish, in its own words; its figures are then those of a transfer that carried nothing.
    pub failed: Option<String>,
}

/// How two flows share a path.
#[derive(Clone, Debug, Serialize)]
pub struct Sharing {
    /// The first, which has the path alone for a while.
    pub first: &'static str,
    /// The second.
    pub second: &'static str,
    /// The first's share of what both carried while both ran.
    pub first_share: f64,
    /// Both together, as a share of the path's rate.
    pub link_share: f64,
}

/// Whether iperf3 is on this machine.
pub fn has_iperf() -> bool {
    iperf::is_here()
}

/// Measures every system in turn, round by round; returns the medians. `tell` is called with each turn as it ends. A
/// system that fails gets a figure that says so, and the others are still measured. On a path that loses packets, a
/// failure is a result.
///
/// Every system has the same setup: a sending thread and a receiving thread, each with a runtime of its own. Over an
/// emulated path, each is at a site of its own. Time is taken from before the connection is made until the receiver
/// has confirmed all bytes, since users wait for handshake and start too.
pub fn compare(
    plan: &TransferPlan,
    tell: &mut dyn FnMut(&TransferFigure),
) -> Result<Vec<TransferFigure>, TransferError> {
    let mut rounds: Vec<Vec<TransferFigure>> = plan.systems.iter().map(|_| Vec::new()).collect();
    for round in 0..plan.rounds {
        for (system, figures) in plan.systems.iter().zip(&mut rounds) {
            let place = BenchNetwork::set_up(plan.path.as_ref(), u64::from(round))?;
            let course = TransferSpec { system: *system, amount: Amount::Bytes(plan.bytes), flows: plan.flows };
            let figure = match transfer_run::run(&place, &[(course, Duration::ZERO)]) {
                Ok(mut runs) => figure(plan, *system, &runs.swap_remove(0)),
                Err(TransferError::System { reason, .. }) => failed(plan, *system, reason),
                Err(error) => return Err(error),
            };
            tell(&figure);
            figures.push(figure);
        }
    }
    Ok(rounds.into_iter().filter_map(median).collect())
}

/// Starts a second flow while a first is running, and measures how they share the path.
pub fn share(way: &EmulatedPath, first: System, second: System, time: Duration) -> Result<Sharing, TransferError> {
    let place = BenchNetwork::set_up(Some(way), 0)?;
    let alone = time / 4;
    let course = |system, time| TransferSpec { system, amount: Amount::Time(time), flows: 1 };
    let both = [(course(first, time), Duration::ZERO), (course(second, time - alone), alone)];
    let runs = transfer_run::run(&place, &both)?;
    // By then the second has had its start, and neither has ended.
    let (from, until) = ((time / 2).as_secs_f64(), time.as_secs_f64() * 0.95);
    let bits = |run: &TransferRun| run.bytes_between(from, until) * 8.0;
    let (one, other) = (bits(&runs[0]), bits(&runs[1]));
    Ok(Sharing {
        first: first.controller(),
        second: second.controller(),
        first_share: one / (one + other),
        link_share: (one + other) / (until - from) / way.rate.0 as f64,
    })
}

fn figure(plan: &TransferPlan, system: System, run: &TransferRun) -> TransferFigure {
    let figure = failed(plan, system, String::new());
    let goodput_bps = run.bytes as f64 * 8.0 / run.took.as_secs_f64();
    TransferFigure {
        goodput_bps,
        link_share: figure.rate_bps.map(|rate| goodput_bps / rate as f64),
        cpu_s_per_gb: run.processor_s / (run.bytes as f64 / 1e9),
        full_rate_after_s: figure.rate_bps.and_then(|rate| run.reached(rate as f64 / 8.0 * FULL_SHARE)),
        failed: None,
        ..figure
    }
}

fn failed(plan: &TransferPlan, system: System, reason: String) -> TransferFigure {
    TransferFigure {
        system: system.name(),
        carrier: system.carrier(),
        controller: system.controller(),
        is_known: matches!(system, System::QuicKnown(_)),
        rate_bps: plan.path.as_ref().map(|way| way.rate.0),
        rtt_ms: plan.path.as_ref().map(|way| way.round_trip.as_secs_f64() * 1e3),
        loss: plan.path.as_ref().map(|way| way.loss.0),
        flows: plan.flows,
        goodput_bps: 0.0,
        link_share: None,
        cpu_s_per_gb: 0.0,
        full_rate_after_s: None,
        failed: Some(reason),
    }
}

/// The median figure, by goodput.
fn median(mut figures: Vec<TransferFigure>) -> Option<TransferFigure> {
    figures.sort_by(|one, other| one.goodput_bps.total_cmp(&other.goodput_bps));
    let middle = figures.len() / 2;
    (middle < figures.len()).then(|| figures.swap_remove(middle))
}

impl EmulatedPath {
    /// The plan of its emulation; `turn` changes the random draws.
    fn plan(&self, turn: u64) -> Result<TestbedPlan, TestbedError> {
        let rules = PathRules { loss: self.loss, ..PathRules::new(self.rate, self.round_trip) };
        TestbedPlan::new(2, 0, &rules, self.seed.wrapping_add(turn))
    }
}

/// What counts as the full rate: headers alone take a twentieth.
const FULL_SHARE: f64 = 0.9;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use testbed::Share;

    use super::*;

    fn plan(way: Option<EmulatedPath>, systems: &[System], flows: u32, bytes: u64) -> TransferPlan {
        TransferPlan { path: way, systems: systems.to_vec(), flows, bytes, rounds: 1 }
    }

    #[test]
    fn every_system_of_ours_carries_all_bytes_over_the_loopback() {
        let systems = [
            System::Tcp,
            System::Quic(ControllerKind::Udt),
            System::QuicKnown(ControllerKind::Udt),
            System::Quic(ControllerKind::Bbr),
            System::Quic(ControllerKind::Cubic),
            System::PlainQuic,
        ];
        for flows in [1, 3] {
            let plan = plan(None, &systems, flows, 3_000_000);
            let figures = compare(&plan, &mut |_| {}).unwrap();
            assert_eq!(figures.len(), systems.len());
            for figure in figures {
                assert!(figure.goodput_bps > 0.0 && figure.link_share.is_none(), "{figure:?}");
            }
        }
    }

    /// The figures of an emulated path; `None` where making one is not permitted.
    fn compared(way: EmulatedPath, systems: &[System], bytes: u64) -> Option<Vec<TransferFigure>> {
        match compare(&plan(Some(way), systems, 1, bytes), &mut |_| {}) {
            Err(TransferError::Testbed(TestbedError::NotPermitted { .. } | TestbedError::NoTun(_))) => {
                eprintln!("SKIPPED: an emulated way needs root and TUN devices");
                None
            }
            figures => Some(figures.unwrap()),
        }
    }

    #[test]
    fn many_lost_packets_at_a_high_rate_leave_many_gaps_and_do_not_end_the_connection() {
        let loss = Share(0.015);
        let way =
            EmulatedPath { rate: "400mbit".parse().unwrap(), round_trip: Duration::from_millis(100), loss, seed: 3 };
        let Some(figures) = compared(way, &[System::QuicKnown(ControllerKind::Udt)], 100_000_000) else { return };
        assert_eq!(figures[0].failed, None, "{figures:?}");
    }

    #[test]
    fn under_random_loss_our_controller_carries_a_multiple_of_what_cubic_does() {
        let loss = Share(0.005);
        let way =
            EmulatedPath { rate: "50mbit".parse().unwrap(), round_trip: Duration::from_millis(60), loss, seed: 7 };
        let systems = [System::Quic(ControllerKind::Udt), System::Quic(ControllerKind::Cubic)];
        let Some(figures) = compared(way, &systems, 15_000_000) else { return };
        let times = figures[0].goodput_bps / figures[1].goodput_bps;
        assert!(times >= 2.0, "{figures:?}");
    }
}
