//! The heads of GMP datagrams, in network byte order. [`Head`] begins a sealed datagram, which carries a session's
//! messages. [`StatelessReset`] answers a sealed datagram of an unknown session. The code here never seals or unseals a
//! datagram.

use crate::SessionId;

/// Length of a sealed datagram's head in bytes.
pub const HEAD_BYTES: usize = 20;
/// Length of the seal (AEAD tag) behind the body in bytes.
pub const SEAL_BYTES: usize = 16;
/// Length of a [`StatelessReset`] datagram in bytes.
pub const STATELESS_RESET_BYTES: usize = 12 + RESET_TOKEN_BYTES;
/// Length, in bytes, of the token which proves that a stateless reset comes from the process that opened the session.
pub const RESET_TOKEN_BYTES: usize = 16;
/// Packet numbers of a session and direction: what seven bytes hold, a million a second for 2,000 years.
pub const PACKETS_MAX: u64 = 1 << 56;
/// Key phases that the head can tell apart.
pub const KEY_PHASES: u64 = 16;
const MAGIC: [u8; 2] = *b"SG";
const VERSION: u8 = 2;
const KIND_SEALED: u8 = 1;
const KIND_STATELESS_RESET: u8 = 2;

/// The checked head of a sealed datagram. The sealed body follows it. The head is not secret but is covered by the
/// seal.
///
/// | bytes | what |
/// |---|---|
/// | 0..2 | magic `SG` |
/// | 2 | version, 2 |
/// | 3 | kind, 1 |
/// | 4..12 | session id |
/// | 12 | key phases, modulo 16: high four bits, the one of this seal; low four, the newest heard from the other end |
/// | 13..20 | packet number: counts every datagram of this session and direction, never used twice |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The session the datagram belongs to.
    pub session: SessionId,
    /// The packet number, the seal's nonce; below [`PACKETS_MAX`].
    pub packet: u64,
    /// The phase of the key that seals it, modulo [`KEY_PHASES`].
    pub phase: u8,
    /// The newest phase of the other direction that its sender has heard, modulo [`KEY_PHASES`].
    pub heard_phase: u8,
}

/// "There is no such session here": the stateless answer of a restarted process, called **gone**.
///
/// | bytes | what |
/// |---|---|
/// | 0..2 | magic `SG` |
/// | 2 | version, 2 |
/// | 3 | kind, 2 |
/// | 4..12 | session id |
/// | 12..28 | token |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatelessReset {
    /// The session of the datagram that it answers.
    pub session: SessionId,
    /// A token that only the process which opened the session can compute; the peer was told it at the time.
    pub token: [u8; RESET_TOKEN_BYTES],
}

impl Head {
    /// The head as bytes.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        debug_assert!(self.packet < PACKETS_MAX && u64::from(self.phase.max(self.heard_phase)) < KEY_PHASES);
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = KIND_SEALED;
        bytes[4..12].copy_from_slice(&self.session.0.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.packet.to_be_bytes());
        bytes[12] = self.phase << 4 | self.heard_phase;
        bytes
    }

    /// Reads the head of a sealed datagram and returns it with the body; `None` for any other bytes.
    pub fn split(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (head, body) = datagram.split_first_chunk::<HEAD_BYTES>()?;
        if head[0..2] != MAGIC || head[2] != VERSION || head[3] != KIND_SEALED || body.len() < SEAL_BYTES {
            return None;
        }
        let head = Self {
            session: SessionId(number(&head[4..12])),
            packet: number(&head[13..20]),
            phase: head[12] >> 4,
            heard_phase: head[12] & 0xf,
        };
        Some((head, body))
    }
}

impl StatelessReset {
    /// The whole datagram.
    pub fn to_bytes(self) -> [u8; STATELESS_RESET_BYTES] {
        let mut bytes = [0; STATELESS_RESET_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = KIND_STATELESS_RESET;
        bytes[4..12].copy_from_slice(&self.session.0.to_be_bytes());
        bytes[12..].copy_from_slice(&self.token);
        bytes
    }

    /// Reads a datagram; `None` for any other kind or length.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let bytes: &[u8; STATELESS_RESET_BYTES] = datagram.try_into().ok()?;
        if bytes[0..2] != MAGIC || bytes[2] != VERSION || bytes[3] != KIND_STATELESS_RESET {
            return None;
        }
        let mut token = [0; RESET_TOKEN_BYTES];
        token.copy_from_slice(&bytes[12..]);
        Some(Self { session: SessionId(number(&bytes[4..12])), token })
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

const _: () =
    assert!(STATELESS_RESET_BYTES < HEAD_BYTES + SEAL_BYTES, "the answer is shorter than the shortest that it answers");

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head { session: SessionId(0x0102_0304_0506_0708), packet: 9, phase: 3, heard_phase: 14 };

    #[test]
    fn the_head_is_as_documented() {
        let mut datagram = HEAD.to_bytes().to_vec();
        assert_eq!(datagram, [b'S', b'G', 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0x3e, 0, 0, 0, 0, 0, 0, 9]);
        datagram.extend([0; SEAL_BYTES]);
        assert_eq!(Head::split(&datagram), Some((HEAD, &[0; SEAL_BYTES][..])));
        let last = Head { packet: PACKETS_MAX - 1, ..HEAD };
        assert_eq!(last.to_bytes()[12..], [0x3e, 255, 255, 255, 255, 255, 255, 255]);
    }

    #[test]
    fn the_answer_to_strangers_is_as_documented() {
        let gone = StatelessReset { session: HEAD.session, token: *b"0123456789abcdef" };
        let bytes = gone.to_bytes();
        assert_eq!(bytes[..12], [b'S', b'G', 2, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(&bytes[12..], b"0123456789abcdef");
        assert_eq!((StatelessReset::read(&bytes), Head::split(&bytes)), (Some(gone), None));
        assert_eq!(StatelessReset::read(&bytes[..STATELESS_RESET_BYTES - 1]), None);
        assert_eq!(StatelessReset::read(&[&bytes[..], &[0]].concat()), None);
        for at in 0..4 {
            let mut bad = bytes;
            bad[at] ^= 4;
            assert_eq!(StatelessReset::read(&bad), None);
        }
    }

    #[test]
    fn what_is_not_ours_is_nothing() {
        let good = [HEAD.to_bytes().as_slice(), &[0; SEAL_BYTES]].concat();
        for cut in 0..good.len() {
            assert_eq!(Head::split(&good[..cut]), None);
        }
        for at in 0..4 {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(Head::split(&bad), None);
        }
    }
}
