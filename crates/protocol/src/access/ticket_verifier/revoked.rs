//! Tickets that are worthless before their time: of users who were removed or disabled, or whose session was revoked.
//! Also the certificates of machines that were struck off. It serves every transfer (docs/paths/login.md). It never
//! keeps a revocation for longer than older tickets can be used.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{DELIVERY_TIME_MAX, ProvedBearer};
use crate::{NodeId, UserName, limits, message::node_master::Revocation, ticket::Ticket, time::Now};

/// Users with the last of their worthless tickets, and machines that are kept out.
#[derive(Clone, Debug, Default)]
pub(super) struct Revocations {
    users: BTreeMap<UserName, Revoked>,
    /// By name, which covers every certificate that such a machine ever had.
    machines: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, Debug)]
struct Revoked {
    last_ticket: u64,
    /// When this was last heard.
    heard: Duration,
}

impl Revocations {
    /// Takes a revocation from the master. A revocation so old that nobody can use its tickets is forgotten. So there
    /// are never more than a master revokes in that time.
    pub(super) fn revoke(&mut self, now: Now, revocation: Revocation) {
        let Revocation { user, last_ticket } = revocation;
        self.users.retain(|_, revoked| now.monotonic.saturating_sub(revoked.heard) < KEPT_FOR);
        let revoked = self.users.entry(user).or_insert(Revoked { last_ticket, heard: now.monotonic });
        *revoked = Revoked { last_ticket: last_ticket.max(revoked.last_ticket), heard: now.monotonic };
    }

    /// From now on tickets come from another master, or from this one after a restart, and are numbered anew. Older
    /// ones are worthless anyway.
    pub(super) fn forget_users(&mut self) {
        self.users.clear();
    }

    /// Whether no tickets are revoked.
    pub(super) fn has_none(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether a ticket was given out before its user's tickets were revoked.
    pub(super) fn covers(&self, ticket: &Ticket) -> bool {
        self.users.get(&ticket.user).is_some_and(|revoked| ticket.number <= revoked.last_ticket)
    }

    /// Takes the machines that are struck off: these and no others.
    pub(super) fn strike_off(&mut self, machines: Vec<NodeId>) {
        self.machines = machines.into_iter().collect();
    }

    /// Whether `bearer` shows the certificate of a machine that was struck off.
    pub(super) fn is_struck_off(&self, bearer: &impl ProvedBearer) -> bool {
        bearer.is_role() && self.machines.iter().any(|name| bearer.is_node(name))
    }
}

/// How long a revocation is kept: a task's pieces may come with a ticket that ended hours before.
const KEPT_FOR: Duration = DELIVERY_TIME_MAX.saturating_add(limits::TICKET_LIFE.saturating_mul(2));

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::ticket::{Holder, TicketRight};

    use super::*;

    const NOW: Now = Now { monotonic: Duration::ZERO, unix_millis: 1_800_000_000_000 };

    fn given(user: &str, number: u64) -> Ticket {
        let node = NodeId::new("here").unwrap();
        Ticket {
            number,
            user: UserName::new(user).unwrap(),
            holder: Holder::Node(node.clone()),
            node,
            right: TicketRight::Import,
            file: None,
            plain_within: None,
            holder_site: None,
            until_unix_millis: NOW.unix_millis,
        }
    }

    fn revocation(user: &str, last_ticket: u64) -> Revocation {
        Revocation { user: UserName::new(user).unwrap(), last_ticket }
    }

    #[test]
    fn tickets_of_before_are_worthless_and_those_of_after_and_of_others_are_good() {
        let mut revoked = Revocations::default();
        assert!(revoked.has_none());
        revoked.revoke(NOW, revocation("ann", 7));
        // Told again, late.
        revoked.revoke(NOW, revocation("ann", 3));
        assert!(!revoked.has_none() && revoked.covers(&given("ann", 7)));
        assert!(!revoked.covers(&given("ann", 8)));
        assert!(!revoked.covers(&given("bob", 7)));
        revoked.forget_users();
        assert!(revoked.has_none());
    }

    #[test]
    fn a_revocation_is_kept_until_nobody_can_use_its_tickets() {
        let mut revoked = Revocations::default();
        revoked.revoke(NOW, revocation("ann", 7));
        let later = NOW.after(DELIVERY_TIME_MAX);
        revoked.revoke(later, revocation("bob", 8));
        assert!(revoked.covers(&given("ann", 7)));
        let much_later = later.after(DELIVERY_TIME_MAX);
        revoked.revoke(much_later, revocation("bob", 9));
        assert_eq!(revoked.users.len(), 1);
    }
}
