//! TLS 1.3 over one TCP connection, with buffers made for bulk. It drives rustls directly: many records are sealed
//! ahead and sent in one gathered write, and the socket is read in large pieces. Where both ends agree
//! (`insecure_data`), the connection goes on with plain bytes once the handshake has shown who they are.
//!
//! It never lets the peer make it hold more than its named buffers, and never goes on after TLS has failed.

use std::{
    io::{self, IoSlice, Read, Write},
    os::fd::AsRawFd,
    time::Duration,
};

use rustls::Connection;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::coop::consume_budget,
    time::timeout,
};

use super::link_meter::{LinkMeter, Metering, TransportHandle};
use crate::identity::{PeerCertificate, fingerprint_of};

/// A TCP connection with its TLS session.
pub(super) struct TlsSocket {
    /// Before the socket: fields are dropped in this order, and its last reading needs the socket.
    metering: Option<Metering>,
    socket: TcpStream,
    session: Box<Connection>,
    /// Sealed bytes from the socket; `inbound[start..end]` has not been given to the session yet.
    inbound: Vec<u8>,
    start: usize,
    end: usize,
    /// Pieces queued since the last flush: each is a record of its own, and rustls counts its queue record by record.
    queued_pieces: usize,
    /// Whether the encryption was ended: the session then only remembers who the ends are.
    is_plain: bool,
    /// Plain bytes that wait for a flush.
    outbound: Vec<u8>,
}

impl TlsSocket {
    /// Does the handshake. The caller sets the deadline.
    pub(super) async fn handshake(socket: TcpStream, mut session: Connection) -> io::Result<Self> {
        session.set_buffer_limit(Some(SEALED_BYTES_MAX));
        let inbound = vec![0; INBOUND_BYTES_QUIET];
        let mut this = Self {
            metering: None,
            socket,
            session: Box::new(session),
            inbound,
            start: 0,
            end: 0,
            queued_pieces: 0,
            is_plain: false,
            outbound: Vec::new(),
        };
        let done = this.complete_handshake().await;
        if done.is_err() {
            // rustls has queued an alert that tells the peer why. It is a courtesy: the peer may be gone.
            let _ = this.flush().await;
            let _ = this.socket.shutdown().await;
        }
        done.map(|()| this)
    }

