//! Chaos: real processes with faults at random, against a ledger (`tests/chaos/`). A failing run prints the command
//! that repeats it, and says itself what it needs (root, libfaketime). This file never injects a fault itself.

use std::process::Command;

use crate::{shell, simulate, test};

/// `cargo xtask chaos [--minutes M | --seconds S] [--seed S]`, `cargo xtask chaos jobs …`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    test::build_release()?;
    shell::cargo(&["build", "--quiet", "--locked", "--package", "sector-tests", "--bin", "chaos"])?;
    let mut command = Command::new(test::target().join("debug/chaos"));
    command.args(arguments).env("SECTOR", test::binary());
    shell::run(command)
}

/// `cargo xtask nightly [--from SEED]`: what takes too long for every change. The seed of the day makes every night
/// different.
pub(crate) fn nightly(arguments: &[String]) -> Result<(), String> {
    let from = match arguments {
        [] => "0",
        [name, seed] if name == "--from" && seed.parse::<u64>().is_ok() => seed,
        _ => return Err("`nightly` takes `--from SEED` and nothing else".into()),
    };
    simulate::run(&["--seeds".into(), SEEDS.into(), "--from".into(), from.into()])?;
    run(&["--minutes".into(), MINUTES.into(), "--seed".into(), from.into()])
}

/// Seeds of a night's simulation: some minutes.
const SEEDS: &str = "2000";
/// Minutes of a night's chaos.
const MINUTES: &str = "10";
