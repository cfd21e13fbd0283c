//! The cloud over a testbed's sites: `sector up` at the first site, which starts each role at its own. Security server
//! and master are at the first site, and every node has an address of its own. The topology lists the addresses of
//! each site and the distances between sites. A role never runs outside its site.

use std::{
    env,
    fmt::Write,
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use daemon::ready;
use serde::Serialize;
use terminal::{Failure, Global, background};
use testbed::{TestbedPlan, node_address, site_address, site_range};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::running_testbed::{profile_file, write_private};

/// See the module.
pub(super) struct TestbedCloud {
    process: Child,
    /// Its standard input, which ends when this process does. Apart from the process: waiting for that would close it.
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl TestbedCloud {
    /// Starts it, on the data in `data`, or anew in a folder of the testbed's. It ends with this process: then its
    /// standard input ends.
    pub(super) fn start(
        plan: &TestbedPlan,
        data: Option<&Path>,
        folder: &Path,
        global: &Global,
    ) -> Result<Self, Failure> {
        let data = match data {
            Some(data) => std::path::absolute(data).map_err(|error| Failure::local("use the folder", data, &error))?,
            None => emptied(folder.join("data"))?,
        };
        let (topology, placement) = (data.join("topology.toml"), data.join("placement.toml"));
        let own = own_program()?;
        write_private(&topology, topology_of(plan).as_bytes())?;
        write_private(&placement, placement_of(plan, &topology, &own)?.as_bytes())?;
        let cannot = |error: io::Error| Failure::failed(format!("cannot start the cloud: {error}"));
        let mut process = Command::new(&own)
            .args(["testbed", "run", &plan.sites()[0]])
            .arg(sector_program(&own)?)
            .args(["up", "--processes", "--until-stdin-ends", "--placement"])
            .arg(&placement)
            .arg("--data")
            .arg(&data)
            .arg("--profile")
            .arg(profile_file(folder))
            .args(global.quiet.then_some("--quiet"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C on the terminal goes to this process, which stops the cloud in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::failed("the cloud has no input or output"));
        };
        Ok(Self { process, input, output: BufReader::new(output).lines() })
    }

    /// Waits until all its nodes are up; its address.
    pub(super) async fn ready(&mut self) -> Result<String, Failure> {
        while let Ok(Some(line)) = self.output.next_line().await {
            if let Some(address) = ready::parse(&line) {
                return Ok(address.to_owned());
            }
        }
        Err(self.ended().await)
    }

    /// Waits until it ends by itself.
    pub(super) async fn ended(&mut self) -> Failure {
        match self.process.wait().await.map(|status| (status, status.code())) {
            // It has said why.
            Ok((_, Some(code @ 1..))) => Failure::new(background::reason_of(code), ""),
            Ok((status, _)) => Failure::failed(format!("the cloud over the sites has ended by itself ({status})")),
            Err(error) => Failure::failed(format!("the cloud over the sites is lost: {error}")),
        }
    }

    /// Stops it in order.
    pub(super) async fn stop(mut self) {
        drop(self.input);
        if tokio::time::timeout(STOP_PATIENCE, self.process.wait()).await.is_err() {
            tracing::warn!("the cloud did not stop in time and is killed");
            if let Err(error) = self.process.kill().await {
                tracing::warn!(%error, "it could not be killed");
            }
        }
    }
}

/// This program, by which a role gets to its site.
fn own_program() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))
}

/// `sector` says where it is when it runs this program. Otherwise it is beside this program, or on PATH.
fn sector_program(own: &Path) -> Result<PathBuf, Failure> {
    if let Some(told) = env::var_os("SECTOR").map(PathBuf::from) {
        return std::path::absolute(&told).map_err(|error| Failure::local("use the program", &told, &error));
    }
    let beside = own.with_file_name("sector");
    Ok(if beside.is_file() { beside } else { "sector".into() })
}

/// Where `sector up --placement` starts each role.
#[derive(Serialize)]
struct Placement<'a> {
    port: u16,
    /// Those of the security server and of each node.
    other_ports: [u16; 2],
    topology: &'a Path,
    servers: RolePlace<'a>,
    nodes: Vec<RolePlace<'a>>,
}

#[derive(Serialize)]
struct RolePlace<'a> {
    site: &'a str,
    address: Ipv4Addr,
    /// The words by which `sector` gets there.
    command_prefix: [&'a str; 4],
}

fn placement_of(plan: &TestbedPlan, topology: &Path, own: &Path) -> Result<String, Failure> {
    let program = own.to_str().ok_or_else(|| {
        Failure::failed(format!("this program must have a name in UTF-8, and has `{}`", own.display()))
    })?;
    let place = |site: usize, address: Ipv4Addr| {
        let name = plan.sites()[site].as_str();
        RolePlace { site: name, address, command_prefix: [program, "testbed", "run", name] }
    };
    let sites = 0..plan.sites().len();
    let nodes = sites.flat_map(|site| (0..plan.nodes_per_site()).map(move |node| (site, node)));
    let placement = Placement {
        port: MASTER_PORT,
        other_ports: [SECURITY_PORT, NODE_PORT],
        topology,
        servers: place(0, site_address(0)),
        nodes: nodes.map(|(site, node)| place(site, node_address(site, node))).collect(),
    };
    toml::to_string(&placement).map_err(|error| Failure::failed(error.to_string()))
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
/// How long the roles may take to stop: longer than `sector up` waits for them.
const STOP_PATIENCE: Duration = Duration::from_secs(45);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use testbed::{PathRules, Rate};

    use super::*;

    #[test]
    fn each_role_is_placed_at_its_site_and_gets_there_by_this_program() {
        let rules = PathRules::new(Rate(1_000_000_000), Duration::from_millis(60));
        let plan = TestbedPlan::new(2, 1, &rules, 1).unwrap();
        let text = placement_of(&plan, Path::new("/t/topology.toml"), Path::new("/bin/sector-oct")).unwrap();
        let expected = "port = 7400\nother_ports = [7401, 7410]\ntopology = \"/t/topology.toml\"\n\n\
            [servers]\nsite = \"site1\"\naddress = \"10.77.1.1\"\n\
            command_prefix = [\"/bin/sector-oct\", \"testbed\", \"run\", \"site1\"]\n\n\
            [[nodes]]\nsite = \"site1\"\naddress = \"10.77.1.11\"\n\
            command_prefix = [\"/bin/sector-oct\", \"testbed\", \"run\", \"site1\"]\n\n\
            [[nodes]]\nsite = \"site2\"\naddress = \"10.77.2.11\"\n\
            command_prefix = [\"/bin/sector-oct\", \"testbed\", \"run\", \"site2\"]\n";
        assert_eq!(text, expected);
    }
}
