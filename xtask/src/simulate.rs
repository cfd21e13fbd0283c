//! The simulation: many seeds, each a whole cloud in one process. A failing seed is printed with the command that
//! repeats it. This file never simulates anything itself: it runs `sector-sim`.

use std::process::Command;

use crate::{shell, test};

/// `cargo xtask sim --seeds N [--from SEED]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut command = vec!["run", "--release", "--quiet", "--package", "sector-sim", "--"];
    command.extend(arguments.iter().map(String::as_str));
    shell::cargo(&command)
}

/// The same with the program that was built before.
pub(crate) fn run_built(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(test::target().join("release/sector-sim"));
    command.args(arguments);
    shell::run(command)
}
