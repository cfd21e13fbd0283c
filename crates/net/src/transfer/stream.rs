//! The content of a transfer connection, whatever carries it. Messages are a length of 4 bytes, then the encoding.
//! Frames of bulk bytes have a checksum for each block ([`protocol::wire::stream_frame`]).
//!
//! It never reserves memory because a peer announces a length, and never gives out a frame that it has not verified.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use protocol::{
    limits::{BLOCK_BYTES, FRAME_BYTES_MAX, JOIN_BYTES_MAX, TRANSFER_MESSAGE_BYTES_MAX},
    wire::{codec, stream_frame},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    carried_bytes::CarriedBytes,
    channel::{ByteStream, Channel, MemoryPipe},
    handshake::identity_error,
    link_meter::LinkMeter,
};
use crate::{
    NetError,
    identity::{PeerCertificate, role_digest},
    unauthenticated::UnauthenticatedSlot,
};

/// A connection that carries messages and frames of bytes, one thing after the other in each direction.
///
/// When a call is cancelled (its future dropped) or fails, the connection may be in the middle of a message or frame.
/// It can then only be dropped, with two exceptions:
///
/// - After [`NetError::Corrupt`] it stands behind the bad frame.
/// - After sending has failed, [`receive`](Self::receive) still gives what the peer sent before it closed, which is
///   usually its refusal.
///
/// To the peer a dropped connection looks cut; to end in order, [`close`](Self::close) it.
pub struct TransferStream {
    channel: Channel,
    peer: SocketAddr,
    /// Reused for the heads of frames.
    head: Vec<u8>,
    /// Signs of waiting since the last frame came.
    waits: u32,
    /// Of a peer that has proved nothing yet.
    slot: Option<Arc<UnauthenticatedSlot>>,
    /// Where bytes of frames are counted.
    carried: Option<Arc<CarriedBytes>>,
}

/// A received frame; its buffers are reused.
#[derive(Default)]
pub struct StreamFrame {
    /// The bytes, verified.
    pub payload: Vec<u8>,
    /// CRC32C of each block of the payload; the last block may be short.
    pub checksums: Vec<u32>,
}

impl TransferStream {
    pub(super) fn new(channel: Channel, peer: SocketAddr) -> Self {
        Self { channel, peer, head: Vec::new(), waits: 0, slot: None, carried: None }
    }

    /// Counts bytes of frames here from now on.
    pub fn count_with(&mut self, carried: Arc<CarriedBytes>) {
        self.carried = Some(carried);
    }

    /// Counts what the connection under this conversation has met on its way, since it began. A connection that has a
    /// meter keeps it.
    pub fn meter_with(&mut self, meter: &LinkMeter) {
        self.channel.meter_with(meter);
    }

    /// Marks the peer as unauthenticated, with this slot.
    pub(super) fn with_slot(self, place: Arc<UnauthenticatedSlot>) -> Self {
        Self { slot: Some(place), ..self }
    }

    /// A connection over `stream`, which stays in this process: nothing is sealed. Both ends are given the same
    /// `secret` for [`export_key`](Self::export_key). The peer's role is given as if it had shown a certificate; the
    /// SHA-256 of its name stands for the certificate's.
    pub fn in_memory(stream: Box<dyn ByteStream>, peer: SocketAddr, peer_role: Option<&str>, secret: [u8; 32]) -> Self {
        Self::new(Channel::Memory(MemoryPipe::new(stream, peer_role.map(role_digest), secret)), peer)
    }

    /// The other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The slot of a peer that [called](super::Listener::accept) and has proved nothing yet. The length and the
    /// duration of what it sends are bounded until it is [admitted](Self::admit).
    pub fn slot(&self) -> Option<Arc<UnauthenticatedSlot>> {
        self.slot.clone().filter(|place| !place.is_authenticated())
    }

    /// The peer has proved something: it is no stranger any more, on any of its conversations over this connection.
    pub fn admit(&mut self) {
        if let Some(place) = self.slot.take() {
            place.release();
        }
    }

    /// SHA-256 of the peer's certificate, when it showed one.
    pub fn peer_fingerprint(&self) -> Option<[u8; 32]> {
        self.channel.fingerprint()
    }

    /// SHA-256 of the authority's certificate that the peer showed, as every listener does. It is for a
    /// [newcomer](crate::identity::TlsIdentity::with_pinned_authority), which has checked the peer by it.
    pub fn peer_authority(&self) -> Option<[u8; 32]> {
        self.channel.authority()
    }

    /// The peer's certificate, when it showed one.
    pub fn peer_certificate(&self) -> Option<PeerCertificate> {
        self.channel.peer_certificate()
    }

