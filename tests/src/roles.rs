//! A cloud whose roles a test starts itself, each a process of its own with `--config`, as on a real cluster. So each
//! can be killed, stopped for a while and started again, alone. They run on this machine's loopback, or with each
//! group of roles in a network of its own ([`Network`]).

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{Cloud, Network, free_port, kill, program};

/// See the module. It is also a [`Cloud`], through which commands go.
pub struct Roles {
    cloud: Cloud,
    roles: BTreeMap<String, Role>,
    // After the roles: networks are removed once no process is in them.
    network: Option<Network>,
}

struct Role {
    /// `security`, `master` or `node`.
    kind: &'static str,
    settings: PathBuf,
    /// The words before the command.
    prefix: Vec<String>,
    /// Additional environment variables of its process.
    variables: Vec<(String, String)>,
    child: Option<Child>,
}

impl Roles {
    /// Starts security server, master and `node-1` to `node-N`, node i in `site-(i mod sites + 1)`.
    pub fn start(nodes: u32, sites: u32) -> Self {
        let mut roles =
            Self { cloud: Cloud::prepared(nodes, sites, Vec::new()), roles: BTreeMap::new(), network: None };
        let (security, master) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
        roles.add("security", "security", &[("listen", security.clone())], Vec::new());
        roles.add("master", "master", &[("listen", master.clone()), ("security", security)], Vec::new());
        for number in 1..=nodes {
            let listen = format!("127.0.0.1:{}", free_port());
            roles.add(&format!("node-{number}"), "node", &[("listen", listen), ("master", master.clone())], Vec::new());
        }
        roles.begin(&master)
    }

    /// The same in networks: security server, master and clients in `home`, each site's nodes in one named like the
    /// site. `None`, with a message, if this process may not make networks.
    pub fn start_apart(nodes: u32, sites: u32) -> Option<Self> {
        let groups: Vec<String> =
            std::iter::once("home".into()).chain((1..=sites).map(|site| format!("site-{site}"))).collect();
        let network = Network::make(&groups)?;
        let cloud = Cloud::prepared(nodes, sites, network.prefix("home"));
        let mut roles = Self { cloud, roles: BTreeMap::new(), network: None };
        let home = network.address("home").to_owned();
        let (security, master) = (format!("{home}:7401"), format!("{home}:7400"));
        roles.add("security", "security", &[("listen", security.clone())], network.prefix("home"));
        let settings = [("listen", master.clone()), ("security", security)];
        roles.add("master", "master", &settings, network.prefix("home"));
        for number in 1..=nodes {
            let site = format!("site-{}", (number - 1) % sites + 1);
            let listen = format!("{}:{}", network.address(&site), 7410 + number);
            let settings = [("listen", listen), ("master", master.clone())];
            roles.add(&format!("node-{number}"), "node", &settings, network.prefix(&site));
        }
        roles.network = Some(network);
        Some(roles.begin(&master))
    }

    /// The same with a network for each role, named like the role; clients are in [`HOME`]. Nothing runs yet:
    /// `prepare` may change what the roles have, before they start.
    pub fn start_alone(nodes: u32, sites: u32, prepare: impl FnOnce(&mut Self)) -> Option<Self> {
        let node = |number: u32| format!("node-{number}");
        let names = [HOME, SECURITY, MASTER].map(String::from).into_iter().chain((1..=nodes).map(node));
        let network = Network::make(&names.collect::<Vec<_>>())?;
        let cloud = Cloud::prepared(nodes, sites, network.prefix(HOME));
        let mut roles = Self { cloud, roles: BTreeMap::new(), network: None };
        let at = |role: &str, port: u32| format!("{}:{port}", network.address(role));
        let (security, master) = (at(SECURITY, 7401), at(MASTER, 7400));
        roles.add(SECURITY, "security", &[("listen", security.clone())], network.prefix(SECURITY));
        let settings = [("listen", master.clone()), ("security", security)];
        roles.add(MASTER, "master", &settings, network.prefix(MASTER));
        for name in (1..=nodes).map(node) {
            let settings = [("listen", at(&name, 7410)), ("master", master.clone())];
            roles.add(&name, "node", &settings, network.prefix(&name));
        }
        roles.network = Some(network);
        prepare(&mut roles);
        Some(roles.begin(&master))
    }

