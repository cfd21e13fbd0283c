//! Runs every parser of untrusted input under libFuzzer, for some minutes each. It needs a nightly compiler, and
//! installs cargo-fuzz where it is missing. Findings stay in `fuzz/artifacts` and the corpus in `fuzz/corpus`. They
//! are never kept with the code: a finding becomes a test.

use std::{env, fs, process::Command};

use crate::shell;

/// `cargo xtask fuzz [--minutes N] [TARGET…]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let known = targets()?;
    let (mut minutes, mut wanted) = (MINUTES, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--minutes" {
            let number = rest.next().and_then(|number| number.parse::<u64>().ok()).filter(|number| *number > 0);
            minutes = number.ok_or("after `--minutes` comes a whole number from 1")?;
        } else if known.contains(argument) {
            wanted.push(argument.clone());
        } else {
            return Err(format!("there is no target `{argument}`; the targets are {}", known.join(", ")));
        }
    }
    if wanted.is_empty() {
        wanted = known;
    }
    let nightly = format!("+{}", env::var("FUZZ_TOOLCHAIN").unwrap_or_else(|_| "nightly".into()));
    if !shell::has("cargo", &[&nightly, "--version"]) {
        return Err("the fuzzer needs a nightly compiler: `rustup toolchain install nightly`".into());
    }
    if !shell::has("cargo", &["fuzz", "--version"]) {
        shell::cargo(&["install", "cargo-fuzz", "--locked", "--quiet"])?;
    }
    let mut seeds = Command::new("cargo");
    seeds.args(["test", "--quiet", "--package", "sector-fuzz", "begins_with_the_vectors"]).env("FUZZ_CORPUS", "corpus");
    shell::run(seeds)?;
    fuzz(&nightly, &["build"], &[])?;
    let time = format!("-max_total_time={}", 60 * minutes);
    let mut failed = Vec::new();
    for target in wanted {
        // The other targets still run.
        if let Err(message) =
            fuzz(&nightly, &["run", &target], &[&time, INPUT_MAX, INPUT_TIME_MAX, MEMORY_MAX, QUIET, FIGURES])
        {
            eprintln!("{message}");
            failed.push(target);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("the fuzzer found something in {}", failed.join(", "))) }
}

fn fuzz(nightly: &str, what: &[&str], options: &[&str]) -> Result<(), String> {
    let (verb, target) = what.split_at(1);
    let mut command = Command::new("cargo");
    command.arg(nightly).arg("fuzz").args(verb).args(["--features", "libfuzzer"]).args(target);
    // A finding's backtrace has names and lines, which what we ship has not.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "none").env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    // Otherwise cargo-fuzz would have a build of its own beside all others.
    if let Some(folder) = env::var_os("CARGO_TARGET_DIR") {
        command.arg("--target-dir").arg(folder);
    }
    if !options.is_empty() {
        command.arg("--").args(options);
    }
    shell::run(command)
}

/// The targets by name.
fn targets() -> Result<Vec<String>, String> {
    let folder = shell::root().join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stems = files.flatten().filter_map(|file| Some(file.path().file_stem()?.to_string_lossy().into_owned()));
    let mut names: Vec<_> = stems.collect();
    names.sort();
    Ok(names)
}

/// Minutes for each target where none are given.
const MINUTES: u64 = 10;
/// Bytes of an input: a dozen datagrams. Longer ones find nothing new and take the fuzzer's time.
const INPUT_MAX: &str = "-max_len=16384";
/// No input may take longer than this many seconds.
const INPUT_TIME_MAX: &str = "-timeout=20";
/// Nor use, with the fuzzer's own book-keeping, more than this many megabytes.
const MEMORY_MAX: &str = "-rss_limit_mb=2048";
/// No line for each new input,
const QUIET: &str = "-verbosity=0";
/// but how many there were, at the end.
const FIGURES: &str = "-print_final_stats=1";
