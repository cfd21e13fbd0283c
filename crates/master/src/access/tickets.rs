//! Tickets for door 5: who may move which bytes at which node, until when. (Paper, 2.3: every transfer "must be
//! coordinated by the master node".) Serves upload, download, replication and jobs. The signing keys stay behind
//! [`SignTickets`], so the simulation can sign with nothing, and the rules never hold a secret.

use std::{cell::Cell, collections::BTreeSet, net::IpAddr, time::Duration};

use protocol::{
    JobId, LeaseId, Now, ResumeKey, SectorPath, SliceHeader, SliceId, UserName, Version, limits,
    message::client_master::Source,
    ticket::{Holder, SignedTicket, Ticket, TicketFile, TicketKeys, TicketRight},
    topology::{Distance, PartialPlace},
};

use crate::{Master, access::sessions::ClientSession, fleet::nodes::Node, replicas::orders::QueuedWork};

/// Signs tickets. The server provides the master's Ed25519 keys, tests and the simulation a fake.
pub trait SignTickets {
    /// The ticket with its signature.
    fn sign(&self, ticket: &Ticket) -> SignedTicket;

    /// The public keys for checking them, now and next.
    fn public_keys(&self) -> TicketKeys;

    /// From now on the next key signs, and there is a new next one.
    fn roll(&mut self);
}

impl SignTickets for net::identity::TicketSigner {
    fn sign(&self, ticket: &Ticket) -> SignedTicket {
        Self::sign(self, ticket)
    }

    fn public_keys(&self) -> TicketKeys {
        Self::public_keys(self)
    }

    fn roll(&mut self) {
        Self::roll(self);
    }
}

/// Makes [`Source`]s: a node with the ticket that grants access to it.
pub(crate) struct TicketIssuer {
    signer: Box<dyn SignTickets + Send>,
    /// Number of the last ticket.
    last: Cell<u64>,
    /// When the next key takes over, on the monotonic clock.
    rolls_at: Duration,
}

/// The bearer of a ticket, and the terms of access to the bytes.
pub(crate) struct Bearer {
    /// The user on whose behalf it is shown.
    pub(crate) user: UserName,
    /// Who may show it.
    pub(crate) holder: Holder,
    /// The site within which the bytes may go unencrypted.
    pub(crate) plain_within: Option<String>,
    /// The distance from the node to the holder, if known.
    pub(crate) distance: Option<Distance>,
    /// The holder's site, if known.
    pub(crate) site: Option<String>,
}

/// A client and its site, if known.
pub(crate) struct ClientAt<'a> {
    client: &'a ClientSession,
    spot: Option<PartialPlace>,
}

impl TicketIssuer {
    pub(crate) fn new(now: Now, signer: Box<dyn SignTickets + Send>) -> Self {
        Self { signer, last: Cell::new(0), rolls_at: now.monotonic + limits::TICKET_KEY_LIFE }
    }

    /// The number of the last ticket issued.
    pub(crate) fn last(&self) -> u64 {
        self.last.get()
    }

    /// For reading a whole slice.
    pub(crate) fn read(
        &self,
        now: Now,
        node: &Node,
        of: Bearer,
        file: TicketFile,
        slice: SliceId,
        bytes: u64,
    ) -> Source {
        self.source(now, node, of, Some(file), TicketRight::Read { slice, from: 0, until: bytes })
    }

    /// For writing a new slice under a lease; `from` says which part of it may be at the node already.
    pub(crate) fn write(
        &self,
        now: Now,
        node: &Node,
        of: Bearer,
        lease: LeaseId,
        header: SliceHeader,
        from: WriteFrom,
    ) -> Source {
        let WriteFrom { resume, base } = from;
        let file = ticket_file(&header.path, header.version);
        self.source(now, node, of, Some(file), TicketRight::Write { lease, header, resume, base })
    }

    /// For running SPEs of a job.
    pub(crate) fn compute(&self, now: Now, node: &Node, of: Bearer, job: JobId) -> Source {
        self.source(now, node, of, None, TicketRight::Compute { job })
    }

    /// For importing native files.
    pub(crate) fn import(&self, now: Now, node: &Node, of: Bearer) -> Source {
        self.source(now, node, of, None, TicketRight::Import)
    }

    /// For reading slices in SPEs of a job.
    pub(crate) fn inputs(&self, now: Now, node: &Node, of: Bearer, job: JobId, slices: Vec<SliceId>) -> Source {
        self.source(now, node, of, None, TicketRight::Inputs { job, slices })
    }

    fn source(&self, now: Now, node: &Node, of: Bearer, file: Option<TicketFile>, right: TicketRight) -> Source {
        self.last.set(self.last.get() + 1);
        let Bearer { user, holder, plain_within, distance, site } = of;
        let ticket = Ticket {
            number: self.last.get(),
            user,
            holder,
            node: node.id.clone(),
            right,
            file,
            plain_within,
            holder_site: site,
            until_unix_millis: now.after(limits::TICKET_LIFE).unix_millis,
        };
        Source {
            node: node.id.clone(),
            place: node.place.clone(),
            address: node.address,
            distance,
            local: None,
            ticket: self.signer.sign(&ticket),
        }
    }
}

impl Master {
    /// The public keys with which nodes check tickets.
    pub fn ticket_keys(&self) -> TicketKeys {
        self.tickets.signer.public_keys()
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
            Some(spot) => Some(self.nodes.topology().network_distance(spot, &node.place).distance),
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
        if now.monotonic < self.tickets.rolls_at {
            return;
        }
        self.tickets.rolls_at = now.monotonic + limits::TICKET_KEY_LIFE;
        self.tickets.signer.roll();
        tracing::info!("another key signs tickets from now on");
        let joined: Vec<_> = self.nodes.iter().filter(|(_, node)| node.is_reachable()).map(|(key, _)| key).collect();
        for key in joined {
            self.orders.push(key, QueuedWork::TicketKeys);
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
        let sites: BTreeSet<_> = self.nodes.iter().map(|(_, node)| node.place.site.as_str()).collect();
        sites.into_iter().filter(|site| self.is_insecure(site)).map(str::to_owned).collect()
    }

    /// Where a client is: by the topology, else at the site of the nodes on its machine, if these are all at one site.
    /// `None`: it is not known.
    fn spot_of_client(&self, address: IpAddr) -> Option<PartialPlace> {
        if let Some(spot) = self.nodes.topology().place_of_address(address) {
            return Some(spot.clone());
        }
        let mut sites =
            self.nodes.iter().filter(|(_, node)| node.ip == address).map(|(_, node)| node.place.site.as_str());
        let site = sites.next()?;
        sites.all(|other| other == site).then(|| PartialPlace { site: site.to_owned(), rack: None })
    }
}

/// The part of a ticket that describes the file.
pub(crate) fn ticket_file(path: &SectorPath, version: Version) -> TicketFile {
    TicketFile { path: path.clone(), version }
}

/// The part of a new slice that may be at its node before the first byte is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteFrom {
    /// The bytes of an earlier attempt under this key.
    pub(crate) resume: Option<ResumeKey>,
    /// All of this slice.
    pub(crate) base: Option<SliceId>,
}
