//! Tickets without ciphers. A signature is a keyed sum, so the master's rules can sign. A node can tell tickets of its
//! own master from those of an earlier life. The real rules ([`protocol::ticket_verifier`]) decide what a ticket grants
//! and to whom. Nobody steals tickets here; these signatures would never withstand a forger.

use master::SignTickets;
use protocol::{
    NodeId,
    ticket::{Delegate, Delegation, HolderKey, SignedTicket, Ticket, TicketKeys, delegation_bytes},
    ticket_verifier::{ProvedBearer, TicketVerifier},
    wire::codec,
};

use super::node_names::{node_id, site_of};
use crate::environment::queue::Participant;

/// Signs with a key that changes with each start of the master.
pub(crate) struct Signer(pub(crate) u64);

impl SignTickets for Signer {
    fn sign(&self, ticket: &Ticket) -> SignedTicket {
        let ticket = codec::encode(ticket);
        let signature = sign(public(self.0), &ticket);
        SignedTicket { ticket, signature, delegation: None }
    }

    fn public_keys(&self) -> TicketKeys {
        TicketKeys { current: public(self.0), next: public(self.0.wrapping_add(1)) }
    }

    fn roll(&mut self) {
        self.0 = self.0.wrapping_add(1);
    }
}

/// The bearer of a ticket: a node has its name, a client the key of its login. Nobody pretends.
pub(super) struct Bearer(pub(super) Participant);

impl ProvedBearer for Bearer {
    fn is_role(&self) -> bool {
        matches!(self.0, Participant::Node(_))
    }

    fn is_node(&self, node: &NodeId) -> bool {
        matches!(self.0, Participant::Node(number) if node_id(number) == *node)
    }

    fn has_key(&self, key: HolderKey) -> bool {
        matches!(self.0, Participant::Client(_)) && holder_of(self.0) == key
    }

    fn is_plain(&self) -> bool {
        false
    }
}

/// A node's ticket check: the real rules, with signatures that are sums.
pub(super) fn verifier(node: usize) -> TicketVerifier {
    TicketVerifier::new(node_id(node), format!("s{}", site_of(node)), is_signed)
}

/// The public half of a client's key.
pub(super) fn holder_of(who: Participant) -> HolderKey {
    let number = if let Participant::Client(number) = who { number as u64 } else { u64::MAX };
    HolderKey(public(number))
}

/// A client's ticket for a node to use on its behalf.
pub(crate) fn delegate(by: Participant, ticket: &SignedTicket, to: &NodeId) -> SignedTicket {
    let to = Delegate::Node(to.clone());
    let signature = sign(holder_of(by).0, &delegation_bytes(&ticket.ticket, &to));
    SignedTicket { delegation: Some(Delegation { to, signature }), ..ticket.clone() }
}

fn sign(key: [u8; 32], words: &[u8]) -> Vec<u8> {
    sum(private(key), words).to_be_bytes().to_vec()
}

fn is_signed(key: &[u8; 32], words: &[u8], signature: &[u8]) -> bool {
    sign(*key, words) == signature
}

/// A stand-in for the public half of a key.
fn public(key: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&key.to_be_bytes());
    bytes
}

/// And back, which real keys do not allow.
fn private(public: [u8; 32]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&public[..8]);
    u64::from_be_bytes(bytes)
}

/// FNV-1a over key and bytes: nobody here forges tickets on purpose.
fn sum(key: u64, bytes: &[u8]) -> u64 {
    let all = key.to_be_bytes().into_iter().chain(bytes.iter().copied());
    all.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{
        Now, SliceId, Status, UserName,
        ticket::{Holder, TicketFault, TicketRight},
    };

    use super::*;

    #[test]
    fn a_ticket_opens_one_node_for_its_holder_and_for_the_node_it_was_delegated_to() {
        let ann = Participant::Client(3);
        let ticket = Ticket {
            number: 1,
            user: UserName::new("ann").unwrap(),
            holder: Holder::Client(holder_of(ann)),
            file: None,
            plain_within: None,
            holder_site: None,
            node: node_id(0),
            right: TicketRight::Read { slice: SliceId(1), from: 0, until: 9 },
            until_unix_millis: 100,
        };
        let signed = Signer(7).sign(&ticket);
        let at = |unix_millis| Now { unix_millis, ..Now::default() };
        let read = |door: &TicketVerifier, who, shown: &SignedTicket| {
            door.authorize_read(at(1), &Bearer(who), shown, SliceId(1))
        };
        let mut door = verifier(0);
        assert_eq!(read(&door, ann, &signed).unwrap_err().refusal.status(), Status::Unavailable);
        door.take_keys(at(0), Signer(7).public_keys());
        assert_eq!(read(&door, ann, &signed), Ok(0..9));
        let fault = |who, shown: &SignedTicket| read(&door, who, shown).unwrap_err().fault;
        assert_eq!(fault(Participant::Client(4), &signed), Some(TicketFault::NotHolder));
        assert_eq!(fault(Participant::Node(1), &signed), Some(TicketFault::NotHolder));
        let handed = delegate(ann, &signed, &node_id(1));
        assert_eq!(read(&door, Participant::Node(1), &handed), Ok(0..9));
        assert_eq!(fault(Participant::Node(2), &handed), Some(TicketFault::NotHolder));
        assert_eq!(
            fault(Participant::Node(1), &delegate(Participant::Client(4), &signed, &node_id(1))),
            Some(TicketFault::NotHolder)
        );
        assert_eq!(fault(ann, &Signer(70).sign(&ticket)), Some(TicketFault::Unsigned));
        let mut other = verifier(1);
        other.take_keys(at(0), Signer(7).public_keys());
        assert_eq!(read(&other, ann, &signed).unwrap_err().fault, Some(TicketFault::OtherNode));
    }
}
