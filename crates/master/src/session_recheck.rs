//! Whether those who have sessions may still have them: every few seconds the security server is asked whose accounts
//! have changed, and then whether their sessions stand. Serves revocation (docs/paths/login.md). While the security
//! server cannot be reached, sessions go on until they end by themselves.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use protocol::{
    NodeId, Now, Refusal, SessionId, UserName, limits,
    message::{
        master_security::{
            AccountChanges, ChangeCursor, HeldSession, KnownUser, RECHECKED_MAX, SecurityReply, SecurityRequest,
            UserRights,
        },
        node_master::{Order, Revocation},
    },
};

use crate::{
    Master,
    actions::{MasterAction, SessionCaller},
    nodes::NodeKey,
    orders::OrderKind,
};

/// What is known of the standing of sessions, and what is being asked.
#[derive(Debug, Default)]
pub(crate) struct SessionRecheck {
    /// Up to here all changes are known.
    mark: ChangeCursor,
    is_polling: bool,
    /// When the security server is asked for changes again, as [`Now::monotonic`].
    next_poll: Duration,
    /// When sessions that end soon are looked at again.
    next_renewal: Duration,
    /// Sessions that are to be looked at.
    waiting: BTreeSet<RecheckedSession>,
    /// Those that the security server is looking at.
    asked: Vec<RecheckedSession>,
    /// Revocations that nodes may not have heard of yet, oldest first, with their numbers; and until when they are
    /// told, as
    /// [`Now::monotonic`]: a wall clock that jumps must not make nodes miss one.
    recent: VecDeque<(u64, Revocation, Duration)>,
    last_revocation: u64,
    /// What is wrong with the security server, as it said last.
    pub(crate) security_reasons: Vec<String>,
    /// When it is asked that again, as [`Now::monotonic`].
    next_health: Duration,
    /// Machines whose certificates are worthless, as far as the security server has told yet.
    struck_off: Option<Vec<NodeId>>,
    /// Which nodes did not answer when they were told of which, and when they are told again: one entry at most for
    /// each node and recent revocation, since it is not on its way meanwhile.
    unacknowledged: BTreeSet<(Duration, NodeKey, u64)>,
}

/// A session that is looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RecheckedSession {
    /// It is open.
    Open(SessionId),
    /// It was closed lately; what it began may still go on.
    Closed(HeldSession),
}

impl Master {
    /// Asks whose accounts have changed, renews what is in use, and ends what has ended.
    pub(crate) fn recheck_sessions(&mut self, now: Now) {
        for session in self.sessions.ended(now) {
            self.end_session(now, session);
        }
        if now.monotonic >= self.session_recheck.next_renewal {
            self.session_recheck.next_renewal = now.monotonic + RENEWAL_EVERY;
            let ending = self.sessions.ending_before(now.after(RENEW_AHEAD));
            self.session_recheck.waiting.extend(ending.into_iter().map(RecheckedSession::Open));
            self.sessions.closed.forget_old(now);
        }
        self.retry_revocations(now);
        self.send_recheck();
        if !self.session_recheck.is_polling && now.monotonic >= self.session_recheck.next_poll {
            self.session_recheck.is_polling = true;
            let request = SecurityRequest::Changes(self.session_recheck.mark);
            self.actions.push_back(MasterAction::AskSecurity { to: MASTER_CALLER, request });
        }
        if now.monotonic >= self.session_recheck.next_health {
            self.session_recheck.next_health = now.monotonic + HEALTH_EVERY;
            self.actions
                .push_back(MasterAction::AskSecurity { to: MASTER_HEALTH_CALLER, request: SecurityRequest::Health });
        }
        while self.session_recheck.recent.front().is_some_and(|(_, _, until)| *until < now.monotonic) {
            self.session_recheck.recent.pop_front();
        }
    }

    /// A session was opened with what the security server said a moment ago; a change since then may have been told
    /// before the session was here, so it is looked at once more.
    pub(crate) fn recheck_session(&mut self, session: SessionId) {
        self.session_recheck.waiting.insert(RecheckedSession::Open(session));
    }

