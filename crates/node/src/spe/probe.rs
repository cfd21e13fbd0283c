//! Finds out by trial which parts of the sandbox this machine offers. An SPE is started, locks itself in, reports what
//! was missing, and is ended. Serves the path *job*: a node reports at its start what it lacks. It never runs user
//! code.

use std::{path::Path, sync::Arc};

use protocol::sandbox::SandboxLayer;

use super::{MemoryBound, RuntimeKind, Sandbox, SpeProcess, SpeProgram};
use crate::{blocking, node_context::NodeContext};

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

/// How a node uses the probe: the log says what is missing, and so does every later status report.
pub(crate) async fn check_sandbox(context: Arc<NodeContext>) {
    let store = Arc::clone(&context.store);
    let found = match blocking("finding a folder for an SPE", move || Ok(store.emptiest_jobs_folder()?)).await {
        Ok(folder) => probe(&context.spe, &context.sandbox, &folder).await,
        Err(error) => Err(error.to_string()),
    };
    match context.sandbox.memory_bound() {
        MemoryBound::Group => tracing::info!("the memory of each SPE is bounded by a control group"),
        MemoryBound::Process(why) => {
            let advice = MemoryBound::ADVICE;
            tracing::info!("the memory of SPEs is bounded process by process, since {why}; better: {advice}");
        }
    }
    match found {
        Ok(missing) if missing.is_empty() => tracing::info!("user functions run in the whole sandbox"),
        Ok(missing) => {
            for layer in missing {
                let advice = layer.advice();
                if context.sandbox.is_required() {
                    tracing::error!(%layer, "user functions are refused: the sandbox lacks a layer; {advice}");
                } else {
                    tracing::warn!(%layer, "user functions run with less than the whole sandbox; {advice}");
                }
            }
        }
        Err(error) => tracing::error!(%error, "user functions cannot run here"),
    }
}
