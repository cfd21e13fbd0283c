//! One conversation over QUIC: a bidirectional stream, and the [lanes](super::lanes) that open beside it, on a
//! connection that others share. It gives the [`Channel`](crate::transfer::channel::Channel) the same calls as a TLS
//! socket. When it is dropped it is reset: its peer sees a cut and never an orderly end, and other conversations never
//! notice.

use std::{
    future::pending,
    io::{self, ErrorKind},
    mem,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use noq::{
    Connection, ConnectionError, PathId, ReadError, RecvStream, ResetError, SendStream, StreamId, VarInt,
    WeakConnectionHandle, WriteError,
    rustls::{self, AlertDescription, pki_types::CertificateDer},
};
use tokio::time::{Instant, timeout};

use super::{
    config::RECEIVE_WINDOW_BYTES,
    lanes::{LANES, Lanes, STRIPE_BYTES, lane_header},
    rate_cache::RateRecorder,
};
use crate::{
    identity::{PeerCertificate, fingerprint_of},
    transfer::link_meter::{LinkMeter, Metering, TransportHandle},
};

/// A connection with what its conversations share.
#[derive(Clone)]
pub(super) struct SharedConnection {
    pub(super) connection: Connection,
    lanes: Arc<Lanes>,
    /// Whether the connection has its full window; see [`QuicSocket::widen`].
    is_wide: Arc<AtomicBool>,
    /// Whether somebody waited in vain on it; see [`QuicSocket::drop`].
    is_doubted: Arc<AtomicBool>,
    metering: Arc<OnceLock<Metering>>,
    learning: Option<RateRecorder>,
}

impl SharedConnection {
    /// A connection whose peer may have its full window at once (`is_wide`), or only when its first bytes are wanted.
    pub(super) fn new(connection: Connection, is_wide: bool, learning: Option<RateRecorder>) -> Self {
        let lanes = Lanes::of(&connection);
        let (is_wide, is_doubted) = (Arc::new(AtomicBool::new(is_wide)), Arc::default());
        Self { connection, lanes, is_wide, is_doubted, metering: Arc::default(), learning }
    }

    /// Whether a further conversation may begin on it.
    pub(super) fn is_good(&self) -> bool {
        self.connection.close_reason().is_none() && !self.is_doubted.load(Ordering::Relaxed)
    }

    /// The same, for a user that keeps it only as long as others do.
    pub(super) fn downgrade(&self) -> WeakSharedConnection {
        WeakSharedConnection {
            connection: self.connection.weak_handle(),
            lanes: Arc::downgrade(&self.lanes),
            is_wide: Arc::clone(&self.is_wide),
            is_doubted: Arc::clone(&self.is_doubted),
            metering: Arc::downgrade(&self.metering),
            learning: self.learning.clone(),
        }
    }
}

/// A connection that ends when its last conversation does.
pub(super) struct WeakSharedConnection {
    connection: WeakConnectionHandle,
    lanes: Weak<Lanes>,
    is_wide: Arc<AtomicBool>,
    is_doubted: Arc<AtomicBool>,
    metering: Weak<OnceLock<Metering>>,
    learning: Option<RateRecorder>,
}

impl WeakSharedConnection {
    /// The connection, while there is a conversation on it.
    pub(super) fn upgrade(&self) -> Option<SharedConnection> {
        let (lanes, connection) = (self.lanes.upgrade()?, self.connection.upgrade()?);
        let metering = self.metering.upgrade()?;
        let (is_wide, is_doubted) = (Arc::clone(&self.is_wide), Arc::clone(&self.is_doubted));
        Some(SharedConnection { connection, lanes, is_wide, is_doubted, metering, learning: self.learning.clone() })
    }
}

/// A conversation on a QUIC connection.
pub(in crate::transfer) struct QuicSocket {
    shared: SharedConnection,
    id: StreamId,
    /// Our lanes that are open so far; `sent_bytes` says whose turn it is.
    send: Vec<SendStream>,
    sent_bytes: u64,
    /// The peer's lanes that were needed so far; `received_bytes` says whose turn it is.
    receive: Vec<RecvStream>,
    received_bytes: u64,
    /// Small pieces that wait for a flush.
    outbound: Vec<u8>,
    /// Whether our direction was ended in order.
    is_closed: bool,
    /// Since when we wait for something that only the peer can send.
    waits_since: Option<Instant>,
}

impl QuicSocket {
    /// The conversation that begins with this stream of `shared`.
    pub(super) fn new(shared: SharedConnection, send: SendStream, receive: RecvStream) -> Self {
        let id = send.id();
        shared.lanes.open(id);
        Self {
            shared,
            id,
            send: vec![send],
            sent_bytes: 0,
            receive: vec![receive],
            received_bytes: 0,
            outbound: Vec::new(),
            is_closed: false,
            waits_since: None,
        }
    }

    /// See [`Channel::queue`](crate::transfer::channel::Channel::queue).
    pub(in crate::transfer) async fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.outbound.len() + bytes.len() <= OUTBOUND_BYTES_MAX {
            self.outbound.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush().await?;
        self.write(bytes).await
    }

    /// See [`Channel::flush`](crate::transfer::channel::Channel::flush).
    pub(in crate::transfer) async fn flush(&mut self) -> io::Result<()> {
        if self.outbound.is_empty() {
            return Ok(());
        }
        let mut outbound = mem::take(&mut self.outbound);
        let written = self.write(&outbound).await;
        outbound.clear();
        self.outbound = outbound;
        written
    }

    /// Whether bytes wait for a flush.
    pub(in crate::transfer) fn has_queued(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// See [`Channel::read`](crate::transfer::channel::Channel::read).
    pub(in crate::transfer) async fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.len() > MESSAGE_BYTES {
            self.widen();
        }
        self.waits_since = Some(Instant::now());
        let read = self.read_turn(out).await;
        self.waits_since = None;
        read
    }

    async fn read_turn(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (lane, left) = turn(self.received_bytes);
        if lane == self.receive.len() {
            self.accept_lane(lane).await?;
        }
        let wanted = out.len().min(left);
        let read = self.receive[lane].read(&mut out[..wanted]).await.map_err(read_failure)?.unwrap_or(0);
        self.received_bytes += read as u64;
        Ok(read)
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.open_window();
            let (lane, left) = turn(self.sent_bytes);
            self.open_lane(lane).await?;
            let piece = &rest[..rest.len().min(left)];
            self.waits_since = Some(Instant::now());
            let written = self.send[lane].write(piece).await.map_err(write_failure)?;
            self.waits_since = None;
            self.sent_bytes += written as u64;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Opens a lane of ours when its first turn comes.
    async fn open_lane(&mut self, lane: usize) -> io::Result<()> {
        if lane < self.send.len() {
            return Ok(());
        }
        let mut stream = self.shared.connection.open_uni().await.map_err(connection_failure)?;
        stream.write_all(&lane_header(self.id, lane as u8)).await.map_err(write_failure)?;
        self.send.push(stream);
        Ok(())
    }

    /// Waits for the peer's next lane. A peer that goes away before it opens the lane has reset the first.
    async fn accept_lane(&mut self, lane: usize) -> io::Result<()> {
        let first = &mut self.receive[0];
        let cut = async {
            match first.received_reset().await {
                Ok(Some(_)) => ErrorKind::ConnectionReset.into(),
                Err(ResetError::ConnectionLost(error)) => connection_failure(error),
                // All of the first lane has come: the next is on its way.
                _ => pending().await,
            }
        };
        let stream = tokio::select! {
            stream = self.shared.lanes.take(self.id, lane as u8) => stream,
            error = cut => return Err(error),
        };
        let gone =
            || self.shared.connection.close_reason().map_or(ErrorKind::ConnectionReset.into(), connection_failure);
        self.receive.push(stream.ok_or_else(gone)?);
        Ok(())
    }

    /// Whether no further conversation would be begun on the connection.
    pub(in crate::transfer) fn is_suspect(&self) -> bool {
        !self.shared.is_good()
    }

    /// See [`TransferStream::meter_with`](crate::transfer::TransferStream::meter_with).
    pub(in crate::transfer) fn meter_with(&self, meter: &LinkMeter) {
        let shared = &self.shared;
        shared.metering.get_or_init(|| meter.add(TransportHandle::Quic(shared.connection.clone())));
    }

    /// The round trip as the connection measures it.
    pub(in crate::transfer) fn round_trip(&self) -> Option<Duration> {
        self.shared.connection.rtt(PathId::ZERO)
    }

    /// SHA-256 of the peer's certificate, when it showed one.
    pub(in crate::transfer) fn fingerprint(&self) -> Option<[u8; 32]> {
        self.shown().and_then(|shown| shown.first().map(fingerprint_of))
    }

    /// SHA-256 of the last certificate that the peer showed behind its own.
    pub(in crate::transfer) fn authority(&self) -> Option<[u8; 32]> {
        self.shown()?.get(1..)?.last().map(fingerprint_of)
    }

    /// The peer's certificate, when it showed one.
    pub(in crate::transfer) fn peer_certificate(&self) -> Option<PeerCertificate> {
        self.shown()?.into_iter().next().map(PeerCertificate::new)
    }

    /// See [`Channel::export_key`](crate::transfer::channel::Channel::export_key). All conversations of one connection
    /// export the same.
    pub(in crate::transfer) fn export_key(&self, label: &[u8], context: &[u8]) -> Result<[u8; 32], rustls::Error> {
        let mut key = [0; 32];
        match self.shared.connection.export_keying_material(&mut key, label, context) {
            Ok(()) => Ok(key),
            Err(_) => Err(rustls::Error::General("the connection exports no key".into())),
        }
    }

    /// See [`Channel::close`](crate::transfer::channel::Channel::close).
    pub(in crate::transfer) async fn close(mut self) {
        let farewell = async {
            self.flush().await?;
            // The peer sees the end on the lane whose turn it is.
            self.open_lane(turn(self.sent_bytes).0).await?;
            self.is_closed = true;
            for lane in &mut self.send {
                // The peer may have gone, or want no more; both are an end.
                let _ = lane.finish();
            }
            for lane in &mut self.send {
                let _ = lane.stopped().await;
            }
            io::Result::Ok(())
        };
        // Bytes that have not arrived by then are still sent as long as the connection lives.
        let _ = timeout(CLOSE_LINGER, farewell).await;
    }

    /// Gives the connection the window of a long fat pipe. Were it opened earlier, a stranger could make us hold that
    /// much without a ticket. Bulk is only read once one was shown.
    fn widen(&self) {
        if !self.shared.is_wide.swap(true, Ordering::Relaxed) {
            self.shared.connection.set_receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES));
        }
    }

    /// Sets the send window to what the controller has under way, and as much again to be sent. More would cost memory,
    /// which a node shares between all its slow readers. Also a lost piece waits behind all of it, and the other end
    /// has nothing in order behind that piece.
    fn open_window(&self) {
        let under_way_bytes = self.shared.connection.path_stats(PathId::ZERO).map_or(0, |path| path.cwnd);
        let ahead_bytes = under_way_bytes.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
        self.shared.connection.set_send_window((under_way_bytes + ahead_bytes).min(SEND_WINDOW_BYTES_MAX));
    }

    /// The peer's certificates.
    fn shown(&self) -> Option<Vec<CertificateDer<'static>>> {
        let shown = self.shared.connection.peer_identity()?;
        shown.downcast::<Vec<CertificateDer<'static>>>().ok().map(|shown| *shown)
    }
}

