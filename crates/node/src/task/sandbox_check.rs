//! The sandbox of this node's SPEs: what the node's settings say of it, and whether the machine offers it. Serves the path
//! *job*: a node reports at its start what it lacks. It never runs user code.

use std::{sync::Arc, time::Duration};

use daemon::settings::{NodeSettings, SandboxDemand};
use spe::{MemoryBound, SandboxSettings, probe};

use crate::{blocking, node_context::NodeContext};

/// What the operator's settings say about SPEs.
pub(crate) fn sandbox_settings(settings: &NodeSettings) -> SandboxSettings {
    let time_limit = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
    SandboxSettings {
        node: settings.id.to_string(),
        slots: settings.spe_slots,
        is_required: settings.spe_sandbox == SandboxDemand::Required,
        users: settings.spe_users.range(),
        memory_bytes: settings.spe_memory_bytes,
        cgroup: settings.spe_cgroup.clone(),
        scratch_bytes: settings.spe_scratch_bytes,
        file_bytes: settings.spe_file_bytes,
        reserve_bytes: settings.reserve_bytes,
        threads_max: settings.spe_threads_max,
        open_files_max: settings.spe_open_files_max,
        fork: settings.spe_fork,
        python: settings.spe_python.clone(),
        read_paths: settings.spe_read_paths.clone().unwrap_or_default(),
        hidden_folders: settings.data_folders(),
        silence_max: time_limit(settings.spe_silence_seconds),
        task_max: time_limit(settings.spe_task_seconds),
    }
}

/// Tries the sandbox once. The log says what is missing, and so does every later status report.
pub(crate) async fn check_sandbox(context: Arc<NodeContext>) {
    let store = Arc::clone(&context.storage.slices);
    let found = match blocking("finding a folder for an SPE", move || Ok(store.emptiest_jobs_folder()?)).await {
        Ok(folder) => probe(&context.spes.program, &context.spes.sandbox, &folder).await,
        Err(error) => Err(error.to_string()),
    };
    match context.spes.sandbox.memory_bound() {
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
                if context.spes.sandbox.is_required() {
                    tracing::error!(%layer, "user functions are refused: the sandbox lacks a layer; {advice}");
                } else {
                    tracing::warn!(%layer, "user functions run with less than the whole sandbox; {advice}");
                }
            }
        }
        Err(error) => tracing::error!(%error, "user functions cannot run here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_spe_has_by_default_is_what_a_nodes_settings_give_it_by_default() {
        let settings = NodeSettings::default();
        let own = SandboxSettings {
            node: settings.id.to_string(),
            hidden_folders: settings.data_folders(),
            ..SandboxSettings::default()
        };
        assert_eq!(sandbox_settings(&settings), own);
    }

    #[test]
    fn a_time_limit_of_zero_is_none() {
        let settings = NodeSettings { spe_silence_seconds: 0, spe_task_seconds: 7, ..NodeSettings::default() };
        let made = sandbox_settings(&settings);
        assert_eq!((made.silence_max, made.task_max), (None, Some(Duration::from_secs(7))));
    }
}
