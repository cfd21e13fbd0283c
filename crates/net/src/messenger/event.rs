//! What a messenger reports to its owner. It never says what a message means.

use protocol::SessionId;

/// A request or notice from a peer. It is given once, however often it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The session it came in, which tells its sender.
    pub session: SessionId,
    /// For a request: what to give to [`Messenger::reply`](super::Messenger::reply).
    pub request: Option<u64>,
    /// The encoded message.
    pub body: Vec<u8>,
}

/// What a messenger reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessengerEvent {
    /// A request or notice came.
    Delivered(Delivered),
    /// A peer is unreachable; its session is gone.
    SessionLost(SessionId),
}
