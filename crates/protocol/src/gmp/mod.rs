//! The rules of the Group Messaging Protocol (Sector/Sphere paper, 2.4; Open Cloud Testbed paper, section 4). Messages
//! travel as datagrams of one UDP port, without a connection set-up. Each carries a session id and numbers, is
//! acknowledged, sent again until then, and delivered once. [`Endpoint`] has the terms, [`Message`] the differences
//! from the papers. Pure: the rules never touch a socket, a clock or a key.

mod bits;
mod congestion;
mod endpoint;
mod frame;
mod round_trip;
mod session;

#[cfg(test)]
mod exchange;
#[cfg(test)]
mod script;
#[cfg(test)]
mod simulation;

use std::time::Duration;

use thiserror::Error;

pub use endpoint::{Arrival, Endpoint, EndpointAction, EndpointCounters, Transmit};
pub use frame::{Fragment, Frame, FrameError, Frames};
pub use session::{KeyLimits, OpenMode};

use crate::{SessionId, limits, wire::datagram};

/// A message for the other end.
///
/// Two things differ from the papers. A message too large for a datagram is cut here, up to
/// [`MESSAGE_BYTES_MAX`](crate::limits::MESSAGE_BYTES_MAX), instead of opening a data connection. And a session id
/// comes from the handshake that also gives the key, instead of being drawn by each process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is for.
    pub kind: MessageKind,
    /// The encoded message, at most [`MESSAGE_BYTES_MAX`](crate::limits::MESSAGE_BYTES_MAX) bytes.
    pub body: Vec<u8>,
}

/// What a message is for: the light-weight RPC of the Open Cloud Testbed paper is a request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Expects no reply.
    Notice,
    /// Expects a reply of the same number, which the requester chose.
    Request(u64),
    /// Answers the request of that number.
    Reply(u64),
}

/// How soon a message leaves, relative to others of its session. Within a class the first taken is the first sent.
///
/// An urgent message leaves before others, even in the middle of a long one: a part of the window is kept free for it.
/// A request that nobody waits for any more can be [cancelled](Endpoint::cancel_request).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Signs of life, renewals, orders: they never wait behind others.
    Urgent,
    /// Messages that someone waits for.
    Ordinary,
    /// Pages of listings, inventories: they leave when nothing else does.
    Bulk,
}

impl Class {
    /// All, the most urgent first.
    pub(crate) const ALL: [Self; 3] = [Self::Urgent, Self::Ordinary, Self::Bulk];

    /// The number of sequence numbers under way, of all classes, up to which this class may use more. The rest of
    /// [`WINDOW_FRAGMENTS`] is kept for more urgent classes.
    fn window_fragments(self) -> usize {
        let kept = match self {
            Self::Urgent => 0,
            Self::Ordinary => WINDOW_RESERVED_FRAGMENTS,
            Self::Bulk => 2 * WINDOW_RESERVED_FRAGMENTS,
        };
        WINDOW_FRAGMENTS as usize - kept
    }

    /// Bytes of this class that may be under way beyond the congestion window.
    fn beyond_congestion_bytes(self) -> usize {
        if self == Self::Urgent { URGENT_BURST_FRAGMENTS * congestion::FULL_BYTES } else { 0 }
    }
}

/// Why a message was not taken for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Too much is waiting in this session already: the peer is slower than the messages for it.
    #[error("the send queue of session {0} is full")]
    QueueFull(SessionId),
    /// The message is larger than GMP carries.
    #[error("a message of {bytes} bytes is larger than the {} bytes that one may have", limits::MESSAGE_BYTES_MAX)]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// There is no such session here, or it is being closed.
    #[error("there is no session {0}")]
    NoSession(SessionId),
}

/// Sequence numbers that may be under way at once: the width of an acknowledgement's map and of the receiver's memory.
/// 256 fragments are 330 KB, twice the bandwidth-delay product of 10 Mbit/s of messages over 130 ms.
pub const WINDOW_FRAGMENTS: u64 = 256;
/// Part of the window that stays free for each more urgent class. An urgent message then has a place although a long
/// one fills all that it may.
pub const WINDOW_RESERVED_FRAGMENTS: usize = 32;
/// Urgent fragments, full ones, that may leave although the congestion window is full. That is 10 KB, a few datagrams
/// beside those under way; the other classes then send less for a while.
pub const URGENT_BURST_FRAGMENTS: usize = 8;
/// Most bytes of a message that one fragment carries: a datagram's bytes without head, seal, one acknowledgement and
/// the fragment's own head.
pub const FRAGMENT_BYTES_MAX: usize = limits::DATAGRAM_BYTES_MAX
    - datagram::HEAD_BYTES
    - datagram::SEAL_BYTES
    - frame::ACKNOWLEDGEMENT_BYTES_MAX
    - frame::FRAGMENT_HEAD_BYTES;
