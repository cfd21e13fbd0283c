//! The body of a GMP datagram as bytes: frames, one behind the other, in network byte order (`docs/formats.md` has the
//! tables). Every claim of a frame is checked here against the fixed limits. It never checks what depends on a
//! session's state: the receiver does.

use thiserror::Error;

use super::{FRAGMENT_BYTES_MAX, MESSAGE_FRAGMENTS_MAX, MessageKind, WINDOW_FRAGMENTS, bits::Bits};
use crate::limits;

/// One frame of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// What has arrived.
    Acknowledgement {
        /// Every sequence number below this one has arrived, and this one has not.
        next: u64,
        /// Bit `k` (of byte `k / 8`, lowest bit first) says whether `next + k` has arrived; at most 256 bits.
        map: &'a [u8],
    },
    /// A part of a message.
    Fragment(Fragment<'a>),
    /// Nobody waits for the reply to a request any more.
    Cancel {
        /// Its sequence number among the fragments, acknowledged like a fragment's.
        sequence: u64,
        /// The request.
        request: u64,
    },
}

/// A part of a message. All but the last part carry exactly [`FRAGMENT_BYTES_MAX`] bytes, so each has its place before
/// the others have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Its number in this session and direction.
    pub sequence: u64,
    /// The number of the message's first fragment, which identifies its fragments: those of more urgent messages may
    /// come between them.
    pub first: u64,
    /// Its place in the message, from 0.
    pub index: u16,
    /// Fragments of the message.
    pub count: u16,
    /// What the message is for.
    pub kind: MessageKind,
    /// The bytes.
    pub payload: &'a [u8],
}

/// Reads the frames of a datagram's unsealed body. After an error it ends.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

/// Why a body is not a list of frames. The seal was right, so this is the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The body ends within a frame.
    #[error("a frame is cut short")]
    Short,
    /// No frame has this kind.
    #[error("there is no frame of kind {0}")]
    Kind(u8),
    /// No message has this kind.
    #[error("there is no message of kind {0}")]
    MessageKind(u8),
    /// An acknowledgement's map is longer than the window or contradicts itself.
    #[error("an acknowledgement is malformed")]
    Acknowledgement,
    /// A fragment does not fit into its message, or the message into the limits.
    #[error("a fragment is malformed")]
    Fragment,
}

impl<'a> Frames<'a> {
    /// The frames of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    fn read(&mut self) -> Result<Frame<'a>, FrameError> {
        match self.array::<1>()? {
            [ACKNOWLEDGEMENT] => self.read_acknowledgement(),
            [FRAGMENT] => self.read_fragment().map(Frame::Fragment),
            [CANCEL] => Ok(Frame::Cancel {
                sequence: u64::from_be_bytes(self.array()?),
                request: u64::from_be_bytes(self.array()?),
            }),
            [kind] => Err(FrameError::Kind(kind)),
        }
    }

    fn read_acknowledgement(&mut self) -> Result<Frame<'a>, FrameError> {
        let next = u64::from_be_bytes(self.array()?);
        let [length] = self.array::<1>()?;
        let map = self.slice(usize::from(length))?;
        let contradicts = map.first().is_some_and(|byte| byte & 1 == 1);
        if map.len() > MAP_BYTES_MAX || contradicts {
            return Err(FrameError::Acknowledgement);
        }
        Ok(Frame::Acknowledgement { next, map })
    }

    fn read_fragment(&mut self) -> Result<Fragment<'a>, FrameError> {
        let sequence = u64::from_be_bytes(self.array()?);
        let first = u64::from_be_bytes(self.array()?);
        let index = u16::from_be_bytes(self.array()?);
        let count = u16::from_be_bytes(self.array()?);
        let [kind] = self.array::<1>()?;
        let request = u64::from_be_bytes(self.array()?);
        let length = u16::from_be_bytes(self.array()?);
        let kind = match kind {
            NOTICE if request == 0 => MessageKind::Notice,
            REQUEST => MessageKind::Request(request),
            REPLY => MessageKind::Reply(request),
            _ => return Err(FrameError::MessageKind(kind)),
        };
        let payload = self.slice(usize::from(length))?;
        let fragment = Fragment { sequence, first, index, count, kind, payload };
        if fragment.is_well_formed() { Ok(fragment) } else { Err(FrameError::Fragment) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (array, rest) = self.rest.split_first_chunk::<N>().ok_or(FrameError::Short)?;
        self.rest = rest;
        Ok(*array)
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], FrameError> {
        let (slice, rest) = self.rest.split_at_checked(length).ok_or(FrameError::Short)?;
        self.rest = rest;
        Ok(slice)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = self.read();
        if frame.is_err() {
            self.rest = &[];
        }
        Some(frame)
    }
}

