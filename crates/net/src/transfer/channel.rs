//! What is under a [`TransferStream`](super::TransferStream): TLS over TCP, QUIC, or plain bytes in memory. Bytes are
//! queued, then flushed, so that small pieces share a system call; the queue is bounded in both.
//!
//! It never interprets the bytes; plain bytes leave the process only behind [`Channel::go_plain`].

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{link_meter::LinkMeter, quic::QuicSocket, tls_socket::TlsSocket};
use crate::identity::PeerCertificate;

/// Both directions of a byte stream in memory, such as `tokio::io::DuplexStream`.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// The transport of one connection.
pub(super) enum Channel {
    /// TCP with TLS 1.3.
    Tls(TlsSocket),
    /// A stream of a QUIC connection.
    Quic(Box<QuicSocket>),
    /// Memory; for tests and the simulation.
    Memory(MemoryPipe),
}

/// A byte stream in memory with what TLS would have provided.
pub(super) struct MemoryPipe {
    stream: Box<dyn ByteStream>,
    queue: Vec<u8>,
    fingerprint: Option<[u8; 32]>,
    secret: [u8; 32],
    is_plain: bool,
}

impl Channel {
    /// Takes bytes to be sent. What fills the queue is sent on the way; the rest goes with [`flush`](Self::flush).
    pub(super) async fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tls(socket) => socket.queue(bytes).await,
            Self::Quic(socket) => socket.queue(bytes).await,
            Self::Memory(pipe) => pipe.queue(bytes).await,
        }
    }

    /// Hands all queued bytes to the system.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(socket) => socket.flush().await,
            Self::Quic(socket) => socket.flush().await,
            Self::Memory(pipe) => pipe.flush().await,
        }
    }

    /// Whether bytes wait for a flush.
    pub(super) fn has_queued(&self) -> bool {
        match self {
            Self::Tls(socket) => socket.has_queued(),
            Self::Quic(socket) => socket.has_queued(),
            Self::Memory(pipe) => !pipe.queue.is_empty(),
        }
    }

    /// Reads at least one byte into `out`, which is not empty; 0 when the peer ended its direction in order.
    pub(super) async fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tls(socket) => socket.read(out).await,
            Self::Quic(socket) => socket.read(out).await,
            Self::Memory(pipe) => pipe.stream.read(out).await,
        }
    }

    /// SHA-256 of the peer's certificate, when it showed one.
    pub(super) fn fingerprint(&self) -> Option<[u8; 32]> {
        match self {
            Self::Tls(socket) => socket.fingerprint(),
            Self::Quic(socket) => socket.fingerprint(),
            Self::Memory(pipe) => pipe.fingerprint,
        }
    }

    /// SHA-256 of the authority's certificate that the peer showed behind its own.
    pub(super) fn authority(&self) -> Option<[u8; 32]> {
        match self {
            Self::Tls(socket) => socket.authority(),
            Self::Quic(socket) => socket.authority(),
            Self::Memory(_) => None,
        }
    }

    /// The peer's certificate, when it showed one.
    pub(super) fn peer_certificate(&self) -> Option<PeerCertificate> {
        match self {
            Self::Tls(socket) => socket.peer_certificate(),
            Self::Quic(socket) => socket.peer_certificate(),
            Self::Memory(pipe) => pipe.fingerprint.map(PeerCertificate::in_memory),
        }
    }

    /// Reads and writes plain bytes from now on, where there was TLS. See [`TransferStream::go_plain`].
    ///
    /// [`TransferStream::go_plain`]: super::TransferStream::go_plain
    pub(super) async fn go_plain(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(socket) => socket.go_plain().await,
            // Only ever asked for within a site, where TCP carries.
            Self::Quic(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "QUIC is always encrypted")),
            // Nothing was sealed.
            Self::Memory(pipe) => {
                pipe.is_plain = true;
                pipe.flush().await
            }
        }
    }

    /// Whether the encryption was ended.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Self::Tls(socket) => socket.is_plain(),
            Self::Quic(_) => false,
            Self::Memory(pipe) => pipe.is_plain,
        }
    }

    /// Whether other conversations use the same connection.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Quic(_))
    }

    /// See [`TransferStream::is_suspect`](super::TransferStream::is_suspect); of TCP nobody knows before the next word.
    pub(super) fn is_suspect(&self) -> bool {
        match self {
            Self::Quic(socket) => socket.is_suspect(),
            Self::Tls(_) | Self::Memory(_) => false,
        }
    }

    /// See [`TransferStream::meter_with`](super::TransferStream::meter_with). Memory loses nothing.
    pub(super) fn meter_with(&mut self, meter: &LinkMeter) {
        match self {
            Self::Tls(socket) => socket.meter_with(meter),
            Self::Quic(socket) => socket.meter_with(meter),
            Self::Memory(_) => {}
        }
    }

    /// The round trip as it is measured.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Quic(socket) => socket.round_trip(),
            Self::Tls(_) | Self::Memory(_) => None,
        }
    }

    /// 32 bytes that both ends derive alike from this connection and nobody else can (RFC 8446, 7.5).
    pub(super) fn export_key(&self, label: &[u8], context: &[u8]) -> Result<[u8; 32], rustls::Error> {
        match self {
            Self::Tls(socket) => socket.export_key(label, context),
            Self::Quic(socket) => socket.export_key(label, context),
            Self::Memory(pipe) => Ok(pipe.export_key(label, context)),
        }
    }

    /// Says that nothing more comes, and lets the peer read what was sent before the connection goes.
    pub(super) async fn close(self) {
        match self {
            Self::Tls(socket) => socket.close().await,
            Self::Quic(socket) => socket.close().await,
            Self::Memory(mut pipe) => {
                // The peer may be gone already; there is nobody left to tell.
                let _ = pipe.flush().await;
                let _ = pipe.stream.shutdown().await;
            }
        }
    }
}

impl MemoryPipe {
    /// A pipe whose two ends were given the same `secret`, from which keys are exported.
    pub(super) fn new(stream: Box<dyn ByteStream>, fingerprint: Option<[u8; 32]>, secret: [u8; 32]) -> Self {
        Self { stream, queue: Vec::new(), fingerprint, secret, is_plain: false }
    }

    async fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.queue.len() + bytes.len() > MEMORY_QUEUE_BYTES_MAX {
            self.flush().await?;
            return self.stream.write_all(bytes).await;
        }
        self.queue.extend_from_slice(bytes);
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.queue).await?;
        self.queue.clear();
        self.stream.flush().await
    }

    fn export_key(&self, label: &[u8], context: &[u8]) -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.secret);
        let mut mac = ring::hmac::Context::with_key(&key);
        // The length keeps (label, context) apart from the same bytes cut elsewhere.
        mac.update(&label.len().to_be_bytes());
        mac.update(label);
        mac.update(context);
        let mut out = [0; 32];
        out.copy_from_slice(mac.sign().as_ref());
        out
    }
}

/// Most bytes that wait in memory for a flush: small pieces are gathered, large ones pass through.
const MEMORY_QUEUE_BYTES_MAX: usize = 64 * 1024;
