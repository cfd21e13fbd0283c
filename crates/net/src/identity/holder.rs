//! Who holds a ticket. A client proves with its key, on each connection, that the tickets it shows are its own
//! ([`HolderKeyPair`]). [`Bearer`] is what a connection has proved about its peer. It serves door 5.
//!
//! The private half never leaves the process that made it, and a signature is never good on another connection.

use protocol::{
    NodeId, Now,
    ticket::{
        Delegate, Delegation, HOLDER_LABEL, HolderKey, LOCAL_PROOF_LIFE_MILLIS, SignedTicket, delegation_bytes,
        local_proof_bytes,
    },
    ticket_verifier::ProvedBearer,
};
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::{PeerCertificate, is_signed, random};
use crate::{NetError, transfer::TransferStream};

/// A client's key for its tickets. Each client makes a new one.
pub struct HolderKeyPair {
    key: Ed25519KeyPair,
}

impl HolderKeyPair {
    /// A new random key.
    pub fn generate() -> Self {
        // Any 32 bytes are an Ed25519 seed (RFC 8032, 5.1.5).
        #[allow(clippy::expect_used)]
        let key = Ed25519KeyPair::from_seed_unchecked(&random::<32>()).expect("32 bytes are a seed");
        Self { key }
    }

    /// The public half, which the master writes into tickets.
    pub fn public(&self) -> HolderKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.key.public_key().as_ref());
        HolderKey(bytes)
    }

    /// A proof, for this very connection, that this end holds the key.
    ///
    /// # Errors
    /// [`NetError::Handshake`] where the connection was never established.
    pub fn prove(&self, stream: &TransferStream) -> Result<Vec<u8>, NetError> {
        Ok(self.sign(&stream.export_key(HOLDER_LABEL, &[])?))
    }

    /// The proof for the local socket of this name, at this time.
    pub fn prove_locally(&self, socket: &str, unix_millis: u64) -> Vec<u8> {
        self.sign(&local_proof_bytes(socket, unix_millis))
    }

    /// The ticket, delegated to the node `to` of the same cloud, for use in this client's place.
    pub fn delegate(&self, ticket: &SignedTicket, to: &NodeId) -> SignedTicket {
        self.delegate_to(ticket, Delegate::Node(to.clone()))
    }

    /// The ticket, delegated to `to`, for use in this client's place.
    pub fn delegate_to(&self, ticket: &SignedTicket, to: Delegate) -> SignedTicket {
        let signature = self.sign(&delegation_bytes(&ticket.ticket, &to));
        SignedTicket { delegation: Some(Delegation { to, signature }), ..ticket.clone() }
    }

    fn sign(&self, words: &[u8]) -> Vec<u8> {
        self.key.sign(words).as_ref().to_vec()
    }
}

/// The peer that shows tickets on a connection, as far as the connection has proved who it is.
#[derive(Clone, Debug)]
pub struct Bearer {
    /// Where it is, for people to read.
    from: String,
    /// The key that it proved to hold.
    key: Option<HolderKey>,
    /// The certificate that it showed.
    peer: Option<PeerCertificate>,
    on: Connection,
}

/// The connection that a proof is bound to.
#[derive(Clone, Debug)]
enum Connection {
    /// A transfer connection, identified by the bytes that both its ends export under [`HOLDER_LABEL`].
    Transfer { exported: [u8; 32], is_plain: bool },
    /// A conversation at the local socket of this name.
    Local { socket: String },
}

impl Bearer {
    /// The peer of a transfer connection.
    ///
    /// # Errors
    /// [`NetError::Handshake`] where the connection was never established.
    pub fn of(stream: &TransferStream) -> Result<Self, NetError> {
        let on = Connection::Transfer { exported: stream.export_key(HOLDER_LABEL, &[])?, is_plain: false };
        Ok(Self { from: stream.peer().ip().to_canonical().to_string(), key: None, peer: stream.peer_certificate(), on })
    }

