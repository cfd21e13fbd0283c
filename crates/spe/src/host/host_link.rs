//! The node's end of the socket to an SPE: whole messages out of a stream that may stop at any byte. Serves the path
//! *job*, door 7. Both directions run at once, so the two ends never wait for each other.

use std::{
    collections::VecDeque,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
};

use rustix::net::{Shutdown, shutdown};
use tokio::{io::Interest, net::UnixStream};

use crate::{
    descriptor_passing,
    messages::{self, FromChild, ToChild},
};

/// The node's end.
pub(super) struct HostLink {
    socket: UnixStream,
    received: Vec<u8>,
    /// Encoded messages with their descriptors. The caller bounds them: it sends few before it gets answers.
    to_send: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// Bytes of the first message that are already sent.
    sent_bytes: usize,
}

/// The other end is closed.
#[derive(Debug)]
pub(super) struct Closed;

impl HostLink {
    /// Takes over a connected socket.
    pub(super) fn new(socket: StdUnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        Ok(Self { socket, received: Vec::new(), to_send: VecDeque::new(), sent_bytes: 0 })
    }

    /// Closes this end: whatever the process still sends is lost.
    pub(super) fn close(&mut self) {
        // It may be closed at the other end already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Sends as much of a message as possible at once; [`next`](Self::next) sends the rest.
    pub(super) fn send(&mut self, message: &ToChild, descriptors: impl IntoIterator<Item = OwnedFd>) {
        self.to_send.push_back((messages::encode(message), descriptors.into_iter().collect()));
        // At once, so that the process works on this segment while the caller opens the next.
        self.send_some(false);
    }

    /// Sends what is in the queue and waits for the next message. May be dropped at any await and called again.
    pub(super) async fn next(&mut self) -> Result<FromChild, Closed> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(message);
            }
            let interest =
                if self.to_send.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
            let ready = self.socket.ready(interest).await.map_err(|_| Closed)?;
            if ready.is_writable() {
                self.send_some(true);
            }
            if ready.is_readable() {
                self.receive_some()?;
            }
        }
    }

    /// A whole message from the received bytes. Nonsense from the process counts as its end.
    fn take_message(&mut self) -> Result<Option<FromChild>, Closed> {
        let Some((first, rest)) = self.received.split_first_chunk() else { return Ok(None) };
        let bytes = messages::body_bytes(*first).ok_or(Closed)?;
        let Some(body) = rest.get(..bytes) else { return Ok(None) };
        let message = messages::decode(body).map_err(|_| Closed)?;
        self.received.drain(..messages::LENGTH_BYTES + bytes);
        Ok(Some(message))
    }

    fn receive_some(&mut self) -> Result<(), Closed> {
        match self.socket.try_read_buf(&mut self.received) {
            Ok(0) => Err(Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(Closed),
        }
    }

    /// `ready`: the runtime reports the socket as writable, and is told when it no longer is. Otherwise the socket is
    /// tried without the runtime, which does not know yet and would say no.
    fn send_some(&mut self, ready: bool) {
        while let Some((bytes, descriptors)) = self.to_send.front() {
            let at_front = descriptors.iter().filter(|_| self.sent_bytes == 0);
            let at_front: Vec<_> = at_front.map(AsFd::as_fd).collect();
            let attempt = || descriptor_passing::send(&self.socket, &bytes[self.sent_bytes..], &at_front);
            let sent = if ready { self.socket.try_io(Interest::WRITABLE, attempt) } else { attempt() };
            match sent {
                Ok(sent) => self.sent_bytes += sent,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
                // The process is gone. What it said before is still to be read, and its end is seen there.
                Err(_) => {
                    self.to_send.clear();
                    self.sent_bytes = 0;
                    return;
                }
            }
            if self.sent_bytes == bytes.len() {
                self.to_send.pop_front();
                self.sent_bytes = 0;
            }
        }
    }
}
