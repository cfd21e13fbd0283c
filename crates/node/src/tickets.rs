//! Tickets at the node's door (architecture, door 5): who may do what with which bytes, checked here alone, without
//! asking the master. A ticket that does not fit is refused and counted.
//!
//! It never lets anything through before the master's public key is known, which comes with the first session.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use net::{clock::Clock, identity::TicketChecker};
use protocol::{
    JobId, NodeId, Now, ResumeKey, SliceHeader, SliceId, Status, UserName, names,
    ticket::{Right, SignedTicket, Ticket},
};

use crate::{NodeError, revoked::Revoked};

/// Checks tickets, and remembers which slices were written with one.
pub(crate) struct TicketDoor {
    node: NodeId,
    clock: Clock,
    checker: RwLock<Option<TicketChecker>>,
    refused: AtomicU64,
    revoked: Revoked,
    used: Arc<Mutex<Used>>,
}

impl TicketDoor {
    pub(crate) fn new(node: NodeId, clock: Clock) -> Self {
        Self {
            node,
            clock,
            checker: RwLock::new(None),
            refused: AtomicU64::new(0),
            revoked: Revoked::default(),
            used: Arc::default(),
        }
    }

    /// From now on tickets signed with this key's other half are good.
    pub(crate) fn set_key(&self, public_key: [u8; 32]) {
        let checker = TicketChecker::new(public_key, self.node.clone());
        *self.checker.write().unwrap_or_else(PoisonError::into_inner) = Some(checker);
    }

    /// Which bytes of `slice` may be read.
    pub(crate) fn read(&self, ticket: &SignedTicket, slice: SliceId) -> Result<std::ops::Range<u64>, NodeError> {
        match self.check(ticket, self.clock.now())?.right {
            Right::Read { slice: of, from, until } if of == slice => Ok(from..until),
            _ => Err(self.refuse(format!("the ticket does not allow to read slice {slice}"))),
        }
    }

    /// The slice that may be written, once.
    pub(crate) fn write(&self, ticket: &SignedTicket) -> Result<(WriteGrant, WriteClaim), NodeError> {
        let now = self.clock.now();
        let ticket = self.check(ticket, now)?;
        let Right::Write { header, resume, base, .. } = ticket.right else {
            return Err(self.refuse("the ticket does not allow to write a slice".into()));
        };
        let mut used = lock(&self.used);
        used.retain(|_, until_unix_millis| *until_unix_millis >= now.unix_millis);
        if used.contains_key(&header.slice) {
            drop(used);
            let sentence = format!("the ticket to write slice {} is used already; create the file again", header.slice);
            return Err(self.refuse(sentence));
        }
        let claim = WriteClaim {
            slice: header.slice,
            until_unix_millis: ticket.until_unix_millis,
            used: Arc::clone(&self.used),
        };
        drop(used);
        Ok((WriteGrant { header, user: ticket.user, resume, base }, claim))
    }

    /// Whether native files may be listed and taken in.
    pub(crate) fn import(&self, ticket: &SignedTicket) -> Result<(), NodeError> {
        match self.check(ticket, self.clock.now())?.right {
            Right::Import => Ok(()),
            _ => Err(self.refuse("the ticket does not allow to import files".into())),
        }
    }

    /// The job for which SPEs may be run here.
    pub(crate) fn compute(&self, ticket: &SignedTicket) -> Result<JobId, NodeError> {
        self.job_of(self.check(ticket, self.clock.now())?)
    }

    /// The slices that a job's SPEs may read here.
    pub(crate) fn inputs(&self, ticket: &SignedTicket, job: JobId) -> Result<BTreeSet<SliceId>, NodeError> {
        match self.check(ticket, self.clock.now())?.right {
            Right::Inputs { job: of, slices } if of == job => Ok(slices.into_iter().collect()),
            _ => Err(self.refuse(format!("the ticket does not allow job {job} to read anything"))),
        }
    }

    /// Refuses, and counts, a slice that no ticket lets a job read.
    pub(crate) fn refuse_input(&self, job: JobId, slice: SliceId) -> NodeError {
        self.refuse(format!("no ticket allows job {job} to read slice {slice}"))
    }