    /// The networks, if there are any.
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("a cloud that was started apart")
    }

    /// The names of all roles.
    pub fn names(&self) -> Vec<String> {
        self.roles.keys().cloned().collect()
    }

    /// The data folder of a role, even of a dead one.
    pub fn role_folder(&self, role: &str) -> PathBuf {
        self.cloud.data.join(role)
    }

    /// The process of a role that runs.
    pub fn pid(&self, role: &str) -> u32 {
        self.roles[role].child.as_ref().unwrap_or_else(|| panic!("{role} does not run")).id()
    }

    /// Whether a role was started and not killed since.
    pub fn is_running(&self, role: &str) -> bool {
        self.roles[role].child.is_some()
    }

    /// Kills a role as a power cut would, and proves that it lived until then.
    pub fn kill(&mut self, role: &str) {
        let mut child = self.roles.get_mut(role).and_then(|role| role.child.take()).expect("a role that runs");
        assert!(child.try_wait().unwrap().is_none(), "{role} had ended by itself; {}", self.log(role));
        kill(child.id());
        child.wait().unwrap();
    }

    /// Whether a role that was started has ended by itself. Its process is then forgotten, so that it can be started
    /// again.
    pub fn has_ended(&mut self, role: &str) -> bool {
        let child = &mut self.roles.get_mut(role).expect("a role of the cloud").child;
        let has_ended = child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some());
        if has_ended {
            *child = None;
        }
        has_ended
    }

    /// Asks a role to end, and waits until it has.
    pub fn stop(&mut self, role: &str) {
        let mut child = self.roles.get_mut(role).and_then(|role| role.child.take()).expect("a role that runs");
        signal("TERM", child.id());
        child.wait().unwrap();
    }

    /// From its next start on, a role has these variables in its environment.
    pub fn set_variables(&mut self, role: &str, variables: Vec<(String, String)>) {
        self.roles.get_mut(role).expect("a role of the cloud").variables = variables;
    }

    /// Stops a role in the middle of whatever it does, until [`resume`](Self::resume).
    pub fn pause(&self, role: &str) {
        signal("STOP", self.pid(role));
    }

    /// Lets it go on.
    pub fn resume(&self, role: &str) {
        signal("CONT", self.pid(role));
    }

    /// Starts a role (again) and waits until it is ready.
    pub fn run_role(&mut self, name: &str) {
        assert!(self.try_run_role(name), "{name} did not start; {}", self.log(name));
    }

    /// Starts a role (again) and waits until it is ready; returns whether it became so.
    pub fn try_run_role(&mut self, name: &str) -> bool {
        let log = File::options().create(true).append(true).open(self.log_file(name)).unwrap();
        let role = self.roles.get_mut(name).unwrap();
        let program = program().to_str().unwrap().to_owned();
        let mut words = role.prefix.clone();
        words.extend([program, role.kind.into(), "--config".into(), role.settings.to_str().unwrap().into()]);
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            // It ends with the thread that started it, even when that one is killed.
            .env("SECTOR_PART_OF_UP", "1")
            .envs(role.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.map_while(Result::ok).any(|line| line.starts_with("ready "));
        if is_ready {
            role.child = Some(child);
        } else {
            child.wait().unwrap();
        }
        is_ready
    }

    /// Where a role listens.
    pub fn address(&self, role: &str) -> SocketAddr {
        let text = fs::read_to_string(&self.roles[role].settings).unwrap();
        let listen = text.lines().find_map(|line| line.strip_prefix("listen = ")).expect("an address");
        listen.trim_matches('"').parse().unwrap()
    }

    /// Changes a setting of a role that does not run; the value is TOML.
    pub fn change(&self, role: &str, key: &str, value: &str) {
        set(&self.roles[role].settings, key, value);
    }

    /// From its next start on, a role runs behind these words of a command.
    pub fn set_command_prefix(&mut self, role: &str, words: &[&str]) {
        self.roles.get_mut(role).unwrap().prefix = words.iter().map(|word| (*word).to_owned()).collect();
    }

    /// Waits until this many nodes are up.
    pub fn until_up(&self, nodes: usize) {
        self.until("all nodes are up", |cloud| {
            let ended = cloud.run(&["nodes", "--json"]);
            ended.code == 0 && ended.text().matches("\"up\"").count() == nodes
        });
    }

    /// The last lines that a role wrote.
    pub fn log(&self, role: &str) -> String {
        let text = fs::read_to_string(self.log_file(role)).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        format!("the last lines of {role}:\n{}", lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n"))
    }

    /// Bytes of files that a node is receiving at this moment.
    pub fn unfinished_bytes(&self, node: &str) -> u64 {
        self.bytes_in(node, "unfinished")
    }

    /// The same for files that are kept when the transfer is interrupted, such as copies that the master ordered.
    pub fn partial_bytes(&self, node: &str) -> u64 {
        self.bytes_in(node, "partial")
    }

    fn bytes_in(&self, node: &str, folder: &str) -> u64 {
        let Ok(items) = fs::read_dir(self.role_folder(node).join(folder)) else { return 0 };
        items.flatten().filter_map(|item| item.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// The node whose transfer port a process has a connection to.
    pub fn connected_node(&self, pid: u32) -> Option<String> {
        let sockets: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().collect();
        let inodes: Vec<_> = sockets
            .iter()
            .filter_map(|item| fs::read_link(item.path()).ok())
            .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
            .collect();
        let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
        let lines: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let ours = lines.iter().filter(|line| line.get(9).is_some_and(|inode| inodes.iter().any(|ours| ours == inode)));
        let ports: Vec<_> =
            ours.filter_map(|line| u16::from_str_radix(line.get(2)?.split(':').nth(1)?, 16).ok()).collect();
        let nodes = self.json(&["nodes"]);
        let is_it = |node: &&serde_json::Value| {
            let port = node["address"].as_str().and_then(|address| address.rsplit(':').next()?.parse().ok());
            port.is_some_and(|port: u16| ports.contains(&port))
        };
        nodes.as_array()?.iter().find(is_it).and_then(|node| Some(node["id"].as_str()?.to_owned()))
    }

    /// Whether a node has this file of its own open: proof that it is being read.
    pub fn has_open(&self, node: &str, file: &Path) -> bool {
        let Ok(items) = fs::read_dir(format!("/proc/{}/fd", self.pid(node))) else { return false };
        items.flatten().any(|item| fs::read_link(item.path()).is_ok_and(|link| link == file))
    }

    fn add(&mut self, name: &str, kind: &'static str, settings: &[(&str, String)], prefix: Vec<String>) {
        let file = self.role_folder(name).join("settings.toml");
        for (key, value) in settings {
            set(&file, key, &format!("\"{value}\""));
        }
        self.roles.insert(name.into(), Role { kind, settings: file, prefix, variables: Vec::new(), child: None });
    }

    /// Starts everything, for clients of the master at this address.
    fn begin(mut self, master: &str) -> Self {
        let profile = self.cloud.home.join("profile.toml");
        set(&profile, "address", &format!("\"{master}\""));
        // Bytes must pass the nodes, so that a test can stop them on their way.
        let text = fs::read_to_string(&profile).unwrap();
        fs::write(&profile, format!("over_network = true\n{text}")).unwrap();
        let nodes: Vec<_> = self.names().into_iter().filter(|name| name.starts_with("node-")).collect();
        for role in ["security", "master"].into_iter().map(String::from).chain(nodes.clone()) {
            self.run_role(&role);
        }
        self.until_up(nodes.len());
        self
    }

    /// The log file of a role.
    pub fn log_file(&self, role: &str) -> PathBuf {
        self.folder().join(format!("{role}.log"))
    }
}

impl Deref for Roles {
    type Target = Cloud;

    fn deref(&self) -> &Cloud {
        &self.cloud
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        for child in self.roles.values_mut().filter_map(|role| role.child.as_mut()) {
            // It may have been stopped; a dead one cannot be killed again.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Gives a key of a settings file another value, as TOML.
fn set(file: &Path, key: &str, value: &str) {
    let text = fs::read_to_string(file).unwrap();
    let line = format!("{key} = {value}");
    let is_it = |line: &&str| line.split('=').next().is_some_and(|name| name.trim() == key);
    // First in the file, since tables may follow.
    let rest: Vec<_> = text.lines().filter(|line| !is_it(line)).collect();
    fs::write(file, format!("{line}\n{}\n", rest.join("\n"))).unwrap();
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success(), "process {pid} was there");
}

/// The network of the clients, if each role has one.
pub const HOME: &str = "home";
/// The name of the security server.
pub const SECURITY: &str = "security";
/// The name of the master.
pub const MASTER: &str = "master";
/// Lines of a log in the message of a failed test.
const LINES_SHOWN: usize = 30;
