//! Tells the nodes which tickets and which machines' certificates count for nothing any more, until each has
//! acknowledged it. Serves revocation (docs/paths/login.md). It never decides whose session ends: the
//! [endings](super::session_endings) do.

use std::time::Duration;

use protocol::{
    NodeId, Now, UserName, limits,
    message::node_master::{Order, Revocation},
};

use crate::{Master, fleet::nodes::NodeKey, replicas::orders::OrderKind};

impl Master {
    /// Makes a user's present tickets worthless. Other sessions of the user ask for new ones.
    pub(super) fn revoke(&mut self, now: Now, user: UserName) {
        let revocation = Revocation { user, last_ticket: self.access.tickets.last() };
        let is_told = |(_, told, _): &(u64, Revocation, Duration)| *told == revocation;
        if self.access.session_recheck.recent.iter().any(is_told) {
            return;
        }
        self.access.session_recheck.last_revocation += 1;
        let number = self.access.session_recheck.last_revocation;
        let nodes: Vec<_> = self.fleet.nodes.iter().map(|(key, _)| key).collect();
        for node in nodes {
            self.order_now(node, OrderKind::Revoke(number), Order::Revoke(revocation.clone()));
        }
        self.access.session_recheck.recent.push_back((number, revocation, now.monotonic + TOLD_FOR));
    }

    /// A node came back, perhaps without memory: it is told of recent revocations and struck-off machines.
    pub(crate) fn resend_revocations(&mut self, node: NodeKey) {
        self.tell_struck_off(node);
        for (number, revocation, _) in self.access.session_recheck.recent.clone() {
            self.order_now(node, OrderKind::Revoke(number), Order::Revoke(revocation));
        }
    }

    /// A node did not acknowledge a revocation. It is told again later, never at once. If the failure comes at once
    /// too, the master would do nothing else.
    pub(crate) fn retry_revocation_later(&mut self, at: Duration, node: NodeKey, number: u64) {
        self.access.session_recheck.unacknowledged.insert((at, node, number));
    }

    /// Repeats unacknowledged revocations. They bypass the nodes' queues: a revocation waits for no other order.
    pub(super) fn retry_revocations(&mut self, now: Now) {
        while let Some(&(at, node, number)) = self.access.session_recheck.unacknowledged.first()
            && at <= now.monotonic
        {
            self.access.session_recheck.unacknowledged.pop_first();
            let revocation = self
                .access
                .session_recheck
                .recent
                .iter()
                .find(|(of, ..)| *of == number)
                .map(|(_, told, _)| told.clone());
            if let Some(revocation) = revocation {
                self.order_now(node, OrderKind::Revoke(number), Order::Revoke(revocation));
            }
        }
    }

    /// Tells the nodes whose certificates are worthless, if that has changed.
    pub(super) fn note_struck_off(&mut self, names: Vec<NodeId>) {
        if self.access.session_recheck.struck_off.as_ref() == Some(&names) {
            return;
        }
        tracing::info!(machines = names.len(), "the list of machines that were struck off has changed");
        self.access.session_recheck.struck_off = Some(names);
        let nodes: Vec<_> = self.fleet.nodes.iter().map(|(key, _)| key).collect();
        nodes.into_iter().for_each(|node| self.tell_struck_off(node));
    }

    fn tell_struck_off(&mut self, node: NodeKey) {
        if let Some(order) = self.struck_off_order() {
            self.order_now(node, OrderKind::StruckOff, order);
        }
    }

    /// The order that tells a node of struck-off machines; nothing before the security server has reported.
    pub(crate) fn struck_off_order(&self) -> Option<Order> {
        self.access.session_recheck.struck_off.clone().map(Order::StruckOff)
    }
}

/// How long joining nodes are told of a revocation: until every earlier ticket has expired, and as long again for
/// clocks that differ.
const TOLD_FOR: Duration = limits::TICKET_LIFE.saturating_mul(2);
