//! `sector images`: an index of sky images, and cutouts of them, one or many (AstroPortal report). It is a program of
//! its own, so that `sector` carries nothing of FITS. What runs beside the images is in its library, which its jobs
//! bring along. It is a client like any other and never links a role.

// Only `terminal::show` and `terminal::say!` print: they handle output that cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod archive;
mod arguments;
mod batches;
mod bench;
mod client_cutter;
mod cloud_source;
mod cutout;
mod cutouts;
mod find;
mod index;
mod index_folder;
mod job_library;
mod load;
mod made_images;
mod nearest_images;
mod node_cutter;
mod portal;
mod table_rows;
mod tuple_file;

use std::process::ExitCode;

use clap::Parser;
use client::Client;
use terminal::{Failure, Global, LevelFilter, session, show};

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return show::usage(&error),
    };
    terminal::run(&arguments.global.clone(), LevelFilter::WARN, run(arguments))
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { global, command } = arguments;
    if let Command::Cutout(cutout) = &command
        && cutout.local
    {
        return cutout::local(cutout, &global).await;
    }
    let cloud = session::connect(&global).await?;
    let result = run_with(&cloud, command, &global).await;
    session::close(&cloud).await;
    result
}

async fn run_with(cloud: &Client, command: Command, global: &Global) -> Result<(), Failure> {
    match command {
        Command::Index(arguments) => index::run(cloud, &arguments, global).await,
        Command::Find(arguments) => find::run(cloud, &arguments, global).await,
        Command::Cutout(arguments) => cutout::run(cloud, &arguments, global).await,
        Command::Cutouts(arguments) => cutouts::run(cloud, &arguments, global).await,
        Command::Portal(arguments) => portal::run(cloud, &arguments, global).await,
        Command::Bench(arguments) => bench::run(cloud, &arguments, global).await,
        Command::Load(arguments) => load::run(cloud, &arguments, global).await,
    }
}
