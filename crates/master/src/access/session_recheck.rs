//! Open sessions that may have lost their rights: who is still to be asked for, and which nodes must hear of whom. Serves
//! revocation (docs/paths/login.md). It never asks anyone itself.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use protocol::{
    NodeId, SessionId,
    message::{
        master_security::{ChangeCursor, HeldSession, UserRights},
        node_master::Revocation,
    },
};

use crate::{actions::SessionCaller, fleet::nodes::NodeKey};

/// The state of the rechecks, and the questions in progress.
#[derive(Debug, Default)]
pub(crate) struct SessionRecheck {
    /// All changes up to here are known.
    pub(crate) mark: ChangeCursor,
    pub(crate) is_polling: bool,
    /// When the security server is asked for changes again, as [`Now::monotonic`](protocol::Now::monotonic).
    pub(crate) next_poll: Duration,
    /// When sessions that end soon are checked again.
    pub(crate) next_renewal: Duration,
    /// Sessions to be checked.
    pub(crate) waiting: BTreeSet<RecheckedSession>,
    /// Those that the security server is checking.
    pub(crate) asked: Vec<RecheckedSession>,
    /// Revocations that nodes may not have heard of yet, oldest first, with their numbers. The third value is until
    /// when nodes are told, as [`Now::monotonic`](protocol::Now::monotonic): a wall clock that jumps must not make nodes miss one.
    pub(crate) recent: VecDeque<(u64, Revocation, Duration)>,
    pub(crate) last_revocation: u64,
    /// The security server's problems, as last reported.
    pub(crate) security_reasons: Vec<String>,
    /// When it is asked for these again, as [`Now::monotonic`](protocol::Now::monotonic).
    pub(crate) next_health: Duration,
    /// Machines whose certificates are worthless, as far as the security server has reported yet.
    pub(crate) struck_off: Option<Vec<NodeId>>,
    /// Nodes that did not acknowledge a revocation, and when each is told again. There is one entry at most for each
    /// node and recent revocation, since an outstanding order has none.
    pub(crate) unacknowledged: BTreeSet<(Duration, NodeKey, u64)>,
}

/// A session to be checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecheckedSession {
    /// It is open.
    Open(SessionId),
    /// It was closed lately; transfers it began may still run.
    Closed(HeldSession),
}

/// Whether a user with the rights `new` has lost something that `old` granted.
pub(crate) fn has_lost_rights(new: &UserRights, old: &UserRights) -> bool {
    (old.admin && !new.admin) || old.groups.iter().any(|group| !new.groups.contains(group))
}

/// Whether the master itself asks.
pub(crate) fn is_master_call(asks: SessionCaller) -> bool {
    asks.session == MASTER_CALLER.session
}

/// Stands for the master itself as the caller. Session ids are drawn at random, and 0 is not among them.
pub(crate) const MASTER_CALLER: SessionCaller = SessionCaller { session: SessionId(0), request: None };
/// As [`MASTER_CALLER`], for questions about the security server's health.
pub(crate) const MASTER_HEALTH_CALLER: SessionCaller = SessionCaller { session: SessionId(0), request: Some(0) };
