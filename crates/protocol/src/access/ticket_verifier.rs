//! What a ticket allows at a node, as a plain struct without lock, clock or cipher (architecture, "One shape for every
//! rule-keeper"; door 5). A node asks it with real signatures and proofs, the simulation with its own. It decides
//! without the master: whose ticket it is, for which node, until when, who may show it, and for what. It also decides
//! whether it was used or revoked. It never lets anything through before it knows the master's keys.

mod revoked;
mod signing_keys;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use self::{revoked::Revocations, signing_keys::KnownKeys};
use crate::{
    JobId, NodeId, Now, Reason, Refusal, ResumeKey, SliceId, UserName,
    message::node_master::Revocation,
    slice::SliceHeader,
    ticket::{
        Delegate, Delegation, Holder, HolderKey, SignedTicket, Ticket, TicketFault, TicketKeys, TicketRight,
        delegation_bytes,
    },
    wire::codec,
};

/// The ticket rules of one node.
#[derive(Clone, Debug)]
pub struct TicketVerifier {
    node: NodeId,
    /// The node's site, by its settings.
    site: String,
    is_signed: IsSigned,
    keys: Option<KnownKeys>,
    revocations: Revocations,
}

/// Whether this text was signed with the private half of this public key.
pub type IsSigned = fn(key: &[u8; 32], words: &[u8], signature: &[u8]) -> bool;

/// The bearer of a ticket, as far as the connection has proved who that is.
pub trait ProvedBearer {
    /// Whether it showed a certificate of the cloud, as nodes do and clients do not.
    fn is_role(&self) -> bool;

    /// Whether it showed the certificate of this machine of the cloud.
    fn is_node(&self, node: &NodeId) -> bool;

    /// Whether it proved to hold this key.
    fn has_key(&self, key: HolderKey) -> bool;

    /// Whether the connection with it is not encrypted.
    fn is_plain(&self) -> bool;
}

impl TicketVerifier {
    /// The verifier of `node` at `site`, before it has met its master.
    pub fn new(node: NodeId, site: String, is_signed: IsSigned) -> Self {
        Self { node, site, is_signed, keys: None, revocations: Revocations::default() }
    }

    /// From now on tickets signed with these keys' private halves are good. Replaced keys stay good for what they have
    /// signed. Keys of another master, or of this one after a restart, make all older tickets worthless.
    pub fn take_keys(&mut self, now: Now, keys: TicketKeys) {
        match &mut self.keys {
            Some(known) if known.is_same_signer(keys) => known.rotate(now, keys),
            known => {
                *known = Some(KnownKeys::new(keys));
                self.revocations.forget_users();
            }
        }
    }

    /// Takes a revocation from the master.
    pub fn revoke(&mut self, now: Now, revocation: Revocation) {
        self.revocations.revoke(now, revocation);
    }

    /// Takes from the master the machines that are struck off: these and no others.
    pub fn strike_off(&mut self, machines: Vec<NodeId>) {
        self.revocations.strike_off(machines);
    }

    /// Whether a ticket was given out before its user's tickets were revoked.
    pub fn is_revoked(&self, ticket: &Ticket) -> bool {
        self.revocations.covers(ticket)
    }

    /// The same for a ticket as it was shown. An unreadable one allows nothing anyway.
    pub fn is_shown_revoked(&self, ticket: &SignedTicket) -> bool {
        !self.revocations.has_none() && codec::decode(&ticket.ticket).is_ok_and(|ticket| self.is_revoked(&ticket))
    }

    /// Whether `bearer` shows the certificate of a machine that was struck off.
    pub fn is_struck_off(&self, bearer: &impl ProvedBearer) -> bool {
        self.revocations.is_struck_off(bearer)
    }

    /// The ticket, when it is genuine, for this node, and not expired.
    ///
    /// # Errors
    /// Which of these conditions fails.
    pub fn verify(&self, now: Now, signed: &SignedTicket) -> Result<Ticket, RefusedTicket> {
        let Some(keys) = &self.keys else {
            let message = format!("node {} has not met its master yet; try again a little later", self.node);
            let refusal = Refusal::new(Reason::Unavailable, message);
            return Err(RefusedTicket { fault: None, user: None, refusal });
        };
        let unsigned = || {
            let message =
                format!("{} refuses the ticket: the master did not sign it; ask the master for a new one", self.node);
            refused(TicketFault::Unsigned, None, message)
        };
        // The signature first: an unsigned ticket is not even parsed.
        let limit = keys.limit_of(self.is_signed, signed).ok_or_else(unsigned)?;
        let ticket: Ticket = codec::decode(&signed.ticket).map_err(|error| {
            refused(TicketFault::Unsigned, None, format!("{} cannot read the ticket: {error}", self.node))
        })?;
        if ticket.until_unix_millis > limit {
            return Err(unsigned());
        }
        if ticket.node != self.node {
            let message = format!("{} refuses the ticket: it is for {}", self.node, ticket.node);
            return Err(refused(TicketFault::OtherNode, Some(ticket.user), message));
        }
        if ticket.is_expired(now) {
            let seconds = (now.unix_millis - ticket.until_unix_millis).div_ceil(1000);
            let message = format!(
                "{} refuses the ticket: it ended {seconds} s ago; ask the master for a new one, and see that the clocks agree",
                self.node
            );
            return Err(refused(TicketFault::Expired, Some(ticket.user), message));
        }
        Ok(ticket)
    }

