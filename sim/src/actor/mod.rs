//! The clients of the cloud: people who change names and read files, the driver of jobs, who takes nodes out
//! of use, and the one who looks at everything at the end. Each has a session of its own and asks in the words of `protocol`.

mod audit;
mod driver;
mod keeper;
mod output;
mod person;
mod questions;
mod snoop;
mod tenant;
mod upload;

use std::time::Duration;

use protocol::{
    SessionId,
    message::client_master::{ClientReply, ClientRequest},
    wire::codec,
};

use crate::{
    calls::{CallId, CallReply},
    environment::Environment,
    queue::{Event, Life, Who},
    role::Seat,
    words::Heard,
};
pub(crate) use audit::Auditor;
pub(crate) use driver::{Deputy, Driver};
pub(crate) use keeper::Keeper;
pub(crate) use output::{JobPlanned, RECORD_BYTES};
pub(crate) use person::Person;
pub(crate) use snoop::Snoop;
pub(crate) use tenant::{FOLDERS, Tenant};
pub(crate) use upload::create_request;

/// A client.
pub(crate) struct Actor {
    seat: Seat,
    part: Part,
}

/// What a client is there for.
pub(crate) enum Part {
    Person(Box<Person>),
    Driver(Box<Driver>),
    Deputy(Box<Deputy>),
    Auditor(Box<Auditor>),
    Keeper(Box<Keeper>),
    Tenant(Box<Tenant>),
    Snoop(Box<Snoop>),
}

impl Actor {
    pub(crate) fn new(number: usize, part: Part) -> Self {
        Self { seat: Seat::new(Who::Client(number), 0), part }
    }

    /// Logs in and begins.
    pub(crate) fn start(&mut self, env: &mut Environment) {
        self.seat.start_joining(env);
        self.settle(env);
    }

    pub(crate) fn receive(&mut self, env: &mut Environment, datagram: &[u8]) {
        if self.is_gone() {
            return;
        }
        self.seat.words.receive(env.now, datagram);
        self.settle(env);
    }

    pub(crate) fn wake(&mut self, env: &mut Environment) {
        if self.is_gone() {
            return;
        }
        self.seat.woken(env);
        self.seat.words.handle_timeout(env.now);
        self.settle(env);
    }

    pub(crate) fn joined(&mut self, env: &mut Environment, attempt: u32, accepted: Option<SessionId>) {
        if self.is_gone() {
            return;
        }
        if self.seat.joined(env, attempt, accepted).is_some() {
            match &mut self.part {
                Part::Person(person) => person.logged_in(env, &mut self.seat),
                Part::Driver(driver) => driver.logged_in(env, &mut self.seat),
                Part::Deputy(deputy) => deputy.logged_in(env, &mut self.seat),
                Part::Auditor(auditor) => auditor.logged_in(env, &mut self.seat),
                Part::Keeper(keeper) => keeper.logged_in(env, &mut self.seat),
                Part::Tenant(tenant) => tenant.logged_in(env, &mut self.seat),
                Part::Snoop(snoop) => snoop.logged_in(env, &mut self.seat),
            }
        }
        self.settle(env);
    }

    pub(crate) fn join_again(&mut self, env: &mut Environment, attempt: u32) {
        if self.is_gone() {
            return;
        }
        self.seat.join_again(env, attempt);
        self.settle(env);
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, tag: u64) {
        if self.is_gone() {
            return;
        }
        match &mut self.part {
            Part::Person(person) => person.timer(env, &mut self.seat, tag),
            Part::Driver(driver) => driver.timer(env, &mut self.seat, tag),
            Part::Deputy(deputy) => deputy.timer(env, &mut self.seat, tag),
            Part::Auditor(auditor) => auditor.timer(env, &mut self.seat, tag),
            Part::Keeper(keeper) => keeper.timer(env, &mut self.seat, tag),
            Part::Tenant(tenant) => tenant.timer(env, &mut self.seat, tag),
            Part::Snoop(snoop) => snoop.timer(env, &mut self.seat, tag),
        }
        self.settle(env);
    }

