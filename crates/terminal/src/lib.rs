//! How every command meets its user: the options that all take, results, progress, and failures with exit codes. It
//! also has the session that a command logs in with. `sector` and the programs `sector-NAME` share it, so that a user
//! sees one program. It never links a role, and never knows what a command does.

// Only `show::line` and `say!` print: they handle output that cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod background;
mod exit_code;
pub mod failure;
mod job_progress;
mod meter;
mod options;
mod process;
mod program;
pub mod reference;
mod safe_text;
pub mod session;
pub mod show;
mod values;

pub use failure::{Failure, Failures};
pub use job_progress::drive;
pub use options::Global;
pub use process::Process;
pub use program::{Interruption, LevelFilter, interrupted, run, run_with_stack};
pub use safe_text::sanitize;
pub use values::{cloud_path, count_of, count_within};
