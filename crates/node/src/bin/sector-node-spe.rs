//! A bare SPE process with the built-in functions, for the tests of this crate. It is never installed: users get `sector
//! spe`, which makes the same call.

use std::process::ExitCode;

fn main() -> ExitCode {
    spe::child::run(functions::find)
}