impl Drop for QuicSocket {
    fn drop(&mut self) {
        if !self.is_closed && self.waits_since.is_some_and(|since| since.elapsed() >= DOUBT_AFTER) {
            // Dropped while it waited: perhaps the connection has lost its path, as when this machine gets another
            // address. Then no conversation on it would ever receive anything. The next one begins with a new
            // connection.
            self.shared.is_doubted.store(true, Ordering::Relaxed);
        }
        self.shared.lanes.close(self.id);
        if let Some(learning) = self.shared.learning.as_ref().filter(|_| self.sent_bytes >= LEARN_FROM_BYTES) {
            learning.record(&self.shared.connection);
        }
        if !self.is_closed {
            for lane in &mut self.send {
                // Otherwise the library would end the stream in order, and the peer would take a part for the whole.
                let _ = lane.reset(CUT);
            }
        }
    }
}

/// Whose turn it is after so many bytes, and for how many more.
fn turn(bytes: u64) -> (usize, usize) {
    let lane = bytes / STRIPE_BYTES % u64::from(LANES);
    (lane as usize, (STRIPE_BYTES - bytes % STRIPE_BYTES) as usize)
}

/// A failed read as a socket would report it.
fn read_failure(error: ReadError) -> io::Error {
    match error {
        ReadError::Reset(_) => ErrorKind::ConnectionReset.into(),
        ReadError::ConnectionLost(error) => connection_failure(error),
        other => io::Error::other(other),
    }
}

