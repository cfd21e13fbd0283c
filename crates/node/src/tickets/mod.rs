//! Checks tickets at the node (architecture, door 5): who may do what with which bytes, decided here without asking the
//! master. The rules ([`TicketVerifier`]) decide what a ticket opens; here they meet the clock, real signatures and
//! connections. A refused ticket is counted by its fault and reported to the master. It never lets anything through
//! before the master's public key is known, which comes with the first session.

pub(crate) mod active_writes;
pub(crate) mod revocation_watch;

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use net::{
    clock::Clock,
    identity::{Bearer, is_signed},
};
use protocol::{
    JobId, NodeId, Now, Reason, SliceId, UserName,
    message::{
        audit::RefusedTickets,
        node_master::{REFUSALS_MAX, Report, TicketRefusal},
    },
    names,
    ticket::{SignedTicket, TicketFault, TicketKeys},
    ticket_verifier::{RefusedTicket, TicketVerifier, UsedTickets, WriteGrant},
};

use crate::{
    NodeError,
    tickets::{
        active_writes::{ActiveWrite, ActiveWrites},
        revocation_watch::RevocationWatch,
    },
};

/// Checks tickets, and remembers which slices were written with one.
pub(crate) struct TicketAuthorizer {
    node: NodeId,
    clock: Clock,
    /// Signatures are checked under this read lock, many at once.
    verifier: Arc<RwLock<TicketVerifier>>,
    used: Arc<Mutex<UsedTickets>>,
    refusals: Mutex<Refusals>,
    revocations: RevocationWatch,
    active_writes: ActiveWrites,
}

/// The refused tickets.
#[derive(Default)]
struct Refusals {
    counts: RefusedTickets,
    /// Not yet reported to the master.
    untold: Vec<TicketRefusal>,
    /// The number of refusals for which there was no room.
    left_out: u64,
}

impl TicketAuthorizer {
    pub(crate) fn new(node: NodeId, site: String, clock: Clock) -> Self {
        let verifier = Arc::new(RwLock::new(TicketVerifier::new(node.clone(), site, is_signed)));
        let revoked = RevocationWatch::of(Arc::clone(&verifier));
        let (refusals, used, arrivals) = (Mutex::default(), Arc::default(), ActiveWrites::default());
        Self { node, clock, verifier, used, refusals, revocations: revoked, active_writes: arrivals }
    }

    /// The writes that are under way with tickets.
    pub(crate) fn active_writes(&self) -> &ActiveWrites {
        &self.active_writes
    }

    /// From now on, tickets signed with the matching private keys are good.
    pub(crate) fn set_keys(&self, keys: TicketKeys) {
        // Each change under this lock is complete in itself.
        let mut verifier = self.verifier.write().unwrap_or_else(PoisonError::into_inner);
        verifier.take_keys(self.clock.now(), keys);
    }

    /// Whether this is a good ticket of this bearer, whatever it allows.
    pub(crate) fn admits(&self, bearer: &Bearer, ticket: &SignedTicket) -> Result<(), NodeError> {
        self.ask(bearer, |rules, now| rules.admit(now, bearer, ticket).map(drop))
    }

    /// Which bytes of `slice` may be read.
    pub(crate) fn read(&self, bearer: &Bearer, ticket: &SignedTicket, slice: SliceId) -> Result<Range<u64>, NodeError> {
        self.ask(bearer, |rules, now| rules.authorize_read(now, bearer, ticket, slice))
    }

    /// The slice that may be written, once.
    pub(crate) fn write(&self, bearer: &Bearer, ticket: &SignedTicket) -> Result<(WriteGrant, WriteClaim), NodeError> {
        let grant = self.ask(bearer, |rules, now| rules.authorize_write(now, bearer, ticket))?;
        self.counted(bearer, lock(&self.used).check(self.clock.now(), &grant))?;
        let claim = WriteClaim {
            slice: grant.header.slice,
            until_unix_millis: grant.until_unix_millis,
            clock: self.clock,
            used: Arc::clone(&self.used),
            active_write: self.active_writes.begin(grant.header.slice),
        };
        Ok((grant, claim))
    }

