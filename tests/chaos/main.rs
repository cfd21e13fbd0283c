//! Chaos: a cloud of real processes that are killed, stopped and started at random, with bits turned over on their disks,
//! while files are written, read, renamed and removed. A ledger knows what each path may hold; at the end all is healed
//! and every byte compared. `cargo xtask chaos --minutes M --seed S`.
//!
//! `chaos jobs`: a sort and an index under the same faults, compared with what plain programs make.
//!
//! The seed decides what is tried, in which order; how far each thing comes, the machine decides. So a seed repeats a
//! run's plan, not every interleaving.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod client;
mod fault;
mod jobs;
mod ledger;

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

use client::Clients;
use cluster::Roles;
use fastrand::Rng;
use fault::Faults;
use ledger::Ledger;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (wrong, repeat) = match arguments.first().map(String::as_str) {
        Some("jobs") => {
            let Ok(plan) = jobs_plan(&arguments) else { return wrong_use() };
            let seed = plan.seed;
            (jobs::run(&plan), format!("jobs {} --seed {seed}", arguments[1..].join(" ")))
        }
        _ => {
            let (Ok(seconds), Ok(seed)) = (seconds(&arguments), number(&arguments, "--seed", 1)) else {
                return wrong_use();
            };
            (run(Duration::from_secs(seconds), seed), format!("--seconds {seconds} --seed {seed}"))
        }
    };
    for sentence in &wrong {
        println!("WRONG: {sentence}");
    }
    if wrong.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("repeat it with: cargo xtask chaos {repeat}");
    ExitCode::FAILURE
}

fn wrong_use() -> ExitCode {
    eprintln!(
        "usage: chaos [--minutes M | --seconds S] [--seed S]\n       \
         chaos jobs [--megabytes N] [--texts FOLDER] [--text-megabytes N] [--seed S]"
    );
    ExitCode::from(WRONG_USE)
}

fn jobs_plan(arguments: &[String]) -> Result<jobs::Plan, std::num::ParseIntError> {
    let texts = arguments.iter().position(|argument| argument == "--texts").and_then(|at| arguments.get(at + 1));
    Ok(jobs::Plan {
        megabytes: number(arguments, "--megabytes", 1_000)?,
        texts: texts.map_or("/usr", String::as_str).into(),
        text_megabytes: number(arguments, "--text-megabytes", 200)?,
        seed: number(arguments, "--seed", 1)?,
    })
}

/// Runs it; what is wrong at the end, a sentence each.
fn run(span: Duration, seed: u64) -> Vec<String> {
    println!("chaos: {} s with seed {seed}", span.as_secs());
    let mut rng = Rng::with_seed(seed);
    let mut cloud = Roles::start(NODES, 2);
    let (mut ledger, mut faults, mut clients) = (Ledger::default(), Faults::default(), Clients::default());
    for folder in client::folders() {
        cloud.ok(&["mkdir", "-p", folder]);
    }
    let begun = Instant::now();
    while begun.elapsed() < span && ledger.wrong.is_empty() {
        while clients.at_work() < CLIENTS {
            clients.begin(&mut rng, &cloud, &mut ledger);
        }
        if faults.is_due() {
            faults.fire(&mut rng, &mut cloud, &ledger);
            faults.put_off(Duration::from_millis(rng.u64(200..2_500)));
        }
        clients.wait(FAULT_PAUSE_MAX.min(span), &mut ledger);
        faults.recover(&mut cloud);
    }
    faults.heal(&mut cloud);
    while clients.at_work() > 0 {
        clients.wait(Duration::from_secs(1), &mut ledger);
    }
    println!("{}", clients.summary());
    println!("{}", faults.summary());
    cloud.until_up(NODES as usize);
    if let Err(why) = until_well(&cloud) {
        ledger.wrong.push(why);
    }
    ledger.verify(&cloud, &faults);
    let mut wrong = std::mem::take(&mut ledger.wrong);
    if span >= Duration::from_secs(30) && !faults.all_kinds_fired() {
        wrong.push("a kind of fault never fired: the run proves too little; give it longer".into());
    }
    println!("{} paths verified in {:.0} s", ledger.paths().len(), begun.elapsed().as_secs_f64());
    wrong
}

/// Waits until the cloud calls itself well.
fn until_well(cloud: &Roles) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let ended = cloud.run(&["health"]);
        if ended.code == 0 {
            return Ok(());
        }
        if begun.elapsed() > WELL_AFTER_MAX {
            return Err(format!("not well {WELL_AFTER_MAX:?} after the last fault: {}", ended.text().trim()));
        }
    }
}

fn seconds(arguments: &[String]) -> Result<u64, std::num::ParseIntError> {
    let sum = number(arguments, "--minutes", 0)? * 60 + number(arguments, "--seconds", 0)?;
    Ok(if sum == 0 { SECONDS_DEFAULT } else { sum })
}

fn number(arguments: &[String], name: &str, default: u64) -> Result<u64, std::num::ParseIntError> {
    match arguments.iter().position(|argument| argument == name) {
        Some(at) => arguments.get(at + 1).map_or("", String::as_str).parse(),
        None => Ok(default),
    }
}

/// Nodes of the cloud, in two sites.
const NODES: u32 = 4;
/// Commands at work at once.
const CLIENTS: usize = 3;
/// How long nobody looks whether something is due.
const FAULT_PAUSE_MAX: Duration = Duration::from_millis(200);
/// A lease (60 s), a lost copy (10 s) and a retry (60 s), twice.
const WELL_AFTER_MAX: Duration = Duration::from_secs(240);
/// How long it lasts where nobody says.
const SECONDS_DEFAULT: u64 = 60;
/// As `sysexits.h` has it.
const WRONG_USE: u8 = 64;