/// A failed write as a socket would report it.
fn write_failure(error: WriteError) -> io::Error {
    match error {
        WriteError::Stopped(_) => ErrorKind::BrokenPipe.into(),
        WriteError::ConnectionLost(error) => connection_failure(error),
        other => io::Error::other(other),
    }
}

/// Why a connection failed, as a TLS socket would report it: with rustls's own error where TLS was the reason.
pub(super) fn connection_failure(error: ConnectionError) -> io::Error {
    let code = match &error {
        ConnectionError::TransportError(error) => {
            let tls = error.crypto.as_ref().and_then(|source| source.downcast_ref::<rustls::Error>());
            if let Some(tls) = tls {
                return io::Error::new(ErrorKind::InvalidData, tls.clone());
            }
            u64::from(error.code)
        }
        ConnectionError::ConnectionClosed(closed) => u64::from(closed.error_code),
        _ => 0,
    };
    if let Some(alert) = code.checked_sub(ALERTS_FROM).and_then(|alert| u8::try_from(alert).ok()) {
        let source = rustls::Error::AlertReceived(AlertDescription::from(alert));
        return io::Error::new(ErrorKind::InvalidData, source);
    }
    match error {
        ConnectionError::TimedOut => ErrorKind::TimedOut.into(),
        ConnectionError::Reset | ConnectionError::ApplicationClosed(_) => ErrorKind::ConnectionReset.into(),
        ConnectionError::LocallyClosed => ErrorKind::ConnectionAborted.into(),
        other => io::Error::other(other),
    }
}

