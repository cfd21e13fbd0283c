//! `sector`: the one binary. It reads the command line, calls one library (the client for people, a role for servers)
//! and prints the result. It never holds logic of storage or of jobs.

// Only `terminal::show` and `terminal::say!` print: they handle output that cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod application;
mod arguments;
mod backup;
mod cloud;
mod command;
mod demo;

use std::process::ExitCode;

use clap::Parser;
use terminal::{LevelFilter, show};

use crate::arguments::{Arguments, Command, Global};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let words: Vec<_> = std::env::args_os().skip(1).collect();
            return match application::asked_help(&words) {
                Some(words) => application::become_program(&words, &Global::default()),
                None => {
                    let code = show::usage(&error);
                    if let Some(ours) = application::foreign_option(&words).filter(|_| error.use_stderr()) {
                        terminal::say!("sector: here that is `sector {ours}`");
                    }
                    code
                }
            };
        }
    };
    // An SPE runs user code, so its process sets up only what it needs.
    if matches!(arguments.command, Command::Spe) {
        return spe::child::run(functions::find);
    }
    if let Command::Application(words) = &arguments.command {
        return application::become_program(words, &arguments.global);
    }
    let level = match &arguments.command {
        command if command.is_server() => LevelFilter::INFO,
        command if command.has_screen() => LevelFilter::OFF,
        _ => LevelFilter::WARN,
    };
    terminal::run(&arguments.global.clone(), level, command::run(arguments))
}
