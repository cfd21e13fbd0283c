//! The project's own chores, run as `cargo xtask WHAT`. `test` is all that must pass before a change lands. It is
//! never part of what users install.

mod cgroups;
mod chaos;
mod circles;
mod crate_dependencies;
mod fuzz;
mod links;
mod package;
mod promises;
mod prose;
mod python;
mod shell;
mod simulate;
mod test;
mod tidy;
mod vocabulary;
mod web;

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (what, rest) = match arguments.split_first() {
        Some((what, rest)) => (what.as_str(), rest),
        None => ("help", &[][..]),
    };
    let result = match what {
        "test" => test::run(rest),
        "tidy" => tidy::run(),
        "arrows" => crate_dependencies::run(),
        "circles" => circles::report(rest),
        "sim" => simulate::run(rest),
        "cgroups" => cgroups::run(rest),
        "chaos" => chaos::run(rest),
        "fuzz" => fuzz::run(rest),
        "nightly" => chaos::nightly(rest),
        "fmt" => shell::cargo(&["fmt", "--all"]),
        "clippy" => test::clippy(),
        "reference" => test::write_references(),
        "package" => package::run(),
        "bench" => test::bench(rest),
        "compare" => test::bench(&[&["compare".to_owned()], rest].concat()),
        _ => Err(HELP.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

const HELP: &str = "use one of:
  cargo xtask test [STEP…]    all tests, as they run before a change lands; or only the steps named
  cargo xtask sim --seeds N [--from SEED]   the simulation
  cargo xtask chaos --minutes M --seed S    real processes with faults at random, against a ledger (root, faketime)
  cargo xtask chaos jobs [--megabytes N] [--texts FOLDER] [--seed S]   a sort and an index, in the same way
  cargo xtask fuzz [--minutes N] [TARGET…]  every parser under libFuzzer, 10 minutes each; or only those named
  cargo xtask nightly [--from SEED]         2,000 seeds of the simulation, then ten minutes of chaos
  cargo xtask cgroups [--kernel FILE]       control groups of SPEs on a true kernel, in QEMU
  cargo xtask tidy            rules of the house that no compiler checks
  cargo xtask arrows          which crate may use which
  cargo xtask circles [CRATE…]   modules that depend on each other, and how many entries each crate has at its root
  cargo xtask clippy | fmt    lints | format
  cargo xtask reference       write the generated pages of docs/ anew
  cargo xtask package         the Debian package and the wheel, in target/package and target/wheels
  cargo xtask bench [WHAT]    side-by-side measurements (docs/performance.md); `memory [FILES]`: what names cost
  cargo xtask compare terasort|malstone|storage|messages|transfer [--only PEER,…] [--megabytes N] [--rounds N]
                              ours beside other systems, which it installs below target/compare";
