//! Chaos: a cloud of real processes that are killed, stopped and started at random, with bits turned over on their
//! disks, disks that fill, clocks that jump, links that are cut in one direction, and a master whose journal is taken
//! back, while files are written, read, renamed, removed and restored. A ledger knows what each path may hold; at the
//! end all is healed and every byte compared. `cargo xtask chaos --minutes M --seed S`.
//!
//! `chaos jobs`: a sort and an index under the same faults, compared with what plain programs make.
//!
//! The seed decides what is tried, in which order; how far each thing comes, the machine decides. So a seed repeats a
//! run's plan, not every interleaving.

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

/// Runs it; what is wrong at the end, a sentence each.
fn run(span: Duration, seed: u64) -> Vec<String> {
    println!("chaos: {} s with seed {seed}", span.as_secs());
    let mut rng = Rng::with_seed(seed);
    let plan = rng.fork();
    let mut troubles = None;
    let cloud = Roles::start_alone(NODES, 2, |cloud| troubles = Some(FaultPlan::mount(plan, cloud)));
    let (Some(mut cloud), Some(mut troubles)) = (cloud, troubles) else {
        return vec!["no networks could be made".into()];
    };
    let (mut ledger, mut clients) = (Ledger::default(), Clients::default());
    for folder in client::folders() {
        cloud.ok(&["mkdir", "-p", folder]);
    }
    clients.record(&cloud.folder().join(RECORD));
    // What ends by time ends early, too, where a clock that jumped is believed.
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

/// A question of the harness itself, which does not wait for long; `None`: there was no answer.
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

/// Writes down what happens, between what the commands did.
fn record(cloud: &Cloud, what: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    if let Ok(mut file) = fs::File::options().append(true).create(true).open(cloud.folder().join(RECORD)) {
        let _ = writeln!(file, "{now:.3} {what}");
    }
}

/// Keeps what the roles said, and the master's folder, for whoever looks for the cause.
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
/// How long nobody looks whether something is due.
const FAULT_PAUSE_MAX: Duration = Duration::from_millis(200);
/// As long before the end no roll-back begins any more.
const ROLL_BACK_TAKES: Duration = Duration::from_secs(20);
/// Where it is written down what was done.
const RECORD: &str = "commands.log";
/// How long the harness waits for an answer of its own.
const ANSWER_MAX_SECONDS: &str = "8";
/// What `timeout` says then.
const TIMED_OUT: i32 = 124;
/// How long it lasts where nobody says.
const SECONDS_DEFAULT: u64 = 60;
/// As `sysexits.h` has it.
const WRONG_USE: u8 = 64;
/// The same.
const UNAVAILABLE: u8 = 69;
