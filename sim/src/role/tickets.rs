//! Tickets without ciphers: a signature is a keyed sum here, so that the master's rules can sign and a node's door can
//! tell a ticket of its own master from one of the master's earlier life. What is checked is what
//! `node::tickets` checks, but for who shows it: nobody steals here.

use std::{collections::BTreeMap, ops::Range};

use master::SignTickets;
use protocol::{
    JobId, NodeId, Now, Refusal, SliceHeader, SliceId, Status,
    ticket::{Right, SignedTicket, Ticket, TicketKeys},
    wire::codec,
};
use store::PartialKey;

/// Signs with a key that changes with each start of the master.
pub(crate) struct Signer(pub(crate) u64);

impl SignTickets for Signer {
    fn sign(&self, ticket: &Ticket) -> SignedTicket {
        let ticket = codec::encode(ticket);
        let signature = sum(self.0, &ticket).to_be_bytes().to_vec();
        SignedTicket { ticket, signature, handed: None }
    }

    fn public_keys(&self) -> TicketKeys {
        TicketKeys { current: public(self.0), next: public(self.0.wrapping_add(1)) }
    }

    fn roll(&mut self) {
        self.0 = self.0.wrapping_add(1);
    }
}

/// A node's door.
#[derive(Debug)]
pub(crate) struct TicketDoor {
    node: NodeId,
    keys: Option<TicketKeys>,
    /// The key that signed before them.
    before: Option<[u8; 32]>,
    /// Slices written with a ticket, until the ticket ends.
    used: BTreeMap<SliceId, u64>,
}

impl TicketDoor {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, keys: None, before: None, used: BTreeMap::new() }
    }

    /// From now on tickets of this master are good.
    pub(crate) fn set_keys(&mut self, keys: TicketKeys) {
        self.before = self.keys.filter(|old| old.next == keys.current).map(|old| old.current);
        self.keys = Some(keys);
    }

    /// Which bytes of a slice may be read.
    pub(crate) fn read(&self, now: Now, ticket: &SignedTicket, slice: SliceId) -> Result<Range<u64>, Refusal> {
        match self.check(now, ticket)?.right {
            Right::Read { slice: of, from, until } if of == slice => Ok(from..until),
            _ => Err(refused("the ticket is not for reading this slice")),
        }
    }

    /// What may be written.
    pub(crate) fn write(&mut self, now: Now, ticket: &SignedTicket) -> Result<WriteGrant, Refusal> {
        let Ticket { user, right, until_unix_millis, .. } = self.check(now, ticket)?;
        let Right::Write { header, resume, base, .. } = right else {
            return Err(refused("the ticket is not for writing"));
        };
        self.used.retain(|_, until_unix_millis| *until_unix_millis >= now.unix_millis);
        if self.used.contains_key(&header.slice) {
            return Err(refused("the ticket is used already"));
        }
        let resume = resume.map(|key| PartialKey { user, key });
        Ok(WriteGrant { header, until_unix_millis, resume, base })
    }

    /// A slice was written with its ticket: not again.
    pub(crate) fn use_up(&mut self, slice: SliceId, until_unix_millis: u64) {
        self.used.insert(slice, until_unix_millis);
    }

    /// The job that may compute here.
    pub(crate) fn compute(&self, now: Now, ticket: &SignedTicket) -> Result<JobId, Refusal> {
        match self.check(now, ticket)?.right {
            Right::Compute { job } => Ok(job),
            _ => Err(refused("the ticket is not for a job")),
        }
    }

    fn check(&self, now: Now, ticket: &SignedTicket) -> Result<Ticket, Refusal> {
        let Some(keys) = self.keys else {
            return Err(Refusal::new(Status::Unavailable, "the node has not met its master yet"));
        };
        let known = [Some(keys.current), Some(keys.next), self.before];
        let is_by = |key: [u8; 32]| ticket.signature == sum(private(key), &ticket.ticket).to_be_bytes();
        if !known.into_iter().flatten().any(is_by) {
            return Err(refused("the master did not sign the ticket"));
        }
        let ticket: Ticket = codec::decode(&ticket.ticket).map_err(|_| refused("the ticket cannot be read"))?;
        if ticket.node != self.node {
            return Err(refused("the ticket is for another node"));
        }
        if ticket.is_expired(now) {
            return Err(refused("the ticket has ended"));
        }
        Ok(ticket)
    }
}

/// What stands for the public half of a key.
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

/// What a ticket allows to be written.
#[derive(Debug)]
pub(crate) struct WriteGrant {
    pub(crate) header: SliceHeader,
    /// Until when the ticket lives.
    pub(crate) until_unix_millis: u64,
    /// Under which key the bytes are kept if the sender goes away.
    pub(crate) resume: Option<PartialKey>,
    /// The slice that the new one begins with.
    pub(crate) base: Option<SliceId>,
}

fn refused(sentence: &str) -> Refusal {
    Refusal::new(Status::Refused, sentence)
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
        UserName,
        ticket::{Holder, HolderKey},
    };

    use super::*;

    #[test]
    fn a_ticket_opens_one_door_for_one_thing_for_a_time() {
        let node = NodeId::new("n0").unwrap();
        let ticket = Ticket {
            number: 1,
            user: UserName::new("ann").unwrap(),
            holder: Holder::Client(HolderKey([1; 32])),
            file: None,
            plain_within: None,
            holder_site: None,
            node: node.clone(),
            right: Right::Read { slice: SliceId(1), from: 0, until: 9 },
            until_unix_millis: 100,
        };
        let signed = Signer(7).sign(&ticket);
        let at = |unix_millis| Now { unix_millis, ..Now::default() };
        let mut door = TicketDoor::new(node);
        assert_eq!(door.read(at(1), &signed, SliceId(1)).unwrap_err().status, Status::Unavailable);
        door.set_keys(Signer(7).public_keys());
        assert_eq!(door.read(at(1), &signed, SliceId(1)), Ok(0..9));
        assert!(door.read(at(1), &signed, SliceId(2)).is_err());
        assert!(door.read(at(101), &signed, SliceId(1)).is_err());
        assert!(door.write(at(1), &signed).is_err() && door.compute(at(1), &signed).is_err());
        door.set_keys(Signer(8).public_keys());
        assert!(door.read(at(1), &signed, SliceId(1)).is_ok(), "the key was rolled");
        door.set_keys(Signer(70).public_keys());
        assert!(door.read(at(1), &signed, SliceId(1)).is_err());
        let mut other = TicketDoor::new(NodeId::new("n1").unwrap());
        other.set_keys(Signer(7).public_keys());
        assert!(other.read(at(1), &signed, SliceId(1)).is_err());
    }
}
