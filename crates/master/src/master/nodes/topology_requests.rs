//! Where nodes and clients stand, as the operator's file says. Serves placement, reading and every reload. It never
//! reads the file itself: the server does, and a wrong file changes nothing here.

use std::{cmp::Reverse, net::IpAddr};

use protocol::{
    Now, Reason, Refusal, Topology,
    address_range::common_prefix_bits,
    message::{client_master::ClientReply, cluster::TopologyStatus, master_security::UserRights},
    topology::{Distance, NetworkDistance},
};

use crate::{
    Master,
    actions::{MasterAction, SessionCaller},
    catalog::rights::check_admin,
    fleet::{nodes::NodeKey, topology::TopologyOrigin},
    replicas::sweeps::Sweep,
};

impl Master {
    /// Takes a topology into use that was read from `file`. Copies that are misplaced by it are moved.
    pub fn set_topology(&mut self, now: Now, file: Option<String>, topology: Topology) {
        self.fleet.topology = TopologyOrigin { file, fault: None };
        if self.fleet.nodes.set_topology(topology) {
            self.replicas.sweeps.push_back(Sweep::All(0));
            self.retry_blocked_copies(true);
        }
        self.run_pending(now);
    }

    /// Answers with the topology, after reading its file again if requested.
    pub(crate) fn handle_topology(
        &mut self,
        from: SessionCaller,
        by: &UserRights,
        reload: bool,
    ) -> Result<Option<ClientReply>, Refusal> {
        if !reload {
            return Ok(Some(self.topology_status()));
        }
        check_admin(by, "read the topology again")?;
        if self.fleet.topology.file.is_none() {
            let message = "this master has no topology file; name one as `topology` in its settings and start it again";
            return Err(Refusal::new(Reason::NotFound, message));
        }
        self.actions.push_back(MasterAction::ReadTopology { to: from });
        Ok(None)
    }

    /// Takes the result of reading the file: for a caller, or because it has changed.
    pub(crate) fn note_topology(&mut self, now: Now, to: Option<SessionCaller>, read: Result<Topology, Refusal>) {
        let reply = match read {
            Ok(topology) => {
                tracing::info!("the topology was read again");
                self.set_topology(now, self.fleet.topology.file.clone(), topology);
                self.topology_status()
            }
            Err(refusal) => {
                tracing::error!(%refusal, "the topology is wrong; the one before stays in use");
                self.fleet.topology.fault = Some(refusal.message.clone());
                ClientReply::Refused(refusal)
            }
        };
        if let Some(to) = to {
            self.reply(to, reply);
        }
    }

    /// How near a node is to a client, then how busy; smaller is better. What is marked as slow comes after what is
    /// equally far: on the client's machine, at its site, or elsewhere. The distance is by the client's address range.
    /// If the topology names none, nodes that share more of their network's address with it count as nearer. (The round
    /// trip that the master measures is its own to the client, and says little about the nodes'.)
    pub(crate) fn distance_to_reader(&mut self, key: NodeKey, address: IpAddr) -> ReaderDistance {
        let node = self.fleet.nodes.get(key);
        let spot = self.fleet.nodes.topology().place_of_address(address);
        let remoteness = match spot {
            _ if node.ip == address => NetworkDistance { distance: Distance::SameNode, millis: 0 },
            Some(spot) => self.fleet.nodes.topology().network_distance(spot, &node.place),
            None => NetworkDistance { distance: Distance::OtherSite, millis: 0 },
        };
        let shared_bits = if spot.is_none() { network_bits(node.ip, address) } else { 0 };
        let class = match remoteness.distance {
            Distance::SameNode => 0,
            Distance::SameRack | Distance::SameSite => 1,
            Distance::OtherSite => 2,
        };
        let site = spot.and_then(|spot| self.fleet.nodes.sites().of_name(&spot.site));
        let is_behind_slow_link = site.is_some_and(|site| self.fleet.nodes.is_slow_link(site, node.site));
        let is_slow = node.is_mostly_slow() || is_behind_slow_link;
        let (load, lot) = (node.load(), self.rng.u32(..));
        ReaderDistance { class, shared_bits: Reverse(shared_bits), is_slow, remoteness, load, lot }
    }

    fn topology_status(&self) -> ClientReply {
        let places = self.fleet.nodes.by_name().map(|(_, node)| (node.id.clone(), node.place.clone())).collect();
        ClientReply::Topology(TopologyStatus {
            file: self.fleet.topology.file.clone(),
            fault: self.fleet.topology.fault.clone(),
            topology: self.fleet.nodes.topology().clone(),
            places,
        })
    }
}

/// How much of their network two addresses share, in coarse steps. Nodes side by side must not differ here, or load
/// would never decide between them.
fn network_bits(a: IpAddr, b: IpAddr) -> u8 {
    let bits = common_prefix_bits(a, b);
    if bits < SHARED_BITS_MIN { 0 } else { bits - bits % SHARED_BITS_STEP }
}

/// See [`Master::distance_to_reader`]. The first difference counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReaderDistance {
    /// On the reader's machine, at its site, or elsewhere.
    class: u8,
    shared_bits: Reverse<u8>,
    /// Marked as slow, or behind a link that is.
    is_slow: bool,
    remoteness: NetworkDistance,
    load: u32,
    lot: u32,
}

/// The least number of shared leading bits that counts, as counted by [`common_prefix_bits`]: a /16 of IPv4, a /64 of
/// IPv6.
const SHARED_BITS_MIN: u8 = 64;
/// Further steps: a /24 of IPv4.
const SHARED_BITS_STEP: u8 = 32;
