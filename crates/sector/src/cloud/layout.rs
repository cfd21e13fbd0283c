//! The folder of a cloud on one machine: one folder per role with its settings and credentials, created where
//! missing. What a person has changed in settings stays. It never starts a role.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use client::Profile;
use daemon::settings::{Checked, GatewaySettings, MasterSettings, NodeSettings, SecuritySettings, Settings};
use protocol::{HostAddress, NodeId, UserName};
use security::create_cloud;
use serde::Deserialize;
use terminal::failure::Failure;
use toml_edit::Value;

use super::{
    known_cloud::{AskedCloud, KnownCloud},
    role_settings::RoleSettings,
};

/// The size of a cloud, and where its roles run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloudSpec {
    /// Where the security server and the master run.
    pub(crate) servers: RolePlacement,
    /// Where each node runs.
    pub(crate) nodes: Vec<RolePlacement>,
    /// The number of each node; empty if they are counted from 1.
    #[serde(skip)]
    pub(crate) numbers: Vec<u32>,
    /// The master's port; 0 for a free one.
    pub(crate) port: u16,
    /// The ports of the security server and of each node; free ports if not given.
    pub(crate) other_ports: Option<(u16, u16)>,
    /// The file of the topology, if there is one.
    pub(crate) topology: Option<PathBuf>,
    /// Data folders of each node.
    #[serde(default = "one")]
    pub(crate) disks_per_node: u32,
    /// Whether data within a site goes unencrypted.
    #[serde(default)]
    pub(crate) insecure_data: bool,
}

/// Where a role runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RolePlacement {
    /// Its site.
    pub(crate) site: String,
    /// Where it listens.
    pub(crate) address: Ipv4Addr,
    /// The words of the command that runs `sector` there: they stand before it. None if it runs here.
    #[serde(default)]
    pub(crate) command_prefix: Vec<String>,
}

impl RolePlacement {
    /// In a site of this machine's loopback.
    pub(crate) fn on_loopback(site: u32) -> Self {
        Self { site: format!("site-{site}"), address: Ipv4Addr::LOCALHOST, command_prefix: Vec::new() }
    }
}

/// Which cloud a folder is to have.
#[derive(Clone, Debug)]
pub(crate) enum CloudShape {
    /// This one, whatever its settings say.
    Given(CloudSpec),
    /// The one it has, or a new one; refused if that is not the one asked for.
    Asked(AskedCloud),
}

impl CloudSpec {
    /// This many nodes on this machine's loopback, spread in turn over this many sites.
    pub(crate) fn on_loopback(nodes: u32, sites: u32) -> Self {
        Self {
            servers: RolePlacement::on_loopback(1),
            nodes: (0..nodes).map(|number| RolePlacement::on_loopback(number % sites + 1)).collect(),
            numbers: Vec::new(),
            port: 0,
            other_ports: None,
            topology: None,
            disks_per_node: 1,
            insecure_data: false,
        }
    }

    /// The cloud that a file describes (`sector up --placement`).
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(file).map_err(|error| Failure::local("read", file, &error))?;
        let wrong = |error: toml::de::Error| Failure::usage(format!("`{}`: {}", file.display(), error.message()));
        toml::from_str(&text).map_err(wrong)
    }

    /// The numbers of its nodes, in the order of `nodes`.
    pub(crate) fn node_numbers(&self) -> Vec<u32> {
        if self.numbers.is_empty() { (1..=self.nodes.len() as u32).collect() } else { self.numbers.clone() }
    }
}

/// A prepared folder:
///
/// ```text
/// DATA/profile.toml             who the first administrator is (kept here, copied to $SECTOR_HOME)
/// DATA/security/  master/       settings.toml, credentials, accounts, journal
/// DATA/node-1/ …                settings.toml, credentials, slices; with several disks the others' in disk-2/ …
/// ```
pub(crate) struct Layout {
    /// The data folder.
    pub(crate) folder: PathBuf,
    /// The cloud's shape.
    pub(crate) spec: CloudSpec,
    /// What a person should know before it starts.
    pub(crate) note: Option<String>,
    /// Its settings follow `spec` in everything that `spec` says.
    is_given: bool,
    authority_pem: String,
}