    pub(crate) fn call_answered(&mut self, env: &mut Environment, call: CallId, reply: CallReply) {
        if self.is_gone() {
            return;
        }
        match &mut self.part {
            Part::Person(person) => person.call_answered(env, &mut self.seat, call, reply),
            Part::Driver(driver) => driver.call_answered(env, &mut self.seat, call, reply),
            Part::Deputy(deputy) => deputy.call_answered(env, &mut self.seat, call, reply),
            Part::Auditor(auditor) => auditor.call_answered(env, &mut self.seat, call, reply),
            Part::Tenant(tenant) => tenant.call_answered(env, &mut self.seat, call, reply),
            // They talk with the master alone.
            Part::Keeper(_) | Part::Snoop(_) => {}
        }
        self.settle(env);
    }

    /// All conversations with a node's process broke.
    pub(crate) fn conversations_broken(&mut self, env: &mut Environment, node: usize, life: Life) {
        match &mut self.part {
            Part::Driver(driver) => driver.conversations_broken(env, &mut self.seat, node, life),
            Part::Deputy(deputy) => deputy.conversations_broken(env, &mut self.seat, node, life),
            _ => {}
        }
        self.settle(env);
    }

    /// The master lost its journal.
    pub(crate) fn journal_lost(&mut self, env: &mut Environment) {
        match &mut self.part {
            Part::Person(person) => person.journal_lost(env, &self.seat),
            Part::Keeper(keeper) => keeper.journal_lost(env, &self.seat),
            Part::Driver(_) | Part::Deputy(_) | Part::Auditor(_) | Part::Tenant(_) | Part::Snoop(_) => {}
        }
    }

    /// What had to be found after a loss is not certain any more: what jobs read is written again.
    pub(crate) fn inputs_in_doubt(&mut self, env: &mut Environment) {
        if let Part::Person(person) = &mut self.part {
            person.journal_lost(env, &self.seat);
        }
    }

    /// All is well, and faults begin anew: it goes on.
    pub(crate) fn begin_round(&mut self, env: &mut Environment) {
        match &mut self.part {
            Part::Person(person) => person.begin_round(env, &self.seat),
            Part::Keeper(keeper) => keeper.begin_round(env, &self.seat),
            Part::Driver(driver) => driver.begin_round(),
            Part::Deputy(_) | Part::Snoop(_) => {}
            Part::Tenant(tenant) => tenant.begin_round(env, &self.seat),
            Part::Auditor(auditor) => auditor.begin_round(env, &self.seat),
        }
    }

    /// Whether it does nothing any more and knows how all that it did has ended.
    pub(crate) fn is_at_rest(&self) -> bool {
        match &self.part {
            Part::Person(person) => person.is_at_rest(),
            Part::Driver(driver) => driver.is_at_rest(),
            Part::Deputy(deputy) => deputy.is_over(),
            Part::Auditor(_) | Part::Snoop(_) => true,
            Part::Tenant(tenant) => tenant.is_at_rest(),
            Part::Keeper(keeper) => keeper.is_at_rest(),
        }
    }

    /// The one who looks at everything, if this is it.
    pub(crate) fn as_auditor(&self) -> Option<&Auditor> {
        if let Part::Auditor(auditor) = &self.part { Some(auditor) } else { None }
    }

    /// Has the one who looks at everything begin again: something is not as they found it.
    pub(crate) fn look_again(&mut self, env: &mut Environment, why: String) {
        if let Part::Auditor(auditor) = &mut self.part {
            auditor.look_again(env, &mut self.seat, why);
        }
        self.settle(env);
    }

