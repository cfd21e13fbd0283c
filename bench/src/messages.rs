//! `messages`: what `sector oct bench messages` measures, in a program that is built in a tenth of the time. The figures of
//! `docs/performance.md` come from here.

use std::{process::Command, time::Duration};

use measure::messages::{MessagesPlan, answer, compare};

use crate::{Messages, figures};

/// Measures, or is one end of a measurement.
pub(crate) fn messages(messages: &Messages, rounds: usize) -> Result<(), String> {
    let threads = messages.threads;
    if let Some(system) = &messages.answer {
        return answer(system, threads).map_err(|error| error.to_string());
    }
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let end = |system: &'static str| {
        let mut command = Command::new(&program);
        command.args(["messages", "--threads", &threads.to_string(), "--answer", system]);
        command
    };
    println!("{}", figures::machine());
    let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
    let plan = MessagesPlan { rounds, turn: TURN, threads, far: messages.far };
    let comparison = compare(plan, end).map_err(|error| error.to_string())?;
    for figure in &comparison.figures {
        let beside = comparison.figures.iter().find(|row| row.system == "gmp" && row.in_flight == figure.in_flight);
        let ratio = beside.map_or(f64::NAN, |gmp| gmp.messages_per_s / figure.messages_per_s);
        println!(
            "  {:14} {:3} in flight  {:9.0} messages/s   {:8.1} us median  {:9.1} us of 99 %   gmp has {ratio:.2} times as many",
            figure.system, figure.in_flight, figure.messages_per_s, figure.p50_us, figure.p99_us
        );
    }
    comparison.left_out.iter().for_each(|why| println!("  {why}"));
    Ok(())
}

/// How long each turn is measured.
const TURN: Duration = Duration::from_millis(500);