    /// Whether native files may be listed and imported.
    pub(crate) fn import(&self, bearer: &Bearer, ticket: &SignedTicket) -> Result<(), NodeError> {
        self.ask(bearer, |rules, now| rules.authorize_import(now, bearer, ticket))
    }

    /// The job for which SPEs may be run here.
    pub(crate) fn compute(&self, bearer: &Bearer, ticket: &SignedTicket) -> Result<(JobId, UserName), NodeError> {
        self.ask(bearer, |rules, now| rules.authorize_compute(now, bearer, ticket))
    }

    /// The slices that a job's SPEs may read here.
    pub(crate) fn inputs(
        &self,
        bearer: &Bearer,
        ticket: &SignedTicket,
        job: JobId,
    ) -> Result<BTreeSet<SliceId>, NodeError> {
        self.ask(bearer, |rules, now| rules.authorize_inputs(now, bearer, ticket, job))
    }

    /// Refuses, and counts, a slice that no ticket lets a job read.
    pub(crate) fn refuse_input(&self, bearer: &Bearer, job: JobId, slice: SliceId) -> NodeError {
        let message = format!("no ticket allows job {job} to read slice {slice}");
        self.refuse(bearer, TicketFault::OtherRight, message)
    }

    /// The job whose buckets may take a piece. A node may deliver it even if its ticket expired while its task ran.
    pub(crate) fn piece(&self, bearer: &Bearer, ticket: &SignedTicket) -> Result<JobId, NodeError> {
        self.ask(bearer, |rules, now| rules.authorize_piece(now, bearer, ticket))
    }

    /// Whether the connection on which this ticket is presented may continue unencrypted.
    pub(crate) fn plain(&self, bearer: &Bearer, ticket: &SignedTicket) -> Result<(), NodeError> {
        self.ask(bearer, |rules, now| rules.authorize_plain(now, bearer, ticket))
    }

    /// The tickets that were revoked before their time.
    pub(crate) fn revocations(&self) -> &RevocationWatch {
        &self.revocations
    }

    /// Refuses a proof that is invalid.
    pub(crate) fn refuse_proof(&self, bearer: &Bearer) -> NodeError {
        let message = format!("node {} cannot believe that this is the key of a client; log in again", self.node);
        self.refuse(bearer, TicketFault::NotHolder, message)
    }

    /// Refuses a range that a ticket does not cover.
    pub(crate) fn refuse_range(&self, bearer: &Bearer, message: String) -> NodeError {
        self.refuse(bearer, TicketFault::OtherRight, message)
    }

    /// The present time, by which tickets are judged.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Tickets refused so far, by fault.
    pub(crate) fn refused(&self) -> RefusedTickets {
        self.lock_refusals().counts.clone()
    }

    /// The refusals that the master has not been told of; they are returned once.
    pub(crate) fn take_unreported(&self) -> Option<Report> {
        let mut refusals = self.lock_refusals();
        let (refusals, left_out) = (std::mem::take(&mut refusals.untold), std::mem::take(&mut refusals.left_out));
        (!refusals.is_empty() || left_out > 0).then_some(Report::TicketsRefused { refusals, left_out })
    }

    /// Restores refusals that could not be reported: from now on they are only counted.
    pub(crate) fn restore_unreported(&self, untold: &Report) {
        if let Report::TicketsRefused { refusals, left_out } = untold {
            self.lock_refusals().left_out += refusals.len() as u64 + left_out;
        }
    }

    /// Asks the rules, and counts their refusals.
    fn ask<T>(
        &self,
        bearer: &Bearer,
        question: impl FnOnce(&TicketVerifier, Now) -> Result<T, RefusedTicket>,
    ) -> Result<T, NodeError> {
        let answer = {
            let verifier = self.verifier.read().unwrap_or_else(PoisonError::into_inner);
            question(&verifier, self.clock.now())
        };
        self.counted(bearer, answer)
    }

    /// The answer of the rules; a refusal is counted.
    fn counted<T>(&self, bearer: &Bearer, answer: Result<T, RefusedTicket>) -> Result<T, NodeError> {
        answer.map_err(|RefusedTicket { fault, user, refusal }| {
            if let Some(fault) = fault {
                self.count(bearer, fault, user, &refusal.message);
            }
            NodeError::Refused(refusal)
        })
    }

