//! Whose tickets are worthless before their time: of users who were removed, disabled, or whose session was revoked; and
//! whose certificates: of machines that were struck off. Serves every transfer. A node hears of it from its master, refuses
//! them from then on, and cuts off what runs on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use net::identity::Bearer;
use protocol::{
    NodeId, Now, UserName, limits,
    message::node_master::Revocation,
    ticket::{SignedTicket, Ticket},
    wire::codec,
};
use tokio::sync::watch;

/// Users with the moment up to which their tickets are worthless, and machines that are kept out.
#[derive(Debug)]
pub(crate) struct Revoked {
    users: Mutex<BTreeMap<UserName, u64>>,
    /// By name: that covers every certificate that such a machine ever had.
    machines: Mutex<BTreeSet<NodeId>>,
    /// Counts revocations, so that whoever waits for one looks again.
    told: watch::Sender<u64>,
}

impl Default for Revoked {
    fn default() -> Self {
        Self { users: Mutex::default(), machines: Mutex::default(), told: watch::Sender::new(0) }
    }
}

impl Revoked {
    /// Takes a revocation from the master. What is so old that its tickets have expired is forgotten: so there are never
    /// more than a master revokes in two minutes.
    pub(crate) fn revoke(&self, now: Now, revocation: Revocation) {
        let Revocation { user, until_unix_millis } = revocation;
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let kept_from = now.unix_millis.saturating_sub(2 * LIFE_MILLIS);
        users.retain(|_, until| *until >= kept_from);
        let until = users.entry(user).or_default();
        *until = (*until).max(until_unix_millis);
        drop(users);
        self.told.send_modify(|count| *count += 1);
    }

    /// Whether a ticket was given out before its user's tickets were revoked.
    pub(crate) fn covers(&self, ticket: &Ticket) -> bool {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let given_unix_millis = ticket.until_unix_millis.saturating_sub(LIFE_MILLIS);
        users.get(&ticket.user).is_some_and(|until| given_unix_millis <= *until)
    }

    /// The same for a ticket as it was shown. One that cannot be read allows nothing anyway.
    pub(crate) fn covers_signed(&self, ticket: &SignedTicket) -> bool {
        let has_none = self.users.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        !has_none && codec::decode::<Ticket>(&ticket.ticket).is_ok_and(|ticket| self.covers(&ticket))
    }

    /// Takes from the master which machines were struck off: these and no others.
    pub(crate) fn strike_off(&self, machines: Vec<NodeId>) {
        *self.machines.lock().unwrap_or_else(PoisonError::into_inner) = machines.into_iter().collect();
        self.told.send_modify(|count| *count += 1);
    }

    /// Whether `bearer` shows the certificate of a machine that was struck off.
    pub(crate) fn is_struck_off(&self, bearer: &Bearer) -> bool {
        bearer.is_role()
            && self.machines.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|name| bearer.is_node(name))
    }

    /// Ends once `bearer` is struck off.
    pub(crate) async fn struck_off(&self, bearer: &Bearer) {
        // The sender lives as long as this does.
        let _ = self.told.subscribe().wait_for(|_| self.is_struck_off(bearer)).await;
    }

    /// Ends once a ticket is revoked, or who shows it struck off. Never ends for a ticket that cannot be read: it allows
    /// nothing anyway.
    pub(crate) async fn wait(&self, ticket: &SignedTicket, bearer: &Bearer) {
        let Ok(ticket) = codec::decode::<Ticket>(&ticket.ticket) else { return std::future::pending().await };
        let mut told = self.told.subscribe();
        // The sender lives as long as this does.
        let _ = told.wait_for(|_| self.covers(&ticket) || self.is_struck_off(bearer)).await;
    }
}

/// How long a ticket lives, in milliseconds.
const LIFE_MILLIS: u64 = limits::TICKET_LIFE.as_millis() as u64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::transfer::TransferStream;
    use protocol::ticket::{Holder, Right};

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
        let revoked = Revoked::default();
        revoked.revoke(NOW, revocation("ann", NOW.unix_millis));
        revoked.revoke(NOW, revocation("ann", NOW.unix_millis - 5_000));
        assert!(revoked.covers(&given("ann", NOW.unix_millis)));
        assert!(!revoked.covers(&given("ann", NOW.unix_millis + 1)));
        assert!(!revoked.covers(&given("bob", NOW.unix_millis)));
    }

    #[test]
    fn a_revocation_is_kept_until_its_tickets_have_expired() {
        let revoked = Revoked::default();
        revoked.revoke(NOW, revocation("ann", NOW.unix_millis));
        let later = NOW.after(limits::TICKET_LIFE);
        revoked.revoke(later, revocation("bob", later.unix_millis));
        assert!(revoked.covers(&given("ann", NOW.unix_millis)));
        let much_later = NOW.after(3 * limits::TICKET_LIFE);
        revoked.revoke(much_later, revocation("bob", much_later.unix_millis));
        assert_eq!(revoked.users.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn who_waits_for_a_revocation_hears_of_one_that_came_before_and_of_one_that_comes() {
        let revoked = std::sync::Arc::new(Revoked::default());
        let signed = |ticket: &Ticket| SignedTicket { ticket: codec::encode(ticket), signature: vec![], handed: None };
        let ticket = signed(&given("ann", NOW.unix_millis));
        let waiting = tokio::spawn({
            let (revoked, ticket) = (std::sync::Arc::clone(&revoked), ticket.clone());
            async move { revoked.wait(&ticket, &Bearer::local("here")).await }
        });
        tokio::task::yield_now().await;
        revoked.revoke(NOW, revocation("bob", NOW.unix_millis));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        revoked.revoke(NOW, revocation("ann", NOW.unix_millis));
        waiting.await.unwrap();
        revoked.wait(&ticket, &Bearer::local("here")).await;
    }

    #[tokio::test]
    async fn who_was_struck_off_is_so_with_every_certificate_of_its_name_until_it_is_taken_back() {
        let revoked = Revoked::default();
        let bearer = |role: Option<&str>| {
            let pipe = Box::new(tokio::io::duplex(64).0);
            Bearer::of(&TransferStream::in_memory(pipe, ([192, 0, 2, 7], 9).into(), role, [1; 32])).unwrap()
        };
        let signed =
            SignedTicket { ticket: codec::encode(&given("ann", NOW.unix_millis)), signature: vec![], handed: None };
        let (gone, other, client) = (bearer(Some("gone")), bearer(Some("other")), bearer(None));
        revoked.strike_off(vec![NodeId::new("gone").unwrap()]);
        assert!(revoked.is_struck_off(&gone) && !revoked.is_struck_off(&other) && !revoked.is_struck_off(&client));
        revoked.struck_off(&gone).await;
        revoked.wait(&signed, &gone).await;
        revoked.strike_off(Vec::new());
        assert!(!revoked.is_struck_off(&gone));
    }
}