    /// As [`compute`](Self::compute), for a piece. A task may take longer than a ticket lives; so another node, which
    /// proved itself by a certificate of the cloud, may deliver with the ticket that was good when its task began.
    pub(crate) fn piece(&self, ticket: &SignedTicket, from_node: bool) -> Result<JobId, NodeError> {
        let mut now = self.clock.now();
        if from_node {
            now.unix_millis = now.unix_millis.saturating_sub(DELIVERY_TIME_MAX.as_millis() as u64);
        }
        self.job_of(self.check(ticket, now)?)
    }

    /// Whose tickets are worthless before their time.
    pub(crate) fn revoked(&self) -> &Revoked {
        &self.revoked
    }

    /// Tickets refused so far.
    pub(crate) fn refused_total(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn job_of(&self, ticket: Ticket) -> Result<JobId, NodeError> {
        match ticket.right {
            Right::Compute { job } => Ok(job),
            _ => Err(self.refuse("the ticket does not allow to run a job".into())),
        }
    }

    fn check(&self, ticket: &SignedTicket, now: Now) -> Result<Ticket, NodeError> {
        let checker = self.checker.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(checker) = checker else {
            let sentence = format!("node {} has not met its master yet; try again a little later", self.node);
            return Err(NodeError::refused(Status::Unavailable, sentence));
        };
        let ticket = checker.check(ticket, now).map_err(|refusal| {
            self.count(&refusal.sentence);
            NodeError::Refused(refusal)
        })?;
        if self.revoked.covers(&ticket) {
            // Unavailable: who has another session gets a new ticket from the master, who has none hears so there.
            let sentence = format!("the tickets of {} were revoked; ask the master for a new one", ticket.user);
            self.count(&sentence);
            return Err(NodeError::refused(Status::Unavailable, sentence));
        }
        Ok(ticket)
    }

    fn refuse(&self, sentence: String) -> NodeError {
        self.count(&sentence);
        NodeError::refused(Status::Refused, sentence)
    }

    fn count(&self, why: &str) {
        let total = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::warn!(metric = names::METRIC_TICKETS_REFUSED, total, why, "a ticket was refused");
    }
}

/// What a write ticket allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteGrant {
    /// The new slice.
    pub(crate) header: SliceHeader,
    /// Who writes.
    pub(crate) user: UserName,
    /// Under which key it is kept if it breaks off.
    pub(crate) resume: Option<ResumeKey>,
    /// The slice that it begins with.
    pub(crate) base: Option<SliceId>,
}

/// The right to write one slice. While it is unused the ticket may be tried again: a writer whose connection broke comes
/// back before we notice, and the store keeps the first that is finished.
#[derive(Debug)]
pub(crate) struct WriteClaim {
    slice: SliceId,
    until_unix_millis: u64,
    used: Arc<Mutex<Used>>,
}

impl WriteClaim {
    /// The slice is stored: its ticket is good for nothing more, even if the slice is removed again.
    pub(crate) fn used(self) {
        lock(&self.used).insert(self.slice, self.until_unix_millis);
    }
}

/// Slices written whose tickets have not expired, with the time when they do: no more than are written in a ticket's
/// life of a minute.
type Used = BTreeMap<SliceId, u64>;