impl Fragment<'_> {
    /// Where its bytes stand in the message.
    pub(super) fn offset(&self) -> usize {
        usize::from(self.index) * FRAGMENT_BYTES_MAX
    }

    /// Appends the frame to a datagram.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let (kind, request) = match self.kind {
            MessageKind::Notice => (NOTICE, 0),
            MessageKind::Request(request) => (REQUEST, request),
            MessageKind::Reply(request) => (REPLY, request),
        };
        debug_assert!(self.is_well_formed(), "the sender cuts well");
        out.push(FRAGMENT);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(&self.index.to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        out.push(kind);
        out.extend_from_slice(&request.to_be_bytes());
        // A payload is at most FRAGMENT_BYTES_MAX long.
        out.extend_from_slice(&(self.payload.len() as u16).to_be_bytes());
        out.extend_from_slice(self.payload);
    }

    fn is_well_formed(&self) -> bool {
        let length = self.payload.len();
        let is_last = u32::from(self.index) + 1 == u32::from(self.count);
        let has_its_length = match is_last {
            true => length <= FRAGMENT_BYTES_MAX && (length > 0 || self.count == 1),
            false => length == FRAGMENT_BYTES_MAX,
        };
        self.index < self.count
            && usize::from(self.count) <= MESSAGE_FRAGMENTS_MAX
            && self.is_behind_first()
            && has_its_length
            && self.offset() + length <= limits::MESSAGE_BYTES_MAX
    }

    /// Whether there are enough numbers between the first fragment and this one, and none where this is the first.
    fn is_behind_first(&self) -> bool {
        let behind = self.sequence.checked_sub(self.first);
        behind.is_some_and(|behind| behind >= u64::from(self.index) && (self.index > 0 || behind == 0))
    }
}

/// Appends a cancellation to a datagram.
pub(super) fn write_cancel(sequence: u64, request: u64, out: &mut Vec<u8>) {
    out.push(CANCEL);
    out.extend_from_slice(&sequence.to_be_bytes());
    out.extend_from_slice(&request.to_be_bytes());
}

/// Appends an acknowledgement to a datagram: `next` has not arrived, `next + k` has where bit `k` is set.
pub(super) fn write_acknowledgement(next: u64, map: &Bits<WINDOW_WORDS>, out: &mut Vec<u8>) {
    let bytes = map.bytes();
    out.push(ACKNOWLEDGEMENT);
    out.extend_from_slice(&next.to_be_bytes());
    // At most MAP_BYTES_MAX.
    out.push(bytes.len() as u8);
    out.extend(bytes);
}

/// The sequence numbers that an acknowledgement's map marks, rising.
pub(super) fn marked(next: u64, map: &[u8]) -> impl Iterator<Item = u64> {
    map.iter().zip(0u64..).flat_map(move |(byte, at)| {
        // `next` comes from the peer: it may be so large that nothing fits behind it.
        let marked = move |bit: u64| next.checked_add(8 * at + bit).filter(|_| byte >> bit & 1 == 1);
        (0..8).filter_map(marked)
    })
}

/// Words of the map of a window.
pub(super) const WINDOW_WORDS: usize = (WINDOW_FRAGMENTS / 64) as usize;
/// Length of a fragment frame without its payload, in bytes.
pub(super) const FRAGMENT_HEAD_BYTES: usize = 1 + 8 + 8 + 2 + 2 + 1 + 8 + 2;
/// Length of a cancellation frame in bytes.
pub(super) const CANCEL_BYTES: usize = 1 + 8 + 8;
/// Length of the longest acknowledgement frame in bytes.
pub(super) const ACKNOWLEDGEMENT_BYTES_MAX: usize = 1 + 8 + 1 + MAP_BYTES_MAX;
const MAP_BYTES_MAX: usize = (WINDOW_FRAGMENTS / 8) as usize;