    /// What it is doing, for a person.
    pub(crate) fn state(&self) -> String {
        match &self.part {
            Part::Person(person) => format!("{:?} {}", self.seat.who, person.state()),
            Part::Driver(driver) => format!("{:?} {}", self.seat.who, driver.state()),
            Part::Deputy(deputy) => format!("{:?} {}", self.seat.who, deputy.state()),
            Part::Auditor(auditor) => format!("{:?} {}", self.seat.who, auditor.state()),
            Part::Keeper(keeper) => format!("{:?} {}", self.seat.who, keeper.state()),
            Part::Tenant(tenant) => format!("{:?} {}", self.seat.who, tenant.state()),
            Part::Snoop(_) => format!("{:?} is curious", self.seat.who),
        }
    }

    /// The driver that a node has started, if it is one and at work.
    pub(crate) fn as_deputy(&self) -> Option<&Deputy> {
        if let Part::Deputy(deputy) = &self.part { Some(&**deputy).filter(|deputy| !deputy.is_over()) } else { None }
    }

    /// The process of a driver ends, whatever it was at.
    pub(crate) fn end(&mut self, env: &mut Environment) {
        if let Part::Deputy(deputy) = &mut self.part {
            deputy.end();
        }
        self.seat.leave();
        let who = self.seat.who;
        for call in env.calls.which(|call| call.from == who) {
            env.hang_up(call);
        }
    }

    fn is_gone(&self) -> bool {
        matches!(&self.part, Part::Deputy(deputy) if deputy.is_over())
    }

    fn settle(&mut self, env: &mut Environment) {
        if self.is_gone() {
            return self.seat.leave();
        }
        while let Some(heard) = self.seat.words.next_heard() {
            match heard {
                // The master asks clients for nothing.
                Heard::Asked { .. } => {}
                Heard::Answered { session, tag, body } => {
                    if body.is_none() && self.seat.session == Some(session) {
                        log_in_again(env, &mut self.seat);
                    }
                    let reply = body.and_then(|body| codec::decode::<ClientReply>(&body).ok());
                    match &mut self.part {
                        Part::Person(person) => person.answered(env, &mut self.seat, tag, reply),
                        Part::Driver(driver) => driver.answered(env, &mut self.seat, tag, reply),
                        Part::Deputy(deputy) => deputy.answered(env, &mut self.seat, tag, reply),
                        Part::Auditor(auditor) => auditor.answered(env, &mut self.seat, tag, reply),
                        Part::Keeper(keeper) => keeper.answered(env, &mut self.seat, tag, reply),
                        Part::Tenant(tenant) => tenant.answered(env, &mut self.seat, tag, reply),
                        Part::Snoop(snoop) => snoop.answered(env, &mut self.seat, tag, reply),
                    }
                }
                Heard::Lost(session) => {
                    if self.seat.session == Some(session) {
                        log_in_again(env, &mut self.seat);
                    }
                }
            }
        }
        self.seat.settle(env, None);
    }
}

/// Asks the master. Without a session the answer is a timer's, as if none had come.
fn ask(env: &mut Environment, seat: &mut Seat, request: &ClientRequest, tag: u64, patience: Duration) {
    match seat.session {
        Some(session) => seat.words.ask(env.now, session, codec::encode(request), tag, patience),
        None => later(env, seat, WITHOUT_SESSION, tag),
    }
}

/// Has a client called after a while.
fn later(env: &mut Environment, seat: &Seat, span: Duration, tag: u64) {
    if let Who::Client(client) = seat.who {
        env.after(span, Event::Timer { client, tag });
    }
}

/// Gives a session up for which no answer came, and asks for another.
fn log_in_again(env: &mut Environment, seat: &mut Seat) {
    seat.leave();
    seat.start_joining(env);
}

/// How long a client waits for an answer: less than a real one, for there is more to do.
const PATIENCE: Duration = Duration::from_secs(6);
/// How long it waits for a commit, which waits for copies.
const COMMIT_PATIENCE: Duration = Duration::from_secs(25);
/// How soon a client that has no session tries again.
const WITHOUT_SESSION: Duration = Duration::from_millis(300);
