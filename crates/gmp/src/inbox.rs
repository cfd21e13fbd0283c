//! What other members send: requests, which want a reply, and notices. It never drops a message by itself.

use std::{net::SocketAddr, sync::Arc};

use net::{
    NetError,
    messenger::{Delivered, MessengerEvent},
};
use protocol::{SessionId, limits::MESSAGE_BYTES_MAX};
use tokio::sync::{mpsc, watch};

use crate::instance::Shared;

/// The messages that arrive at an [`Instance`](crate::Instance). While nobody takes them, peers are not acknowledged
/// and send again, more and more slowly; so a slow service slows those who ask it. Where the inbox is dropped, what
/// arrives is dropped too.
pub struct Inbox {
    pub(crate) events: mpsc::Receiver<MessengerEvent>,
    pub(crate) closed: watch::Receiver<bool>,
    pub(crate) shared: Arc<Shared>,
}

impl Inbox {
    /// The next message; `None` once the instance is closed. Can be cancelled without loss.
    pub async fn next(&mut self) -> Option<Received> {
        loop {
            let event = tokio::select! {
                // What arrived before the end is given out.
                biased;
                event = self.events.recv() => event?,
                _ = self.closed.wait_for(|is_closed| *is_closed) => return None,
            };
            match event {
                MessengerEvent::Delivered(Delivered { session, request, body }) => {
                    // Nobody sends requests in a session that this end opened, and one may have ended meanwhile.
                    let Some(from) = self.shared.sender(session) else { continue };
                    return Some(Received { from, session, request, body, shared: Arc::clone(&self.shared) });
                }
                MessengerEvent::SessionLost(session) => self.shared.forget(session),
            }
        }
    }
}

/// A message from another member.
pub struct Received {
    from: SocketAddr,
    session: SessionId,
    request: Option<u64>,
    body: Vec<u8>,
    shared: Arc<Shared>,
}

impl Received {
    /// Where the sender listens: it can be asked there.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// Its bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether the sender waits for a reply.
    pub fn is_request(&self) -> bool {
        self.request.is_some()
    }

    /// Answers a request; of a notice, nobody hears it. Where a request is dropped without an answer, its sender waits
    /// until its deadline.
    ///
    /// # Errors
    /// [`NetError::TooLong`] for more than [`MESSAGE_BYTES_MAX`] bytes.
    pub fn reply(self, body: Vec<u8>) -> Result<(), NetError> {
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(NetError::TooLong {
                what: "a message",
                bytes: body.len() as u64,
                bytes_max: MESSAGE_BYTES_MAX,
            });
        }
        if let Some(request) = self.request {
            self.shared.messenger.reply(self.session, request, body);
        }
        Ok(())
    }
}
