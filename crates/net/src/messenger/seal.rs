//! The seal of a GMP datagram: ChaCha20-Poly1305 over the body, with the head covered too. Each direction and phase has
//! its own key. The rules (`protocol::gmp`) say when a phase ends. Each key is derived from the one before, which
//! cannot be computed back (RFC 9001, section 6). The nonce is the packet number, which the rules use only once, so the
//! seal never needs random numbers.

use std::time::Duration;

use protocol::{
    gmp::KEY_PREVIOUS_LIFE,
    wire::datagram::{HEAD_BYTES, Head, KEY_PHASES, SEAL_BYTES},
};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    hmac,
};

use super::SessionRole;

/// One session's keys, for both directions.
pub(super) struct Seal {
    sending: PhaseKey,
    receiving: PhaseKey,
    /// Derived in advance: a datagram that only claims to be of the next phase costs no more than any other.
    next: PhaseKey,
    /// The key of the phase before, and until when it is valid.
    previous: Option<([u8; 32], Duration)>,
}

/// The key of a phase, and the secret from which the next is derived.
#[derive(Clone)]
struct PhaseKey {
    phase: u64,
    secret: [u8; 32],
    key: [u8; 32],
}

impl Seal {
    pub(super) fn new(session_key: &[u8; 32], side: SessionRole) -> Self {
        let [opener, acceptor] = [OPENER, ACCEPTOR].map(|label| PhaseKey::first(expand(session_key, label)));
        let (sending, receiving) = match side {
            SessionRole::Initiator => (opener, acceptor),
            SessionRole::Responder => (acceptor, opener),
        };
        let next = receiving.next();
        Self { sending, receiving, next, previous: None }
    }

    /// Seals a datagram (head and body) in place, with the key of `phase`: that of the last datagram, or the next.
    /// Returns `false` if the body is too long for the cipher, which never happens.
    pub(super) fn seal(&mut self, phase: u64, packet: u64, datagram: &mut Vec<u8>) -> bool {
        while self.sending.phase < phase {
            self.sending = self.sending.next();
        }
        let Some((head, body)) = datagram.split_first_chunk_mut::<HEAD_BYTES>() else {
            return false;
        };
        let sealed = cipher(&self.sending.key).seal_in_place_separate_tag(nonce(packet), Aad::from(*head), body);
        let Ok(tag) = sealed else { return false };
        datagram.extend_from_slice(tag.as_ref());
        true
    }

    /// Unseals the body of a datagram from the peer in place; `None` if it is not authentic. An authentic datagram of
    /// the next phase ends the present one.
    pub(super) fn unseal<'a>(&mut self, now: Duration, head: Head, body: &'a mut [u8]) -> Option<&'a [u8]> {
        let ahead = (u64::from(head.phase) + KEY_PHASES - self.receiving.phase % KEY_PHASES) % KEY_PHASES;
        let key = match ahead {
            0 => &self.receiving.key,
            1 => &self.next.key,
            LATE => &self.previous.as_ref().filter(|(_, until)| now < *until)?.0,
            _ => return None,
        };
        let body = cipher(key).open_in_place(nonce(head.packet), Aad::from(head.to_bytes()), body).ok()?;
        if ahead == 1 {
            self.previous = Some((self.receiving.key, now + KEY_PREVIOUS_LIFE));
            let after = self.next.next();
            self.receiving = std::mem::replace(&mut self.next, after);
        }
        Some(body)
    }

    #[cfg(test)]
    pub(super) fn sealing_phase(&self) -> u64 {
        self.sending.phase
    }

    /// The whole state, for tests that compare it.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn state(&self) -> String {
        let links = [&self.sending, &self.receiving, &self.next].map(|link| (link.phase, link.secret, link.key));
        format!("{links:?} {:?}", self.previous)
    }
}

impl PhaseKey {
    fn first(secret: [u8; 32]) -> Self {
        Self { phase: 0, secret, key: expand(&secret, KEY) }
    }

    fn next(&self) -> Self {
        let secret = expand(&self.secret, NEXT);
        Self { phase: self.phase + 1, secret, key: expand(&secret, KEY) }
    }
}

/// HKDF's expansion to 32 bytes (RFC 5869, 2.3), which is one HMAC-SHA256 over the label and a byte of 1.
fn expand(secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    context.update(label);
    context.update(&[1]);
    let mut out = [0; 32];
    out.copy_from_slice(context.sign().as_ref());
    out
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    // The only error is a key of a length other than 32 bytes. The key is kept as bytes and set up again for each
    // datagram, which is only a copy. ring's own form has room for every cipher's key, some 500 bytes, and there may be
    // 100,000 sessions.
    #[allow(clippy::expect_used)]
    let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key of 32 bytes");
    LessSafeKey::new(key)
}

