//! What a data folder has of its cloud: nodes, sites, disks and port, as the roles' settings say. `sector up` starts
//! that again, and refuses to start something else. This file never changes the folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use daemon::settings::{Checked, MasterSettings, NodeSettings};
use protocol::NodeId;
use terminal::failure::Failure;

use super::{
    CloudSpec, RolePlacement,
    layout::{SETTINGS_FILE, node_id},
};

/// What `sector up` was asked for; `None` is what the folder has.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskedCloud {
    /// Nodes.
    pub(crate) nodes: Option<u32>,
    /// Sites.
    pub(crate) sites: Option<u32>,
    /// The master's port.
    pub(crate) port: Option<u16>,
    /// Data folders of each node.
    pub(crate) disks_per_node: Option<u32>,
    /// Whether data within a site goes unencrypted.
    pub(crate) insecure_data: bool,
}

/// The cloud of a data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownCloud {
    /// By their numbers, but for those that were removed from the cloud.
    nodes: BTreeMap<u32, KnownNode>,
    /// The highest number that a node ever had here.
    last_number: u32,
    port: u16,
    insecure_data: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownNode {
    site: String,
    disks: u32,
}

impl KnownCloud {
    /// Reads what the folder has; `None` if there is no node. `is_removed` tells the nodes that the cloud has forgotten.
    ///
    /// # Errors
    /// When settings cannot be read, or are wrong.
    pub(crate) fn read(folder: &Path, is_removed: impl Fn(&NodeId) -> bool) -> Result<Option<Self>, Failure> {
        let (mut nodes, mut last_number) = (BTreeMap::new(), 0);
        for number in node_numbers(folder)? {
            last_number = last_number.max(number);
            let id = node_id(number)?;
            // A start that was cut off may have left a folder without settings: that node is as good as new.
            let file = folder.join(id.as_str()).join(SETTINGS_FILE);
            if file.exists() && !is_removed(&id) {
                let settings = Checked::<NodeSettings>::read(&file)?;
                let disks = settings.data_folders().len() as u32;
                nodes.insert(number, KnownNode { site: settings.site.clone(), disks });
            }
        }
        let file = folder.join("master").join(SETTINGS_FILE);
        if nodes.is_empty() || !file.exists() {
            return Ok(None);
        }
        let master = Checked::<MasterSettings>::read(&file)?;
        let (port, insecure_data) = (master.listen.port(), master.insecure_data);
        Ok(Some(Self { nodes, last_number, port, insecure_data }))
    }

    /// Has new nodes take no name that a machine elsewhere has, or had.
    pub(crate) fn beside<'a>(mut self, machines: impl IntoIterator<Item = &'a NodeId>) -> Self {
        let numbers = machines.into_iter().filter_map(|id| id.as_str().strip_prefix("node-")?.parse::<u16>().ok());
        self.last_number = numbers.map(u32::from).fold(self.last_number, u32::max);
        self
    }

    /// What to start, and a sentence where that is more than there was.
    ///
    /// # Errors
    /// When something else is asked for than there is, with what it would do.
    pub(crate) fn start(&self, asked: &AskedCloud, folder: &Path) -> Result<(CloudSpec, Option<String>), Failure> {
        self.check(asked, folder)?;
        let mut nodes = self.nodes.clone();
        let disks = self.nodes.values().map(|node| node.disks).max().unwrap_or(1);
        let wanted = asked.nodes.map_or(nodes.len(), |nodes| nodes as usize);
        let mut added = Vec::new();
        while nodes.len() < wanted {
            let number = self.last_number + added.len() as u32 + 1;
            // The site with the fewest nodes, the first of these by name.
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            nodes.values().for_each(|node| *counts.entry(node.site.clone()).or_default() += 1);
            let site = counts.iter().min_by_key(|(_, count)| **count).map(|(site, _)| site.clone());
            nodes.insert(number, KnownNode { site: site.unwrap_or_else(|| "site-1".into()), disks });
            added.push(format!("node-{number}"));
        }
        let place = |node: &KnownNode| RolePlacement { site: node.site.clone(), ..RolePlacement::on_loopback(1) };
        let spec = CloudSpec {
            nodes: nodes.values().map(place).collect(),
            numbers: nodes.into_keys().collect(),
            port: self.port,
            disks_per_node: disks,
            insecure_data: self.insecure_data,
            ..CloudSpec::on_loopback(0, 1)
        };
        let note = (!added.is_empty())
            .then(|| format!("adds {} to the {} nodes of `{}`", added.join(", "), self.nodes.len(), folder.display()));
        Ok((spec, note))
    }

    /// Refuses what is not the cloud of this folder.
    fn check(&self, asked: &AskedCloud, folder: &Path) -> Result<(), Failure> {
        let (here, count) = (folder.display(), self.nodes.len() as u32);
        if let Some(nodes) = asked.nodes.filter(|nodes| *nodes < count) {
            let numbers: Vec<_> =
                self.nodes.keys().skip(nodes as usize).map(|number| format!("node-{number}")).collect();
            let last = numbers.last().cloned().unwrap_or_default();
            return Err(Failure::usage(format!(
                "the cloud in `{here}` has {count} nodes: with {nodes}, files that only {} have could not be read; for \
                 fewer, start all of them with `sector up`, then `sector node drain {last} --wait` and `sector node \
                 remove {last}` for each that is to go",
                numbers.join(", "),
            )));
        }
        let sites: BTreeSet<_> = self.nodes.values().map(|node| &node.site).collect();
        if let Some(asked) = asked.sites.filter(|asked| *asked as usize != sites.len()) {
            return Err(Failure::usage(format!(
                "the cloud in `{here}` has {} sites, and {asked} would put nodes with their files into other ones; a \
                 node's site is `site` in its {SETTINGS_FILE}",
                sites.len()
            )));
        }
        if let Some(asked) = asked.disks_per_node
            && let Some((number, node)) = self.nodes.iter().find(|(_, node)| node.disks != asked)
        {
            return Err(Failure::usage(format!(
                "node-{number} of the cloud in `{here}` has {} data folders, not {asked}: with fewer, their files could \
                 not be read; for more, add them to `folders` in its {SETTINGS_FILE}",
                node.disks
            )));
        }
        if let Some(asked) = asked.port.filter(|port| *port != self.port) {
            let has = if self.port == 0 { "takes any free port".into() } else { format!("has port {}", self.port) };
            return Err(Failure::usage(format!(
                "the cloud in `{here}` {has}, and with {asked} profiles on other machines would no longer find it; the \
                 port is in `listen` in its master/{SETTINGS_FILE}"
            )));
        }
        if asked.insecure_data && !self.insecure_data {
            return Err(Failure::usage(format!(
                "the cloud in `{here}` encrypts the bytes of files, and this would send them readable from now on; that \
                 is `insecure_data` in its master/{SETTINGS_FILE}"
            )));
        }
        Ok(())
    }
}