    /// Continues without encryption: from now on anyone on the path can read and change what is sent. Both ends call it
    /// at the same point of the conversation. One calls it after sending the message that agrees to it, the other after
    /// receiving that message. Neither may have sent anything else meanwhile. What the TLS connection has proved about
    /// its ends, and its exported keys, remain.
    ///
    /// # Errors
    /// [`NetError::Closed`], [`NetError::Broken`]; also when the peer has sent what it should not have.
    pub async fn go_plain(&mut self) -> Result<(), NetError> {
        let gone = self.channel.go_plain().await;
        gone.map_err(|error| self.failure(error, "ending the encryption"))
    }

    /// Whether the encryption was [ended](Self::go_plain).
    pub fn is_plain(&self) -> bool {
        self.channel.is_plain()
    }

    /// Whether other conversations with the same peer use the connection under this one.
    pub fn is_shared(&self) -> bool {
        self.channel.is_shared()
    }

    /// Whether the connection under this conversation has ended, or a conversation waited on it in vain. A caller that
    /// can choose then begins another one.
    pub fn is_suspect(&self) -> bool {
        self.channel.is_suspect()
    }

    /// How long a round trip to the peer takes, where the carrier measures it.
    pub fn round_trip(&self) -> Option<Duration> {
        self.channel.round_trip()
    }

    /// 32 bytes that both ends derive from the TLS connection (RFC 8446 exporter).
    ///
    /// # Errors
    /// [`NetError::Handshake`] when TLS refuses, which it does only for a connection that was never established.
    pub fn export_key(&self, label: &[u8], context: &[u8]) -> Result<[u8; 32], NetError> {
        self.channel
            .export_key(label, context)
            .map_err(|error| NetError::Handshake { peer: self.peer.to_string(), why: error.to_string() })
    }

    /// Sends a message, and all that was queued before it.
    ///
    /// # Errors
    /// [`NetError::TooLong`] (nothing was sent), [`NetError::Closed`], [`NetError::Broken`].
    pub async fn send<T: Serialize + Sync>(&mut self, message: &T) -> Result<(), NetError> {
        let Some(place) = self.slot() else { return self.send_now(message).await };
        let sent = place.run_bounded(self.send_now(message)).await;
        sent.unwrap_or_else(|over| Err(NetError::Unauthenticated { peer: self.peer, over }))
    }

    async fn send_now<T: Serialize + Sync>(&mut self, message: &T) -> Result<(), NetError> {
        self.queue(message).await?;
        let sent = self.channel.flush().await;
        sent.map_err(|error| self.failure(error, SENDING))
    }