    fn refuse(&self, bearer: &Bearer, fault: TicketFault, message: String) -> NodeError {
        self.count(bearer, fault, None, &message);
        NodeError::refused(Reason::NoRight, message)
    }

    fn count(&self, bearer: &Bearer, fault: TicketFault, user: Option<UserName>, why: &str) {
        let mut refusals = self.lock_refusals();
        let total = refusals.counts.entry(fault).or_default();
        *total += 1;
        tracing::warn!(
            metric = names::METRIC_TICKETS_REFUSED,
            fault = fault.as_str(),
            total = *total,
            from = bearer.from(),
            why,
            "a ticket was refused"
        );
        if refusals.untold.len() < REFUSALS_MAX {
            let unix_millis = self.clock.now().unix_millis;
            let (from, why) = (bearer.from().to_owned(), why.to_owned());
            refusals.untold.push(TicketRefusal { unix_millis, fault, user, from, why });
        } else {
            refusals.left_out += 1;
        }
    }

    fn lock_refusals(&self) -> MutexGuard<'_, Refusals> {
        // Each change under this lock is complete in itself.
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write one slice. While it is unused the ticket may be tried again.
#[derive(Debug)]
pub(crate) struct WriteClaim {
    slice: SliceId,
    until_unix_millis: u64,
    clock: Clock,
    used: Arc<Mutex<UsedTickets>>,
    active_write: ActiveWrite,
}

impl WriteClaim {
    /// The progress of the write, for the master.
    pub(crate) fn active_write(&self) -> &ActiveWrite {
        &self.active_write
    }

    /// The slice is stored: its ticket is now worthless, even if the slice is removed again.
    pub(crate) fn consume(self) {
        lock(&self.used).add(self.clock.now(), self.slice, self.until_unix_millis);
    }
}

fn lock(used: &Mutex<UsedTickets>) -> MutexGuard<'_, UsedTickets> {
    // Each change under this lock is complete in itself.
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::{
        identity::{HolderKeyPair, TicketSigner},
        transfer::TransferStream,
    };
    use protocol::Status;
    use std::collections::BTreeMap;

    use protocol::{
        LeaseId, RecordFraming, SectorPath, SliceHeader, Version,
        ticket::{Holder, Ticket, TicketRight},
    };

    use super::*;

    struct Fixture {
        door: TicketAuthorizer,
        signer: TicketSigner,
        holder: HolderKeyPair,
        now_unix_millis: u64,
    }

    fn fixture() -> Fixture {
        let (clock, signer) = (Clock::start(), TicketSigner::generate());
        let door = TicketAuthorizer::new(NodeId::new("here").unwrap(), "uic".into(), clock);
        door.set_keys(signer.public_keys());
        Fixture { door, signer, holder: HolderKeyPair::generate(), now_unix_millis: clock.now().unix_millis }
    }

    /// The other end of a connection, with the certificate of a node if it is one.
    fn stream(role: Option<&str>) -> TransferStream {
        let pipe = Box::new(tokio::io::duplex(64).0);
        TransferStream::in_memory(pipe, ([192, 0, 2, 7], 9).into(), role, [1; 32])
    }

    impl Fixture {
        fn ticket(&self, right: TicketRight) -> Ticket {
            Ticket {
                number: 1,
                user: UserName::new("alice").unwrap(),
                holder: Holder::Client(self.holder.public()),
                node: NodeId::new("here").unwrap(),
                right,
                file: None,
                plain_within: None,
                holder_site: None,
                until_unix_millis: self.now_unix_millis + 60_000,
            }
        }

        /// The client that the tickets are for.
        fn client(&self) -> Bearer {
            let stream = stream(None);
            let mut bearer = Bearer::of(&stream).unwrap();
            assert!(bearer.take_proof(self.holder.public(), &self.holder.prove(&stream).unwrap()));
            bearer
        }

        fn write_right(&self) -> TicketRight {
            let header = SliceHeader {
                slice: SliceId(1),
                path: SectorPath::parse("/a").unwrap(),
                version: Version(1),
                owner: UserName::new("alice").unwrap(),
                modified_unix_millis: 0,
                copies: 1,
                records: RecordFraming::File,
                user: BTreeMap::new(),
                journal: protocol::JournalId(1),
                acl: None,
            };
            TicketRight::Write { lease: LeaseId(1), header, resume: None, base: None }
        }

