//! `sector`: the one binary. It reads the command line, calls one library (the client for people, a role for servers)
//! and prints the result. It never holds logic of storage or of jobs.

// Only `show::line` and `show::say` print: they handle output that cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod backup;
mod cloud;
mod command;
mod demo;
mod failure;
mod show;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use daemon::telemetry::{self, LevelFilter};

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return show::usage(&error),
    };
    // An SPE runs user code, so its process sets up only what it needs.
    if matches!(arguments.command, Command::Spe) {
        return spe::child::run(functions::find);
    }
    show::install_panic_hook();
    let usual = if arguments.command.is_server() { LevelFilter::INFO } else { LevelFilter::WARN };
    if let Err(error) = telemetry::start(usual, arguments.global.verbose, arguments.global.quiet) {
        return failure::Failure::from(error).report();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure::Failure::failed(format!("cannot start: {error}")).report(),
    };
    // As a task: its worker waits for the network itself, where the main thread would have to be woken for each read.
    let result = runtime.block_on(async { tokio::spawn(command::run(arguments)).await });
    // A thread that still reads a terminal or a dead disk must not keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        // The panic has been reported where it happened.
        Err(_) => ExitCode::FAILURE,
    }
}