    /// The peer of a conversation at a local socket.
    pub fn local(socket: &str) -> Self {
        Self { from: "this machine".into(), key: None, peer: None, on: Connection::Local { socket: socket.into() } }
    }

    /// Notes that the peer of a transfer connection holds `key`; false where its proof is not valid.
    #[must_use]
    pub fn take_proof(&mut self, key: HolderKey, proof: &[u8]) -> bool {
        let proved = match &self.on {
            Connection::Transfer { exported, .. } => is_signed(&key.0, exported, proof),
            Connection::Local { .. } => false,
        };
        self.key = self.key.or(proved.then_some(key));
        proved
    }

    /// The same at a local socket.
    #[must_use]
    pub fn take_local_proof(&mut self, now: Now, key: HolderKey, unix_millis: u64, proof: &[u8]) -> bool {
        let is_fresh = unix_millis.abs_diff(now.unix_millis) <= LOCAL_PROOF_LIFE_MILLIS;
        let proved = match &self.on {
            Connection::Local { socket } => {
                is_fresh && is_signed(&key.0, &local_proof_bytes(socket, unix_millis), proof)
            }
            Connection::Transfer { .. } => false,
        };
        self.key = self.key.or(proved.then_some(key));
        proved
    }

    /// The connection goes on without encryption.
    pub fn goes_plain(&mut self) {
        if let Connection::Transfer { is_plain, .. } = &mut self.on {
            *is_plain = true;
        }
    }

    /// Where it is: an address, or "this machine".
    pub fn from(&self) -> &str {
        &self.from
    }
}

impl ProvedBearer for Bearer {
    fn is_role(&self) -> bool {
        self.peer.is_some()
    }

