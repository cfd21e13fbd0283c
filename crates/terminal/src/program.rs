//! How a program begins and ends: log, runtime, panics, signals and the exit code. It never parses a command line.

use std::{process::ExitCode, time::Duration};

use daemon::telemetry;
pub use daemon::telemetry::LevelFilter;

use crate::{Failure, Global, show};

/// A signal that asked a command to stop: the terminal's Ctrl-C, or SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Interruption {
    exit_code: u8,
}

impl Interruption {
    /// How a command ends that stopped for it.
    pub fn failure(self, sentence: impl Into<String>) -> Failure {
        self.ends(Failure::failed(sentence))
    }

    /// The same for a command that has its own words for it.
    pub fn ends(self, failure: Failure) -> Failure {
        failure.ended_by(self.exit_code)
    }
}

/// Runs a command to its end and returns the program's exit code. Without `--verbose`, the log begins at `level`.
pub fn run<F>(global: &Global, level: LevelFilter, command: F) -> ExitCode
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    run_with_stack(global, level, STACK_BYTES, command)
}

/// The same, on threads with so much room for calls within calls.
pub fn run_with_stack<F>(global: &Global, level: LevelFilter, stack_bytes: usize, command: F) -> ExitCode
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    show::install_panic_hook();
    // Kept to the end: what traces are left then goes out.
    let _telemetry = match telemetry::start(level, global.verbose, global.quiet) {
        Ok(telemetry) => telemetry,
        Err(error) => return Failure::from(error).report(global.json),
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = match builder.enable_all().thread_stack_size(stack_bytes).build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::failed(format!("cannot start: {error}")).report(global.json),
    };
    // As a task: its worker waits for the network itself, where the main thread would have to be woken for each read.
    let result = runtime.block_on(async { tokio::spawn(command).await });
    // A thread that still reads a terminal or a dead disk must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(200));
    match result {
        Ok(Ok(())) => {
            if global.json && !show::has_output() {
                show::document(&serde_json::json!({ "done": true }));
            }
            ExitCode::SUCCESS
        }
        Ok(Err(failure)) => failure.report(global.json),
        // The panic has been reported where it happened.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends at Ctrl-C or SIGTERM.
pub async fn interrupted() -> Interruption {
    match daemon::shutdown::on_signal().await {
        Ok("SIGTERM") => Interruption { exit_code: TERMINATE_CODE },
        Ok(_) => Interruption { exit_code: INTERRUPT_CODE },
        Err(error) => {
            // Then the system's default handling of signals remains.
            tracing::warn!(%error, "cannot listen for Ctrl-C");
            std::future::pending().await
        }
    }
}

/// What a shell expects of a command after SIGINT, so that its loops end too.
pub(crate) const INTERRUPT_CODE: u8 = 128 + 2;
/// The same after SIGTERM.
const TERMINATE_CODE: u8 = 128 + 15;

/// The stack of a thread, as it is anyway.
const STACK_BYTES: usize = 2 << 20;
