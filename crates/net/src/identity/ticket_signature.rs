//! Tickets: the master signs them ([`TicketSigner`]); a node's rules check them without asking anyone
//! ([`protocol::ticket_verifier`]), with [`is_signed`]. They serve doors 5 and 6 (Sector/Sphere paper, 2.3).
//!
//! The private keys never leave the signer, and nothing here says what a ticket allows.

use protocol::{
    ticket::{SignedTicket, Ticket, TicketKeys},
    wire::codec,
};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::random;

/// The master's Ed25519 keys for tickets: one that signs, and the one that will sign next. They never leave the
/// process; nodes learn the public halves when they join, and a new one a day before it is used.
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
        SignedTicket { ticket, signature, delegation: None }
    }
}

/// Whether `words` were signed with the Ed25519 key whose public half is `key`.
pub fn is_signed(key: &[u8; 32], words: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(words, signature).is_ok()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{
        JobId, NodeId, Now, Reason, Refusal, Status, UserName,
        ticket::{Holder, TicketFault, TicketRight},
        ticket_verifier::{RefusedTicket, TicketVerifier},
    };

    use super::*;

    fn ticket(node: &str) -> Ticket {
        Ticket {
            number: 1,
            user: UserName::new("alice").unwrap(),
            holder: Holder::Node(NodeId::new("node-9").unwrap()),
            node: NodeId::new(node).unwrap(),
            right: TicketRight::Compute { job: JobId(7) },
            file: None,
            plain_within: None,
            holder_site: None,
            until_unix_millis: 10_000,
        }
    }

    fn at(unix_millis: u64) -> Now {
        Now { unix_millis, ..Now::default() }
    }

    fn signer_and_checker() -> (TicketSigner, TicketVerifier) {
        let signer = TicketSigner::generate();
        let mut checker = TicketVerifier::new(NodeId::new("node-1").unwrap(), "uic".into(), is_signed);
        checker.take_keys(at(0), signer.public_keys());
        (signer, checker)
    }

    #[test]
    fn a_ticket_is_valid_up_to_its_last_millisecond() {
        let (signer, checker) = signer_and_checker();
        let signed = signer.sign(&ticket("node-1"));
        assert_eq!(checker.verify(at(0), &signed), Ok(ticket("node-1")));
        assert_eq!(checker.verify(at(10_000), &signed), Ok(ticket("node-1")));
        let RefusedTicket { fault, refusal, .. } = checker.verify(at(10_001), &signed).unwrap_err();
        assert_eq!((fault, refusal.status()), (Some(TicketFault::Expired), Status::Refused));
        assert!(refusal.message.contains("it ended 1 s ago"), "{refusal}");
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
            let RefusedTicket { fault, refusal, .. } = checker.verify(at(0), &bad).unwrap_err();
            assert_eq!((fault, refusal.status()), (Some(TicketFault::Unsigned), Status::Refused));
            assert!(refusal.message.contains("the master did not sign it"), "{refusal}");
        }
    }

    #[test]
    fn a_ticket_for_another_node_is_refused() {
        let (signer, checker) = signer_and_checker();
        let RefusedTicket { fault, refusal, user } =
            checker.verify(at(0), &signer.sign(&ticket("node-2"))).unwrap_err();
        assert_eq!((fault, user), (Some(TicketFault::OtherNode), Some(ticket("node-2").user)));
        assert_eq!(refusal, Refusal::new(Reason::NoRight, "node-1 refuses the ticket: it is for node-2"));
    }

    #[test]
    fn a_ticket_signed_with_another_key_is_refused() {
        let (_, checker) = signer_and_checker();
        let RefusedTicket { refusal, .. } =
            checker.verify(at(0), &TicketSigner::generate().sign(&ticket("node-1"))).unwrap_err();
        assert!(refusal.message.contains("the master did not sign it"), "{refusal}");
    }

    #[test]
    fn signed_bytes_that_are_no_ticket_are_refused_not_believed() {
        let (signer, checker) = signer_and_checker();
        let bytes = vec![codec::VERSION, 0xff];
        let signed =
            SignedTicket { signature: signer.current.sign(&bytes).as_ref().to_vec(), ticket: bytes, delegation: None };
        let RefusedTicket { refusal, .. } = checker.verify(at(0), &signed).unwrap_err();
        assert_eq!(refusal.message, "node-1 cannot read the ticket: the message is malformed");
    }

    #[test]
    fn while_keys_roll_the_last_present_and_next_are_good_and_another_masters_not() {
        let (mut signer, mut checker) = signer_and_checker();
        let of_first = signer.sign(&ticket("node-1"));
        signer.roll();
        // The node was told this key a day ago, and need not have heard that it is in use.
        let of_second = signer.sign(&ticket("node-1"));
        let are_good =
            |checker: &TicketVerifier| [&of_first, &of_second].map(|signed| checker.verify(at(0), signed).is_ok());
        assert_eq!(are_good(&checker), [true, true]);
        checker.take_keys(at(0), signer.public_keys());
        assert_eq!(are_good(&checker), [true, true]);
        checker.take_keys(at(0), TicketSigner::generate().public_keys());
        assert_eq!(are_good(&checker), [false, false]);
    }
}
