//! Ends clients' sessions: those that were logged out or idle, that have run out, or whose account has changed. Every
//! few seconds the security server is asked whose accounts have changed, and then whether their sessions still hold
//! (docs/paths/login.md). An unanswered question never ends a session before its own time: while the security server
//! cannot be reached, open sessions stay open.

use std::time::Duration;

use protocol::{
    Now, Refusal, SessionId,
    message::{
        client_master::ClientReply,
        master_security::{AccountChanges, KnownUser, RECHECKED_MAX, SecurityReply, SecurityRequest},
    },
};

use crate::{
    Master,
    access::session_recheck::{MASTER_CALLER, MASTER_HEALTH_CALLER, RecheckedSession},
    actions::{MasterAction, SessionCaller},
};

impl Master {
    /// The client logged out. Its tickets stay good for as long as they were given.
    pub(crate) fn log_out(&mut self, now: Now, from: SessionCaller) {
        self.access.sessions.close(now, from.session);
        self.reply(from, ClientReply::Done);
        self.actions.push_back(MasterAction::CloseSession(from.session));
    }

    /// Closes sessions of clients that asked nothing for long. Their tickets stay good.
    pub(crate) fn end_idle_sessions(&mut self, now: Now) {
        let idle = self.access.sessions.close_idle(now);
        self.actions.extend(idle.into_iter().map(MasterAction::CloseSession));
    }

    /// Asks whose accounts have changed, renews sessions in use, and ends those that have ended.
    pub(crate) fn recheck_sessions(&mut self, now: Now) {
        for session in self.access.sessions.ended(now) {
            self.end_session(now, session);
        }
        if now.monotonic >= self.access.session_recheck.next_renewal {
            self.access.session_recheck.next_renewal = now.monotonic + RENEWAL_EVERY;
            let ending = self.access.sessions.ending_before(now.after(RENEW_AHEAD));
            self.access.session_recheck.waiting.extend(ending.into_iter().map(RecheckedSession::Open));
            self.access.sessions.closed.forget_old(now);
        }
        self.retry_revocations(now);
        self.send_recheck();
        if !self.access.session_recheck.is_polling && now.monotonic >= self.access.session_recheck.next_poll {
            self.access.session_recheck.is_polling = true;
            let request = SecurityRequest::Changes(self.access.session_recheck.mark);
            self.actions.push_back(MasterAction::AskSecurity { to: MASTER_CALLER, request });
        }
        if now.monotonic >= self.access.session_recheck.next_health {
            self.access.session_recheck.next_health = now.monotonic + HEALTH_EVERY;
            self.actions
                .push_back(MasterAction::AskSecurity { to: MASTER_HEALTH_CALLER, request: SecurityRequest::Health });
        }
        while self.access.session_recheck.recent.front().is_some_and(|(_, _, until)| *until < now.monotonic) {
            self.access.session_recheck.recent.pop_front();
        }
    }

    /// A session was opened on a recent answer of the security server. A change since then may have been reported
    /// before the session existed, so it is checked once more.
    pub(crate) fn recheck_session(&mut self, session: SessionId) {
        self.access.session_recheck.waiting.insert(RecheckedSession::Open(session));
    }

    /// The security server answered a question of the master's own.
    pub(crate) fn note_master_answer(&mut self, now: Now, reply: Result<SecurityReply, Refusal>) {
        match reply {
            Ok(SecurityReply::Changes(changes)) => self.note_changes(now, changes),
            Ok(SecurityReply::Rechecked(known)) => self.note_rechecked(now, known),
            Ok(SecurityReply::StruckOff(names)) => self.note_struck_off(names),
            Ok(_) | Err(_) => {
                // Asked again after a while. Nobody is let in meanwhile, and open sessions stay open.
                let asked = std::mem::take(&mut self.access.session_recheck.asked);
                self.access.session_recheck.waiting.extend(asked);
                self.access.session_recheck.is_polling = false;
                self.access.session_recheck.next_poll = now.monotonic + POLL_EVERY;
            }
        }
    }