impl Layout {
    /// Makes or completes the folder: authority, credentials, the first administrator.
    pub(crate) fn prepare(folder: PathBuf, shape: CloudShape) -> Result<Self, Failure> {
        fs::create_dir_all(&folder).map_err(|error| Failure::local("make the folder", &folder, &error))?;
        let mut cloud = create_cloud(&folder.join("security"), "sector").map_err(security_failure)?;
        let is_given = matches!(shape, CloudShape::Given(_));
        let (shape, note) = match shape {
            CloudShape::Given(spec) => (spec, None),
            CloudShape::Asked(asked) => {
                let machines = cloud.accounts().machines();
                let is_removed = |id: &NodeId| machines.get(id).is_some_and(|machine| machine.is_revoked);
                match KnownCloud::read(&folder, is_removed)? {
                    Some(known) => known.beside(machines.after(None).map(|(id, _)| id)).start(&asked, &folder)?,
                    None => (asked.new_cloud()?, None),
                }
            }
        };
        cloud.ensure_master(&folder.join("master")).map_err(security_failure)?;
        for number in shape.node_numbers() {
            let id = node_id(number)?;
            cloud.ensure_node(&id, &folder.join(id.as_str()), &[]).map_err(security_failure)?;
        }
        let admin = UserName::new("admin").map_err(|error| Failure::failed(error.to_string()))?;
        let authority_pem = cloud.authority_pem().to_owned();
        let file = folder.join("profile.toml");
        let token = match cloud.ensure_admin(&admin).map_err(security_failure)? {
            Some(token) => Some(token),
            // The administrator exists; so does the profile, unless someone removed it.
            None if file.exists() => None,
            None => Some(cloud.add_token(&admin).map_err(security_failure)?),
        };
        if let Some(token) = token {
            let address = SocketAddr::new(shape.servers.address.into(), shape.port);
            let profile = Profile::of(address, admin, token, authority_pem.clone());
            write_private(&file, profile.to_text().as_bytes())?;
        }
        Ok(Self { folder, spec: shape, note, is_given, authority_pem })
    }

    /// The administrator's profile for the cloud at `address`.
    pub(crate) fn profile(&self, address: SocketAddr) -> Result<Profile, Failure> {
        let kept = Profile::load(&self.folder.join("profile.toml"))?;
        Ok(Profile { address: on_this_machine(address).into(), authority: self.authority_pem.clone(), ..kept })
    }

    /// The security server's settings, in its folder.
    pub(crate) fn security(&self) -> Result<(PathBuf, Checked<SecuritySettings>), Failure> {
        let port = self.spec.other_ports.map_or(0, |(security, _)| security);
        let listen = SocketAddr::new(self.spec.servers.address.into(), port);
        self.complete("security", &[("listen", listen.to_string().into())], &[])
    }

    /// The master's settings, for the security server at `security`.
    pub(crate) fn master(&self, security: SocketAddr) -> Result<(PathBuf, Checked<MasterSettings>), Failure> {
        let listen = SocketAddr::new(self.spec.servers.address.into(), self.spec.port);
        let mut first: Vec<(&str, Value)> = vec![
            ("listen", listen.to_string().into()),
            ("node_lost_after_seconds", NODE_LOST_AFTER_SECONDS.into()),
            ("replicate_after_seconds", REPLICATE_AFTER_SECONDS.into()),
            ("reserve_bytes", RESERVE_BYTES.into()),
            ("insecure_data", self.spec.insecure_data.into()),
        ];
        first.extend(self.spec.topology.iter().map(|file| ("topology", file.display().to_string().into())));
        self.complete("master", &first, &[("security", on_this_machine(security).to_string().into())])
    }

    /// A node's settings, for the master at `master`. `at` is its place in the shape, from 0.
    pub(crate) fn node(&self, at: usize, master: SocketAddr) -> Result<(PathBuf, Checked<NodeSettings>), Failure> {
        let id = node_id(self.spec.node_numbers()[at])?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let place = &self.spec.nodes[at];
        let listen = SocketAddr::new(place.address.into(), self.spec.other_ports.map_or(0, |(_, node)| node));
        let mut first: Vec<(&str, Value)> = vec![
            ("site", place.site.as_str().into()),
            ("listen", listen.to_string().into()),
            // The nodes of one machine share its processors.
            ("spe_slots", ((cores / self.spec.nodes.len()).max(1) as i64).into()),
            ("reserve_bytes", RESERVE_BYTES.into()),
        ];
        let disks = (2..=self.spec.disks_per_node).map(|disk| format!("disk-{disk}"));
        if self.spec.disks_per_node > 1 {
            first.push(("folders", disks.collect()));
        }
        let always = [("id", id.as_str().into()), ("master", on_this_machine(master).to_string().into())];
        self.complete(id.as_str(), &first, &always)
    }