/// 12 bytes: four zeros, the packet number in network byte order.
fn nonce(packet: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&packet.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

const _: () = assert!(ring::aead::MAX_TAG_LEN == SEAL_BYTES, "the datagram's room for the seal is the cipher's tag");
/// How far the phase before the present one is ahead, modulo [`KEY_PHASES`].
const LATE: u64 = KEY_PHASES - 1;

/// Labels for what is derived: each direction's first secret, a phase's key, the next phase's secret.
const OPENER: &[u8] = b"sector gmp 2 opener";
const ACCEPTOR: &[u8] = b"sector gmp 2 acceptor";
const KEY: &[u8] = b"sector gmp 2 key";
const NEXT: &[u8] = b"sector gmp 2 next";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::SessionId;

    use super::*;

    const HEAD: Head = Head { session: SessionId(7), packet: 3, phase: 0, heard_phase: 0 };
    const NOW: Duration = Duration::from_secs(100);

    fn pair() -> (Seal, Seal) {
        (Seal::new(&[9; 32], SessionRole::Initiator), Seal::new(&[9; 32], SessionRole::Responder))
    }

    fn sealed(seal: &mut Seal, phase: u64) -> (Head, Vec<u8>) {
        let head = Head { phase: (phase % KEY_PHASES) as u8, ..HEAD };
        let mut datagram = [&head.to_bytes()[..], b"secret"].concat();
        assert!(seal.seal(phase, head.packet, &mut datagram));
        (head, datagram[HEAD_BYTES..].to_vec())
    }

    #[test]
    fn the_other_side_alone_unseals() {
        let (mut opener, mut acceptor) = pair();
        let (head, body) = sealed(&mut opener, 0);
        assert_eq!(body.len(), 6 + SEAL_BYTES);
        assert_eq!(acceptor.unseal(NOW, head, &mut body.clone()).unwrap(), b"secret");
        assert_eq!(opener.unseal(NOW, head, &mut body.clone()), None, "what we sealed ourselves came back");
        let mut stranger = Seal::new(&[8; 32], SessionRole::Responder);
        assert_eq!(stranger.unseal(NOW, head, &mut body.clone()), None);
    }

    #[test]
    fn a_changed_bit_of_head_or_body_breaks_the_seal_and_changes_nothing() {
        let (mut opener, mut acceptor) = pair();
        let (head, body) = sealed(&mut opener, 0);
        let datagram = [&head.to_bytes()[..], &body].concat();
        let before = acceptor.state();
        for at in 0..8 * datagram.len() {
            let mut changed = datagram.clone();
            changed[at / 8] ^= 1 << (at % 8);
            let Some((head, _)) = Head::split(&changed) else { continue };
            assert_eq!(acceptor.unseal(NOW, head, &mut changed[HEAD_BYTES..]), None, "bit {at}");
        }
        assert_eq!(acceptor.state(), before);
    }

    #[test]
    fn keys_roll_on_with_the_sender_for_ever() {
        let (mut opener, mut acceptor) = pair();
        let mut keys = std::collections::BTreeSet::new();
        for phase in 0..50 {
            let (head, body) = sealed(&mut opener, phase);
            assert_eq!(acceptor.unseal(NOW, head, &mut body.clone()).unwrap(), b"secret", "phase {phase}");
            assert!(keys.insert(body), "another key seals the same words otherwise");
        }
        assert_eq!(acceptor.receiving.phase, 49);
        assert_eq!(acceptor.sending.phase, 0, "the other direction goes by itself");
    }

    #[test]
    fn the_phase_before_is_good_for_a_while_and_no_other() {
        let (mut opener, mut acceptor) = pair();
        let late: Vec<_> = (0..3).map(|phase| sealed(&mut opener, phase)).collect();
        let mut take = |now, at: usize| acceptor.unseal(now, late[at].0, &mut late[at].1.clone()).is_some();
        assert!(take(NOW, 0) && !take(NOW, 2), "two steps ahead");
        assert!(take(NOW, 1) && take(NOW, 0) && take(NOW, 1));
        assert!(take(NOW + KEY_PREVIOUS_LIFE / 2, 0) && !take(NOW + KEY_PREVIOUS_LIFE, 0));
        assert!(take(NOW, 2) && take(NOW, 1) && !take(NOW, 0), "two steps behind");
    }
}
