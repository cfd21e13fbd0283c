//! Finds out by trial which parts of the sandbox this machine offers. An SPE is started, locks itself in, reports what
//! was missing, and is ended. Serves the path *job*: a node reports at its start what it lacks. It never runs user
//! code.

use std::{path::Path, sync::Arc};

use protocol::sandbox::SandboxLayer;

use super::{
    runtime_kind::RuntimeKind,
    sandbox_pool::Sandbox,
    spe_process::{SpeProcess, SpeProgram},
};

/// Starts an SPE in a new folder in `parent`, and returns the layers that it found missing. Must be called within a
/// Tokio runtime.
///
/// # Errors
/// A sentence if no SPE can be started or confined here at all; functions are then refused for the same reason.
pub async fn probe(program: &SpeProgram, sandbox: &Arc<Sandbox>, parent: &Path) -> Result<Vec<SandboxLayer>, String> {
    let place = sandbox.allocate(parent).map_err(|error| error.to_string())?;
    let mut process = SpeProcess::start(program, place, RuntimeKind::Library).map_err(|error| error.to_string())?;
    match process.await_confinement().await {
        Ok(missing) => Ok(missing.to_vec()),
        // It is confined, but less than required: that is an answer.
        Err(_) if sandbox.missing().is_some() => Ok(sandbox.missing().unwrap_or_default().to_vec()),
        Err(refusal) => Err(refusal.message),
    }
}