    /// The security server answered a question of the master's own.
    pub(crate) fn note_master_answer(&mut self, now: Now, reply: Result<SecurityReply, Refusal>) {
        match reply {
            Ok(SecurityReply::Changes(changes)) => self.note_changes(now, changes),
            Ok(SecurityReply::Rechecked(known)) => self.note_rechecked(now, known),
            Ok(SecurityReply::StruckOff(names)) => self.note_struck_off(names),
            Ok(_) | Err(_) => {
                // Asked again after a while. Nobody comes in meanwhile, and who is in stays in.
                let asked = std::mem::take(&mut self.session_recheck.asked);
                self.session_recheck.waiting.extend(asked);
                self.session_recheck.is_polling = false;
                self.session_recheck.next_poll = now.monotonic + POLL_EVERY;
            }
        }
    }

    /// The security server said how it is, or could not be asked.
    pub(crate) fn note_security_health(&mut self, reply: Result<SecurityReply, Refusal>) {
        if let Ok(SecurityReply::Health(mut reasons)) = reply {
            reasons.truncate(SECURITY_REASONS_MAX);
            self.session_recheck.security_reasons = reasons;
        }
    }

    fn note_changes(&mut self, now: Now, changes: AccountChanges) {
        let AccountChanges { cursor: mark, users } = changes;
        self.session_recheck.mark = mark;
        self.session_recheck.is_polling = false;
        self.session_recheck.next_poll = now.monotonic + POLL_EVERY;
        let open = self.sessions.of_users(users.as_deref());
        let left = self.sessions.closed.of_users(users.as_deref());
        self.session_recheck.waiting.extend(open.into_iter().map(RecheckedSession::Open));
        self.session_recheck.waiting.extend(left.into_iter().map(RecheckedSession::Closed));
        self.send_recheck();
        self.actions.push_back(MasterAction::AskSecurity { to: MASTER_CALLER, request: SecurityRequest::StruckOff });
    }

    /// Tells the nodes whose certificates are worthless, where that has changed.
    fn note_struck_off(&mut self, names: Vec<NodeId>) {
        if self.session_recheck.struck_off.as_ref() == Some(&names) {
            return;
        }
        tracing::info!(machines = names.len(), "the list of machines that were struck off has changed");
        self.session_recheck.struck_off = Some(names);
        let nodes: Vec<_> = self.nodes.iter().map(|(key, _)| key).collect();
        nodes.into_iter().for_each(|node| self.tell_struck_off(node));
    }

    fn tell_struck_off(&mut self, node: NodeKey) {
        if let Some(order) = self.struck_off_order() {
            self.order_now(node, OrderKind::StruckOff, order);
        }
    }

    /// What a node must know of machines that were struck off; nothing before the security server has said it.
    pub(crate) fn struck_off_order(&self) -> Option<Order> {
        self.session_recheck.struck_off.clone().map(Order::StruckOff)
    }

    /// Asks for the next sessions in line, a batch at a time.
    fn send_recheck(&mut self) {
        if !self.session_recheck.asked.is_empty() {
            return;
        }
        let mut held = Vec::new();
        while held.len() < RECHECKED_MAX
            && let Some(looked) = self.session_recheck.waiting.pop_first()
        {
            match &looked {
                RecheckedSession::Open(session) => match self.sessions.get(*session) {
                    Some(client) => held.push(client.held()),
                    None => continue,
                },
                RecheckedSession::Closed(left) => held.push(left.clone()),
            }
            self.session_recheck.asked.push(looked);
        }
        if !held.is_empty() {
            self.actions
                .push_back(MasterAction::AskSecurity { to: MASTER_CALLER, request: SecurityRequest::Recheck(held) });
        }
    }

    fn note_rechecked(&mut self, now: Now, known: Vec<Option<KnownUser>>) {
        let asked = std::mem::take(&mut self.session_recheck.asked);
        if known.len() != asked.len() {
            // Nonsense; asked again at the next tick.
            return self.session_recheck.waiting.extend(asked);
        }
        for (looked, known) in asked.into_iter().zip(known) {
            let lost = match (looked, known) {
                (RecheckedSession::Open(session), Some(known)) => self.sessions.renew(session, known),
                (RecheckedSession::Open(session), None) => {
                    self.end_session(now, session);
                    None
                }
                (RecheckedSession::Closed(held), known) => self.sessions.closed.recheck(&held, known),
            };
            if let Some(user) = lost {
                self.revoke(now, user);
            }
        }
        self.send_recheck();
    }

