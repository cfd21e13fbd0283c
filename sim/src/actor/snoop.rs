//! A curious user who asks for other users' data and tries forbidden actions all the time, even during a rebuild. Every
//! answer is compared with the user's rights. A snoop never changes anything.

use std::time::Duration;

use protocol::message::{client_master::ClientReply, master_security::UserRights};

use super::{
    asking::{PATIENCE, ask, later},
    questions::{draw_attempt, draw_question},
};
use crate::{
    environment::Environment,
    invariants::rights::{self, Probe},
    role::MasterLink,
};

/// See the module.
pub(crate) struct Snoop {
    by: UserRights,
    /// Nobody ever gives this user a right by name.
    is_stranger: bool,
    probe: Option<Box<Probe>>,
    tag: u64,
}

impl Snoop {
    pub(crate) fn new(by: UserRights, is_stranger: bool) -> Self {
        Self { by, is_stranger, probe: None, tag: 0 }
    }

    pub(crate) fn logged_in(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if self.probe.is_none() {
            self.next(env, master_link);
        }
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) {
        if tag == self.tag {
            self.next(env, master_link);
        }
    }

    pub(crate) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: u64,
        reply: Option<ClientReply>,
    ) {
        if tag != self.tag {
            return;
        }
        if let (Some(probe), Some(reply)) = (self.probe.take(), reply) {
            rights::check(env, &probe, &reply);
        }
        self.tag += 1;
        let span = env.span(50, PAUSE_MAX_MS);
        later(env, master_link, span, self.tag);
    }

    fn next(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        self.tag += 1;
        self.probe = None;
        if master_link.session.is_none() {
            return later(env, master_link, Duration::from_millis(PAUSE_MAX_MS), self.tag);
        }
        let user = self.by.user.clone();
        let request = match env.rng.u8(..4) {
            0 => draw_attempt(env, &user, self.is_stranger),
            _ => draw_question(env, &user),
        };
        let probe = Probe::new(env, self.by.clone(), request);
        ask(env, master_link, &probe.request, self.tag, PATIENCE);
        self.probe = Some(Box::new(probe));
    }
}

/// Longest pause between two questions, in milliseconds.
const PAUSE_MAX_MS: u64 = 700;
