//! Chaos tests: a cloud of real processes with random faults, while files are written, read, renamed, removed and
//! restored. At the end everything is healed, and every byte is compared with a ledger of what each path may hold.
//! Run it with `cargo xtask chaos --minutes M --seed S`. `chaos jobs` runs a sort and an index under the same faults,
//! and compares them with the results of plain programs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod client;
mod clock;
mod cut;
mod disk;
mod enclosure;
mod fault;
mod fault_plan;
mod jobs;
mod ledger;
mod rollback;
mod trash;
mod verify;

use std::{
    env, fs,
    io::Write,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use client::Clients;
use cluster::{Cloud, Ended, Roles, ended, workspace};
use fastrand::Rng;
use fault_plan::FaultPlan;
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
            if !enclosure::is_inside() {
                return match enclosure::enter(&arguments) {
                    Ok(code) => ExitCode::from(code),
                    Err(message) => {
                        eprintln!("{message}");
                        ExitCode::from(UNAVAILABLE)
                    }
                };
            }
            (run(Duration::from_secs(seconds), seed), format!("--seconds {seconds} --seed {seed}"))
        }
    };
    for message in &wrong {
        println!("WRONG: {message}");
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

fn jobs_plan(arguments: &[String]) -> Result<jobs::JobsPlan, std::num::ParseIntError> {
    let texts = arguments.iter().position(|argument| argument == "--texts").and_then(|at| arguments.get(at + 1));
    Ok(jobs::JobsPlan {
        megabytes: number(arguments, "--megabytes", 1_000)?,
        texts: texts.map_or("/usr", String::as_str).into(),
        text_megabytes: number(arguments, "--text-megabytes", 200)?,
        seed: number(arguments, "--seed", 1)?,
    })
}

/// Runs it; returns a sentence for each error at the end. The faults are kills, stops, flipped bits, full disks, clocks
/// that jump, links cut in one direction, and a master whose journal is rolled back.
///
/// The seed decides what is tried, and in which order. The machine decides how far each thing comes. So a seed repeats
/// a run's plan, not every interleaving.
fn run(span: Duration, seed: u64) -> Vec<String> {
    println!("chaos: {} s with seed {seed}", span.as_secs());
    let mut rng = Rng::with_seed(seed);
    let plan = rng.fork();
    let mut troubles = None;
    let cloud = Roles::start_alone(NODES, 2, |cloud| {
        // The disks are in memory, and the ledger counts what was removed, not what was replaced.
        cloud.change("master", "versions_seconds", "0");
        troubles = Some(FaultPlan::mount(plan, cloud));
    });
    let (Some(mut cloud), Some(mut troubles)) = (cloud, troubles) else {
        return vec!["no networks could be made".into()];
    };
    let (mut ledger, mut clients) = (Ledger::default(), Clients::default());
    for folder in client::folders() {
        cloud.ok(&["mkdir", "-p", folder]);
    }
    clients.record(&cloud.folder().join(RECORD));
    // A lifetime ends early, too, if a clock that jumped is believed.
    cloud.ok(&["policy", "set", "/deep", "lifetime=5d"]);
    let begun = Instant::now();
    while begun.elapsed() < span && ledger.wrong.is_empty() {
        while clients.may_begin() {
            clients.begin(&mut rng, &cloud, &mut ledger);
        }
        if begun.elapsed() + ROLL_BACK_TAKES > span {
            troubles.end_soon();
        }
        troubles.step(&mut cloud, &mut ledger);
        clients.wait(FAULT_PAUSE_MAX.min(span), &mut ledger);
    }
    println!("{:.0} s: all is healed", begun.elapsed().as_secs_f64());
    troubles.heal(&mut cloud, &mut ledger);
    while (clients.at_work() > 0 || troubles.is_unsettled()) && ledger.wrong.is_empty() {
        clients.wait(Duration::from_millis(200), &mut ledger);
        troubles.recover(&mut cloud, &mut ledger);
    }
    println!("{}", clients.summary());
    println!("refused:\n{}", clients.messages());
    println!("{}", troubles.summary());
    if ledger.wrong.is_empty() {
        cloud.until_up(NODES as usize);
        verify::all(&mut ledger, &cloud, &troubles.faults);
    }
    let mut wrong = std::mem::take(&mut ledger.wrong);
    if !troubles.all_kinds_fired(span) {
        wrong.push("a kind of fault never fired: the run proves too little; give it longer".into());
    }
    let (paths, seconds) = (ledger.paths().len(), begun.elapsed().as_secs_f64());
    println!("{} answered changes, {paths} paths verified in {seconds:.0} s", ledger.answered);
    if !wrong.is_empty() {
        keep_logs(&cloud, seed);
    }
    wrong
}

/// A command of the harness itself, which does not wait for long; `None`: there was no answer.
fn ask(cloud: &Cloud, words: &[&str]) -> Option<Ended> {
    let command = cloud.command(words);
    let mut patient = Command::new("timeout");
    patient.arg(ANSWER_MAX_SECONDS).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => patient.env(name, value),
            None => patient.env_remove(name),
        };
    }
    let ended = ended(patient.current_dir(cloud.folder()).stdin(Stdio::null()).output().ok()?);
    (ended.code != TIMED_OUT).then_some(ended)
}

/// Records what happens, between what the commands did.
fn record(cloud: &Cloud, what: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    if let Ok(mut file) = fs::File::options().append(true).create(true).open(cloud.folder().join(RECORD)) {
        let _ = writeln!(file, "{now:.3} {what}");
    }
}

/// Keeps the logs of the roles, and the master's folder, for finding the cause.
fn keep_logs(cloud: &Roles, seed: u64) {
    let kept = workspace().join(format!("target/chaos/seed-{seed}"));
    let _ = fs::remove_dir_all(&kept);
    let _ = fs::create_dir_all(&kept);
    for role in cloud.names() {
        let _ = fs::copy(cloud.log_file(&role), kept.join(format!("{role}.log")));
    }
    let _ = fs::copy(cloud.folder().join(RECORD), kept.join(RECORD));
    println!("what the roles said is in {}", kept.display());
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
/// Longest time between two checks whether a fault is due.
const FAULT_PAUSE_MAX: Duration = Duration::from_millis(200);
/// No roll-back begins later than this before the end.
const ROLL_BACK_TAKES: Duration = Duration::from_secs(20);
/// The file that records what was done.
const RECORD: &str = "commands.log";
/// How long the harness waits for an answer to its own commands.
const ANSWER_MAX_SECONDS: &str = "8";
/// The exit code of `timeout` then.
const TIMED_OUT: i32 = 124;
/// The length of a run if none is given.
const SECONDS_DEFAULT: u64 = 60;
/// As in `sysexits.h`.
const WRONG_USE: u8 = 64;
/// As in `sysexits.h`.
const UNAVAILABLE: u8 = 69;
