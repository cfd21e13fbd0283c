//! The command line of `sector oct`; `docs/command-line.md` is the contract. This module never runs a command.

mod bench_args;
mod malstone_args;
mod terasort_args;
mod testbed_args;

use clap::{Parser, Subcommand};
use terminal::Global;

pub(crate) use bench_args::{Bench, BenchIo, BenchMessages, BenchNames, BenchReads, BenchTransfer};
pub(crate) use malstone_args::{Malgen, Malstone, MalstoneRun};
pub(crate) use terasort_args::Terasort;
pub(crate) use testbed_args::{Testbed, TestbedRun, TestbedSet, TestbedUp};

/// Terasort, MalStone, measurements, and sites with wide-area links on one machine.
#[derive(Debug, Parser)]
#[command(name = "sector-oct", bin_name = "sector oct", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate, sort and validate 100-byte records with 10-byte keys
    #[command(subcommand, after_help = "Example: sector oct terasort gen --records 10000000 /gen")]
    Terasort(Terasort),
    /// Generate MalStone's records: entities that visit sites, some of which compromise them
    #[command(after_help = "Example: sector oct malgen --records 10M /log")]
    Malgen(Malgen),
    /// Which sites compromise their visitors, by generated or other records
    #[command(subcommand, after_help = "Example: sector oct malstone a /log /ratios")]
    Malstone(Malstone),
    /// Measure a disk, messages, or the running cloud
    #[command(subcommand, after_help = "Example: sector oct bench names --files 10000")]
    Bench(Bench),
    /// Sites and wide-area links on this machine, and a cloud over them
    #[command(subcommand, after_help = "Example: sector oct testbed up --sites 4 --rate 1gbit --rtt 60ms --detach")]
    Testbed(Testbed),
}

impl Command {
    /// Whether the command serves until it is stopped, with a log that people read later.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Testbed(Testbed::Up(_)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound_and_every_command_has_an_example_that_parses() {
        Arguments::command().debug_assert();
        let mut commands: Vec<_> = Arguments::command().get_subcommands().cloned().collect();
        let mut examples = 0;
        while let Some(command) = commands.pop() {
            let after = command.get_after_help().unwrap_or_else(|| panic!("{} has no example", command.get_name()));
            let text = after.to_string();
            let words = text.lines().next().unwrap().strip_prefix("Example: sector ").unwrap().split(' ');
            assert!(Arguments::try_parse_from(words).is_ok(), "the example of {} does not parse", command.get_name());
            examples += 1;
            commands.extend(command.get_subcommands().cloned());
        }
        assert!(examples > 10);
    }

    #[test]
    fn the_reference_is_that_of_the_parser() {
        let mut command = Arguments::command();
        command.build();
        let text = terminal::reference::page(
            "Terasort, MalStone, measurements and testbeds",
            &command,
            &["terasort", "malgen", "malstone", "bench", "testbed"],
        );
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/oct.md");
        let is_current = terminal::reference::is_current(&file, &text).unwrap();
        assert!(is_current, "docs/reference/oct.md is not that of the parser: cargo xtask reference");
    }
}
