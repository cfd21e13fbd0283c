//! The cloud over a testbed's sites: the processes of `sector up --processes`, each started at its site. Security
//! server and master are at the first site, and every node has an address of its own. The topology lists the
//! addresses of each site and the distances between sites. A role never runs outside its site.

use std::{
    fmt::Write,
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
};

use client::{Client, Profile};
use testbed::{Testbed, TestbedPlan, node_address, site_address, site_range};

use super::running_testbed::profile_file;
use crate::{
    cloud::{CloudSpec, Layout, RolePlacement, processes::Processes, wait_for_nodes, write_private},
    failure::Failure,
};

/// See the module.
pub(super) struct TestbedCloud {
    /// Its roles.
    pub(super) processes: Processes,
    profile: Profile,
    nodes: u32,
}

impl TestbedCloud {
    /// Starts it, on the data in `data`, or anew in a folder of the testbed's.
    pub(super) async fn start(plan: &TestbedPlan, data: Option<&Path>, folder: &Path) -> Result<Self, Failure> {
        let data = match data {
            Some(data) => std::path::absolute(data).map_err(|error| Failure::local("use the folder", data, &error))?,
            None => emptied(folder.join("data"))?,
        };
        let topology = data.join("topology.toml");
        write_private(&topology, topology_of(plan).as_bytes())?;
        let layout = Layout::prepare(data, shape(plan, topology)?)?;
        let processes = Processes::start(&layout).await?;
        let profile = layout.profile(processes.address())?;
        write_private(&profile_file(folder), profile.to_text().as_bytes())?;
        Ok(Self { processes, profile, nodes: layout.spec.nodes.len() as u32 })
    }

    /// Waits, as a client at the first site, until all nodes are up.
    pub(super) fn wait(&self, testbed: &Arc<Testbed>) -> impl Future<Output = Result<(), Failure>> + use<> {
        let (testbed, profile, nodes) = (Arc::clone(testbed), self.profile.clone(), self.nodes);
        // A runtime of one thread: all sockets are made by the thread that is at the site.
        let ask = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
            runtime.block_on(async {
                let client = Client::connect(&profile).await?;
                let all_up = wait_for_nodes(&client, nodes).await;
                client.logout().await;
                all_up
            })
        };
        async move {
            let asked = tokio::task::spawn_blocking(move || testbed.run(0, ask)).await;
            asked.map_err(|error| Failure::failed(error.to_string()))??
        }
    }

    /// Stops it in order.
    pub(super) async fn stop(self) {
        self.processes.stop().await;
    }
}

fn shape(plan: &TestbedPlan, topology: PathBuf) -> Result<CloudSpec, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let place = |site: usize, address: Ipv4Addr| {
        let name = plan.sites()[site].clone();
        let behind = vec!["testbed".into(), "run".into(), name.clone().into(), own.clone().into_os_string()];
        RolePlacement { site: name, address, command_prefix: behind }
    };
    let sites = 0..plan.sites().len();
    let nodes = sites.flat_map(|site| (0..plan.nodes_per_site()).map(move |node| (site, node)));
    Ok(CloudSpec {
        servers: place(0, site_address(0)),
        nodes: nodes.map(|(site, node)| place(site, node_address(site, node))).collect(),
        port: MASTER_PORT,
        other_ports: Some((SECURITY_PORT, NODE_PORT)),
        topology: Some(topology),
        disks_per_node: 1,
        insecure_data: false,
    })
}

/// The addresses of each site, and the distances between sites.
fn topology_of(plan: &TestbedPlan) -> String {
    let sites = plan.sites();
    let mut text = String::from("[addresses]\n");
    for (site, name) in sites.iter().enumerate() {
        let (first, bits) = site_range(site);
        // Writing to a string does not fail.
        let _ = writeln!(text, "\"{first}/{bits}\" = \"{name}\"");
    }
    for one in 0..sites.len() {
        for other in one + 1..sites.len() {
            let millis = plan.path(one, other).rtt.as_millis().max(1);
            let _ = write!(
                text,
                "\n[[link]]\nsites = [\"{}\", \"{}\"]\ndistance_millis = {millis}\n",
                sites[one], sites[other]
            );
        }
    }
    text
}

/// An existing, empty folder.
fn emptied(folder: PathBuf) -> Result<PathBuf, Failure> {
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::local("empty", &folder, &error)),
        _ => Ok(folder),
    }
}

/// Each site is a network of its own, so all ports are free; these are the default ports.
const MASTER_PORT: u16 = 7400;
const SECURITY_PORT: u16 = 7401;
const NODE_PORT: u16 = 7410;
