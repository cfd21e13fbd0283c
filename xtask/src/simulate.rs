//! The simulation: many seeds, each a whole cloud in one process. A failing seed is printed with the line that repeats
//! it.

use crate::shell;

/// `cargo xtask sim --seeds N [--from SEED]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut command = vec!["run", "--release", "--quiet", "--package", "sector-sim", "--"];
    command.extend(arguments.iter().map(String::as_str));
    shell::cargo(&command)
}