    /// Ends a client's session, and with it what its tickets allow.
    fn end_session(&mut self, now: Now, session: SessionId) {
        let Some(user) = self.sessions.get(session).map(|client| client.rights.user.clone()) else { return };
        tracing::info!(%session, %user, "a session was ended: it has run out, or was revoked");
        self.sessions.end(session);
        self.actions.push_back(MasterAction::CloseSession(session));
        self.revoke(now, user);
    }

    /// Makes the tickets that a user has so far worthless. Other sessions of the user ask for new ones.
    fn revoke(&mut self, now: Now, user: UserName) {
        let revocation = Revocation { user, last_ticket: self.tickets.last() };
        let is_told = |(_, told, _): &(u64, Revocation, Duration)| *told == revocation;
        if self.session_recheck.recent.iter().any(is_told) {
            return;
        }
        self.session_recheck.last_revocation += 1;
        let number = self.session_recheck.last_revocation;
        let nodes: Vec<_> = self.nodes.iter().map(|(key, _)| key).collect();
        for node in nodes {
            self.order_now(node, OrderKind::Revoke(number), Order::Revoke(revocation.clone()));
        }
        self.session_recheck.recent.push_back((number, revocation, now.monotonic + TOLD_FOR));
    }

    /// A node came back, perhaps without memory: it hears of what was revoked lately, and of who was struck off.
    pub(crate) fn resend_revocations(&mut self, node: NodeKey) {
        self.tell_struck_off(node);
        for (number, revocation, _) in self.session_recheck.recent.clone() {
            self.order_now(node, OrderKind::Revoke(number), Order::Revoke(revocation));
        }
    }

    /// A node did not answer when it was told of a revocation. It is told again later, never at once: where the failure
    /// comes at once too, the master would do nothing else.
    pub(crate) fn retry_revocation_later(&mut self, at: Duration, node: NodeKey, number: u64) {
        self.session_recheck.unacknowledged.insert((at, node, number));
    }

    /// Tells again what nodes did not answer. Beside their queues: a revocation waits for no other order.
    fn retry_revocations(&mut self, now: Now) {
        while let Some(&(at, node, number)) = self.session_recheck.unacknowledged.first()
            && at <= now.monotonic
        {
            self.session_recheck.unacknowledged.pop_first();
            let revocation =
                self.session_recheck.recent.iter().find(|(of, ..)| *of == number).map(|(_, told, _)| told.clone());
            if let Some(revocation) = revocation {
                self.order_now(node, OrderKind::Revoke(number), Order::Revoke(revocation));
            }
        }
    }
}

/// Whether a user who may do what `new` says has lost something that `old` says.
pub(crate) fn has_lost_rights(new: &UserRights, old: &UserRights) -> bool {
    (old.admin && !new.admin) || old.groups.iter().any(|group| !new.groups.contains(group))
}

/// Whether it is the master itself that asks.
pub(crate) fn is_master_call(asks: SessionCaller) -> bool {
    asks.session == MASTER_CALLER.session
}

/// Stands for the master itself where it asks. Sessions have ids drawn by lot, among which 0 does not come up.
pub(crate) const MASTER_CALLER: SessionCaller = SessionCaller { session: SessionId(0), request: None };
/// As [`MASTER_CALLER`], where it asks how the security server is.
pub(crate) const MASTER_HEALTH_CALLER: SessionCaller = SessionCaller { session: SessionId(0), request: Some(0) };
/// How often that is asked: disks fill slowly.
const HEALTH_EVERY: Duration = Duration::from_secs(60);
/// Most sentences about it that are passed on.
const SECURITY_REASONS_MAX: usize = 16;
/// How often the security server is asked for changes: with the answer, the look at the sessions and the order to the
/// nodes, a revocation holds everywhere in half of the ten seconds that are promised.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// How often sessions that end soon are looked at, which renews those that may be renewed.
const RENEWAL_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a session is looked at.
const RENEW_AHEAD: Duration = Duration::from_secs(5 * 60);
/// How long nodes that join are told of a revocation: until every ticket of before has expired, and as long again for
/// clocks that differ.
const TOLD_FOR: Duration = limits::TICKET_LIFE.saturating_mul(2);
