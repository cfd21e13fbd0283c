//! The rules of the Group Messaging Protocol (Sector/Sphere paper, 2.4; Open Cloud Testbed paper, section 4): words
//! travel as datagrams of one UDP port, without a connection set-up; each carries a session id and numbers, is
//! acknowledged, sent again while it is not, and delivered once.
//!
//! ```text
//! message ──cut──▶ fragments (a sequence number each) ──packed──▶ datagrams (a packet number each) ──sealed──▶ UDP
//! ```
//!
//! A **packet number** belongs to one transmission: it is the seal's nonce, is never used twice, and is what the replay
//! filter looks at. A **sequence number** belongs to a fragment, however often it is sent: it is what is acknowledged
//! and what duplicates are known by. Messages are delivered whole, once, in the order in which they become whole; they
//! may overtake each other.
//!
//! Each message has a [`Class`]: what is urgent leaves before what is not, also in the midst of a long message, for
//! which a part of the window is kept free. A request that nobody waits for any more can be
//! [cancelled](Endpoint::cancel_request). The rules say which **key phase** seals a datagram; the keys are the
//! driver's.
//!
//! Two things differ from the papers: a message too large for a datagram is cut here, up to
//! [`MESSAGE_BYTES_MAX`](crate::limits::MESSAGE_BYTES_MAX), instead of opening a data connection; and a session id is
//! given by the handshake that also gives the key, instead of being drawn by each process.
//!
//! Pure: no socket, no clock, no key. [`Endpoint`] is driven by `net::messenger`, which seals and unseals.

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

/// A word for the other end.
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

/// How soon a message leaves, beside others of its session. Within a class the first taken is the first sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Signs of life, renewals, orders: never waits behind others.
    Urgent,
    /// What someone waits for.
    Ordinary,
    /// Pages of listings, inventories: leaves when nothing else does.
    Bulk,
}

impl Class {
    /// All, the most urgent first.
    pub(crate) const ALL: [Self; 3] = [Self::Urgent, Self::Ordinary, Self::Bulk];

    /// Sequence numbers that messages of this class may have under way, those of others included: what is left of
    /// [`WINDOW_FRAGMENTS`] is kept for the more urgent.
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
    /// Too much is waiting in this session already: the peer is slower than its words.
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

/// Sequence numbers that may be under way at once, the width of an acknowledgement's map and of the receiver's memory:
/// 256 fragments are 330 KB, twice the bandwidth-delay product of 10 Mbit/s of words over 130 ms.
pub const WINDOW_FRAGMENTS: u64 = 256;
/// Part of the window that stays free for each more urgent class: what is urgent then has a place although a long
/// message fills all that it may.
pub const WINDOW_RESERVED_FRAGMENTS: usize = 32;
/// Urgent fragments, full ones, that may leave although the congestion window is full: 10 KB, a few datagrams beside
/// what is under way, which are soon followed by less of the rest.
pub const URGENT_BURST_FRAGMENTS: usize = 8;
/// Most bytes of a message that one fragment carries: what a datagram leaves beside head, seal, one acknowledgement and
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
/// Longest wait of an acknowledgement for data to ride on: short beside any wide-area round trip.
pub const ACKNOWLEDGEMENT_DELAY_MAX: Duration = Duration::from_millis(5);
/// Datagrams with data after which an acknowledgement is sent at once (RFC 9000, 13.2.2, has the same two).
pub const ACKNOWLEDGE_EVERY_DATAGRAMS: u32 = 2;
/// Retransmission time before a round trip was measured: longer than any round trip on Earth by fibre.
pub const RETRANSMISSION_TIME_INITIAL: Duration = Duration::from_millis(300);
/// Shortest retransmission time, once a round trip was measured: three times the acknowledgement delay. A busy
/// machine's jitter is in the measured deviation. Small enough that a lone lost request is sent again within two round
/// trips of 20 ms (RFC 8985's probe of the tail, 7.2, waits as long).
pub const RETRANSMISSION_TIME_MIN: Duration = Duration::from_millis(15);
/// Longest retransmission time, after doubling: a link that comes back is found again this soon.
pub const RETRANSMISSION_TIME_MAX: Duration = Duration::from_secs(2);
/// Datagrams sent later that must be acknowledged before one is held for lost (RFC 5681's three duplicates).
pub const REORDERING_DATAGRAMS: usize = 3;
/// A peer that has said nothing for this long, though something waits for its acknowledgement, is unreachable.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(20);
/// Retransmissions in a row that must have gone unanswered as well: a process that slept itself accuses no one.
pub const UNREACHABLE_RETRIES_MIN: u32 = 5;
/// Datagrams that one key seals before its direction goes on to the next: far below what the cipher allows (RFC 9001,
/// 6.6, sets no limit for ChaCha20-Poly1305), so that one key never protects more than some 6 TB.
pub const KEY_PACKETS_MAX: u64 = 1 << 32;
/// How long a key seals, from its first datagram on: whoever steals one learns an hour of words.
pub const KEY_AGE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a receiver still takes datagrams of the phase before the newest: longer than any stays on its way.
pub const KEY_PREVIOUS_LIFE: Duration = Duration::from_secs(10);
/// Cancelled requests that a session remembers, so that a late one is not delivered and a late reply not sent. An older
/// one is then run and answered for nobody.
pub const CANCELLED_REQUESTS_MAX: usize = 256;
/// Cancellations waiting to be sent in a session; the peer is not told of more.
pub const CANCELS_WAITING_MAX: usize = 1_024;
/// Bytes that the unfinished messages of a session may claim at a receiver: of each class, one that is being cut and
/// one with a fragment lost at the window's start, and a window of others.
pub const UNFINISHED_BYTES_MAX: usize = 6 * limits::MESSAGE_BYTES_MAX + WINDOW_FRAGMENTS as usize * FRAGMENT_BYTES_MAX;
/// How long a closed session may still deliver what it had taken for sending (the answer to a logout).
pub const CLOSE_LINGER: Duration = Duration::from_secs(2);
/// Most bytes waiting or unacknowledged in a session before a send is refused: sixteen of the largest messages.
pub const SEND_QUEUE_BYTES_MAX: usize = 16 * limits::MESSAGE_BYTES_MAX;
/// Most messages waiting in a session before a send is refused.
pub const SEND_QUEUE_MESSAGES_MAX: usize = 4_096;
/// A reply may fill the queue this many times over: it was asked for, and has no one to refuse it to. So may what is
/// urgent: it is not refused because a peer is slow in taking its pages.
pub const REPLY_ALLOWANCE: usize = 2;