impl AskedCloud {
    /// The cloud that is made where there is none.
    pub(crate) fn new_cloud(&self) -> Result<CloudSpec, Failure> {
        let nodes = self.nodes.unwrap_or(NODES);
        let sites = self.sites.unwrap_or(SITES.min(nodes));
        if sites > nodes {
            return Err(Failure::usage(format!("{nodes} nodes cannot stand in {sites} sites")));
        }
        Ok(CloudSpec {
            port: self.port.unwrap_or(PORT),
            disks_per_node: self.disks_per_node.unwrap_or(1),
            insecure_data: self.insecure_data,
            ..CloudSpec::on_loopback(nodes, sites)
        })
    }
}

/// The numbers of the folders of nodes.
fn node_numbers(folder: &Path) -> Result<Vec<u32>, Failure> {
    let failed = |error| Failure::local("read", folder, &error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix("node-"));
        let number = digits.and_then(|digits| digits.parse::<u32>().ok());
        // Not `node-01`, which is no name that `sector up` gives.
        numbers.extend(number.filter(|number| name.to_str() == Some(&format!("node-{number}"))));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Nodes of a new cloud.
const NODES: u32 = 4;
/// Sites of a new cloud.
const SITES: u32 = 2;
/// The port of a new cloud.
const PORT: u16 = 7011;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn cloud(nodes: u32) -> KnownCloud {
        let node = |number| (number, KnownNode { site: format!("site-{}", (number - 1) % 2 + 1), disks: 2 });
        KnownCloud { nodes: (1..=nodes).map(node).collect(), last_number: nodes, port: 7011, insecure_data: false }
    }

    fn refused(asked: AskedCloud) -> String {
        cloud(4).start(&asked, Path::new("/data")).unwrap_err().message
    }

    #[test]
    fn a_cloud_starts_as_it_was_where_nothing_or_the_same_is_asked_for() {
        let same = AskedCloud {
            nodes: Some(4),
            sites: Some(2),
            port: Some(7011),
            disks_per_node: Some(2),
            insecure_data: false,
        };
        for asked in [AskedCloud::default(), same] {
            let (spec, note) = cloud(4).start(&asked, Path::new("/data")).unwrap();
            assert_eq!((spec.node_numbers(), spec.port, spec.disks_per_node), (vec![1, 2, 3, 4], 7011, 2));
            assert_eq!(spec.nodes[3].site, "site-2");
            assert_eq!(note, None);
        }
    }

    #[test]
    fn further_nodes_are_added_evenly_said_and_get_no_number_of_a_removed_one() {
        let mut known = cloud(4);
        known.nodes.remove(&4);
        let asked = AskedCloud { nodes: Some(6), ..AskedCloud::default() };
        let (spec, note) = known.start(&asked, Path::new("/data")).unwrap();
        assert_eq!(spec.node_numbers(), [1, 2, 3, 5, 6, 7]);
        let sites: Vec<_> = spec.nodes.iter().map(|node| node.site.as_str()).collect();
        assert_eq!(sites, ["site-1", "site-2", "site-1", "site-2", "site-1", "site-2"]);
        assert_eq!(note.unwrap(), "adds node-5, node-6, node-7 to the 3 nodes of `/data`");
    }

    #[test]
    fn a_further_node_takes_no_name_of_a_machine_elsewhere() {
        let elsewhere = ["node-5", "node-x", "other-9", "node-99999999"].map(|id| NodeId::new(id).unwrap());
        let asked = AskedCloud { nodes: Some(5), ..AskedCloud::default() };
        let (spec, _) = cloud(4).beside(&elsewhere).start(&asked, Path::new("/data")).unwrap();
        assert_eq!(spec.node_numbers(), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn another_cloud_than_that_of_the_folder_is_refused_with_what_it_would_do() {
        let fewer = refused(AskedCloud { nodes: Some(2), ..AskedCloud::default() });
        assert!(fewer.contains("only node-3, node-4 have") && fewer.contains("node drain node-4"), "{fewer}");
        let sites = refused(AskedCloud { sites: Some(4), ..AskedCloud::default() });
        assert!(sites.contains("has 2 sites"), "{sites}");
        let disks = refused(AskedCloud { disks_per_node: Some(1), ..AskedCloud::default() });
        assert!(disks.contains("2 data folders, not 1"), "{disks}");
        let port = refused(AskedCloud { port: Some(7000), ..AskedCloud::default() });
        assert!(port.contains("port 7011"), "{port}");
        let open = refused(AskedCloud { insecure_data: true, ..AskedCloud::default() });
        assert!(open.contains("insecure_data"), "{open}");
    }
}
