//! Tickets: the master signs them ([`TicketSigner`]), a node checks them without asking anyone ([`TicketChecker`]).
//! They serve doors 5 and 6 (Sector/Sphere paper, 2.3).
//!
//! A checker says whether a ticket is the master's, for this node and still valid. It never says whether the right in
//! it covers what is asked, nor whether whoever shows it is its holder ([`Bearer`](super::Bearer)): the caller compares
//! that.

use std::{sync::Arc, time::Duration};

use protocol::{
    NodeId, Now, Refusal, Status, UserName, limits,
    ticket::{SignedTicket, Ticket, TicketFault, TicketKeys},
    wire::codec,
};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::random;

/// The master's Ed25519 keys for tickets: one that signs, and the one that will sign next. They never leave the process;
/// nodes learn the public halves when they join, and a new one a day before it is used.
pub struct TicketSigner {
    current: Ed25519KeyPair,
    next: Ed25519KeyPair,
}

impl TicketSigner {
    /// New random keys.
    pub fn generate() -> Self {
        Self { current: random_key(), next: random_key() }
    }

    /// The public halves, for checkers.
    pub fn public_keys(&self) -> TicketKeys {
        TicketKeys { current: public(&self.current), next: public(&self.next) }
    }

    /// From now on the next key signs, and another one is made to come after it.
    pub fn roll(&mut self) {
        self.current = std::mem::replace(&mut self.next, random_key());
    }

    /// Signs a ticket.
    pub fn sign(&self, ticket: &Ticket) -> SignedTicket {
        let ticket = codec::encode(ticket);
        let signature = self.current.sign(&ticket).as_ref().to_vec();
        SignedTicket { ticket, signature, handed: None }
    }
}

/// Checks a ticket's signature, node and time; the caller checks holder and right.
#[derive(Clone, Debug)]
pub struct TicketChecker {
    keys: TicketKeys,
    /// Keys that signed before, newest last.
    retired: Vec<Retired>,
    node: Arc<NodeId>,
}

/// A key that signs no more. What it signed is good for as long as a ticket lives, and not longer, whatever the ticket
/// says: who steals an old key can do nothing with it.
#[derive(Clone, Copy, Debug)]
struct Retired {
    key: [u8; 32],
    /// The latest end of a ticket that it may have signed, in milliseconds since the Unix epoch.
    until_unix_millis: u64,
}

/// A ticket that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTicket {
    /// Why, for counting.
    pub fault: TicketFault,
    /// Whom it names, where it was the master's.
    pub user: Option<UserName>,
    /// Why, for the one who showed it.
    pub refusal: Refusal,
}

impl TicketChecker {
    /// A checker of tickets for `node`, signed with one of the keys whose public halves are `keys`.
    pub fn new(keys: TicketKeys, node: NodeId) -> Self {
        Self { keys, retired: Vec::new(), node: Arc::new(node) }
    }

    /// Takes newer keys of the same master; the one that they replace stays good for what it has signed. Keys of another
    /// master, or of this one after it was started again, make all older tickets worthless.
    pub fn take_keys(&mut self, keys: TicketKeys, now: Now) {
        if keys == self.keys {
            return;
        }
        let rolled = keys.current == self.keys.next;
        if !rolled && keys.current != self.keys.current {
            self.retired.clear();
        }
        if rolled {
            // Told a little later than it was done, and by a clock that may be another.
            let until = now.after(limits::TICKET_LIFE + KEY_OVERLAP);
            self.retired.push(Retired { key: self.keys.current, until_unix_millis: until.unix_millis });
            if self.retired.len() > RETIRED_KEYS_MAX {
                self.retired.remove(0);
            }
        }
        self.keys = keys;
    }