    /// Queues a message to be sent together with what is sent next: the frames that it announces.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn queue<T: Serialize + Sync>(&mut self, message: &T) -> Result<(), NetError> {
        let bytes = codec::encode(message);
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= TRANSFER_MESSAGE_BYTES_MAX);
        let Some(length) = length else {
            return Err(too_long("a message", bytes.len(), TRANSFER_MESSAGE_BYTES_MAX));
        };
        let word = [&length.to_be_bytes()[..], &bytes].concat();
        let queued = self.channel.queue(&word).await;
        queued.map_err(|error| self.failure(error, SENDING))
    }

    /// The next message.
    ///
    /// # Errors
    /// [`NetError::Closed`] also when the peer closed in order; [`NetError::Broken`]; [`NetError::Malformed`];
    /// [`NetError::TooLong`]; [`NetError::Handshake`] when the peer turns our certificate down only now.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, NetError> {
        let ended = NetError::Closed { peer: self.peer, operation: WAITING };
        self.receive_or_end().await?.ok_or(ended)
    }

    /// The next message, or `None` when the peer closed in order between messages. It waits as long as it takes: the
    /// caller sets a deadline where there should be one.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), except for a close in order.
    pub async fn receive_or_end<T: DeserializeOwned>(&mut self) -> Result<Option<T>, NetError> {
        self.receive_message(TRANSFER_MESSAGE_BYTES_MAX).await
    }

    /// The next message of a peer that may use no more of our memory than `bytes_max`.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub async fn receive_at_most<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<T, NetError> {
        let ended = NetError::Closed { peer: self.peer, operation: WAITING };
        self.receive_message(bytes_max).await?.ok_or(ended)
    }

    async fn receive_message<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<Option<T>, NetError> {
        let Some(place) = self.slot() else { return self.receive_message_now(bytes_max).await };
        let received = place.run_bounded(self.receive_message_now(bytes_max)).await;
        received.unwrap_or_else(|over| Err(NetError::Unauthenticated { peer: self.peer, over }))
    }

    async fn receive_message_now<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<Option<T>, NetError> {
        self.flush_queued().await;
        let mut length = [0; 4];
        let read = self.channel.read(&mut length).await.map_err(|error| self.failure(error, WAITING))?;
        if read == 0 {
            return Ok(None);
        }
        self.fill(&mut length[read..], "receiving a message").await?;
        let length = u32::from_be_bytes(length) as usize;
        if length > bytes_max {
            return Err(too_long("a message from the other end", length, bytes_max));
        }
        if self.slot().is_some_and(|place| !place.try_consume(length)) {
            return Err(too_long("what a stranger says", length, JOIN_BYTES_MAX));
        }
        let mut bytes = Vec::new();
        while bytes.len() < length {
            // Memory only for bytes that arrive: a caller that has not yet said who it is may claim any length.
            let from = bytes.len();
            bytes.resize(length.min(from + MESSAGE_STEP_BYTES), 0);
            self.fill(&mut bytes[from..], "receiving a message").await?;
        }
        codec::decode(&bytes).map(Some).map_err(|source| NetError::Malformed { peer: self.peer, source })
    }

    /// Sends a frame of bytes with its checksums. It may stay in part in the queue until [`end_frames`], [`send`] or a
    /// receiving call. An empty payload sends nothing, since an empty frame would end the data.
    ///
    /// # Errors
    /// [`NetError::TooLong`] above [`FRAME_BYTES_MAX`] (nothing was sent), [`NetError::Closed`], [`NetError::Broken`].
    ///
    /// [`end_frames`]: Self::end_frames
    /// [`send`]: Self::send
    pub async fn send_frame(&mut self, payload: &[u8]) -> Result<(), NetError> {
        self.send_frame_with(payload, |head| stream_frame::write_head(payload, head)).await
    }

    /// Like [`send_frame`](Self::send_frame) for bytes whose block checksums are already known, from the disk or from
    /// another connection. The receiver then verifies the whole path from where they were computed.
    ///
    /// # Errors
    /// As `send_frame`; also [`NetError::TooLong`] when there is not exactly one checksum for each block.
    pub async fn send_checked_frame(&mut self, payload: &[u8], checksums: &[u32]) -> Result<(), NetError> {
        let blocks = stream_frame::checksum_count(payload.len());
        if checksums.len() != blocks {
            return Err(too_long("a list of checksums", checksums.len(), blocks));
        }
        self.send_frame_with(payload, |head| {
            head.extend((payload.len() as u32).to_be_bytes());
            head.extend(checksums.iter().flat_map(|checksum| checksum.to_be_bytes()));
        })
        .await
    }

    /// Signals between two frames that the next one waits for a limit, so that the receiver does not take the silence
    /// for a stall.
    ///
    /// # Errors
    /// [`NetError::Closed`], [`NetError::Broken`].
    pub async fn send_waiting(&mut self) -> Result<(), NetError> {
        let sent = async {
            self.channel.queue(&stream_frame::WAITING).await?;
            self.channel.flush().await
        };
        let sent = sent.await;
        sent.map_err(|error| self.failure(error, "sending frames"))
    }

    /// Ends the data with an empty frame, and sends all that was queued.
    ///
    /// # Errors
    /// [`NetError::Closed`], [`NetError::Broken`].
    pub async fn end_frames(&mut self) -> Result<(), NetError> {
        let sent = async {
            self.channel.queue(&0u32.to_be_bytes()).await?;
            self.channel.flush().await
        };
        let sent = sent.await;
        sent.map_err(|error| self.failure(error, "sending frames"))
    }

    /// Fills `frame` with the next frame and verifies its checksums. False at the end of the data, which leaves the
    /// frame empty. An empty frame although there is more signals that the sender waits for a limit. A sender that
    /// gives nothing else for too long is given up.
    ///
    /// # Errors
    /// [`NetError::Corrupt`] when a block does not match its checksum: the frame is then left empty, and the next call
    /// gives the next frame. [`NetError::TooLong`]; [`NetError::Closed`] before the end of the data;
    /// [`NetError::Broken`].
    pub async fn receive_frame(&mut self, frame: &mut StreamFrame) -> Result<bool, NetError> {
        let received = self.fill_frame(frame).await;
        if !matches!(received, Ok(true)) {
            frame.payload.clear();
            frame.checksums.clear();
        }
        received
    }

    /// Whether TLS resumed an earlier session.
    #[cfg(test)]
    pub(super) fn is_resumed(&self) -> bool {
        matches!(&self.channel, Channel::Tls(socket) if socket.is_resumed())
    }

    /// Ends the connection in order: the peer gets all that was sent, then the end.
    pub async fn close(self) {
        self.channel.close().await;
    }

    async fn send_frame_with(&mut self, payload: &[u8], write_head: impl FnOnce(&mut Vec<u8>)) -> Result<(), NetError> {
        if payload.len() > FRAME_BYTES_MAX {
            return Err(too_long("a frame", payload.len(), FRAME_BYTES_MAX));
        }
        if payload.is_empty() {
            return Ok(());
        }
        self.head.clear();
        write_head(&mut self.head);
        let sent = async {
            self.channel.queue(&self.head).await?;
            self.channel.queue(payload).await?;
            // A large frame is sent at once, so that the peer can begin; small ones share a system call.
            if payload.len() >= EAGER_BYTES { self.channel.flush().await } else { Ok(()) }
        };
        let sent = sent.await;
        if let (Ok(()), Some(carried)) = (&sent, &self.carried) {
            carried.count_sent(&self.channel, payload.len());
        }
        sent.map_err(|error| self.failure(error, "sending frames"))
    }

    async fn fill_frame(&mut self, frame: &mut StreamFrame) -> Result<bool, NetError> {
        self.flush_queued().await;
        let mut first = [0; 4];
        self.fill(&mut first, RECEIVING).await?;
        if first == stream_frame::WAITING {
            self.waits += 1;
            if self.waits > WAITS_MAX {
                return Err(too_long("a wait for a limit", self.waits as usize, WAITS_MAX as usize));
            }
            frame.payload.clear();
            frame.checksums.clear();
            return Ok(true);
        }
        self.waits = 0;
        let Some(length) = stream_frame::payload_bytes(first) else {
            return Err(too_long("a frame from the other end", u32::from_be_bytes(first) as usize, FRAME_BYTES_MAX));
        };
        if length == 0 {
            return Ok(false);
        }
        let mut checksums = [0; stream_frame::HEAD_BYTES_MAX - 4];
        let checksums = &mut checksums[..4 * stream_frame::checksum_count(length)];
        self.fill(checksums, RECEIVING).await?;
        frame.checksums.clear();
        frame.checksums.extend(checksums.chunks_exact(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]])));
        frame.payload.resize(length, 0);
        let mut bad_block = None;
        let blocks = frame.payload.chunks_mut(BLOCK_BYTES as usize).zip(&frame.checksums);
        for (block, (bytes, wanted)) in blocks.enumerate() {
            self.fill(bytes, RECEIVING).await?;
            // Checked block by block, while the bytes are still in the cache.
            if bad_block.is_none() && crc32c::crc32c(bytes) != *wanted {
                bad_block = Some(block);
            }
        }
        if let Some(carried) = &self.carried {
            carried.count_received(&self.channel, length);
        }
        match bad_block {
            None => Ok(true),
            Some(block) => Err(NetError::Corrupt { peer: self.peer, block }),
        }
    }

    /// Sends what is still queued, before waiting for an answer to it. Where that fails, what the peer sent before it
    /// went is still worth reading. Where there is nothing to read, reading will fail too, and say so.
    async fn flush_queued(&mut self) {
        if self.channel.has_queued() {
            let _ = self.channel.flush().await;
        }
    }

    /// Reads until `out` is full.
    async fn fill(&mut self, mut out: &mut [u8], operation: &'static str) -> Result<(), NetError> {
        while !out.is_empty() {
            let read = self.channel.read(out).await.map_err(|error| self.failure(error, operation))?;
            if read == 0 {
                return Err(NetError::Closed { peer: self.peer, operation });
            }
            out = &mut out[read..];
        }
        Ok(())
    }

    /// A failed read or write as our own error.
    fn failure(&self, source: io::Error, operation: &'static str) -> NetError {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        // With TLS 1.3 the connecting end has finished before the other has seen its certificate.
        if let Some(why) = identity_error(&source) {
            return NetError::Handshake { peer: self.peer.to_string(), why: why.to_owned() };
        }
        match source.kind() {
            UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => {
                NetError::Closed { peer: self.peer, operation }
            }
            _ => NetError::Broken { peer: self.peer, operation, source },
        }
    }
}

/// A [`NetError::TooLong`].
fn too_long(what: &'static str, bytes: usize, bytes_max: usize) -> NetError {
    NetError::TooLong { what, bytes: bytes as u64, bytes_max }
}

/// What a sender of messages does.
const SENDING: &str = "sending a message";
/// What a receiver of messages does between two of them.
const WAITING: &str = "waiting for a message";
/// What a receiver of frames does.
const RECEIVING: &str = "receiving a frame";
/// Waiting signals taken in a row: at one every few seconds, that is an hour.
const WAITS_MAX: u32 = 1_200;
/// Memory that a message gets ahead of its bytes.
const MESSAGE_STEP_BYTES: usize = 64 * 1024;
/// Frames from this length on are handed to the system at once.
const EAGER_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