        fn write(&self) -> SignedTicket {
            self.signer.sign(&self.ticket(self.write_right()))
        }
    }

    #[test]
    fn before_the_master_was_met_nothing_is_allowed_and_nothing_counted() {
        let made = fixture();
        let door = TicketAuthorizer::new(NodeId::new("here").unwrap(), "uic".into(), Clock::start());
        let refusal = door.write(&made.client(), &made.write()).unwrap_err().refusal();
        assert_eq!((refusal.status(), door.refused().len()), (Status::Unavailable, 0), "it may be tried again soon");
    }

    // Promise 26.
    #[test]
    fn every_kind_of_bad_ticket_is_refused_and_counted_by_its_fault() {
        let made = fixture();
        let (door, client) = (&made.door, made.client());
        let nobody = Bearer::of(&stream(None)).unwrap();
        assert!(door.write(&nobody, &made.write()).is_err());
        let forged = SignedTicket { signature: vec![0; 64], ..made.write() };
        assert!(door.write(&client, &forged).is_err());
        let of_another_cloud = TicketSigner::generate().sign(&made.ticket(made.write_right()));
        assert!(door.write(&client, &of_another_cloud).is_err());
        let there = Ticket { node: NodeId::new("there").unwrap(), ..made.ticket(made.write_right()) };
        assert!(door.write(&client, &made.signer.sign(&there)).is_err());
        let ended = Ticket { until_unix_millis: 1, ..made.ticket(made.write_right()) };
        assert!(door.write(&client, &made.signer.sign(&ended)).is_err());
        assert!(door.compute(&client, &made.write()).is_err());
        assert!(door.read(&client, &made.write(), SliceId(1)).is_err());
        door.write(&client, &made.write()).unwrap().1.consume();
        assert!(door.write(&client, &made.write()).is_err());
        assert!(door.plain(&client, &made.write()).is_err());
        let user = UserName::new("alice").unwrap();
        let revocation = protocol::message::node_master::Revocation { user, last_ticket: u64::MAX };
        door.revocations().revoke(door.clock.now(), revocation);
        assert!(door.read(&client, &made.write(), SliceId(1)).is_err());
        let expected = RefusedTickets::from([
            (TicketFault::Unsigned, 2),
            (TicketFault::OtherNode, 1),
            (TicketFault::Expired, 1),
            (TicketFault::NotHolder, 1),
            (TicketFault::Used, 1),
            (TicketFault::OtherRight, 2),
            (TicketFault::Plain, 1),
            (TicketFault::Revoked, 1),
        ]);
        assert_eq!(door.refused(), expected);
        assert_eq!(expected.len(), TicketFault::ALL.len(), "every fault was tried");
    }

    #[test]
    fn refusals_are_told_once_and_those_without_room_are_counted() {
        let made = fixture();
        for _ in 0..REFUSALS_MAX + 3 {
            assert!(made.door.compute(&made.client(), &made.write()).is_err());
        }
        let Some(Report::TicketsRefused { refusals, left_out }) = made.door.take_unreported() else {
            panic!("refusals")
        };
        assert_eq!((refusals.len(), left_out), (REFUSALS_MAX, 3));
        assert_eq!((refusals[0].user.as_ref().unwrap().as_str(), refusals[0].from.as_str()), ("alice", "192.0.2.7"));
        assert!(made.door.take_unreported().is_none());
        made.door.restore_unreported(&Report::TicketsRefused { refusals, left_out });
        let Some(Report::TicketsRefused { refusals, left_out }) = made.door.take_unreported() else {
            panic!("refusals")
        };
        assert_eq!((refusals.len(), left_out), (0, REFUSALS_MAX as u64 + 3), "nothing was lost silently");
    }