    /// The settings of the web page: at `port` where there are none yet, and from now on if it was asked for.
    pub(crate) fn gateway(
        &self,
        master: &HostAddress,
        port: Option<u16>,
        is_asked: bool,
    ) -> Result<Checked<GatewaySettings>, Failure> {
        write_private(&self.folder.join(GATEWAY).join("authority.pem"), self.authority_pem.as_bytes())?;
        let listen = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.unwrap_or(WEB_PORT)).to_string();
        let mut always: Vec<(&str, Value)> = vec![("master", master.to_string().into())];
        if is_asked {
            always.push(("listen", listen.as_str().into()));
        }
        Ok(self.complete(GATEWAY, &[("listen", listen.as_str().into())], &always)?.1)
    }

    /// The same settings at any free port, which they do not remember.
    pub(crate) fn gateway_at_free_port(
        &self,
        settings: &Checked<GatewaySettings>,
    ) -> Result<Checked<GatewaySettings>, Failure> {
        let listen = SocketAddr::new(settings.listen.ip(), 0);
        let settings = GatewaySettings { listen, ..(**settings).clone() };
        Ok(Checked::of(settings, &self.folder.join(GATEWAY))?)
    }

    /// Completes a role's settings: `first` where there are none, `always` at every start. The rest stays as it is.
    fn complete<T: Settings>(
        &self,
        role: &str,
        first: &[(&str, Value)],
        always: &[(&str, Value)],
    ) -> Result<(PathBuf, Checked<T>), Failure> {
        let folder = self.folder.join(role);
        let file = folder.join(SETTINGS_FILE);
        let mut settings = RoleSettings::open::<T>(&file)?;
        if settings.is_new() || self.is_given {
            settings.set(first);
        }
        // The gateway's folder is no part of its settings, and its certificate comes from elsewhere.
        if T::KEYS.iter().any(|key| key.name == "folder") {
            settings.use_folder(&folder);
        }
        settings.set(always);
        if let Some(text) = settings.changed() {
            write_private(&file, text.as_bytes())?;
        }
        Ok((file.clone(), Checked::read(&file)?))
    }
}

/// How a role that listens everywhere is reached from here.
fn on_this_machine(address: SocketAddr) -> SocketAddr {
    let loopback: IpAddr = match address.ip() {
        ip if !ip.is_unspecified() => return address,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(loopback, address.port())
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| Failure::local("make the folder", folder, &error))?;
    }
    store::write_file_atomically(file, bytes, 0o600).map_err(|error| Failure::local("write", file, &error))
}

/// The name of the node with this number.
pub(crate) fn node_id(number: u32) -> Result<NodeId, Failure> {
    NodeId::new(format!("node-{number}")).map_err(|error| Failure::failed(error.to_string()))
}

/// What the security server's crate refuses.
pub(crate) fn security_failure(error: security::SecurityError) -> Failure {
    error.refusal().into()
}

/// The data folders of a node where nothing is said.
fn one() -> u32 {
    1
}

/// A role's settings, in its folder.
/// The folder of the web page.
const GATEWAY: &str = "web";
/// Its port in a new cloud.
const WEB_PORT: u16 = 7080;
pub(crate) const SETTINGS_FILE: &str = "settings.toml";
/// On one machine a node is lost only when its process is: five missed reports are enough.
const NODE_LOST_AFTER_SECONDS: i64 = 5;
/// And reconnecting a cable does not bring it back.
const REPLICATE_AFTER_SECONDS: i64 = 5;
/// Nodes of one machine share a disk; 32 MiB keep its journals alive. The master sees the space above a node's
/// reserve, and leaves the same amount again. Uploads of unknown length therefore do not reach the reserve at once.
const RESERVE_BYTES: i64 = 32 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Reason;

    use super::*;

    #[test]
    fn a_placement_is_read_as_the_testbed_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("placement.toml");
        let text = "port = 7400\nother_ports = [7401, 7410]\ntopology = \"/t/topology.toml\"\n\n\
            [servers]\nsite = \"site1\"\naddress = \"10.77.1.1\"\ncommand_prefix = [\"sector-oct\", \"testbed\", \"run\", \"site1\"]\n\n\
            [[nodes]]\nsite = \"site2\"\naddress = \"10.77.2.2\"\n";
        fs::write(&file, text).unwrap();
        let place = |site: &str, address: [u8; 4], prefix: &[&str]| RolePlacement {
            site: site.into(),
            address: address.into(),
            command_prefix: prefix.iter().map(|word| (*word).into()).collect(),
        };
        let expected = CloudSpec {
            servers: place("site1", [10, 77, 1, 1], &["sector-oct", "testbed", "run", "site1"]),
            nodes: vec![place("site2", [10, 77, 2, 2], &[])],
            numbers: Vec::new(),
            port: 7400,
            other_ports: Some((7401, 7410)),
            topology: Some("/t/topology.toml".into()),
            disks_per_node: 1,
            insecure_data: false,
        };
        assert_eq!(CloudSpec::read(&file).unwrap(), expected);
        fs::write(&file, text.replace("address", "adress")).unwrap();
        assert_eq!(CloudSpec::read(&file).unwrap_err().reason, Reason::Invalid);
    }
}