    /// The ticket, when it is genuine, for this node, and its time has not passed.
    ///
    /// # Errors
    /// Which of these it is not.
    pub fn check(&self, signed: &SignedTicket, now: Now) -> Result<Ticket, RefusedTicket> {
        let refused = |fault, user, sentence: String| RefusedTicket {
            fault,
            user,
            refusal: Refusal::new(Status::Refused, sentence),
        };
        let is_by =
            |key: &[u8; 32]| UnparsedPublicKey::new(&ED25519, key).verify(&signed.ticket, &signed.signature).is_ok();
        // The signature first: nothing of an unsigned ticket is even parsed.
        let limit = if is_by(&self.keys.current) || is_by(&self.keys.next) {
            Some(u64::MAX)
        } else {
            self.retired.iter().rev().find(|retired| is_by(&retired.key)).map(|retired| retired.until_unix_millis)
        };
        let unsigned = || {
            let sentence =
                format!("{} refuses the ticket: the master did not sign it; ask the master for a new one", self.node);
            refused(TicketFault::Unsigned, None, sentence)
        };
        let limit = limit.ok_or_else(unsigned)?;
        let ticket: Ticket = codec::decode(&signed.ticket).map_err(|error| {
            refused(TicketFault::Unsigned, None, format!("{} cannot read the ticket: {error}", self.node))
        })?;
        if ticket.until_unix_millis > limit {
            return Err(unsigned());
        }
        let user = || Some(ticket.user.clone());
        if ticket.node != *self.node {
            let sentence = format!("{} refuses the ticket: it is for {}", self.node, ticket.node);
            return Err(refused(TicketFault::OtherNode, user(), sentence));
        }
        if ticket.is_expired(now) {
            let seconds = (now.unix_millis - ticket.until_unix_millis).div_ceil(1000);
            let sentence = format!(
                "{} refuses the ticket: it ended {seconds} s ago; ask the master for a new one, and see that the clocks agree",
                self.node
            );
            return Err(refused(TicketFault::Expired, user(), sentence));
        }
        Ok(ticket)
    }
}

fn random_key() -> Ed25519KeyPair {
    // Any 32 bytes are an Ed25519 seed (RFC 8032, 5.1.5).
    #[allow(clippy::expect_used)]
    Ed25519KeyPair::from_seed_unchecked(&random::<32>()).expect("32 bytes are a seed")
}

fn public(key: &Ed25519KeyPair) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(key.public_key().as_ref());
    bytes
}

