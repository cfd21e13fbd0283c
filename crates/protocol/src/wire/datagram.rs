//! The head of a GMP datagram, 20 bytes in network byte order:
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | magic `SG` |
//! | 2 | version, 1 |
//! | 3 | kind, 1 = sealed session datagram |
//! | 4..12 | session id |
//! | 12..20 | packet number: counts every datagram of this session and direction, never used twice with one key |
//!
//! The rest is the sealed body. The head is not secret but is covered by the seal.

use crate::SessionId;

/// Length of the head in bytes.
pub const HEAD_BYTES: usize = 20;
/// Length of the seal (AEAD tag) behind the body in bytes.
pub const SEAL_BYTES: usize = 16;
const MAGIC: [u8; 2] = *b"SG";
const VERSION: u8 = 1;
const KIND_SEALED: u8 = 1;

/// A checked head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The session the datagram belongs to.
    pub session: SessionId,
    /// The packet number, the seal's nonce.
    pub packet: u64,
}

impl Head {
    /// The head as bytes.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = KIND_SEALED;
        bytes[4..12].copy_from_slice(&self.session.0.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.packet.to_be_bytes());
        bytes
    }

    /// Reads the head of a datagram and gives the sealed body behind it; `None` for what is not ours.
    pub fn split(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (head, body) = datagram.split_first_chunk::<HEAD_BYTES>()?;
        if head[0..2] != MAGIC || head[2] != VERSION || head[3] != KIND_SEALED || body.len() < SEAL_BYTES {
            return None;
        }
        let number = |at: usize| head[at..at + 8].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        Some((Self { session: SessionId(number(4)), packet: number(12) }, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_as_documented() {
        let head = Head { session: SessionId(0x0102_0304_0506_0708), packet: 9 };
        let mut datagram = head.to_bytes().to_vec();
        assert_eq!(datagram, [b'S', b'G', 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9]);
        datagram.extend([0; SEAL_BYTES]);
        assert_eq!(Head::split(&datagram), Some((head, &[0; SEAL_BYTES][..])));
    }

    #[test]
    fn what_is_not_ours_is_nothing() {
        let good = [Head { session: SessionId(1), packet: 2 }.to_bytes().as_slice(), &[0; SEAL_BYTES]].concat();
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
