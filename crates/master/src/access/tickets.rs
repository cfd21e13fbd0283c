//! Tickets for door 5: who may move which bytes at which node, until when. (Paper, 2.3: every transfer "must be
//! coordinated by the master node".) Serves upload, download, replication and jobs. The signing keys stay behind
//! [`SignTickets`], so the simulation can sign with nothing, and the rules never hold a secret.

use std::{cell::Cell, time::Duration};

use protocol::{
    JobId, LeaseId, Now, ResumeKey, SectorPath, SliceHeader, SliceId, UserName, Version, limits,
    message::client_master::Source,
    ticket::{Holder, SignedTicket, Ticket, TicketFile, TicketKeys, TicketRight},
    topology::{Distance, PartialPlace},
};

use crate::{access::sessions::ClientSession, fleet::nodes::Node};

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
    pub(crate) signer: Box<dyn SignTickets + Send>,
    /// Number of the last ticket.
    last: Cell<u64>,
    /// When the next key takes over, on the monotonic clock.
    pub(crate) rolls_at: Duration,
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
    pub(crate) client: &'a ClientSession,
    pub(crate) spot: Option<PartialPlace>,
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
