//! The keys of a session, as the handshake gives them. This file never seals a message.

use std::net::SocketAddr;

use protocol::SessionId;

/// The keys of a session and where its peer is.
#[derive(Clone)]
pub struct SessionKeys {
    /// The session.
    pub session: SessionId,
    /// Both ends derive it from the handshake.
    pub key: [u8; 32],
    /// Which end this is.
    pub role: SessionRole,
    /// Where the peer is; `None` to learn it from its first authentic datagram.
    pub peer: Option<SocketAddr>,
}

/// Which end opened the session: each direction has its own nonce space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionRole {
    /// The end that joined.
    Initiator,
    /// The end that accepted.
    Responder,
}