    #[test]
    fn a_job_reads_what_its_ticket_names_and_nothing_by_another_jobs_or_kind_of_ticket() {
        let made = fixture();
        let slices = vec![SliceId(1), SliceId(2)];
        let sign = |right| made.signer.sign(&made.ticket(right));
        let (client, inputs) = (made.client(), sign(TicketRight::Inputs { job: JobId(3), slices: slices.clone() }));
        assert_eq!(made.door.inputs(&client, &inputs, JobId(3)).unwrap(), slices.into_iter().collect());
        assert!(made.door.inputs(&client, &inputs, JobId(4)).is_err());
        assert!(made.door.inputs(&client, &sign(TicketRight::Compute { job: JobId(3) }), JobId(3)).is_err());
        assert!(made.door.compute(&client, &inputs).is_err(), "nor does it start an SPE");
        assert!(made.door.read(&client, &inputs, SliceId(1)).is_err(), "nor bring bytes to a client");
    }

    #[test]
    fn a_write_may_be_tried_again_until_it_succeeded() {
        let made = fixture();
        let (_, broken) = made.door.write(&made.client(), &made.write()).unwrap();
        drop(broken);
        let (_, claim) = made.door.write(&made.client(), &made.write()).unwrap();
        claim.consume();
        assert_eq!(made.door.write(&made.client(), &made.write()).unwrap_err().refusal().status(), Status::Refused);
    }

    // Promise 27.
    #[test]
    fn a_ticket_that_was_revoked_is_refused_and_one_given_out_later_is_not() {
        let made = fixture();
        let [before, after] = [1, 2]
            .map(|number| made.signer.sign(&Ticket { number, ..made.ticket(TicketRight::Compute { job: JobId(3) }) }));
        let revocation =
            protocol::message::node_master::Revocation { user: UserName::new("alice").unwrap(), last_ticket: 1 };
        assert!(made.door.compute(&made.client(), &before).is_ok());
        made.door.revocations().revoke(made.door.clock.now(), revocation);
        let refusal = made.door.compute(&made.client(), &before).unwrap_err().refusal();
        assert_eq!(refusal.status(), Status::Unavailable);
        assert_eq!(made.door.refused(), RefusedTickets::from([(TicketFault::Revoked, 1)]));
        assert!(made.door.compute(&made.client(), &after).is_ok());
    }

    #[test]
    fn another_masters_keys_make_the_old_tickets_worthless() {
        let made = fixture();
        made.door.set_keys(TicketSigner::generate().public_keys());
        assert!(made.door.write(&made.client(), &made.write()).is_err());
    }

    #[test]
    fn only_a_node_may_deliver_a_piece_with_the_ended_ticket_of_a_driver() {
        let made = fixture();
        let job = JobId(3);
        let until_unix_millis = made.now_unix_millis.saturating_sub(1_000);
        let ended = Ticket { until_unix_millis, ..made.ticket(TicketRight::Compute { job }) };
        let ended = made.signer.sign(&ended);
        assert!(made.door.compute(&made.client(), &ended).is_err());
        assert!(made.door.piece(&made.client(), &ended).is_err());
        let node = Bearer::of(&stream(Some("there"))).unwrap();
        let handed = made.holder.delegate(&ended, &NodeId::new("there").unwrap());
        assert_eq!(made.door.piece(&node, &handed).unwrap(), job);
        assert!(made.door.compute(&node, &handed).is_err());
        // Another node that saw the ticket, or one to which nobody assigned it.
        let other = Bearer::of(&stream(Some("elsewhere"))).unwrap();
        assert!(made.door.piece(&other, &handed).is_err());
        assert!(made.door.piece(&node, &ended).is_err());
    }

    #[test]
    fn bytes_go_plain_only_with_a_ticket_that_names_the_site_of_this_node() {
        let made = fixture();
        let read = |site: Option<&str>| {
            let right = TicketRight::Read { slice: SliceId(1), from: 0, until: 9 };
            made.signer.sign(&Ticket { plain_within: site.map(str::to_owned), ..made.ticket(right) })
        };
        let mut client = made.client();
        assert!(made.door.plain(&client, &read(None)).is_err());
        assert!(made.door.plain(&client, &read(Some("jhu"))).is_err(), "the ticket is for another site");
        made.door.plain(&client, &read(Some("uic"))).unwrap();
        client.goes_plain();
        assert!(made.door.read(&client, &read(Some("uic")), SliceId(1)).is_ok());
        assert!(made.door.read(&client, &read(None), SliceId(1)).is_err(), "each ticket must say so");
        let before = made.door.refused()[&TicketFault::Plain];
        assert_eq!(before, 3);
    }
}
