//! The folder of a cloud on one machine: one folder per role with its settings and credentials, created where
//! missing. It never starts a role.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use client::Profile;
use daemon::settings::{Checked, MasterSettings, NodeSettings, SecuritySettings};
use protocol::{NodeId, UserName};
use security::create_cloud;
use serde::Deserialize;
use terminal::failure::Failure;

/// The size of a cloud, and where its roles run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloudSpec {
    /// Where the security server and the master run.
    pub(crate) servers: RolePlacement,
    /// Where each node runs.
    pub(crate) nodes: Vec<RolePlacement>,
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

impl CloudSpec {
    /// This many nodes on this machine's loopback, spread in turn over this many sites.
    pub(crate) fn on_loopback(nodes: u32, sites: u32) -> Self {
        let place = |site: u32| RolePlacement {
            site: format!("site-{site}"),
            address: Ipv4Addr::LOCALHOST,
            command_prefix: Vec::new(),
        };
        Self {
            servers: place(1),
            nodes: (0..nodes).map(|number| place(number % sites + 1)).collect(),
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

    /// The numbers of its nodes.
    pub(crate) fn node_numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.nodes.len() as u32
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
    authority_pem: String,
}

impl Layout {
    /// Makes or completes the folder: authority, credentials, the first administrator.
    pub(crate) fn prepare(folder: PathBuf, shape: CloudSpec) -> Result<Self, Failure> {
        fs::create_dir_all(&folder).map_err(|error| Failure::local("make the folder", &folder, &error))?;
        let mut cloud = create_cloud(&folder.join("security"), "sector").map_err(security_failure)?;
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
        Ok(Self { folder, spec: shape, authority_pem })
    }

    /// The administrator's profile for the cloud at `address`.
    pub(crate) fn profile(&self, address: SocketAddr) -> Result<Profile, Failure> {
        let kept = Profile::load(&self.folder.join("profile.toml"))?;
        Ok(Profile { address, authority: self.authority_pem.clone(), ..kept })
    }

    /// The security server's settings, written to its folder.
    pub(crate) fn security(&self) -> Result<(PathBuf, Checked<SecuritySettings>), Failure> {
        let port = self.spec.other_ports.map_or(0, |(security, _)| security);
        let listen = SocketAddr::new(self.spec.servers.address.into(), port);
        self.write("security", SecuritySettings { listen, ..SecuritySettings::default() })
    }

    /// The master's settings, for the security server at `security`.
    pub(crate) fn master(&self, security: SocketAddr) -> Result<(PathBuf, Checked<MasterSettings>), Failure> {
        let settings = MasterSettings {
            listen: SocketAddr::new(self.spec.servers.address.into(), self.spec.port),
            topology: self.spec.topology.clone(),
            security,
            node_lost_after_seconds: NODE_LOST_AFTER_SECONDS,
            replicate_after_seconds: REPLICATE_AFTER_SECONDS,
            reserve_bytes: RESERVE_BYTES,
            insecure_data: self.spec.insecure_data,
            ..MasterSettings::default()
        };
        self.write("master", settings)
    }

    /// A node's settings, for the master at `master`.
    pub(crate) fn node(&self, number: u32, master: SocketAddr) -> Result<(PathBuf, Checked<NodeSettings>), Failure> {
        let id = node_id(number)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let (disks, nodes) = (self.spec.disks_per_node, self.spec.nodes.len() as u32);
        let place = &self.spec.nodes[number as usize - 1];
        let settings = NodeSettings {
            site: place.site.clone(),
            rack: "rack-1".into(),
            listen: SocketAddr::new(place.address.into(), self.spec.other_ports.map_or(0, |(_, node)| node)),
            advertise: None,
            // The nodes of one machine share its processors.
            spe_slots: (cores / nodes).max(1),
            folders: (disks > 1).then(|| (2..=disks).map(|disk| format!("disk-{disk}").into()).collect()),
            reserve_bytes: RESERVE_BYTES,
            id: id.clone(),
            master,
            ..NodeSettings::default()
        };
        self.write(id.as_str(), settings)
    }

    fn write<T: daemon::settings::Settings>(&self, role: &str, settings: T) -> Result<(PathBuf, Checked<T>), Failure> {
        let folder = self.folder.join(role);
        let file = folder.join("settings.toml");
        let checked = Checked::of(settings, &folder).map_err(|error| Failure::failed(error.to_string()))?;
        write_private(&file, checked.to_toml().as_bytes())?;
        Ok((file, checked))
    }
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| Failure::local("make the folder", folder, &error))?;
    }
    store::write_file_atomically(file, bytes, 0o600).map_err(|error| Failure::local("write", file, &error))
}

fn node_id(number: u32) -> Result<NodeId, Failure> {
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

/// On one machine a node is lost only when its process is: five missed reports are enough.
const NODE_LOST_AFTER_SECONDS: u64 = 5;
/// And reconnecting a cable does not bring it back.
const REPLICATE_AFTER_SECONDS: u64 = 5;
/// Nodes of one machine share a disk; 32 MiB keep its journals alive. The master sees the space above a node's
/// reserve, and leaves the same amount again. Uploads of unknown length therefore do not reach the reserve at once.
const RESERVE_BYTES: u64 = 32 << 20;

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
