//! Whose tickets are worthless before their time: of users who were removed, disabled, or whose session was revoked; and
//! whose certificates: of machines that were struck off. Serves every transfer (docs/paths/login.md). It never keeps a
//! revocation for longer than there are tickets of before it.

use std::collections::{BTreeMap, BTreeSet};

use super::ProvedBearer;
use crate::{NodeId, UserName, limits, message::node_master::Revocation, ticket::Ticket, time::Now};

/// Users with the moment up to which their tickets are worthless, and machines that are kept out.
#[derive(Clone, Debug, Default)]
pub(super) struct Revocations {
    users: BTreeMap<UserName, u64>,
    /// By name: that covers every certificate that such a machine ever had.
    machines: BTreeSet<NodeId>,
}

impl Revocations {
    /// Takes a revocation from the master. What is so old that its tickets have expired is forgotten: so there are never
    /// more than a master revokes in two minutes.
    pub(super) fn revoke(&mut self, now: Now, revocation: Revocation) {
        let Revocation { user, until_unix_millis } = revocation;
        let kept_from = now.unix_millis.saturating_sub(2 * LIFE_MILLIS);
        self.users.retain(|_, until| *until >= kept_from);
        let until = self.users.entry(user).or_default();
        *until = (*until).max(until_unix_millis);
    }

    /// Whether nobody's tickets are revoked.
    pub(super) fn has_none(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether a ticket was given out before its user's tickets were revoked.
    pub(super) fn covers(&self, ticket: &Ticket) -> bool {
        let given_unix_millis = ticket.until_unix_millis.saturating_sub(LIFE_MILLIS);
        self.users.get(&ticket.user).is_some_and(|until| given_unix_millis <= *until)
    }

    /// Takes which machines were struck off: these and no others.
    pub(super) fn strike_off(&mut self, machines: Vec<NodeId>) {
        self.machines = machines.into_iter().collect();
    }

    /// Whether `bearer` shows the certificate of a machine that was struck off.
    pub(super) fn is_struck_off(&self, bearer: &impl ProvedBearer) -> bool {
        bearer.is_role() && self.machines.iter().any(|name| bearer.is_node(name))
    }
}

/// How long a ticket lives, in milliseconds.
const LIFE_MILLIS: u64 = limits::TICKET_LIFE.as_millis() as u64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::ticket::{Holder, Right};

    use super::*;

    const NOW: Now = Now { monotonic: std::time::Duration::ZERO, unix_millis: 1_800_000_000_000 };

    fn given(user: &str, unix_millis: u64) -> Ticket {
        let node = NodeId::new("here").unwrap();
        Ticket {
            number: 1,
            user: UserName::new(user).unwrap(),
            holder: Holder::Node(node.clone()),
            node,
            right: Right::Import,
            file: None,
            plain_within: None,
            holder_site: None,
            until_unix_millis: unix_millis + LIFE_MILLIS,
        }
    }

    fn revocation(user: &str, until_unix_millis: u64) -> Revocation {
        Revocation { user: UserName::new(user).unwrap(), until_unix_millis }
    }

    #[test]
    fn tickets_of_before_are_worthless_and_those_of_after_and_of_others_are_good() {
        let mut revoked = Revocations::default();
        assert!(revoked.has_none());
        revoked.revoke(NOW, revocation("ann", NOW.unix_millis));
        revoked.revoke(NOW, revocation("ann", NOW.unix_millis - 5_000));
        assert!(!revoked.has_none() && revoked.covers(&given("ann", NOW.unix_millis)));
        assert!(!revoked.covers(&given("ann", NOW.unix_millis + 1)));
        assert!(!revoked.covers(&given("bob", NOW.unix_millis)));
    }

    #[test]
    fn a_revocation_is_kept_until_its_tickets_have_expired() {
        let mut revoked = Revocations::default();
        revoked.revoke(NOW, revocation("ann", NOW.unix_millis));
        let later = NOW.after(limits::TICKET_LIFE);
        revoked.revoke(later, revocation("bob", later.unix_millis));
        assert!(revoked.covers(&given("ann", NOW.unix_millis)));
        let much_later = NOW.after(3 * limits::TICKET_LIFE);
        revoked.revoke(much_later, revocation("bob", much_later.unix_millis));
        assert_eq!(revoked.users.len(), 1);
    }
}
