//! The seal of a GMP datagram: ChaCha20-Poly1305 over the body, the head covered too. The nonce is the direction and the
//! packet number, which the rules never use twice; so no random numbers, and no state here.
//!
//! ChaCha20-Poly1305 and not AES-GCM, because a session lives for weeks without a new key: GCM may seal only some 2^28
//! datagrams of our size with one key (RFC 9001, appendix B), this one every number there is.

use protocol::wire::datagram::{HEAD_BYTES, Head, SEAL_BYTES};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::Side;

/// One session's key, for both directions.
pub(super) struct Seal {
    key: LessSafeKey,
    side: Side,
}

impl Seal {
    pub(super) fn new(key: &[u8; 32], side: Side) -> Self {
        // The only error is a key of another length than 32 bytes.
        #[allow(clippy::expect_used)]
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key of 32 bytes");
        Self { key: LessSafeKey::new(key), side }
    }

    /// Seals a datagram (head and body) in place; `false` if the body is too long for the cipher, which no body is.
    pub(super) fn seal(&self, packet: u64, datagram: &mut Vec<u8>) -> bool {
        let Some((head, body)) = datagram.split_first_chunk_mut::<HEAD_BYTES>() else {
            return false;
        };
        let nonce = nonce(self.side, packet);
        let Ok(tag) = self.key.seal_in_place_separate_tag(nonce, Aad::from(*head), body) else {
            return false;
        };
        datagram.extend_from_slice(tag.as_ref());
        true
    }

    /// Unseals the body of a datagram from the other side in place; `None` if it is not authentic.
    pub(super) fn unseal<'a>(&self, head: Head, body: &'a mut [u8]) -> Option<&'a [u8]> {
        let from = match self.side {
            Side::Opener => Side::Acceptor,
            Side::Acceptor => Side::Opener,
        };
        let nonce = nonce(from, head.packet);
        self.key.open_in_place(nonce, Aad::from(head.to_bytes()), body).ok().map(|body| &*body)
    }
}

/// 12 bytes: who seals (0 the opener, 1 the acceptor), three zeros, the packet number in network byte order.
fn nonce(from: Side, packet: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[0] = match from {
        Side::Opener => 0,
        Side::Acceptor => 1,
    };
    nonce[4..].copy_from_slice(&packet.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

const _: () = assert!(ring::aead::MAX_TAG_LEN == SEAL_BYTES, "the datagram's room for the seal is the cipher's tag");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::SessionId;

    use super::*;

    const HEAD: Head = Head { session: SessionId(7), packet: 3 };

    fn sealed(seal: &Seal) -> Vec<u8> {
        let mut datagram = [&HEAD.to_bytes()[..], b"secret"].concat();
        assert!(seal.seal(HEAD.packet, &mut datagram));
        datagram
    }

    #[test]
    fn the_other_side_alone_unseals() {
        let (opener, acceptor) = (Seal::new(&[9; 32], Side::Opener), Seal::new(&[9; 32], Side::Acceptor));
        let datagram = sealed(&opener);
        assert_eq!(datagram.len(), HEAD_BYTES + 6 + SEAL_BYTES);
        assert_eq!(acceptor.unseal(HEAD, &mut datagram[HEAD_BYTES..].to_vec()).unwrap(), b"secret");
        let reflected = opener.unseal(HEAD, &mut datagram[HEAD_BYTES..].to_vec()).map(<[u8]>::to_vec);
        assert_eq!(reflected, None, "what we sealed ourselves came back");
        let stranger = Seal::new(&[8; 32], Side::Acceptor);
        assert_eq!(stranger.unseal(HEAD, &mut datagram[HEAD_BYTES..].to_vec()), None);
    }

    #[test]
    fn a_changed_bit_of_head_or_body_breaks_the_seal() {
        let (opener, acceptor) = (Seal::new(&[9; 32], Side::Opener), Seal::new(&[9; 32], Side::Acceptor));
        let datagram = sealed(&opener);
        for at in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[at] ^= 0x10;
            let head = Head::split(&changed).map(|(head, _)| head);
            let Some(head) = head else { continue };
            assert_eq!(acceptor.unseal(head, &mut changed[HEAD_BYTES..]), None, "byte {at}");
        }
    }
}
