//! The clients of the cloud: people who change names and read files, and the driver of jobs. There is also the operator
//! who takes nodes out of use, and the auditor who checks everything at the end. Each has a session of its own. A
//! client never reaches into another process: it asks in messages of `protocol`.

mod asking;
mod audit;
mod driver;
mod operator;
mod output;
mod person;
mod questions;
mod snoop;
mod tenant;
mod upload;

use protocol::{SessionId, message::client_master::ClientReply, wire::codec};

use crate::{
    environment::{
        Environment,
        calls::{CallId, CallReply},
        messenger::MessageEvent,
        queue::{Life, Participant},
    },
    role::MasterLink,
};
pub(crate) use audit::Auditor;
pub(crate) use driver::{DetachedDriver, Driver};
pub(crate) use operator::Operator;
pub(crate) use output::{JobPlanned, RECORD_BYTES};
pub(crate) use person::Person;
pub(crate) use snoop::Snoop;
pub(crate) use tenant::{FOLDERS, Tenant};
pub(crate) use upload::create_request;

/// A client.
pub(crate) struct Actor {
    link: MasterLink,
    kind: ActorKind,
}

/// The task of a client.
pub(crate) enum ActorKind {
    Person(Box<Person>),
    Driver(Box<Driver>),
    DetachedDriver(Box<DetachedDriver>),
    Auditor(Box<Auditor>),
    Operator(Box<Operator>),
    Tenant(Box<Tenant>),
    Snoop(Box<Snoop>),
}

impl Actor {
    pub(crate) fn new(number: usize, part: ActorKind) -> Self {
        Self { link: MasterLink::new(Participant::Client(number), 0), kind: part }
    }

    /// Logs in and begins.
    pub(crate) fn start(&mut self, env: &mut Environment) {
        self.link.start_joining(env);
        self.flush(env);
    }

    pub(crate) fn receive(&mut self, env: &mut Environment, datagram: &[u8]) {
        if self.is_gone() {
            return;
        }
        self.link.messenger.receive(env.now, datagram);
        self.flush(env);
    }

    pub(crate) fn wake(&mut self, env: &mut Environment) {
        if self.is_gone() {
            return;
        }
        self.link.woken(env);
        self.link.messenger.handle_timeout(env.now);
        self.flush(env);
    }

    pub(crate) fn joined(&mut self, env: &mut Environment, attempt: u32, accepted: Option<SessionId>) {
        if self.is_gone() {
            return;
        }
        if self.link.joined(env, attempt, accepted).is_some() {
            match &mut self.kind {
                ActorKind::Person(person) => person.logged_in(env, &mut self.link),
                ActorKind::Driver(driver) => driver.logged_in(env, &mut self.link),
                ActorKind::DetachedDriver(deputy) => deputy.logged_in(env, &mut self.link),
                ActorKind::Auditor(auditor) => auditor.logged_in(env, &mut self.link),
                ActorKind::Operator(keeper) => keeper.logged_in(env, &mut self.link),
                ActorKind::Tenant(tenant) => tenant.logged_in(env, &mut self.link),
                ActorKind::Snoop(snoop) => snoop.logged_in(env, &mut self.link),
            }
        }
        self.flush(env);
    }

    pub(crate) fn join_again(&mut self, env: &mut Environment, attempt: u32) {
        if self.is_gone() {
            return;
        }
        self.link.join_again(env, attempt);
        self.flush(env);
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, tag: u64) {
        if self.is_gone() {
            return;
        }
        match &mut self.kind {
            ActorKind::Person(person) => person.timer(env, &mut self.link, tag),
            ActorKind::Driver(driver) => driver.timer(env, &mut self.link, tag),
            ActorKind::DetachedDriver(deputy) => deputy.timer(env, &mut self.link, tag),
            ActorKind::Auditor(auditor) => auditor.timer(env, &mut self.link, tag),
            ActorKind::Operator(keeper) => keeper.timer(env, &mut self.link, tag),
            ActorKind::Tenant(tenant) => tenant.timer(env, &mut self.link, tag),
            ActorKind::Snoop(snoop) => snoop.timer(env, &mut self.link, tag),
        }
        self.flush(env);
    }

    pub(crate) fn call_answered(&mut self, env: &mut Environment, call: CallId, reply: CallReply) {
        if self.is_gone() {
            return;
        }
        match &mut self.kind {
            ActorKind::Person(person) => person.call_answered(env, &mut self.link, call, reply),
            ActorKind::Driver(driver) => driver.call_answered(env, &mut self.link, call, reply),
            ActorKind::DetachedDriver(deputy) => deputy.call_answered(env, &mut self.link, call, reply),
            ActorKind::Auditor(auditor) => auditor.call_answered(env, &mut self.link, call, reply),
            ActorKind::Tenant(tenant) => tenant.call_answered(env, &mut self.link, call, reply),
            // They talk to the master only.
            ActorKind::Operator(_) | ActorKind::Snoop(_) => {}
        }
        self.flush(env);
    }

    /// All conversations with a node's process broke.
    pub(crate) fn conversations_broken(&mut self, env: &mut Environment, node: usize, life: Life) {
        match &mut self.kind {
            ActorKind::Driver(driver) => driver.conversations_broken(env, &mut self.link, node, life),
            ActorKind::DetachedDriver(deputy) => deputy.conversations_broken(env, &mut self.link, node, life),
            _ => {}
        }
        self.flush(env);
    }