    /// The ticket, when it is valid for this bearer, whatever it allows.
    ///
    /// # Errors
    /// Why it is not.
    pub fn admit(&self, now: Now, bearer: &impl ProvedBearer, signed: &SignedTicket) -> Result<Ticket, RefusedTicket> {
        let ticket = self.verify(now, signed)?;
        if self.is_revoked(&ticket) {
            // Unavailable: a user with another session gets a new ticket from the master; one without hears it there.
            let message = format!("the tickets of {} were revoked; ask the master for a new one", ticket.user);
            let refusal = Refusal::new(Reason::Unavailable, message);
            return Err(RefusedTicket { fault: Some(TicketFault::Revoked), user: Some(ticket.user), refusal });
        }
        if !is_held(self.is_signed, bearer, signed, &ticket.holder) {
            let message = format!(
                "{} refuses the ticket: it was made for another client or node; ask the master for one of your own",
                self.node
            );
            return Err(refused(TicketFault::NotHolder, Some(ticket.user), message));
        }
        if bearer.is_plain() {
            self.check_plain(&ticket)?;
        }
        Ok(ticket)
    }

    /// Which bytes of `slice` may be read.
    ///
    /// # Errors
    /// Why none.
    pub fn authorize_read(
        &self,
        now: Now,
        bearer: &impl ProvedBearer,
        signed: &SignedTicket,
        slice: SliceId,
    ) -> Result<Range<u64>, RefusedTicket> {
        let ticket = self.admit(now, bearer, signed)?;
        match ticket.right {
            TicketRight::Read { slice: of, from, until } if of == slice => Ok(from..until),
            _ => Err(other_right(ticket.user, format!("to read slice {slice}"))),
        }
    }

    /// The slice that may be written, unless its ticket [is used](UsedTickets::check). While it is unused the ticket
    /// may be tried again. A writer whose connection broke may come back before that is noticed, and the store keeps
    /// the first attempt that finishes.
    ///
    /// # Errors
    /// Why none.
    pub fn authorize_write(
        &self,
        now: Now,
        bearer: &impl ProvedBearer,
        signed: &SignedTicket,
    ) -> Result<WriteGrant, RefusedTicket> {
        let Ticket { user, right, until_unix_millis, .. } = self.admit(now, bearer, signed)?;
        let TicketRight::Write { header, resume, base, .. } = right else {
            return Err(other_right(user, "to write a slice".into()));
        };
        Ok(WriteGrant { header, user, resume, base, until_unix_millis })
    }

    /// Whether native files may be listed and imported.
    ///
    /// # Errors
    /// Why not.
    pub fn authorize_import(
        &self,
        now: Now,
        bearer: &impl ProvedBearer,
        signed: &SignedTicket,
    ) -> Result<(), RefusedTicket> {
        let ticket = self.admit(now, bearer, signed)?;
        match ticket.right {
            TicketRight::Import => Ok(()),
            _ => Err(other_right(ticket.user, "to import files".into())),
        }
    }

    /// The job for which SPEs may be run here, and its user.
    ///
    /// # Errors
    /// Why none.
    pub fn authorize_compute(
        &self,
        now: Now,
        bearer: &impl ProvedBearer,
        signed: &SignedTicket,
    ) -> Result<(JobId, UserName), RefusedTicket> {
        let ticket = self.admit(now, bearer, signed)?;
        match ticket.right {
            TicketRight::Compute { job } => Ok((job, ticket.user)),
            _ => Err(other_right(ticket.user, "to run a job".into())),
        }
    }

    /// As [`authorize_compute`](Self::authorize_compute), for a piece. A task may take longer than a ticket lives, and
    /// delivers to many nodes. So another node may deliver with the ticket that was good when its task began. It must
    /// have proved itself by a certificate of the cloud, and the driver must have delegated the ticket to it by name.
    ///
    /// # Errors
    /// Why none.
    pub fn authorize_piece(
        &self,
        now: Now,
        bearer: &impl ProvedBearer,
        signed: &SignedTicket,
    ) -> Result<JobId, RefusedTicket> {
        let mut then = now;
        if bearer.is_role() {
            then.unix_millis = now.unix_millis.saturating_sub(DELIVERY_TIME_MAX.as_millis() as u64);
        }
        self.authorize_compute(then, bearer, signed).map(|(job, _)| job)
    }

