//! The master's process: its real rules, its journal, its messages. It mirrors `master::server`. The rules decide what
//! a reply or an order has to wait for; this file only lets time pass and never decides that.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use master::{
    ClientJoin, Master, MasterAction, MasterCompletion, MasterConfig, MasterMessage, NodeJoin, OrderId, OrderOutcome,
    Peer, SessionCaller,
};
use protocol::{
    CredentialId, JobId, Place, SessionId,
    gmp::OpenMode,
    message::{
        audit::AuditHead,
        client_master::{ClientReply, ClientRequest, DriverKey},
        master_security::SecurityReply,
        node_master::{Order, Report},
    },
    ticket::TicketKeys,
    wire::codec,
};

use store::{MemoryDisk, StoreError};

use super::{
    journal::Journal,
    master_link::wake,
    node_names::{mark_key, node_id, site_of},
    tickets::{Signer, holder_of},
};
use crate::{
    Sabotage, ViolationKind,
    environment::{
        Environment,
        messenger::{MessageEvent, SimMessenger},
        queue::{Event, Life, Participant},
    },
};

/// See the module.
pub(crate) struct MasterRole {
    config: MasterConfig,
    pub(crate) life: Life,
    journal: Journal,
    process: Option<Process>,
}

/// The state that dies in a crash.
struct Process {
    rules: Master,
    messenger: SimMessenger,
    /// Where each session's datagrams go.
    peers: BTreeMap<SessionId, Participant>,
    /// The proof of identity of each client.
    proofs: BTreeMap<SessionId, CredentialId>,
    wake_at: Option<Duration>,
}