    /// The master lost its journal.
    pub(crate) fn journal_lost(&mut self, env: &mut Environment) {
        match &mut self.kind {
            ActorKind::Person(person) => person.journal_lost(env, &self.link),
            ActorKind::Operator(keeper) => keeper.journal_lost(env, &self.link),
            ActorKind::Driver(_)
            | ActorKind::DetachedDriver(_)
            | ActorKind::Auditor(_)
            | ActorKind::Tenant(_)
            | ActorKind::Snoop(_) => {}
        }
    }

    /// Files that had to be found after a loss are not certain any more: inputs of jobs are written again.
    pub(crate) fn inputs_in_doubt(&mut self, env: &mut Environment) {
        if let ActorKind::Person(person) = &mut self.kind {
            person.journal_lost(env, &self.link);
        }
    }

    /// All is well, and faults begin again: the client continues.
    pub(crate) fn begin_round(&mut self, env: &mut Environment) {
        match &mut self.kind {
            ActorKind::Person(person) => person.begin_round(env, &self.link),
            ActorKind::Operator(keeper) => keeper.begin_round(env, &self.link),
            ActorKind::Driver(driver) => driver.begin_round(),
            ActorKind::DetachedDriver(_) | ActorKind::Snoop(_) => {}
            ActorKind::Tenant(tenant) => tenant.begin_round(env, &self.link),
            ActorKind::Auditor(auditor) => auditor.begin_round(env, &self.link),
        }
    }

    /// Whether it does nothing any more and knows how all its actions have ended.
    pub(crate) fn is_at_rest(&self) -> bool {
        match &self.kind {
            ActorKind::Person(person) => person.is_at_rest(),
            ActorKind::Driver(driver) => driver.is_at_rest(),
            ActorKind::DetachedDriver(deputy) => deputy.is_over(),
            ActorKind::Auditor(_) | ActorKind::Snoop(_) => true,
            ActorKind::Tenant(tenant) => tenant.is_at_rest(),
            ActorKind::Operator(keeper) => keeper.is_at_rest(),
        }
    }

    /// The auditor, if this is it.
    pub(crate) fn as_auditor(&self) -> Option<&Auditor> {
        if let ActorKind::Auditor(auditor) = &self.kind { Some(auditor) } else { None }
    }

    /// Lets the auditor begin again: something differs from what it found.
    pub(crate) fn recheck(&mut self, env: &mut Environment, why: String) {
        if let ActorKind::Auditor(auditor) = &mut self.kind {
            auditor.recheck(env, &mut self.link, why);
        }
        self.flush(env);
    }

    /// Its present activity, as text for people.
    pub(crate) fn state(&self) -> String {
        match &self.kind {
            ActorKind::Person(person) => format!("{:?} {}", self.link.who, person.state()),
            ActorKind::Driver(driver) => format!("{:?} {}", self.link.who, driver.state()),
            ActorKind::DetachedDriver(deputy) => format!("{:?} {}", self.link.who, deputy.state()),
            ActorKind::Auditor(auditor) => format!("{:?} {}", self.link.who, auditor.state()),
            ActorKind::Operator(keeper) => format!("{:?} {}", self.link.who, keeper.state()),
            ActorKind::Tenant(tenant) => format!("{:?} {}", self.link.who, tenant.state()),
            ActorKind::Snoop(_) => format!("{:?} is curious", self.link.who),
        }
    }

    /// The driver that a node has started, if it is one and is working.
    pub(crate) fn as_detached_driver(&self) -> Option<&DetachedDriver> {
        if let ActorKind::DetachedDriver(deputy) = &self.kind {
            Some(&**deputy).filter(|deputy| !deputy.is_over())
        } else {
            None
        }
    }

    /// The process of a driver ends, whatever its state.
    pub(crate) fn end(&mut self, env: &mut Environment) {
        if let ActorKind::DetachedDriver(deputy) = &mut self.kind {
            deputy.end();
        }
        self.link.leave();
        let who = self.link.who;
        for call in env.calls.which(|call| call.from == who) {
            env.hang_up(call);
        }
    }

    fn is_gone(&self) -> bool {
        matches!(&self.kind, ActorKind::DetachedDriver(deputy) if deputy.is_over())
    }

    fn flush(&mut self, env: &mut Environment) {
        if self.is_gone() {
            return self.link.leave();
        }
        while let Some(heard) = self.link.messenger.next_event() {
            match heard {
                // The master asks clients for nothing.
                MessageEvent::Asked { .. } => {}
                MessageEvent::Answered { session, tag, body } => {
                    if body.is_none() && self.link.session == Some(session) {
                        log_in_again(env, &mut self.link);
                    }
                    let reply = body.and_then(|body| codec::decode::<ClientReply>(&body).ok());
                    match &mut self.kind {
                        ActorKind::Person(person) => person.answered(env, &mut self.link, tag, reply),
                        ActorKind::Driver(driver) => driver.answered(env, &mut self.link, tag, reply),
                        ActorKind::DetachedDriver(deputy) => deputy.answered(env, &mut self.link, tag, reply),
                        ActorKind::Auditor(auditor) => auditor.answered(env, &mut self.link, tag, reply),
                        ActorKind::Operator(keeper) => keeper.answered(env, &mut self.link, tag, reply),
                        ActorKind::Tenant(tenant) => tenant.answered(env, &mut self.link, tag, reply),
                        ActorKind::Snoop(snoop) => snoop.answered(env, &mut self.link, tag, reply),
                    }
                }
                MessageEvent::Lost(session) => {
                    if self.link.session == Some(session) {
                        log_in_again(env, &mut self.link);
                    }
                }
            }
        }
        self.link.flush(env, None);
    }
}

/// Gives up a session that got no answer, and asks for another.
fn log_in_again(env: &mut Environment, master_link: &mut MasterLink) {
    master_link.leave();
    master_link.start_joining(env);
}