const ACKNOWLEDGEMENT: u8 = 1;
const FRAGMENT: u8 = 2;
const CANCEL: u8 = 3;
const NOTICE: u8 = 0;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    const LONE: Fragment<'static> =
        Fragment { sequence: 0, first: 0, index: 0, count: 1, kind: MessageKind::Notice, payload: b"" };

    fn first(body: &[u8]) -> Option<Result<Frame<'_>, FrameError>> {
        Frames::new(body).next()
    }

    fn written(fragment: Fragment<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        fragment.write(&mut bytes);
        bytes
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let fragment =
            Fragment { sequence: 9, first: 7, index: 1, count: 2, kind: MessageKind::Request(5), payload: b"hi" };
        let mut bytes = written(fragment);
        let (numbers, place) = ([0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7], [0, 1, 0, 2]);
        let message = [1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 2, b'h', b'i'];
        assert_eq!(bytes, [&[2][..], &numbers, &place, &message].concat());
        let mut map = Bits::new();
        map.set(1);
        map.set(9);
        write_acknowledgement(7, &map, &mut bytes);
        assert_eq!(bytes[34..], [1, 0, 0, 0, 0, 0, 0, 0, 7, 2, 0b10, 0b10]);
        write_cancel(10, 5, &mut bytes);
        assert_eq!(bytes[46..], [3, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 5]);
        let frames: Vec<_> = Frames::new(&bytes).map(Result::unwrap).collect();
        let cancel = Frame::Cancel { sequence: 10, request: 5 };
        assert_eq!(frames, [Frame::Fragment(fragment), Frame::Acknowledgement { next: 7, map: &[2, 2] }, cancel]);
        assert_eq!(marked(7, &[2, 2]).collect::<Vec<_>>(), [8, 16]);
    }

    #[test]
    fn a_full_fragment_and_the_longest_acknowledgement_fill_a_datagram_exactly() {
        let mut map = Bits::new();
        (1..WINDOW_FRAGMENTS).for_each(|at| map.set(at));
        let mut body = Vec::new();
        write_acknowledgement(u64::MAX, &map, &mut body);
        let payload = [0; FRAGMENT_BYTES_MAX];
        let fragment = Fragment { payload: &payload, ..LONE };
        fragment.write(&mut body);
        let around = crate::wire::datagram::HEAD_BYTES + crate::wire::datagram::SEAL_BYTES;
        assert_eq!(around + body.len(), limits::DATAGRAM_BYTES_MAX);
        assert_eq!(Frames::new(&body).filter(Result::is_ok).count(), 2);
    }

    #[test]
    fn a_body_cut_anywhere_is_short_and_not_more() {
        let fragment = written(Fragment { kind: MessageKind::Reply(1), payload: b"abc", ..LONE });
        let mut cancel = Vec::new();
        write_cancel(1, 1, &mut cancel);
        for body in [fragment, cancel] {
            for cut in 1..body.len() {
                assert_eq!(Frames::new(&body[..cut]).collect::<Vec<_>>(), [Err(FrameError::Short)], "cut at {cut}");
            }
        }
        assert_eq!(Frames::new(&[]).next(), None);
    }

    #[test]
    fn a_fragment_that_cannot_be_part_of_any_message_is_refused() {
        let good = Fragment { sequence: 3, first: 2, index: 1, count: 2, payload: b"end", ..LONE };
        let full = [0; FRAGMENT_BYTES_MAX];
        let most = MESSAGE_FRAGMENTS_MAX as u16;
        assert!(good.is_well_formed());
        let bad = [
            Fragment { index: 2, ..good },
            Fragment { count: 0, index: 0, ..good },
            Fragment { index: 0, ..good },
            Fragment { payload: b"", ..good },
            Fragment { sequence: 2, ..good },
            Fragment { first: 4, ..good },
            Fragment { sequence: 3, first: 2, ..LONE },
            Fragment { sequence: 5_000, index: most - 1, count: most, payload: &full, ..good },
            Fragment { sequence: 5_000, index: most, count: most + 1, ..good },
        ];
        for fragment in bad {
            assert!(!fragment.is_well_formed(), "{fragment:?}");
        }
    }

    #[test]
    fn unknown_kinds_and_contradictions_are_named() {
        let (mut unknown, mut numbered) = (written(LONE), written(LONE));
        unknown[21] = 3;
        numbered[29] = 1;
        assert_eq!(first(&[9]), Some(Err(FrameError::Kind(9))));
        assert_eq!(first(&unknown), Some(Err(FrameError::MessageKind(3))));
        assert_eq!(first(&numbered), Some(Err(FrameError::MessageKind(0))));
        assert_eq!(first(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]), Some(Err(FrameError::Acknowledgement)));
        let long = [&[1, 0, 0, 0, 0, 0, 0, 0, 0, 33][..], &[0; 33]].concat();
        assert_eq!(first(&long), Some(Err(FrameError::Acknowledgement)));
    }

    proptest! {
        #[test]
        fn what_is_read_is_well_formed_and_writes_to_what_was_read(body in any::<Vec<u8>>(), kind in 0u8..5) {
            let body = [&[kind][..], &body].concat();
            if let Some(Ok(Frame::Fragment(fragment))) = Frames::new(&body).next() {
                prop_assert!(fragment.is_well_formed());
                prop_assert_eq!(&written(fragment)[..], &body[..FRAGMENT_HEAD_BYTES + fragment.payload.len()]);
            }
            prop_assert!(Frames::new(&body).count() <= body.len());
        }
    }
}
