//! Waits for what makes tickets worthless before their time: users who were removed, disabled, or whose session was
//! revoked, and machines that were struck off. Serves every transfer. A node hears of it from its master, refuses them
//! from then on, and cuts off what runs on them.
//!
//! It never decides whose tickets those are: the rules of the door do ([`TicketVerifier`]).

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use net::identity::Bearer;
use protocol::{
    NodeId, Now,
    message::node_master::Revocation,
    ticket::{SignedTicket, Ticket},
    ticket_verifier::TicketVerifier,
    wire::codec,
};
use tokio::sync::watch;

/// What is revoked at a node's door, with those who wait for it.
#[derive(Debug)]
pub(crate) struct RevocationWatch {
    verifier: Arc<RwLock<TicketVerifier>>,
    /// Counts revocations, so that whoever waits for one looks again.
    told: watch::Sender<u64>,
}

impl RevocationWatch {
    /// What these rules say.
    pub(crate) fn of(verifier: Arc<RwLock<TicketVerifier>>) -> Self {
        Self { verifier, told: watch::Sender::new(0) }
    }

    /// Takes a revocation from the master.
    pub(crate) fn revoke(&self, now: Now, revocation: Revocation) {
        self.change().revoke(now, revocation);
        self.told.send_modify(|count| *count += 1);
    }

    /// Whether a ticket, as it was shown, was given out before its user's tickets were revoked.
    pub(crate) fn covers_signed(&self, ticket: &SignedTicket) -> bool {
        self.rules().is_shown_revoked(ticket)
    }

    /// Takes from the master which machines were struck off: these and no others.
    pub(crate) fn revoke_nodes(&self, machines: Vec<NodeId>) {
        self.change().strike_off(machines);
        self.told.send_modify(|count| *count += 1);
    }

    /// Ends once `bearer` is struck off.
    pub(crate) async fn wait_node_revoked(&self, bearer: &Bearer) {
        // The sender lives as long as this does.
        let _ = self.told.subscribe().wait_for(|_| self.rules().is_struck_off(bearer)).await;
    }

    /// Ends once a ticket is revoked, or who shows it struck off. Never ends for a ticket that cannot be read: it
    /// allows nothing anyway.
    pub(crate) async fn wait_revoked(&self, ticket: &SignedTicket, bearer: &Bearer) {
        let Ok(ticket) = codec::decode::<Ticket>(&ticket.ticket) else { return std::future::pending().await };
        let is_over = |rules: &TicketVerifier| rules.is_revoked(&ticket) || rules.is_struck_off(bearer);
        // The sender lives as long as this does.
        let _ = self.told.subscribe().wait_for(|_| is_over(&self.rules())).await;
    }

    fn rules(&self) -> RwLockReadGuard<'_, TicketVerifier> {
        // Each change under this lock is complete in itself.
        self.verifier.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, TicketVerifier> {
        self.verifier.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::transfer::TransferStream;
    use protocol::{
        UserName, limits,
        ticket::{Holder, TicketRight},
    };

    use super::*;

    const NOW: Now = Now { monotonic: std::time::Duration::ZERO, unix_millis: 1_800_000_000_000 };

    impl Default for RevocationWatch {
        /// Of a node that has met no master.
        fn default() -> Self {
            let rules = TicketVerifier::new(NodeId::new("here").unwrap(), "uic".into(), net::identity::is_signed);
            Self::of(Arc::new(RwLock::new(rules)))
        }
    }

    fn given(user: &str, unix_millis: u64) -> Ticket {
        let node = NodeId::new("here").unwrap();
        Ticket {
            number: 1,
            user: UserName::new(user).unwrap(),
            holder: Holder::Node(node.clone()),
            node,
            right: TicketRight::Import,
            file: None,
            plain_within: None,
            holder_site: None,
            until_unix_millis: unix_millis + limits::TICKET_LIFE.as_millis() as u64,
        }
    }

    fn revocation(user: &str) -> Revocation {
        Revocation { user: UserName::new(user).unwrap(), last_ticket: 1 }
    }

    #[tokio::test]
    async fn who_waits_for_a_revocation_hears_of_one_that_came_before_and_of_one_that_comes() {
        let revoked = Arc::new(RevocationWatch::default());
        let signed =
            |ticket: &Ticket| SignedTicket { ticket: codec::encode(ticket), signature: vec![], delegation: None };
        let ticket = signed(&given("ann", NOW.unix_millis));
        let waiting = tokio::spawn({
            let (revoked, ticket) = (Arc::clone(&revoked), ticket.clone());
            async move { revoked.wait_revoked(&ticket, &Bearer::local("here")).await }
        });
        tokio::task::yield_now().await;
        revoked.revoke(NOW, revocation("bob"));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        revoked.revoke(NOW, revocation("ann"));
        waiting.await.unwrap();
        revoked.wait_revoked(&ticket, &Bearer::local("here")).await;
    }

    #[tokio::test]
    async fn a_revoked_node_is_so_with_every_certificate_of_its_name_until_reinstated() {
        let revoked = RevocationWatch::default();
        let bearer = |role: Option<&str>| {
            let pipe = Box::new(tokio::io::duplex(64).0);
            Bearer::of(&TransferStream::in_memory(pipe, ([192, 0, 2, 7], 9).into(), role, [1; 32])).unwrap()
        };
        let signed =
            SignedTicket { ticket: codec::encode(&given("ann", NOW.unix_millis)), signature: vec![], delegation: None };
        let (gone, other, client) = (bearer(Some("gone")), bearer(Some("other")), bearer(None));
        let is_struck_off = |bearer: &Bearer| revoked.rules().is_struck_off(bearer);
        revoked.revoke_nodes(vec![NodeId::new("gone").unwrap()]);
        assert!(is_struck_off(&gone) && !is_struck_off(&other) && !is_struck_off(&client));
        revoked.wait_node_revoked(&gone).await;
        revoked.wait_revoked(&signed, &gone).await;
        revoked.revoke_nodes(Vec::new());
        assert!(!is_struck_off(&gone));
    }
}
