//! Tickets for door 5: who may move which bytes at which node, until when (paper, 2.3: every transfer "must be
//! coordinated by the master node"). Serves upload, download, replication and jobs. The signing key itself stays
//! behind [`SignTickets`], so that the rules hold no secret and the simulation can sign with nothing.

use protocol::{
    JobId, LeaseId, Now, ResumeKey, SliceHeader, SliceId, UserName, limits,
    message::client_master::Source,
    ticket::{Right, SignedTicket, Ticket},
};

use crate::nodes::Node;

/// Signs tickets; the server gives the master's Ed25519 key, tests and the simulation give a fake.
pub trait SignTickets {
    /// The ticket with its signature.
    fn sign(&self, ticket: &Ticket) -> SignedTicket;
}

impl SignTickets for net::identity::TicketSigner {
    fn sign(&self, ticket: &Ticket) -> SignedTicket {
        Self::sign(self, ticket)
    }
}

/// Makes [`Source`]s: a node with the ticket that opens its door.
pub(crate) struct Tickets {
    signer: Box<dyn SignTickets + Send>,
}

impl Tickets {
    pub(crate) fn new(signer: Box<dyn SignTickets + Send>) -> Self {
        Self { signer }
    }

    /// For reading a whole slice.
    pub(crate) fn read(&self, now: Now, node: &Node, user: &UserName, slice: SliceId, bytes: u64) -> Source {
        self.source(now, node, user, Right::Read { slice, from: 0, until: bytes })
    }

    /// For writing a new slice under a lease; `from` says what of it may be at the node already.
    pub(crate) fn write(
        &self,
        now: Now,
        node: &Node,
        user: &UserName,
        lease: LeaseId,
        header: SliceHeader,
        from: WriteFrom,
    ) -> Source {
        let WriteFrom { resume, base } = from;
        self.source(now, node, user, Right::Write { lease, header, resume, base })
    }

    /// For running SPEs of a job.
    pub(crate) fn compute(&self, now: Now, node: &Node, user: &UserName, job: JobId) -> Source {
        self.source(now, node, user, Right::Compute { job })
    }

    /// For taking native files in.
    pub(crate) fn import(&self, now: Now, node: &Node, user: &UserName) -> Source {
        self.source(now, node, user, Right::Import)
    }

    /// For reading slices in SPEs of a job.
    pub(crate) fn inputs(&self, now: Now, node: &Node, user: &UserName, job: JobId, slices: Vec<SliceId>) -> Source {
        self.source(now, node, user, Right::Inputs { job, slices })
    }

    fn source(&self, now: Now, node: &Node, user: &UserName, right: Right) -> Source {
        let ticket = Ticket {
            user: user.clone(),
            node: node.id.clone(),
            right,
            until_unix_millis: now.after(limits::TICKET_LIFE).unix_millis,
        };
        Source {
            node: node.id.clone(),
            place: node.place.clone(),
            address: node.address,
            local: None,
            ticket: self.signer.sign(&ticket),
        }
    }
}

/// What of a new slice may be at its node before the first byte is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteFrom {
    /// What an earlier attempt under this key brought.
    pub(crate) resume: Option<ResumeKey>,
    /// All of this slice.
    pub(crate) base: Option<SliceId>,
}
