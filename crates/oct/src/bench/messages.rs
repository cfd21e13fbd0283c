//! `sector oct bench messages`: how fast messages travel, compared with other ways to send them (crate `measure`). The
//! answering ends are processes of this same program, which end with the command. It never talks to a cloud.

use std::{num::NonZero, process::Command, thread::available_parallelism, time::Duration};

use measure::messages::{Comparison, MeasureError, MessageFigure, MessagesPlan, answer, compare};
use terminal::{Failure, Global, show};

use crate::arguments::BenchMessages;

/// `sector oct bench messages`.
pub(crate) async fn messages(bench: BenchMessages, global: &Global) -> Result<(), Failure> {
    // Both ends of a system share the machine.
    let half = available_parallelism().map_or(1, NonZero::get) / 2;
    let threads = bench.threads.map_or(half.max(1), usize::from);
    // It has runtimes of its own, which must not block this one's threads.
    let measuring = tokio::task::spawn_blocking(move || measure(&bench, threads));
    let comparison = tokio::select! {
        measured = measuring => measured.map_err(|error| Failure::failed(format!("the measurement ended: {error}")))??,
        signal = terminal::interrupted() => return Err(signal.failure("interrupted")),
    };
    let Some(comparison) = comparison else { return Ok(()) };
    for why in &comparison.left_out {
        tracing::warn!("{why}");
    }
    if global.json {
        return show::json(&comparison.figures);
    }
    let rows: Vec<_> = comparison.figures.iter().map(|figure| row(figure, &comparison.figures)).collect();
    show::table(&["system", " in flight", " per second", " median", " 99 %", " GMP has"], &rows);
    Ok(())
}

/// Measures, or acts as the answering end; then there is nothing to show.
fn measure(bench: &BenchMessages, threads: usize) -> Result<Option<Comparison>, Failure> {
    let failed = |error: MeasureError| Failure::failed(error.to_string());
    if let Some(system) = &bench.answer {
        return answer(system, threads).map(|()| None).map_err(failed);
    }
    let program =
        std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let end = |system: &'static str| {
        let mut command = Command::new(&program);
        command.args(["bench", "messages", "--threads", &threads.to_string(), "--answer", system]);
        command
    };
    let plan = MessagesPlan { rounds: bench.rounds, turn: TURN, threads, far: bench.far };
    compare(plan, end).map(Some).map_err(failed)
}

fn row(figure: &MessageFigure, all: &[MessageFigure]) -> Vec<String> {
    let gmp = all.iter().find(|other| other.system == "gmp" && other.in_flight == figure.in_flight);
    let times = gmp.map(|gmp| format!("{:.2} times as many", gmp.messages_per_s / figure.messages_per_s));
    vec![
        figure.system.to_owned(),
        figure.in_flight.to_string(),
        format!("{:.0}", figure.messages_per_s),
        format!("{:.1} us", figure.p50_us),
        format!("{:.1} us", figure.p99_us),
        times.unwrap_or_default(),
    ]
}

/// How long each turn of a system is measured.
const TURN: Duration = Duration::from_millis(500);
