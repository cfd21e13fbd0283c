//! A bare SPE process for the tests of this crate. A test program has threads before its first line runs, but an SPE
//! must be confined before it has any. It is never installed: users get `sector spe`, which makes the same call.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::spe::child::run(functions::find)
}
