//! What the commands do. They never touch a slice but through `tables` and `engine`.

mod room;
mod sql;
mod table;
mod xmatch;

use std::process::ExitCode;

use clap::Parser;
use terminal::{Failure, LevelFilter, session, show};

use crate::{
    arguments::{Arguments, Command},
    engine::STACK_BYTES,
};

/// The program.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return show::usage(&error),
    };
    terminal::run_with_stack(&arguments.global.clone(), LevelFilter::WARN, STACK_BYTES, run(arguments))
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { global, command } = arguments;
    let cloud = session::connect(&global).await?;
    let result = match command {
        Command::Sql(arguments) => Box::pin(sql::run(&cloud, &arguments, &global)).await,
        Command::Xmatch(arguments) => Box::pin(xmatch::run(&cloud, &arguments, &global)).await,
        Command::Tap(arguments) => Box::pin(crate::tap::run(&cloud, &arguments, &global)).await,
        Command::Worker(arguments) => Box::pin(crate::workers::run(&cloud, &arguments, &global)).await,
        Command::Table(command) => Box::pin(table::run(&cloud, command, &global)).await,
    };
    session::close(&cloud).await;
    result
}
