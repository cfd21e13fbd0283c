//! `sector oct bench transfer`: how fast bulk bytes travel over a path, compared with other ways to send them (crate
//! `measure`). Both ends are threads of this process, and an emulated path is removed with the command. It never
//! talks to a cloud.

use std::time::Duration;

use client::CarrierChoice;
use measure::transfer::{
    ControllerKind, EmulatedPath, Sharing, System, TransferError, TransferFigure, TransferPlan, compare, has_iperf,
    share,
};
use terminal::{Failure, Global, show};

use crate::arguments::BenchTransfer;

/// `sector oct bench transfer`.
pub(crate) async fn transfer(bench: BenchTransfer, global: &Global) -> Result<(), Failure> {
    let way = bench.rate.map(|rate| EmulatedPath { rate, round_trip: *bench.rtt, loss: bench.loss, seed: bench.seed });
    let global = global.clone();
    // It has runtimes of its own, which must not block this one's threads.
    let measuring = tokio::task::spawn_blocking(move || match (&way, bench.sharing) {
        (Some(way), Some(time)) => sharing(way, *time, &global),
        _ => comparing(&bench, way, &global),
    });
    tokio::select! {
        measured = measuring => measured.map_err(|error| Failure::failed(format!("the measurement ended: {error}")))?,
        signal = terminal::interrupted() => Err(signal.failure("interrupted")),
    }
}

fn comparing(bench: &BenchTransfer, way: Option<EmulatedPath>, global: &Global) -> Result<(), Failure> {
    let systems = systems(global, way.is_some());
    if systems.is_empty() {
        return Err(Failure::usage(
            "TCP's controllers are the kernel's: leave --controller out, or take --carrier quic",
        ));
    }
    let plan =
        TransferPlan { path: way, systems, flows: bench.flows, bytes: bench.bytes.as_u64(), rounds: bench.rounds };
    // A turn may take a minute: this shows the user that it goes on.
    let mut tell = |figure: &TransferFigure| {
        if !global.json && !global.quiet {
            let result = figure.failed.clone().unwrap_or_else(|| mbit(figure.goodput_bps));
            terminal::say!("{} {} {}: {result}", figure.system, figure.carrier, figure.controller);
        }
    };
    let figures = compare(&plan, &mut tell).map_err(failed)?;
    if global.json {
        show::json(&figures)?;
        return ours_went_through(&figures);
    }
    let rows: Vec<_> = figures.iter().map(row).collect();
    show::table(
        &["system", "carrier", "controller", " goodput", " of the way", " CPU s/GB", " full rate after"],
        &rows,
    );
    ours_went_through(&figures)
}

/// What another system cannot do is a result; what ours cannot do is a failure.
fn ours_went_through(figures: &[TransferFigure]) -> Result<(), Failure> {
    let ours = figures.iter().filter(|figure| figure.system == "sector");
    match ours.filter_map(|figure| figure.failed.as_ref().map(|why| (figure, why))).next() {
        Some((figure, why)) => {
            Err(Failure::failed(format!("{} ({}) failed: {why}", figure.carrier, figure.controller)))
        }
        None => Ok(()),
    }
}

fn sharing(way: &EmulatedPath, time: Duration, global: &Global) -> Result<(), Failure> {
    let own = System::Quic(ControllerKind::default());
    let mut pairs = vec![(own, own), (own, System::Quic(ControllerKind::Cubic))];
    if has_iperf() {
        pairs.extend([(own, System::Iperf("cubic")), (System::Iperf("cubic"), own), (own, System::Iperf("bbr"))]);
    }
    let shared: Result<Vec<Sharing>, _> = pairs.into_iter().map(|(one, other)| share(way, one, other, time)).collect();
    let shared = shared.map_err(failed)?;
    if global.json {
        return show::json(&shared);
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let row = |sharing: &Sharing| {
        let (first, second) = (sharing.first.to_owned(), sharing.second.to_owned());
        vec![first, second, percent(sharing.first_share), percent(sharing.link_share)]
    };
    show::table(&["first", "second", " first has", " both, of the way"], &shared.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// The systems to measure: all, or only those that `--carrier` and `--controller` name.
fn systems(global: &Global, is_far: bool) -> Vec<System> {
    let mut systems = Vec::new();
    let wants = |carrier, controller| {
        global.carrier.is_none_or(|wanted| wanted == CarrierChoice::Auto || wanted == carrier)
            && global.controller.is_none_or(|wanted| Some(wanted) == controller)
    };
    for kind in ControllerKind::ALL {
        if wants(CarrierChoice::Quic, Some(kind)) {
            systems.push(System::Quic(kind));
        }
    }
    if is_far && wants(CarrierChoice::Quic, Some(ControllerKind::Udt)) {
        systems.push(System::QuicKnown(ControllerKind::Udt));
    }
    if wants(CarrierChoice::Quic, Some(ControllerKind::Bbr)) {
        systems.push(System::PlainQuic);
    }
    if wants(CarrierChoice::Tcp, None) {
        systems.push(System::Tcp);
    }
    if has_iperf() {
        for (name, controller) in [("cubic", ControllerKind::Cubic), ("bbr", ControllerKind::Bbr)] {
            if wants(CarrierChoice::Tcp, Some(controller)) {
                systems.push(System::Iperf(name));
            }
        }
    } else {
        tracing::warn!("iperf3 is not on this machine: the kernel's TCP is left out");
    }
    systems
}

fn row(figure: &TransferFigure) -> Vec<String> {
    let controller =
        if figure.is_known { format!("{}, known peer", figure.controller) } else { figure.controller.into() };
    let start = vec![figure.system.to_owned(), figure.carrier.to_owned(), controller];
    if figure.failed.is_some() {
        return [start, vec!["failed".into(), String::new(), String::new(), String::new()]].concat();
    }
    let figures = vec![
        mbit(figure.goodput_bps),
        figure.link_share.map_or(String::new(), |share| format!("{:.1} %", share * 100.0)),
        format!("{:.2}", figure.cpu_s_per_gb),
        figure.full_rate_after_s.map_or(String::new(), |after| format!("{after:.2} s")),
    ];
    [start, figures].concat()
}

fn mbit(bits_per_second: f64) -> String {
    format!("{:.1} Mbit/s", bits_per_second / 1e6)
}

fn failed(error: TransferError) -> Failure {
    Failure::failed(error.to_string())
}