    /// The slices that a job's SPEs may read here.
    ///
    /// # Errors
    /// Why none.
    pub fn authorize_inputs(
        &self,
        now: Now,
        bearer: &impl ProvedBearer,
        signed: &SignedTicket,
        job: JobId,
    ) -> Result<BTreeSet<SliceId>, RefusedTicket> {
        let ticket = self.admit(now, bearer, signed)?;
        match ticket.right {
            TicketRight::Inputs { job: of, slices } if of == job => Ok(slices.into_iter().collect()),
            _ => Err(other_right(ticket.user, format!("job {job} to read anything"))),
        }
    }

    /// Whether the connection on which this ticket is shown may go on without encryption.
    ///
    /// # Errors
    /// Why not.
    pub fn authorize_plain(
        &self,
        now: Now,
        bearer: &impl ProvedBearer,
        signed: &SignedTicket,
    ) -> Result<(), RefusedTicket> {
        let ticket = self.admit(now, bearer, signed)?;
        self.check_plain(&ticket)
    }

    fn check_plain(&self, ticket: &Ticket) -> Result<(), RefusedTicket> {
        if ticket.plain_within.as_ref() == Some(&self.site) {
            return Ok(());
        }
        let message = format!(
            "{} at site {} refuses the ticket: it does not allow bytes to go unencrypted here; use an encrypted connection",
            self.node, self.site
        );
        Err(refused(TicketFault::Plain, Some(ticket.user.clone()), message))
    }
}

/// A ticket that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTicket {
    /// Why, for counting; `None` where it may be good and this node does not know yet.
    pub fault: Option<TicketFault>,
    /// The user it names, where the master signed it.
    pub user: Option<UserName>,
    /// Why, for its bearer.
    pub refusal: Refusal,
}

/// What a write ticket allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteGrant {
    /// The new slice.
    pub header: SliceHeader,
    /// Who writes.
    pub user: UserName,
    /// The key under which it is kept if it breaks off.
    pub resume: Option<ResumeKey>,
    /// The slice that it begins with.
    pub base: Option<SliceId>,
    /// When the ticket ends, in milliseconds since the Unix epoch.
    pub until_unix_millis: u64,
}

/// Whether `ticket`, whose holder is `holder`, was made for `bearer`, or was delegated to it by the holder.
pub fn is_held(is_signed: IsSigned, bearer: &impl ProvedBearer, ticket: &SignedTicket, holder: &Holder) -> bool {
    match (holder, &ticket.delegation) {
        (Holder::Node(node), _) => bearer.is_node(node),
        (Holder::Client(key), None) => bearer.has_key(*key),
        (Holder::Client(key), Some(Delegation { to, signature })) => {
            // The identity first: that costs less than the signature.
            let is_meant = match to {
                Delegate::Node(node) => bearer.is_node(node),
                Delegate::Key(to) => bearer.has_key(*to),
            };
            is_meant && is_signed(&key.0, &delegation_bytes(&ticket.ticket, to), signature)
        }
    }
}

/// Slices written whose tickets have not expired: no more than are written in a ticket's life of a minute. It is
/// separate from the verifier's other rules, since it changes with every write and those hardly ever.
#[derive(Clone, Debug, Default)]
pub struct UsedTickets {
    /// When their tickets expire.
    until_unix_millis: BTreeMap<SliceId, u64>,
    swept_unix_millis: u64,
}

impl UsedTickets {
    /// Whether the ticket of this grant is unused.
    ///
    /// # Errors
    /// [`TicketFault::Used`]: its slice is stored, even if it was removed again.
    pub fn check(&self, now: Now, grant: &WriteGrant) -> Result<(), RefusedTicket> {
        let slice = grant.header.slice;
        if !self.has(now, slice) {
            return Ok(());
        }
        let message = format!("the ticket to write slice {slice} is used already; create the file again");
        Err(refused(TicketFault::Used, Some(grant.user.clone()), message))
    }

    fn has(&self, now: Now, slice: SliceId) -> bool {
        self.until_unix_millis.get(&slice).is_some_and(|until| *until >= now.unix_millis)
    }

    /// The slice is stored: its ticket, which expires then, is no longer good for anything.
    pub fn add(&mut self, now: Now, slice: SliceId, until_unix_millis: u64) {
        // All are checked then, and not for each of the thousand small files that may be written in a second.
        if now.unix_millis.abs_diff(self.swept_unix_millis) >= SWEEP_PERIOD_MILLIS {
            self.until_unix_millis.retain(|_, until| *until >= now.unix_millis);
            self.swept_unix_millis = now.unix_millis;
        }
        self.until_unix_millis.insert(slice, until_unix_millis);
    }
}

fn other_right(user: UserName, what: String) -> RefusedTicket {
    refused(TicketFault::OtherRight, Some(user), format!("the ticket does not allow {what}"))
}

fn refused(fault: TicketFault, user: Option<UserName>, message: String) -> RefusedTicket {
    RefusedTicket { fault: Some(fault), user, refusal: Refusal::new(Reason::NoRight, message) }
}

/// How often the expired ones are forgotten.
const SWEEP_PERIOD_MILLIS: u64 = 1_000;
/// How long after its ticket's end another node may still deliver a piece: longer than any sensible task runs.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(6 * 60 * 60);