    /// See [`Channel::queue`](super::channel::Channel::queue).
    pub(super) async fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_plain {
            return self.queue_plain(bytes).await;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            // Sealing a piece at a time leaves the records in the processor's cache for the system's copy.
            let piece = &rest[..rest.len().min(PIECE_BYTES)];
            let taken = self.session.writer().write(piece)?;
            rest = &rest[taken..];
            self.queued_pieces += 1;
            if taken == PIECE_BYTES || taken < piece.len() || self.queued_pieces >= QUEUED_PIECES_MAX {
                self.flush().await?;
                // A peer that reads as fast as we write would otherwise keep this thread from every other task.
                consume_budget().await;
            }
        }
        Ok(())
    }

    /// See [`Channel::flush`](super::channel::Channel::flush).
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.is_plain {
            return self.flush_plain().await;
        }
        while self.session.wants_write() {
            match self.session.write_tls(&mut Gathered(&self.socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.writable().await?,
                Err(error) => return Err(error),
            }
        }
        self.queued_pieces = 0;
        Ok(())
    }

    /// Whether records wait for a flush.
    pub(super) fn has_queued(&self) -> bool {
        if self.is_plain { !self.outbound.is_empty() } else { self.session.wants_write() }
    }

    /// See [`Channel::read`](super::channel::Channel::read).
    pub(super) async fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_plain {
            return self.socket.read(out).await;
        }
        // A caller that asks for much will ask again. One that waits for a message, perhaps for hours, must not hold a
        // large buffer.
        if out.len() > INBOUND_BYTES_QUIET && self.inbound.len() < INBOUND_BYTES {
            self.inbound.resize(INBOUND_BYTES, 0);
        }
        loop {
            match self.session.reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.take_in().await?;
                }
                done => return done,
            }
        }
    }

    /// SHA-256 of the peer's certificate, when it showed one.
    pub(super) fn fingerprint(&self) -> Option<[u8; 32]> {
        self.session.peer_certificates().and_then(<[_]>::first).map(fingerprint_of)
    }

    /// SHA-256 of the last certificate that the peer showed behind its own.
    pub(super) fn authority(&self) -> Option<[u8; 32]> {
        let shown = self.session.peer_certificates().and_then(|shown| shown.get(1..));
        shown.and_then(<[_]>::last).map(fingerprint_of)
    }

    /// The peer's certificate, when it showed one.
    pub(super) fn peer_certificate(&self) -> Option<PeerCertificate> {
        let shown = self.session.peer_certificates().and_then(<[_]>::first)?;
        Some(PeerCertificate::new(shown.clone().into_owned()))
    }

    /// See [`Channel::go_plain`](super::channel::Channel::go_plain).
    pub(super) async fn go_plain(&mut self) -> io::Result<()> {
        self.flush().await?;
        // Bytes that the session has taken in but not given out would be lost, and what it still holds is not plain.
        if self.start < self.end || self.session.reader().into_first_chunk().is_ok_and(|chunk| !chunk.is_empty()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "sealed bytes came after the last sealed word"));
        }
        self.is_plain = true;
        Ok(())
    }

    /// Whether the encryption was ended.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// See [`TransferStream::meter_with`](super::TransferStream::meter_with).
    pub(super) fn meter_with(&mut self, meter: &LinkMeter) {
        if self.metering.is_none() {
            self.metering = Some(meter.add(TransportHandle::Tcp(self.socket.as_raw_fd())));
        }
    }

    async fn queue_plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Small pieces share a system call; large ones are not copied.
        if self.outbound.len() + bytes.len() > PIECE_BYTES {
            self.flush_plain().await?;
            return self.socket.write_all(bytes).await;
        }
        self.outbound.extend_from_slice(bytes);
        Ok(())
    }

    async fn flush_plain(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.outbound).await?;
        self.outbound.clear();
        Ok(())
    }

    /// Whether this session resumes an earlier one.
    #[cfg(test)]
    pub(super) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// See [`Channel::export_key`](super::channel::Channel::export_key).
    pub(super) fn export_key(&self, label: &[u8], context: &[u8]) -> Result<[u8; 32], rustls::Error> {
        self.session.export_keying_material([0; 32], label, Some(context))
    }

    /// See [`Channel::close`](super::channel::Channel::close).
    pub(super) async fn close(mut self) {
        if !self.is_plain {
            self.session.send_close_notify();
        }
        // The system resets a socket that is closed with unread bytes in it, and the reset can overtake the last
        // message. So we end our direction, then read and discard what the peer still sends until it ends its own.
        let farewell = async {
            self.flush().await?;
            self.socket.shutdown().await?;
            while self.socket.read(&mut self.inbound).await? > 0 {}
            io::Result::Ok(())
        };
        // Errors here mean that the peer is gone, which is the goal anyway.
        let _ = timeout(CLOSE_LINGER, farewell).await;
    }

    async fn complete_handshake(&mut self) -> io::Result<()> {
        while self.session.is_handshaking() {
            self.flush().await?;
            if self.session.is_handshaking() && !self.take_in().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.flush().await
    }

    /// Gives the session the next sealed bytes, from the socket when there are none left; false when none will come.
    async fn take_in(&mut self) -> io::Result<bool> {
        if self.start == self.end {
            self.end = self.socket.read(&mut self.inbound).await?;
            self.start = 0;
            if self.end == 0 {
                // The session must know of the end, to tell an orderly one from a cut.
                self.session.read_tls(&mut io::empty())?;
                return Ok(false);
            }
        }
        while self.start < self.end && self.session.wants_read() {
            self.start += self.session.read_tls(&mut &self.inbound[self.start..self.end])?;
            self.session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        Ok(true)
    }
}

/// The socket as rustls writes to it: all waiting records in one system call, without waiting.
struct Gathered<'a>(&'a TcpStream);

impl Write for Gathered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Plain bytes sealed between two writes to the socket: enough to make the system call cheap, few enough for the
/// second-level cache.
const PIECE_BYTES: usize = 256 * 1024;
/// Most sealed bytes that wait for the socket: a piece with its seals, and small pieces queued before it.
const SEALED_BYTES_MAX: usize = 2 * PIECE_BYTES;
/// Most pieces queued before a flush: rustls hands the system at most 64 records in one call.
const QUEUED_PIECES_MAX: usize = 64;
/// Bytes asked of the socket at once while frames arrive.
const INBOUND_BYTES: usize = 256 * 1024;
/// The same while only messages arrive; an idle connection keeps no more.
const INBOUND_BYTES_QUIET: usize = 16 * 1024;
/// How long a closing end waits for the other to close too.
const CLOSE_LINGER: Duration = Duration::from_secs(1);
