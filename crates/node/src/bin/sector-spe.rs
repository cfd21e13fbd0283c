//! An SPE process and nothing else, for the tests of this crate: a test program has threads before its first line, and
//! an SPE must be confined before it has any. What is installed is `sector spe`, which is the same call.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::spe::child::run()
}