impl MasterRole {
    pub(crate) fn new(config: MasterConfig, disk_seed: u64, sabotage: Option<Sabotage>) -> Self {
        Self { config, life: 0, journal: Journal::new(disk_seed, sabotage), process: None }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Starts the process from its journal.
    ///
    /// # Errors
    /// When the journal's disk fails. A journal that cannot be read is a broken promise.
    pub(crate) fn start(&mut self, env: &mut Environment) -> Result<(), String> {
        self.life += 1;
        let (seed, ticket_key) = (env.rng.u64(..), env.rng.u64(..));
        let rows = self.journal.open().map_err(|error| {
            if self.journal.is_made() && matches!(error, StoreError::NotAJournal { .. }) {
                env.violate(ViolationKind::Safety, format!("a crash has damaged the journal: {error}"));
            }
            format!("the master cannot open its journal: {error}")
        })?;
        let rules = Master::new(env.now, self.config, seed, Box::new(Signer(ticket_key)), rows);
        let rules = rules.map_err(|error| {
            env.violate(ViolationKind::Safety, format!("the master cannot read its own rows: {error}"));
            error.to_string()
        })?;
        let (words, peers, proofs) = (SimMessenger::default(), BTreeMap::new(), BTreeMap::new());
        self.process = Some(Process { rules, messenger: words, peers, proofs, wake_at: None });
        env.note(format_args!("master starts (life {})", self.life));
        self.flush(env);
        Ok(())
    }

    /// Kills the process.
    pub(crate) fn crash(&mut self, env: &mut Environment) {
        if self.process.take().is_some() {
            env.note(format_args!("master dies"));
            self.journal.crash(&mut env.rng);
        }
    }

    /// Loses all that was ever saved. The process must be dead.
    pub(crate) fn lose_journal(&mut self, env: &mut Environment) {
        self.journal.lose(env.rng.u64(..));
    }

    /// The journal's file as it is now, if there is one.
    pub(crate) fn copy_journal(&self) -> Option<Vec<u8>> {
        Some(self.journal.copy()).filter(|copy| self.journal.is_made() && !copy.is_empty())
    }

    /// Replaces the journal by a copy. The process must be dead.
    pub(crate) fn put_journal_back(&mut self, copy: &[u8]) {
        self.journal.put_back(copy);
    }

    /// The disk of its journal.
    pub(crate) fn disk(&self) -> &MemoryDisk {
        self.journal.disk()
    }

    /// A datagram came.
    pub(crate) fn receive(&mut self, env: &mut Environment, datagram: &[u8]) {
        if let Some(process) = &mut self.process {
            process.messenger.receive(env.now, datagram);
            self.flush(env);
        }
    }

    /// The process was called.
    pub(crate) fn wake(&mut self, env: &mut Environment) {
        let Some(process) = &mut self.process else { return };
        process.wake_at = process.wake_at.filter(|at| *at > env.now.monotonic);
        process.messenger.handle_timeout(env.now);
        if process.rules.next_timeout() <= env.now.monotonic {
            process.rules.handle_timeout(env.now);
        }
        self.flush(env);
    }

    /// A transaction is on the disk.
    ///
    /// # Errors
    /// When the disk refused it: the process has to die.
    pub(crate) fn saved(&mut self, env: &mut Environment) -> Result<(), String> {
        let completed = self.journal.complete().map_err(|error| format!("the master cannot save: {error}"))?;
        let Some((batch, begins)) = completed else { return Ok(()) };
        if begins {
            self.write(env);
        }
        if let Some(process) = &mut self.process {
            process.rules.handle_completion(env.now, MasterCompletion::Saved { batch });
            self.flush(env);
        }
        Ok(())
    }

    /// Lets a peer in. Keys are in place before the joiner hears of it.
    pub(crate) fn join(
        &mut self,
        env: &mut Environment,
        who: Participant,
        drives: Option<JobId>,
    ) -> Option<(SessionId, TicketKeys)> {
        let process = self.process.as_mut()?;
        let session = SessionId(env.rng.u64(..));
        match who {
            Participant::Client(client) => {
                let mut user = env.model.attributes.accounts.login(env.now.monotonic, client)?;
                user.rights.admin |= env.sabotage == Some(Sabotage::PrivateIsOpen);
                process.proofs.insert(session, user.credential);
                let client = ClientJoin {
                    user,
                    address: address(who),
                    holder: holder_of(who),
                    proved_from: address(who),
                    drives,
                };
                process.rules.open_client_session(env.now, session, client);
            }
            Participant::Node(node) => process.rules.open_node_session(env.now, session, node_join(node)).ok()?,
            Participant::Master => return None,
        }
        process.messenger.add_session(session, OpenMode::Passive);
        process.peers.insert(session, who);
        let keys = process.rules.ticket_keys();
        self.flush(env);
        Some((session, keys))
    }

    /// Whether a driver with this key is refused. While the master is away, nobody knows.
    pub(crate) fn puts_out(&self, (job, key): (JobId, DriverKey)) -> bool {
        self.process.as_ref().is_some_and(|process| process.rules.driver_session(job, key).is_err())
    }

    fn flush(&mut self, env: &mut Environment) {
        let mut writes = false;
        let Some(process) = &mut self.process else { return };
        loop {
            while let Some(action) = process.rules.poll_action() {
                match action {
                    MasterAction::Save { batch, changes } => writes |= self.journal.push(batch, changes),
                    other => process.perform(env, other),
                }
            }
            let Some(heard) = process.messenger.next_event() else { break };
            process.handle_message(env, heard);
        }
        while let Some((session, datagram)) = process.messenger.next_datagram() {
            if let Some(to) = process.peers.get(&session) {
                env.send_datagram(Participant::Master, *to, datagram);
            }
        }
        let due = process.messenger.next_timeout().into_iter().chain([process.rules.next_timeout()]).min();
        if let Some(due) = due {
            wake(env, (Participant::Master, self.life), &mut process.wake_at, due);
        }
        if writes {
            self.write(env);
        }
    }

    /// A transaction begins; sometimes the disk is slow.
    fn write(&self, env: &mut Environment) {
        let span = if env.chance(5) { env.span(50, 800) } else { env.span(1, 15) };
        env.after(span, Event::Saved(self.life));
    }
}

impl Process {
    fn perform(&mut self, env: &mut Environment, action: MasterAction) {
        match action {
            // The caller has taken these out.
            MasterAction::Save { .. } => {}
            MasterAction::Reply { to, mut reply } => {
                if let (ClientReply::Quotas(page), Some(Sabotage::QuotasAreMiscounted)) = (&mut reply, env.sabotage) {
                    page.quotas.iter_mut().for_each(|quota| quota.used_bytes += 1);
                }
                self.answer(env, to, codec::encode(&reply));
            }
            MasterAction::Ack { to, ack } => self.answer(env, to, codec::encode(&ack)),
            MasterAction::Order { session, order, body } => {
                if let Order::Mirror(keep) = &body {
                    env.model.keeps.insert(mark_key(&keep.position), env.now.monotonic);
                }
                env.note(format_args!("master orders {:?}: {}", self.peers.get(&session), order_line(&body)));
                self.messenger.ask(env.now, session, codec::encode(&body), order.0, ORDER_MAX);
            }
            MasterAction::CloseSession(session) => self.messenger.close_session(env.now, session),
            // Nothing of it takes time.
            MasterAction::AskSecurity { to, request } => {
                let mut reply = env.model.attributes.accounts.answer(&request);
                if let (Ok(SecurityReply::Changes(changes)), Some(Sabotage::RevocationsAreForgotten)) =
                    (&mut reply, env.sabotage)
                {
                    changes.users = Some(Vec::new());
                }
                self.rules.handle_completion(env.now, MasterCompletion::SecurityAnswered { to, reply });
            }
            // Nobody reads it.
            MasterAction::SendAudit(_) => {
                let head = AuditHead { number: 0, hash: [0; 32] };
                self.rules.handle_completion(env.now, MasterCompletion::AuditSent(Ok(head)));
            }
            // There is no file.
            // No one in the simulation looks at background work or metrics.
            MasterAction::ReadTopology { .. } | MasterAction::ReadWork { .. } | MasterAction::ReadMetrics { .. } => {}
        }
    }