    /// The security server reported its health, or could not be asked.
    pub(crate) fn note_security_health(&mut self, reply: Result<SecurityReply, Refusal>) {
        if let Ok(SecurityReply::Health(mut reasons)) = reply {
            reasons.truncate(SECURITY_REASONS_MAX);
            self.access.session_recheck.security_reasons = reasons;
        }
    }

    fn note_changes(&mut self, now: Now, changes: AccountChanges) {
        let AccountChanges { cursor: mark, users } = changes;
        self.access.session_recheck.mark = mark;
        self.access.session_recheck.is_polling = false;
        self.access.session_recheck.next_poll = now.monotonic + POLL_EVERY;
        let open = self.access.sessions.of_users(users.as_deref());
        let left = self.access.sessions.closed.of_users(users.as_deref());
        self.access.session_recheck.waiting.extend(open.into_iter().map(RecheckedSession::Open));
        self.access.session_recheck.waiting.extend(left.into_iter().map(RecheckedSession::Closed));
        self.send_recheck();
        self.actions.push_back(MasterAction::AskSecurity { to: MASTER_CALLER, request: SecurityRequest::StruckOff });
    }

    /// Asks for the next sessions in line, a batch at a time.
    fn send_recheck(&mut self) {
        if !self.access.session_recheck.asked.is_empty() {
            return;
        }
        let mut held = Vec::new();
        while held.len() < RECHECKED_MAX
            && let Some(looked) = self.access.session_recheck.waiting.pop_first()
        {
            match &looked {
                RecheckedSession::Open(session) => match self.access.sessions.get(*session) {
                    Some(client) => held.push(client.held()),
                    None => continue,
                },
                RecheckedSession::Closed(left) => held.push(left.clone()),
            }
            self.access.session_recheck.asked.push(looked);
        }
        if !held.is_empty() {
            self.actions
                .push_back(MasterAction::AskSecurity { to: MASTER_CALLER, request: SecurityRequest::Recheck(held) });
        }
    }

    fn note_rechecked(&mut self, now: Now, known: Vec<Option<KnownUser>>) {
        let asked = std::mem::take(&mut self.access.session_recheck.asked);
        if known.len() != asked.len() {
            // Nonsense; asked again at the next tick.
            return self.access.session_recheck.waiting.extend(asked);
        }
        for (looked, known) in asked.into_iter().zip(known) {
            let lost = match (looked, known) {
                (RecheckedSession::Open(session), Some(known)) => self.access.sessions.renew(session, known),
                (RecheckedSession::Open(session), None) => {
                    self.end_session(now, session);
                    None
                }
                (RecheckedSession::Closed(held), known) => self.access.sessions.closed.recheck(&held, known),
            };
            if let Some(user) = lost {
                self.revoke(now, user);
            }
        }
        self.send_recheck();
    }

    /// Ends a client's session, and with it the use of its tickets.
    fn end_session(&mut self, now: Now, session: SessionId) {
        let Some(user) = self.access.sessions.get(session).map(|client| client.rights.user.clone()) else { return };
        tracing::info!(%session, %user, "a session was ended: it has run out, or was revoked");
        self.access.sessions.end(session);
        self.actions.push_back(MasterAction::CloseSession(session));
        self.revoke(now, user);
    }
}

/// How often that is asked: disks fill slowly.
const HEALTH_EVERY: Duration = Duration::from_secs(60);

/// Most sentences about it that are passed on.
const SECURITY_REASONS_MAX: usize = 16;

/// How often the security server is asked for changes. With the answer, the check of the sessions and the order to the
/// nodes, a revocation holds everywhere in half of the promised ten seconds.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// How often sessions that end soon are checked, which renews those that may be renewed.
const RENEWAL_EVERY: Duration = Duration::from_secs(60);

/// How long before its end a session is checked.
const RENEW_AHEAD: Duration = Duration::from_secs(5 * 60);
