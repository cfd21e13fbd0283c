//! All roles as tasks of this process: used by `sector up`, the tour and tests. It never starts a role as a process.

use std::net::SocketAddr;

use daemon::shutdown::TaskGroup;
use spe::SpeProgram;
use terminal::failure::Failure;
use tokio::task::JoinSet;

use super::{Layout, security_failure};

/// A cloud within this process.
pub(crate) struct Embedded {
    address: SocketAddr,
    security: TaskGroup,
    master: TaskGroup,
    nodes: Vec<TaskGroup>,
}

impl Embedded {
    /// Starts security server, master and nodes.
    pub(crate) async fn start(layout: &Layout) -> Result<Self, Failure> {
        let (_, settings) = layout.security()?;
        let server = security::SecurityServer::bind(&settings).await.map_err(security_failure)?;
        let security_address = server.address();
        let security = spawn("security server", |stopping| async move {
            server.run(stopping).await.map_err(|error| error.to_string())
        });

        let (_, settings) = layout.master(security_address)?;
        let server = master::MasterServer::bind(&settings).await.map_err(|error| Failure::from(error.refusal()))?;
        let address = server.address();
        let master =
            spawn("master", |stopping| async move { server.run(stopping).await.map_err(|error| error.to_string()) });

        // At the same time: each reads what lies on its disks.
        let mut starting = JoinSet::new();
        for at in 0..layout.spec.nodes.len() {
            let (_, settings) = layout.node(at, address)?;
            let program = SpeProgram::this_executable().map_err(|error| Failure::failed(error.to_string()))?;
            starting.spawn(async move { node::NodeServer::bind(&settings, program).await });
        }
        let mut nodes = Vec::new();
        while let Some(bound) = starting.join_next().await {
            let bound = bound.map_err(|error| Failure::failed(format!("a node did not start: {error}")))?;
            let server = bound.map_err(|error| Failure::from(error.refusal()))?;
            nodes.push(spawn("node", |stopping| async move {
                server.run(stopping).await.map_err(|error| error.to_string())
            }));
        }
        Ok(Self { address, security, master, nodes })
    }

    /// The master's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the master, then the nodes, then the security server. While nodes run, they take the master's last rows and
    /// acknowledge its last messages at once. It waits some seconds for nodes that are gone.
    pub(crate) async fn stop(self) {
        finish(&self.master).await;
        // The nodes stop at the same time: each may wait for its writes.
        self.nodes.iter().for_each(TaskGroup::cancel);
        for node in &self.nodes {
            finish(node).await;
        }
        finish(&self.security).await;
    }
}

async fn finish(role: &TaskGroup) {
    if let Err(error) = role.finish(STOP_PATIENCE).await {
        tracing::warn!(%error, "a role did not stop in time");
    }
}

/// Runs a role as a task that can be asked to stop.
fn spawn<F: Future<Output = Result<(), String>> + Send + 'static>(
    name: &'static str,
    run: impl FnOnce(daemon::shutdown::ShutdownToken) -> F,
) -> TaskGroup {
    let stop = TaskGroup::new();
    let role = run(stop.token());
    stop.spawn(name, async move {
        if let Err(error) = role.await {
            terminal::say!("sector: the {name} ended: {error}");
        }
    });
    stop
}

/// How long a role may take to stop.
const STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