    fn handle_message(&mut self, env: &mut Environment, heard: MessageEvent) {
        match heard {
            MessageEvent::Asked { session, request, body } => {
                let from = SessionCaller { session, request };
                let message = match self.rules.peer(session) {
                    Some(Peer::Client(_)) => codec::decode::<ClientRequest>(&body).map(MasterMessage::Client),
                    Some(Peer::Node(_)) => codec::decode::<Report>(&body).map(MasterMessage::Node),
                    None => return self.messenger.close_session(env.now, session),
                };
                self.check_not_revoked(env, session);
                match message {
                    Ok(message) => self.rules.handle_message(env.now, from, message),
                    Err(error) => env.violate(ViolationKind::Safety, format!("the master got nonsense: {error}")),
                }
            }
            MessageEvent::Answered { tag, body, .. } => {
                let answer = body.and_then(|body| codec::decode(&body).ok());
                let outcome = answer.map_or(OrderOutcome::Unanswered, OrderOutcome::Answered);
                self.rules.handle_completion(env.now, MasterCompletion::OrderFinished { order: OrderId(tag), outcome });
            }
            MessageEvent::Lost(session) => self.rules.close_session(env.now, session),
        }
    }

    /// Checks that no client is heard whose session was revoked long ago.
    fn check_not_revoked(&self, env: &mut Environment, session: SessionId) {
        let revoked = self.proofs.get(&session).and_then(|proof| env.model.attributes.accounts.revoked_at(*proof));
        if revoked.is_some_and(|at| at + REVOKED_WITHIN < env.now.monotonic) {
            let sentence = format!("the master hears {:?}, who was revoked at {revoked:?}", self.peers.get(&session));
            env.violate(ViolationKind::Safety, sentence);
        }
    }

    fn answer(&mut self, env: &mut Environment, to: SessionCaller, body: Vec<u8>) {
        if let Some(request) = to.request {
            self.messenger.reply(env.now, to.session, request, body);
        }
    }
}

fn node_join(node: usize) -> NodeJoin {
    NodeJoin {
        local: None,
        node: node_id(node),
        place: Place::new(format!("s{}", site_of(node)), format!("r{}", node / 2 % 2)),
        transfer: SocketAddr::new(address(Participant::Node(node)), 7_000),
        spe_slots: 2,
        pid: 1,
        folder: "/node".into(),
        address: address(Participant::Node(node)),
    }
}

fn address(who: Participant) -> IpAddr {
    let (kind, number) = match who {
        Participant::Master => (0, 0),
        Participant::Node(number) => (1, number),
        Participant::Client(number) => (2, number),
    };
    Ipv4Addr::new(10, 0, kind, number as u8).into()
}

fn order_line(order: &Order) -> String {
    match order {
        Order::Replicate { header, from, .. } => format!("replicate {} from {}", header.slice, from.node),
        Order::Place { header } => format!("place {} at {}", header.slice, header.path),
        Order::Remove(slice) => format!("remove {slice}"),
        Order::ForgetJob(job) => format!("forget job {job}"),
        Order::Drive(order) => format!("drive job {}", order.job),
        Order::Revoke(revocation) => format!("revoke the tickets of {}", revocation.user),
        Order::Mirror(keep) => format!("keep {} rows onto {:?}", keep.rows.len(), keep.base),
        Order::TicketKeys(_) => "know the keys of tickets".into(),
        Order::StruckOff(_) => "refuse who was struck off".into(),
        Order::ReadMetrics => "say what it counts".into(),
        Order::SlowDisks(_) => "know which of its disks are slow".into(),
        Order::LinkShares(_) => "know its shares of links".into(),
        Order::ReadMirror { after } => format!("tell what is kept after {after:?}"),
    }
}

/// A revocation holds within this time (`docs/semantics.md`).
const REVOKED_WITHIN: Duration = Duration::from_secs(10);
/// As in `master::server`.
const ORDER_MAX: Duration = Duration::from_secs(20);
