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
mod script;
#[cfg(test)]
mod simulation;

use std::time::Duration;

use thiserror::Error;

pub use endpoint::{Action, Arrival, Counters, Endpoint, Sent};
pub use frame::{Fragment, Frame, FrameError, Frames};
pub use session::Opening;

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
/// Shortest retransmission time: well above the acknowledgement delay and the scheduling jitter of a busy machine.
pub const RETRANSMISSION_TIME_MIN: Duration = Duration::from_millis(40);
/// Longest retransmission time, after doubling: a link that comes back is found again this soon.
pub const RETRANSMISSION_TIME_MAX: Duration = Duration::from_secs(2);
/// Datagrams sent later that must be acknowledged before one is held for lost (RFC 5681's three duplicates).
pub const REORDERING_DATAGRAMS: usize = 3;
/// A peer that has said nothing for this long, though something waits for its acknowledgement, is unreachable.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(20);
/// Retransmissions in a row that must have gone unanswered as well: a process that slept itself accuses no one.
pub const UNREACHABLE_RETRIES_MIN: u32 = 5;
/// How long a closed session may still deliver what it had taken for sending (the answer to a logout).
pub const CLOSE_LINGER: Duration = Duration::from_secs(2);
/// Most bytes waiting or unacknowledged in a session before a send is refused: sixteen of the largest messages.
pub const SEND_QUEUE_BYTES_MAX: usize = 16 * limits::MESSAGE_BYTES_MAX;
/// Most messages waiting in a session before a send is refused.
pub const SEND_QUEUE_MESSAGES_MAX: usize = 4_096;
/// A reply may fill the queue this many times over: it was asked for, and has no one to refuse it to.
pub const REPLY_ALLOWANCE: usize = 2;
