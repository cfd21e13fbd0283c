//! Networks for a test: a namespace for each group of processes, all on one bridge. The bridge has a namespace of its
//! own, so that the machine's own network is never touched. Links are cut and restored. Everything is removed at the
//! end, even if the test fails. Needs root.

use std::{
    collections::BTreeMap,
    process::{Command, Output, id},
    sync::atomic::{AtomicU32, Ordering},
};

/// See the module.
pub struct Network {
    /// The prefix of its namespaces' names: this process's own.
    name: String,
    /// The address of each group.
    groups: BTreeMap<String, String>,
}

impl Network {
    /// Makes a namespace for each group; `None`, with a message, if that is not permitted.
    pub fn make(groups: &[String]) -> Option<Self> {
        let name = format!("sector-test-{}-{}", id(), NETWORKS.fetch_add(1, Ordering::Relaxed));
        let address = |number: usize| format!("10.77.0.{}", number + 1);
        let groups = groups.iter().enumerate().map(|(number, group)| (group.clone(), address(number))).collect();
        // Before the first namespace, so that everything is removed, whatever fails from here on.
        let network = Self { name, groups };
        let hub = network.namespace("hub");
        let made = ip(&["netns", "add", &hub]);
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            println!("SKIPPED: this test makes network namespaces, which needs root and `ip netns add`: {why}");
            return None;
        }
        done(&["-n", &hub, "link", "add", "bridge", "type", "bridge"]);
        done(&["-n", &hub, "link", "set", "bridge", "up"]);
        for (number, (group, address)) in network.groups.iter().enumerate() {
            let (namespace, port) = (network.namespace(group), port(group));
            done(&["netns", "add", &namespace]);
            done(&["-n", &namespace, "link", "set", "lo", "up"]);
            done(&[
                "link",
                "add",
                "eth0",
                "netns",
                &namespace,
                "address",
                &hardware(number),
                "type",
                "veth",
                "peer",
                "name",
                &port,
                "netns",
                &hub,
            ]);
            done(&["-n", &hub, "link", "set", &port, "master", "bridge", "up"]);
            done(&["-n", &namespace, "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
            done(&["-n", &namespace, "link", "set", "eth0", "up"]);
        }
        Some(network)
    }

    /// The address of a group.
    pub fn address(&self, group: &str) -> &str {
        &self.groups[group]
    }

    /// The words before a command that should run in a group.
    pub fn prefix(&self, group: &str) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace(group)].map(String::from).into()
    }

    /// Pulls the cable of a group.
    pub fn cut(&self, group: &str) {
        done(&["-n", &self.namespace("hub"), "link", "set", &port(group), "down"]);
        assert!(self.has_carrier(group, false), "the cut has fired");
    }

    /// Plugs it in again.
    pub fn mend(&self, group: &str) {
        done(&["-n", &self.namespace("hub"), "link", "set", &port(group), "up"]);
        assert!(self.has_carrier(group, true), "the cable is in again");
    }

    /// From now on `to` does not hear `from`: its frames for `to` go to a card that does not exist.
    pub fn block_one_way(&self, from: &str, to: &str) {
        let lost = hardware(NOBODY);
        done(&[
            "-n",
            &self.namespace(from),
            "neigh",
            "replace",
            self.address(to),
            "lladdr",
            &lost,
            "nud",
            "permanent",
            "dev",
            "eth0",
        ]);
        let table = done(&["-n", &self.namespace(from), "neigh", "show", self.address(to)]);
        assert!(table.contains(&lost), "the cut has fired: {table}");
    }

    /// From now on `to` hears `from` again.
    pub fn unblock_one_way(&self, from: &str, to: &str) {
        done(&["-n", &self.namespace(from), "neigh", "del", self.address(to), "dev", "eth0"]);
    }

    fn namespace(&self, group: &str) -> String {
        format!("{}-{group}", self.name)
    }

    fn has_carrier(&self, group: &str, wanted: bool) -> bool {
        let link = || done(&["-n", &self.namespace(group), "link", "show", "eth0"]);
        (0..ANSWERS_MAX).any(|_| link().contains("NO-CARRIER") != wanted)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The links go with the namespaces at their ends.
        for group in self.groups.keys().map(String::as_str).chain(["hub"]) {
            ip(&["netns", "del", &self.namespace(group)]);
        }
    }
}

fn ip(arguments: &[&str]) -> Output {
    Command::new("ip").args(arguments).output().expect("`ip`, of the package iproute2")
}

fn done(arguments: &[&str]) -> String {
    let output = ip(arguments);
    assert!(output.status.success(), "ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A group's end of its cable at the bridge; the names of interfaces are short.
fn port(group: &str) -> String {
    format!("to-{group}")
}

/// A hardware address made up here.
fn hardware(number: usize) -> String {
    format!("02:00:00:00:77:{number:02x}")
}

/// The number of a card that does not exist.
const NOBODY: usize = 0xff;
/// How often a link is checked until it has changed.
const ANSWERS_MAX: u32 = 500;
/// Networks made by this process.
static NETWORKS: AtomicU32 = AtomicU32::new(0);