    fn is_node(&self, node: &NodeId) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.is_of(node.as_str()))
    }

    fn has_key(&self, key: HolderKey) -> bool {
        self.key == Some(key)
    }

    fn is_plain(&self) -> bool {
        matches!(self.on, Connection::Transfer { is_plain: true, .. })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{ticket::Holder, ticket_verifier::is_held};

    use super::*;

    impl Bearer {
        fn holds(&self, ticket: &SignedTicket, holder: &Holder) -> bool {
            is_held(is_signed, self, ticket, holder)
        }
    }

    fn stream(secret: u8, role: Option<&str>) -> TransferStream {
        TransferStream::in_memory(Box::new(tokio::io::duplex(64).0), ([192, 0, 2, 7], 9).into(), role, [secret; 32])
    }

    fn ticket() -> SignedTicket {
        SignedTicket { ticket: vec![1, 2, 3], signature: vec![0; 64], delegation: None }
    }

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn a_ticket_opens_only_for_who_proves_to_hold_its_key_on_this_very_connection() {
        let (pair, thief) = (HolderKeyPair::generate(), HolderKeyPair::generate());
        let holder = Holder::Client(pair.public());
        let (here, elsewhere) = (stream(1, None), stream(2, None));
        let mut bearer = Bearer::of(&here).unwrap();
        assert!(!bearer.holds(&ticket(), &holder), "nothing was proved yet");
        // The thief has the ticket and has even seen the proof of another connection.
        assert!(!bearer.take_proof(pair.public(), &pair.prove(&elsewhere).unwrap()));
        assert!(!bearer.take_proof(pair.public(), &thief.prove(&here).unwrap()));
        assert!(bearer.take_proof(thief.public(), &thief.prove(&here).unwrap()));
        assert!(!bearer.holds(&ticket(), &holder));
        let mut own = Bearer::of(&here).unwrap();
        assert!(own.take_proof(pair.public(), &pair.prove(&here).unwrap()));
        assert!(own.holds(&ticket(), &holder));
    }

    #[test]
    fn a_proof_at_a_local_socket_is_good_for_that_socket_and_for_a_minute() {
        let pair = HolderKeyPair::generate();
        let now = Now { unix_millis: 1_000_000, ..Now::default() };
        let proof = pair.prove_locally("here", now.unix_millis);
        let take =
            |socket: &str, now: Now, at: u64| Bearer::local(socket).take_local_proof(now, pair.public(), at, &proof);
        assert!(take("here", now, now.unix_millis));
        assert!(!take("there", now, now.unix_millis));
        assert!(!take("here", now, now.unix_millis + 1), "another time was signed");
        let late = Now { unix_millis: now.unix_millis + LOCAL_PROOF_LIFE_MILLIS + 1, ..now };
        assert!(!take("here", late, now.unix_millis));
        assert!(!Bearer::local("here").take_proof(pair.public(), &proof));
    }

    #[test]
    fn a_ticket_of_a_node_opens_for_that_nodes_certificate_alone() {
        let holder = Holder::Node(node("node-1"));
        let of = |role| Bearer::of(&stream(1, role)).unwrap();
        assert!(of(Some("node-1")).holds(&ticket(), &holder));
        assert!(!of(Some("node-2")).holds(&ticket(), &holder));
        assert!(!of(None).holds(&ticket(), &holder));
    }

    #[test]
    fn a_client_hands_a_ticket_to_one_node_and_to_no_other() {
        let (pair, other) = (HolderKeyPair::generate(), HolderKeyPair::generate());
        let holder = Holder::Client(pair.public());
        let handed = pair.delegate(&ticket(), &node("node-1"));
        let of = |role| Bearer::of(&stream(1, role)).unwrap();
        assert!(of(Some("node-1")).holds(&handed, &holder));
        assert!(!of(Some("node-2")).holds(&handed, &holder));
        assert!(!of(Some("node-1")).holds(&ticket(), &holder), "it was not handed over");
        assert!(!of(Some("node-1")).holds(&other.delegate(&ticket(), &node("node-1")), &holder), "by another client");
        let mixed = SignedTicket { ticket: vec![9], ..handed };
        assert!(!of(Some("node-1")).holds(&mixed, &holder), "another ticket was handed over");
    }

    #[test]
    fn a_ticket_delegated_to_a_key_opens_only_for_who_proves_that_key() {
        let (pair, puller, thief) = (HolderKeyPair::generate(), HolderKeyPair::generate(), HolderKeyPair::generate());
        let holder = Holder::Client(pair.public());
        let handed = pair.delegate_to(&ticket(), Delegate::Key(puller.public()));
        let (here, elsewhere) = (stream(1, None), stream(2, None));
        let proved = |with: &HolderKeyPair, on: &TransferStream| {
            let mut bearer = Bearer::of(&here).unwrap();
            let _ = bearer.take_proof(with.public(), &with.prove(on).unwrap());
            bearer
        };
        assert!(proved(&puller, &here).holds(&handed, &holder));
        assert!(!Bearer::of(&here).unwrap().holds(&handed, &holder), "nothing was proved");
        assert!(!proved(&puller, &elsewhere).holds(&handed, &holder), "it was proved on another connection");
        assert!(!proved(&thief, &here).holds(&handed, &holder), "another key was proved");
        assert!(!proved(&pair, &here).holds(&handed, &holder), "who handed it over asks with the ticket as it was");
        assert!(!Bearer::of(&stream(1, Some("node-1"))).unwrap().holds(&handed, &holder), "a certificate is no key");
        assert!(!proved(&puller, &here).holds(&ticket(), &holder), "it was not handed over");
        let by_thief = thief.delegate_to(&ticket(), Delegate::Key(puller.public()));
        assert!(!proved(&puller, &here).holds(&by_thief, &holder), "by another client");
        let mixed = SignedTicket { ticket: vec![9], ..handed };
        assert!(!proved(&puller, &here).holds(&mixed, &holder), "another ticket was handed over");
        // A delegation to a node is not good for a key of the same bytes.
        let mut swapped = pair.delegate(&ticket(), &node("node-1"));
        if let Some(handed) = &mut swapped.delegation {
            handed.to = Delegate::Key(puller.public());
        }
        assert!(!proved(&puller, &here).holds(&swapped, &holder));
    }
}
