//! Who bears a ticket and which keys nodes accept. Serves every path with bytes: tickets are bound to a client at its
//! place, or to a node, and the signing key changes with time. It never holds a secret itself.

use std::{collections::BTreeSet, net::IpAddr};

use protocol::{
    Now, UserName, limits,
    ticket::{Holder, TicketKeys},
    topology::{Distance, PartialPlace},
};

use crate::{
    Master,
    access::{
        sessions::ClientSession,
        tickets::{Bearer, ClientAt},
    },
    fleet::nodes::Node,
    replicas::orders::QueuedWork,
};

impl Master {
    /// The public keys with which nodes check tickets.
    pub fn ticket_keys(&self) -> TicketKeys {
        self.access.tickets.signer.public_keys()
    }

    /// Where `client` is: looked up once for all tickets of one answer.
    pub(crate) fn client_at<'a>(&self, client: &'a ClientSession) -> ClientAt<'a> {
        ClientAt { client, spot: self.spot_of_client(client.address) }
    }

    /// A client's ticket at `node`.
    pub(crate) fn client_bearer(&self, at: &ClientAt<'_>, node: &Node) -> Bearer {
        let ClientAt { client, spot } = at;
        let distance = match spot {
            _ if node.ip == client.address => Some(Distance::SameNode),
            Some(spot) => Some(self.fleet.nodes.topology().network_distance(spot, &node.place).distance),
            None => None,
        };
        Bearer {
            user: client.rights.user.clone(),
            holder: Holder::Client(client.holder),
            plain_within: self.plain_within(node, spot.as_ref().map(|spot| spot.site.as_str())),
            distance,
            site: spot.as_ref().map(|spot| spot.site.clone()),
        }
    }

    /// A ticket of the node `by` at `node`, on behalf of `user`.
    pub(crate) fn node_bearer(&self, user: &UserName, by: &Node, node: &Node) -> Bearer {
        Bearer {
            user: user.clone(),
            holder: Holder::Node(by.id.clone()),
            plain_within: self.plain_within(node, Some(&by.place.site)),
            distance: Some(protocol::topology::distance((&by.id, &by.place), (&node.id, &node.place))),
            site: Some(by.place.site.clone()),
        }
    }

    /// Lets the next key take over when its time has come, and tells the nodes which one comes after it.
    pub(crate) fn roll_ticket_key(&mut self, now: Now) {
        if now.monotonic < self.access.tickets.rolls_at {
            return;
        }
        self.access.tickets.rolls_at = now.monotonic + limits::TICKET_KEY_LIFE;
        self.access.tickets.signer.roll();
        tracing::info!("another key signs tickets from now on");
        let joined: Vec<_> =
            self.fleet.nodes.iter().filter(|(_, node)| node.is_reachable()).map(|(key, _)| key).collect();
        for key in joined {
            self.replicas.orders.push(key, QueuedWork::TicketKeys);
        }
    }

    /// The site of `node`, where its bytes may go unencrypted to someone at `site`.
    fn plain_within(&self, node: &Node, site: Option<&str>) -> Option<String> {
        let own = node.place.site.as_str();
        (self.is_insecure(own) && site == Some(own)).then(|| own.to_owned())
    }

    /// Whether the operator wants data within this site to go unencrypted.
    pub(crate) fn is_insecure(&self, _site: &str) -> bool {
        self.config.insecure_data
    }

    /// The sites within which data goes unencrypted.
    pub(crate) fn insecure_sites(&self) -> Vec<String> {
        let sites: BTreeSet<_> = self.fleet.nodes.iter().map(|(_, node)| node.place.site.as_str()).collect();
        sites.into_iter().filter(|site| self.is_insecure(site)).map(str::to_owned).collect()
    }

    /// Where a client is: by the topology, else at the site of the nodes on its machine, if these are all at one site.
    /// `None`: it is not known.
    fn spot_of_client(&self, address: IpAddr) -> Option<PartialPlace> {
        if let Some(spot) = self.fleet.nodes.topology().place_of_address(address) {
            return Some(spot.clone());
        }
        let mut sites =
            self.fleet.nodes.iter().filter(|(_, node)| node.ip == address).map(|(_, node)| node.place.site.as_str());
        let site = sites.next()?;
        sites.all(|other| other == site).then(|| PartialPlace { site: site.to_owned(), rack: None })
    }
}
