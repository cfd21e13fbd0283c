//! One process per role (`sector up --processes`). They are started in order, each waited for by its ready line, and
//! stopped in order. When this process is killed, they end too. When one of them dies, that is reported
//! and the others go on. A role is never restarted here, since what killed it may do so again and nobody would
//! notice.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, process::Stdio};

use daemon::ready;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use terminal::failure::Failure;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    task::JoinSet,
};

use super::{Layout, RolePlacement};

/// A cloud of processes.
pub(crate) struct Processes {
    address: SocketAddr,
    security: RoleProcess,
    master: RoleProcess,
    nodes: Vec<RoleProcess>,
}

/// A process of the cloud.
struct RoleProcess {
    name: String,
    pid: u32,
    child: Child,
    /// Whether its end has been reported.
    ended: bool,
}

impl Processes {
    /// Starts security server, master and nodes.
    pub(crate) async fn start(layout: &Layout) -> Result<Self, Failure> {
        let servers = &layout.spec.servers;
        let (file, _) = layout.security()?;
        let (security, security_address) = start("security", "security server".into(), servers, &file).await?;
        let (file, _) = layout.master(security_address)?;
        let (master, address) = start("master", "master".into(), servers, &file).await?;
        // At the same time: each reads what lies on its disks.
        let mut starting = JoinSet::new();
        for (at, (number, place)) in layout.spec.node_numbers().into_iter().zip(&layout.spec.nodes).enumerate() {
            let ((file, _), place) = (layout.node(at, address)?, place.clone());
            starting.spawn(async move {
                let started = start("node", format!("node-{number}"), &place, &file).await;
                started.map(|(process, _)| (number, process))
            });
        }
        let mut nodes = BTreeMap::new();
        while let Some(started) = starting.join_next().await {
            let (number, process) =
                started.map_err(|error| Failure::failed(format!("a node did not start: {error}")))??;
            nodes.insert(number, process);
        }
        Ok(Self { address, security, master, nodes: nodes.into_values().collect() })
    }

    /// The master's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reports on standard error when a role ends by itself, with what that means; returns when the last one has
    /// ended.
    pub(crate) async fn watch(&mut self) -> Failure {
        loop {
            let roles = self.nodes.iter_mut().chain([&mut self.master, &mut self.security]);
            let mut any_left = false;
            for role in roles {
                role.report_exit();
                any_left |= !role.ended;
            }
            if !any_left {
                return Failure::failed(
                    "every role of the cloud has ended by itself; their reasons stand above or in the log",
                );
            }
            tokio::time::sleep(LOOK_PERIOD).await;
        }
    }

    /// Stops the master, then the nodes, then the security server: see `Embedded::stop`.
    pub(crate) async fn stop(mut self) {
        ask(&self.master.child);
        wait(&mut self.master.child).await;
        self.nodes.iter().for_each(|role| ask(&role.child));
        for node in &mut self.nodes {
            wait(&mut node.child).await;
        }
        ask(&self.security.child);
        wait(&mut self.security.child).await;
    }
}

impl RoleProcess {
    /// Reports once when the process is gone.
    fn report_exit(&mut self) {
        if self.ended {
            return;
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            self.ended = true;
            let meaning = match self.name.as_str() {
                "master" => "nothing can be looked up or written until the cloud is started again",
                "security server" => "nobody can log in until the cloud is started again",
                _ => "files are read from their other copies; start the cloud again to have it back",
            };
            terminal::say!(
                "sector: the {} (process {}) has ended by itself ({status}); {meaning}",
                self.name,
                self.pid
            );
        }
    }
}

/// Asks the system to end this process together with its parent, if that is `sector up`.
pub(crate) fn end_with_parent() {
    if std::env::var_os(PART_OF_UP).is_some()
        && let Err(error) = set_parent_process_death_signal(Some(Signal::TERM))
    {
        tracing::warn!(%error, "this role would outlive a killed `sector up`");
    }
}

/// Starts one role in its place and waits for its ready line, which names its address.
async fn start(
    role: &str,
    name: String,
    place: &RolePlacement,
    settings: &Path,
) -> Result<(RoleProcess, SocketAddr), Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let mut command = match place.command_prefix.split_first() {
        None => Command::new(own),
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(own);
            command
        }
    };
    let mut child = command
        .args([role, "--config"])
        .arg(settings)
        .env(PART_OF_UP, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A Ctrl-C on the terminal goes to `sector up`, which stops the roles in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::failed(format!("cannot start the {role}: {error}")))?;
    let failed = || Failure::failed(format!("the {role} did not start; its reason stands above or in the log"));
    let mut lines = BufReader::new(child.stdout.take().ok_or_else(failed)?).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(address) = ready::parse(&line).and_then(|address| address.parse().ok()) {
            let pid = child.id().unwrap_or_default();
            return Ok((RoleProcess { name, pid, child, ended: false }, address));
        }
    }
    Err(failed())
}

fn ask(child: &Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, Signal::TERM)
    {
        tracing::debug!(%error, "the process was gone already");
    }
}

async fn wait(child: &mut Child) {
    if tokio::time::timeout(STOP_PATIENCE, child.wait()).await.is_err() {
        tracing::warn!("a role did not stop in time and is killed");
        if let Err(error) = child.kill().await {
            tracing::warn!(%error, "it could not be killed");
        }
    }
}

/// Set for the roles that `sector up` starts.
const PART_OF_UP: &str = "SECTOR_PART_OF_UP";
/// Time between two checks whether all roles are running.
const LOOK_PERIOD: std::time::Duration = std::time::Duration::from_millis(250);
/// How long a role may take to stop.
const STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
