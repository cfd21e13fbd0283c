//! Tickets: the master signs them ([`TicketSigner`]), a node checks them without asking anyone ([`TicketChecker`]).
//! They serve doors 5 and 6 (Sector/Sphere paper, 2.3).
//!
//! A checker says whether a ticket is the master's, for this node and still valid. It never says whether the right in
//! it covers what is asked: the caller compares that.

use std::sync::Arc;

use protocol::{
    NodeId, Now, Refusal, Status,
    ticket::{SignedTicket, Ticket},
    wire::codec,
};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::random;

/// The master's Ed25519 key for tickets. It lives as long as the process; nodes learn its public half when they join.
pub struct TicketSigner {
    key: Ed25519KeyPair,
}

impl TicketSigner {
    /// A new random key.
    pub fn generate() -> Self {
        // Any 32 bytes are an Ed25519 seed (RFC 8032, 5.1.5).
        #[allow(clippy::expect_used)]
        let key = Ed25519KeyPair::from_seed_unchecked(&random::<32>()).expect("32 bytes are a seed");
        Self { key }
    }

    /// The public half, for checkers.
    pub fn public_key(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.key.public_key().as_ref());
        bytes
    }

    /// Signs a ticket.
    pub fn sign(&self, ticket: &Ticket) -> SignedTicket {
        let ticket = codec::encode(ticket);
        let signature = self.key.sign(&ticket).as_ref().to_vec();
        SignedTicket { ticket, signature }
    }
}

/// Checks a ticket's signature, node and time; the caller checks the right.
#[derive(Clone)]
pub struct TicketChecker {
    public_key: [u8; 32],
    node: Arc<NodeId>,
}

impl TicketChecker {
    /// A checker of tickets for `node`, signed with the key whose public half is `public_key`.
    pub fn new(public_key: [u8; 32], node: NodeId) -> Self {
        Self { public_key, node: Arc::new(node) }
    }

    /// The ticket, when it is genuine, for this node, and its time has not passed.
    ///
    /// # Errors
    /// A refusal ([`Status::Refused`]) that says which of these it is not.
    pub fn check(&self, ticket: &SignedTicket, now: Now) -> Result<Ticket, Refusal> {
        let refused = |sentence: String| Refusal::new(Status::Refused, sentence);
        // The signature first: nothing of an unsigned ticket is even parsed.
        UnparsedPublicKey::new(&ED25519, &self.public_key).verify(&ticket.ticket, &ticket.signature).map_err(|_| {
            refused(format!(
                "{} refuses the ticket: the master did not sign it; ask the master for a new one",
                self.node
            ))
        })?;
        let ticket: Ticket = codec::decode(&ticket.ticket)
            .map_err(|error| refused(format!("{} cannot read the ticket: {error}", self.node)))?;
        if ticket.node != *self.node {
            return Err(refused(format!("{} refuses the ticket: it is for {}", self.node, ticket.node)));
        }
        if ticket.is_expired(now) {
            let seconds = (now.unix_millis - ticket.until_unix_millis).div_ceil(1000);
            return Err(refused(format!(
                "{} refuses the ticket: it ended {seconds} s ago; ask the master for a new one, and see that the clocks agree",
                self.node
            )));
        }
        Ok(ticket)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{JobId, UserName, ticket::Right};

    use super::*;

    fn ticket(node: &str) -> Ticket {
        Ticket {
            user: UserName::new("alice").unwrap(),
            node: NodeId::new(node).unwrap(),
            right: Right::Compute { job: JobId(7) },
            until_unix_millis: 10_000,
        }
    }

    fn at(unix_millis: u64) -> Now {
        Now { unix_millis, ..Now::default() }
    }

    fn signer_and_checker() -> (TicketSigner, TicketChecker) {
        let signer = TicketSigner::generate();
        let checker = TicketChecker::new(signer.public_key(), NodeId::new("node-1").unwrap());
        (signer, checker)
    }

    #[test]
    fn a_ticket_is_valid_up_to_its_last_millisecond() {
        let (signer, checker) = signer_and_checker();
        let signed = signer.sign(&ticket("node-1"));
        assert_eq!(checker.check(&signed, at(0)), Ok(ticket("node-1")));
        assert_eq!(checker.check(&signed, at(10_000)), Ok(ticket("node-1")));
        let refusal = checker.check(&signed, at(10_001)).unwrap_err();
        assert_eq!(refusal.status, Status::Refused);
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
            let refusal = checker.check(&bad, at(0)).unwrap_err();
            assert_eq!(refusal.status, Status::Refused);
            assert!(refusal.sentence.contains("the master did not sign it"), "{refusal}");
        }
    }

    #[test]
    fn a_ticket_for_another_node_is_refused() {
        let (signer, checker) = signer_and_checker();
        let refusal = checker.check(&signer.sign(&ticket("node-2")), at(0)).unwrap_err();
        assert_eq!(refusal, Refusal::new(Status::Refused, "node-1 refuses the ticket: it is for node-2"));
    }

    #[test]
    fn a_ticket_signed_with_another_key_is_refused() {
        let (_, checker) = signer_and_checker();
        let refusal = checker.check(&TicketSigner::generate().sign(&ticket("node-1")), at(0)).unwrap_err();
        assert!(refusal.sentence.contains("the master did not sign it"), "{refusal}");
    }

    #[test]
    fn signed_bytes_that_are_no_ticket_are_refused_not_believed() {
        let (signer, checker) = signer_and_checker();
        let bytes = vec![codec::VERSION, 0xff];
        let signed = SignedTicket { signature: signer.key.sign(&bytes).as_ref().to_vec(), ticket: bytes };
        let refusal = checker.check(&signed, at(0)).unwrap_err();
        assert_eq!(refusal.sentence, "node-1 cannot read the ticket: the message is malformed");
    }
}
