//! A peer's link to the master: how it gets a session, loses it, and asks for the next. The TLS conversation of a real
//! join is two events here. Either may be lost with a process or a link, so a join never counts as done before its
//! answer.

use std::time::Duration;

use protocol::{SessionId, gmp::OpenMode};

use crate::environment::{
    Environment,
    messenger::SimMessenger,
    queue::{Event, Life, Participant},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct MasterLink {
    pub(crate) who: Participant,
    pub(crate) life: Life,
    pub(crate) messenger: SimMessenger,
    pub(crate) session: Option<SessionId>,
    /// Counts attempts to join: answers to earlier ones are late.
    attempt: u32,
    is_joining: bool,
    pause: Duration,
    wake_at: Option<Duration>,
}

impl MasterLink {
    pub(crate) fn new(who: Participant, life: Life) -> Self {
        Self {
            who,
            life,
            messenger: SimMessenger::default(),
            session: None,
            attempt: 0,
            is_joining: false,
            pause: PAUSE_MIN,
            wake_at: None,
        }
    }

    /// Asks for a session, unless a request is open.
    pub(crate) fn start_joining(&mut self, env: &mut Environment) {
        if !self.is_joining {
            self.is_joining = true;
            self.pause = PAUSE_MIN;
            self.join(env);
        }
    }

    /// The time for another attempt has come.
    pub(crate) fn join_again(&mut self, env: &mut Environment, attempt: u32) {
        if self.is_joining && attempt == self.attempt {
            self.join(env);
        }
    }

    /// The master answered; the new session, if it is one.
    pub(crate) fn joined(
        &mut self,
        env: &mut Environment,
        attempt: u32,
        accepted: Option<SessionId>,
    ) -> Option<SessionId> {
        if !self.is_joining || attempt != self.attempt {
            return None;
        }
        let Some(session) = accepted else {
            let pause = self.pause.mul_f64(0.5 + env.rng.f64() / 2.0);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            env.after(pause, Event::JoinAgain { who: self.who, life: self.life, attempt });
            return None;
        };
        self.is_joining = false;
        self.messenger.add_session(session, OpenMode::Active);
        self.session = Some(session);
        Some(session)
    }

    /// Gives the present session up at once: nothing of it is sent any more.
    pub(crate) fn leave(&mut self) {
        if let Some(session) = self.session.take() {
            self.messenger.drop_session(session);
        }
    }

    /// Sends waiting messages and has this process called in time, also for `rules_due`.
    pub(crate) fn flush(&mut self, env: &mut Environment, rules_due: Option<Duration>) {
        while let Some((_, datagram)) = self.messenger.next_datagram() {
            env.send_datagram(self.who, Participant::Master, datagram);
        }
        let Some(due) = self.messenger.next_timeout().into_iter().chain(rules_due).min() else { return };
        wake(env, (self.who, self.life), &mut self.wake_at, due);
    }

    /// The process was called.
    pub(crate) fn woken(&mut self, env: &Environment) {
        self.wake_at = self.wake_at.filter(|at| *at > env.now.monotonic);
    }

    fn join(&mut self, env: &mut Environment) {
        self.attempt += 1;
        let (from, life, attempt) = (self.who, self.life, self.attempt);
        let delay = env.network.delay(&mut env.rng) * 3;
        env.after(delay, Event::JoinAsked { from, life, attempt });
        env.after(JOIN_TIME_MAX, Event::JoinAgain { who: from, life, attempt });
    }
}

/// Has a process called at `due`, unless it will be called before.
pub(crate) fn wake(env: &mut Environment, who: (Participant, Life), wake_at: &mut Option<Duration>, due: Duration) {
    // A moment later at the earliest: work that is always due at once must not stop the time.
    let due = due.max(env.now.monotonic + MOMENT);
    if wake_at.is_none_or(|at| due < at) {
        *wake_at = Some(due);
        env.queue.push(due, Event::Wake(who.0, who.1));
    }
}

/// As in `node::join`.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long one attempt may take: shorter than a real one's, since there is no TLS to wait for.
const JOIN_TIME_MAX: Duration = Duration::from_secs(6);
/// The time that a process takes for anything at all.
const MOMENT: Duration = Duration::from_micros(50);
