//! How a program begins and ends: log, runtime, panics, signals and the exit code. It never parses a command line.

use std::{process::ExitCode, time::Duration};

use daemon::telemetry;
pub use daemon::telemetry::LevelFilter;

use crate::{Failure, Global, show};

/// Runs a command to its end and returns the program's exit code. Without `--verbose`, the log begins at `level`.
pub fn run<F>(global: &Global, level: LevelFilter, command: F) -> ExitCode
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    show::install_panic_hook();
    if let Err(error) = telemetry::start(level, global.verbose, global.quiet) {
        return Failure::from(error).report();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::failed(format!("cannot start: {error}")).report(),
    };
    // As a task: its worker waits for the network itself, where the main thread would have to be woken for each read.
    let result = runtime.block_on(async { tokio::spawn(command).await });
    // A thread that still reads a terminal or a dead disk must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(200));
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        // The panic has been reported where it happened.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends at Ctrl-C or SIGTERM.
pub async fn interrupted() {
    if let Err(error) = daemon::shutdown::on_signal().await {
        // Then the system's default handling of signals remains.
        tracing::warn!(%error, "cannot listen for Ctrl-C");
        std::future::pending::<()>().await;
    }
}