/// How much later than it was done a node may learn that a key was replaced: what an order takes at worst, and clocks
/// that disagree by some seconds.
const KEY_OVERLAP: Duration = Duration::from_secs(60);
/// Replaced keys that are remembered: those of a week, while a task's pieces may come hours after its ticket's end.
const RETIRED_KEYS_MAX: usize = 7;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{
        JobId, UserName,
        ticket::{Holder, Right},
    };

    use super::*;

    fn ticket(node: &str) -> Ticket {
        Ticket {
            number: 1,
            user: UserName::new("alice").unwrap(),
            holder: Holder::Node(NodeId::new("node-9").unwrap()),
            node: NodeId::new(node).unwrap(),
            right: Right::Compute { job: JobId(7) },
            file: None,
            plain_within: None,
            holder_site: None,
            until_unix_millis: 10_000,
        }
    }

    fn at(unix_millis: u64) -> Now {
        Now { unix_millis, ..Now::default() }
    }

    fn signer_and_checker() -> (TicketSigner, TicketChecker) {
        let signer = TicketSigner::generate();
        let checker = TicketChecker::new(signer.public_keys(), NodeId::new("node-1").unwrap());
        (signer, checker)
    }

    #[test]
    fn a_ticket_is_valid_up_to_its_last_millisecond() {
        let (signer, checker) = signer_and_checker();
        let signed = signer.sign(&ticket("node-1"));
        assert_eq!(checker.check(&signed, at(0)), Ok(ticket("node-1")));
        assert_eq!(checker.check(&signed, at(10_000)), Ok(ticket("node-1")));
        let RefusedTicket { fault, refusal, .. } = checker.check(&signed, at(10_001)).unwrap_err();
        assert_eq!((fault, refusal.status), (TicketFault::Expired, Status::Refused));
        assert!(refusal.sentence.contains("it ended 1 s ago"), "{refusal}");
    }

    #[test]
    fn a_ticket_altered_in_any_byte_or_length_is_refused() {
        let (signer, checker) = signer_and_checker();
        let good = signer.sign(&ticket("node-1"));
        let mut altered = Vec::new();
        for at in 0..good.ticket.len() {
            let mut bad = good.clone();
            bad.ticket[at] ^= 1;
            altered.push(bad);
        }
        for at in 0..good.signature.len() {
            let mut bad = good.clone();
            bad.signature[at] ^= 1;
            altered.push(bad);
        }
        altered.push(SignedTicket { ticket: Vec::new(), ..good.clone() });
        altered.push(SignedTicket { signature: Vec::new(), ..good.clone() });
        altered.push(SignedTicket { ticket: [&good.ticket[..], &[0]].concat(), ..good.clone() });
        altered.push(SignedTicket { signature: [&good.signature[..], &[0]].concat(), ..good });
        for bad in altered {
            let RefusedTicket { fault, refusal, .. } = checker.check(&bad, at(0)).unwrap_err();
            assert_eq!((fault, refusal.status), (TicketFault::Unsigned, Status::Refused));
            assert!(refusal.sentence.contains("the master did not sign it"), "{refusal}");
        }
    }

    #[test]
    fn a_ticket_for_another_node_is_refused() {
        let (signer, checker) = signer_and_checker();
        let RefusedTicket { fault, refusal, user } = checker.check(&signer.sign(&ticket("node-2")), at(0)).unwrap_err();
        assert_eq!((fault, user), (TicketFault::OtherNode, Some(ticket("node-2").user)));
        assert_eq!(refusal, Refusal::new(Status::Refused, "node-1 refuses the ticket: it is for node-2"));
    }

    #[test]
    fn a_ticket_signed_with_another_key_is_refused() {
        let (_, checker) = signer_and_checker();
        let RefusedTicket { refusal, .. } =
            checker.check(&TicketSigner::generate().sign(&ticket("node-1")), at(0)).unwrap_err();
        assert!(refusal.sentence.contains("the master did not sign it"), "{refusal}");
    }

    #[test]
    fn signed_bytes_that_are_no_ticket_are_refused_not_believed() {
        let (signer, checker) = signer_and_checker();
        let bytes = vec![codec::VERSION, 0xff];
        let signed =
            SignedTicket { signature: signer.current.sign(&bytes).as_ref().to_vec(), ticket: bytes, handed: None };
        let RefusedTicket { refusal, .. } = checker.check(&signed, at(0)).unwrap_err();
        assert_eq!(refusal.sentence, "node-1 cannot read the ticket: the message is malformed");
    }

    #[test]
    fn while_keys_roll_every_ticket_is_good_for_its_life_and_an_old_key_signs_no_longer_one() {
        let (mut signer, mut checker) = signer_and_checker();
        let of_first = signer.sign(&ticket("node-1"));
        let long = Ticket { until_unix_millis: u64::MAX, ..ticket("node-1") };
        let forged = signer.sign(&long);
        signer.roll();
        // The node was told this key a day ago, and need not have heard that it is in use.
        let of_second = signer.sign(&ticket("node-1"));
        assert!(checker.check(&of_first, at(0)).is_ok() && checker.check(&of_second, at(0)).is_ok());
        checker.take_keys(signer.public_keys(), at(0));
        checker.take_keys(signer.public_keys(), at(0));
        assert!(checker.check(&of_first, at(0)).is_ok() && checker.check(&of_second, at(0)).is_ok());
        assert_eq!(checker.check(&forged, at(0)).unwrap_err().fault, TicketFault::Unsigned);
        for _ in 0..RETIRED_KEYS_MAX {
            signer.roll();
            checker.take_keys(signer.public_keys(), at(0));
        }
        assert_eq!(checker.check(&of_first, at(0)).unwrap_err().fault, TicketFault::Unsigned, "it is forgotten");
        assert!(checker.check(&signer.sign(&long), at(0)).is_ok());
    }

    #[test]
    fn another_masters_keys_make_all_older_tickets_worthless() {
        let (mut signer, mut checker) = signer_and_checker();
        let of_first = signer.sign(&ticket("node-1"));
        signer.roll();
        checker.take_keys(signer.public_keys(), at(0));
        let of_second = signer.sign(&ticket("node-1"));
        checker.take_keys(TicketSigner::generate().public_keys(), at(0));
        assert!(checker.check(&of_first, at(0)).is_err() && checker.check(&of_second, at(0)).is_err());
    }
}
