//! `sector oct`: terasort, MalStone, measurements, and sites with wide-area links on one machine, as in the paper of the Open
//! Cloud Testbed. It is a program of its own, so that `sector` carries none of it. It is a client like any other and
//! never links a role; the cloud over a testbed is started by `sector` itself.

// Only `terminal::show` and `terminal::say!` print: they handle output that cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod bench;
mod malstone;
mod terasort;
mod testbed;

use std::process::ExitCode;

use clap::Parser;
use client::Client;
use terminal::{Failure, Global, LevelFilter, session, show};

use crate::arguments::{Arguments, Bench, Command};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return show::usage(&error),
    };
    let level = if arguments.command.is_server() { LevelFilter::INFO } else { LevelFilter::WARN };
    terminal::run(&arguments.global.clone(), level, run(arguments))
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { global, command } = arguments;
    let global = &global;
    match command {
        Command::Testbed(verb) => testbed::run(verb, global).await,
        Command::Bench(Bench::Io(bench)) => bench::disk::io(&bench, global),
        Command::Bench(Bench::Messages(bench)) => bench::messages::messages(bench, global).await,
        Command::Bench(Bench::Transfer(bench)) => bench::transfer::transfer(bench, global).await,
        other => with_client(other, global).await,
    }
}

/// The commands that log in. Each of them stops in order when it is interrupted, and then its session ends.
async fn with_client(command: Command, global: &Global) -> Result<(), Failure> {
    let cloud = session::connect(global).await?;
    let result = run_with(&cloud, command, global).await;
    session::close(&cloud).await;
    result
}

async fn run_with(cloud: &Client, command: Command, global: &Global) -> Result<(), Failure> {
    match command {
        Command::Terasort(terasort) => terasort::run(cloud, terasort, global).await,
        Command::Malgen(malgen) => malstone::generate(cloud, &malgen, global).await,
        Command::Malstone(variant) => malstone::run(cloud, variant, global).await,
        Command::Bench(Bench::Names(names)) => bench::names::names(cloud, &names, global).await,
        Command::Bench(Bench::Reads(reads)) => bench::reads::reads(cloud, &reads, global).await,
        Command::Bench(Bench::Io(_) | Bench::Messages(_) | Bench::Transfer(_)) | Command::Testbed(_) => {
            Err(Failure::failed("this command needs no login"))
        }
    }
}