/// The error code of a stream that was dropped in the middle.
const CUT: VarInt = VarInt::from_u32(1);
/// QUIC's error codes for TLS alerts begin here (RFC 9001, 4.8).
const ALERTS_FROM: u64 = 0x100;
/// Longest read that is for a message: bulk is read a block at a time.
const MESSAGE_BYTES: usize = 16 * 1024;
/// Small pieces are gathered up to here; larger ones pass through, since the library copies them anyway.
const OUTBOUND_BYTES_MAX: usize = 16 * 1024;
/// Least and most bytes that may wait to be sent. On a slow path they are no more than a moment's. The library sends
/// all that a lane holds before it goes on. So they are never so many that a lane gets a stripe before its last one has
/// left.
const AHEAD_BYTES_MIN: u64 = 2 * STRIPE_BYTES;
const AHEAD_BYTES_MAX: u64 = (LANES as u64 - 1) * STRIPE_BYTES;
/// Most bytes of a connection that may wait for acknowledgement: twice 10 Gbit/s over 100 ms.
const SEND_WINDOW_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes from which on a conversation tells something about the path: messages alone do not fill it.
const LEARN_FROM_BYTES: u64 = 1024 * 1024;
/// How long a conversation that is given up must have waited for the whole connection to be doubted. One that ends
/// sooner has another reason.
const DOUBT_AFTER: Duration = Duration::from_secs(5);
/// How long a closing end waits until its last bytes are acknowledged.
const CLOSE_LINGER: Duration = Duration::from_secs(1);