fn lock(used: &Mutex<Used>) -> MutexGuard<'_, Used> {
    // Each change under this lock is complete in itself.
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long after its ticket's end another node may still deliver a piece: longer than any sensible task runs.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(6 * 60 * 60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::identity::TicketSigner;
    use protocol::{LeaseId, RecordFormat, SectorPath, Version};

    use super::*;

    struct Fixture {
        door: TicketDoor,
        signer: TicketSigner,
        now_unix_millis: u64,
    }

    fn fixture() -> Fixture {
        let (clock, signer) = (Clock::start(), TicketSigner::generate());
        let door = TicketDoor::new(NodeId::new("here").unwrap(), clock);
        door.set_key(signer.public_key());
        Fixture { door, signer, now_unix_millis: clock.now().unix_millis }
    }

    impl Fixture {
        fn sign(&self, right: Right, until_unix_millis: u64) -> SignedTicket {
            let (user, node) = (UserName::new("alice").unwrap(), NodeId::new("here").unwrap());
            self.signer.sign(&Ticket { user, node, right, until_unix_millis })
        }

        fn write(&self) -> SignedTicket {
            let header = SliceHeader {
                slice: SliceId(1),
                path: SectorPath::parse("/a").unwrap(),
                version: Version(1),
                owner: UserName::new("alice").unwrap(),
                modified_unix_millis: 0,
                copies: 1,
                records: RecordFormat::File,
                user: BTreeMap::new(),
                journal: protocol::JournalId(1),
                acl: None,
            };
            self.sign(
                Right::Write { lease: LeaseId(1), header, resume: None, base: None },
                self.now_unix_millis + 60_000,
            )
        }
    }

    #[test]
    fn before_the_master_was_met_nothing_is_allowed_and_nothing_counted() {
        let made = fixture();
        let door = TicketDoor::new(NodeId::new("here").unwrap(), Clock::start());
        let refusal = door.write(&made.write()).unwrap_err().refusal();
        assert_eq!((refusal.status, door.refused_total()), (Status::Unavailable, 0), "it may be tried again soon");
    }

    #[test]
    fn refused_tickets_are_counted() {
        let made = fixture();
        let forged = SignedTicket { signature: vec![0; 64], ..made.write() };
        assert!(made.door.write(&forged).is_err());
        assert!(made.door.compute(&made.write()).is_err());
        assert!(made.door.read(&made.write(), SliceId(1)).is_err());
        assert_eq!(made.door.refused_total(), 3);
    }

    #[test]
    fn a_job_reads_what_its_ticket_names_and_nothing_by_another_jobs_or_kind_of_ticket() {
        let made = fixture();
        let until = made.now_unix_millis + 60_000;
        let slices = vec![SliceId(1), SliceId(2)];
        let inputs = made.sign(Right::Inputs { job: JobId(3), slices: slices.clone() }, until);
        assert_eq!(made.door.inputs(&inputs, JobId(3)).unwrap(), slices.into_iter().collect());
        assert!(made.door.inputs(&inputs, JobId(4)).is_err());
        assert!(made.door.inputs(&made.sign(Right::Compute { job: JobId(3) }, until), JobId(3)).is_err());
        assert!(made.door.compute(&inputs).is_err(), "nor does it start an SPE");
        assert!(made.door.read(&inputs, SliceId(1)).is_err(), "nor bring bytes to a client");
    }

    #[test]
    fn a_write_may_be_tried_again_until_it_succeeded() {
        let made = fixture();
        let (_, broken) = made.door.write(&made.write()).unwrap();
        drop(broken);
        let (_, claim) = made.door.write(&made.write()).unwrap();
        claim.used();
        assert_eq!(made.door.write(&made.write()).unwrap_err().refusal().status, Status::Refused);
    }

    #[test]
    fn a_ticket_that_was_revoked_is_refused_and_one_given_out_later_is_not() {
        let made = fixture();
        let job = Right::Compute { job: JobId(3) };
        let life = protocol::limits::TICKET_LIFE.as_millis() as u64;
        let [before, after] = [0, 5].map(|later| made.sign(job.clone(), made.now_unix_millis + later + life));
        let revocation = protocol::message::node_master::Revocation {
            user: UserName::new("alice").unwrap(),
            until_unix_millis: made.now_unix_millis,
        };
        assert!(made.door.compute(&before).is_ok());
        made.door.revoked().revoke(made.door.clock.now(), revocation);
        let refusal = made.door.compute(&before).unwrap_err().refusal();
        assert_eq!((refusal.status, made.door.refused_total()), (Status::Unavailable, 1));
        assert!(made.door.compute(&after).is_ok());
    }

    #[test]
    fn a_new_key_makes_the_old_tickets_worthless() {
        let made = fixture();
        made.door.set_key(TicketSigner::generate().public_key());
        assert!(made.door.write(&made.write()).is_err());
    }

    #[test]
    fn only_for_another_node_does_a_compute_ticket_outlive_its_end() {
        let made = fixture();
        let job = JobId(3);
        let ended = made.sign(Right::Compute { job }, made.now_unix_millis.saturating_sub(1_000));
        assert!(made.door.compute(&ended).is_err());
        assert!(made.door.piece(&ended, false).is_err());
        assert_eq!(made.door.piece(&ended, true).unwrap(), job);
    }
}