/// Most fragments of one message.
pub const MESSAGE_FRAGMENTS_MAX: usize = limits::MESSAGE_BYTES_MAX.div_ceil(FRAGMENT_BYTES_MAX);
/// How far behind the newest packet number a datagram may arrive and still be taken; older ones count as replayed.
pub const REPLAY_WINDOW_PACKETS: u64 = 1_024;
/// Longest time that an acknowledgement waits for data to travel with: short beside any wide-area round trip.
pub const ACKNOWLEDGEMENT_DELAY_MAX: Duration = Duration::from_millis(5);
/// Datagrams with data after which an acknowledgement is sent at once (RFC 9000, 13.2.2, has the same two).
pub const ACKNOWLEDGE_EVERY_DATAGRAMS: u32 = 2;
/// Retransmission time before a round trip was measured: longer than any round trip on Earth by fibre.
pub const RETRANSMISSION_TIME_INITIAL: Duration = Duration::from_millis(300);
/// Shortest retransmission time, once a round trip was measured: three times the acknowledgement delay. A busy
/// machine's jitter is in the measured deviation. A lone lost request is sent again within two round trips of 20 ms, as
/// long as RFC 8985's probe of the tail (7.2) waits.
pub const RETRANSMISSION_TIME_MIN: Duration = Duration::from_millis(15);
/// Longest retransmission time, after doubling: a link that comes back is found again this soon.
pub const RETRANSMISSION_TIME_MAX: Duration = Duration::from_secs(2);
/// Datagrams sent later that must be acknowledged before one counts as lost (RFC 5681's three duplicates).
pub const REORDERING_DATAGRAMS: usize = 3;
/// A peer that has said nothing for this long, though something waits for its acknowledgement, is unreachable.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(20);
/// Unanswered retransmissions in a row that are needed as well: a process that was itself suspended blames no peer.
pub const UNREACHABLE_RETRIES_MIN: u32 = 5;
/// Datagrams that one key seals before its direction goes on to the next, so that one key never protects more than some
/// 6 TB. It is far below what the cipher allows (RFC 9001, 6.6, sets no limit for ChaCha20-Poly1305).
pub const KEY_PACKETS_MAX: u64 = 1 << 32;
/// How long a key seals, from its first datagram on: a stolen key reveals an hour of messages.
pub const KEY_AGE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a receiver still accepts datagrams of the phase before the newest: longer than any stays on its way.
pub const KEY_PREVIOUS_LIFE: Duration = Duration::from_secs(10);
/// Cancelled requests that a session remembers, so that a late one is not delivered and a late reply not sent. An older
/// one is run and answered although nobody waits.
pub const CANCELLED_REQUESTS_MAX: usize = 256;
/// Cancellations waiting to be sent in a session; the peer is not told of more.
pub const CANCELS_WAITING_MAX: usize = 1_024;
/// Bytes that the unfinished messages of a session may claim at a receiver. It counts two messages of each class and a
/// window of others. One of the two is being cut, the other has a fragment lost at the window's start.
pub const UNFINISHED_BYTES_MAX: usize = 6 * limits::MESSAGE_BYTES_MAX + WINDOW_FRAGMENTS as usize * FRAGMENT_BYTES_MAX;
/// How long a closed session may still deliver what it had taken for sending (the answer to a logout).
pub const CLOSE_LINGER: Duration = Duration::from_secs(2);
/// Most bytes waiting or unacknowledged in a session before a send is refused: sixteen of the largest messages.
pub const SEND_QUEUE_BYTES_MAX: usize = 16 * limits::MESSAGE_BYTES_MAX;
/// Most messages waiting in a session before a send is refused.
pub const SEND_QUEUE_MESSAGES_MAX: usize = 4_096;
/// A reply may fill the queue this many times over: it was asked for, and nobody is there to be refused. So may an
/// urgent message: it is not refused because a peer is slow in taking its pages.
pub const REPLY_ALLOWANCE: usize = 2;
