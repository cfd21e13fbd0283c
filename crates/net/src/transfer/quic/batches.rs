//! How many datagrams a connection may hand to the system in one call, and the socket that keeps to it. All datagrams of
//! a batch have the length of the first. noq-proto 1.4.0 writes an ACK_FREQUENCY frame into the next packet without
//! asking for room. In a batch that began with a short probe of the handshake, it panics (`controllers/first_packets.rs`).
//! The frame is repeated until the peer has acknowledged it once. This file never changes what is sent.

use std::{
    fmt,
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    num::NonZeroUsize,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use noq::{
    AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpSender,
    udp::{RecvMeta, Transmit},
};

/// The rule: a batch only in the middle of bulk. Then the packets that a batch begins with are full, and no probe is
/// among them, since a probe follows a silence.
#[derive(Debug, Default)]
pub struct Batches {
    datagrams: u32,
    last: Option<(Instant, bool)>,
}

impl Batches {
    /// A batch, or one datagram, with `bytes` in all has left at `now`; each but the last is `segment_bytes` long.
    pub fn record(&mut self, now: Instant, bytes: usize, segment_bytes: Option<usize>) {
        let segment_bytes = segment_bytes.unwrap_or(bytes).max(1);
        self.datagrams = self.datagrams.saturating_add(bytes.div_ceil(segment_bytes) as u32);
        self.last = Some((now, segment_bytes >= FULL_BYTES));
    }

    /// Most datagrams of the next batch at `now`, where the system takes `system_max`.
    pub fn limit(&self, now: Instant, system_max: NonZeroUsize) -> NonZeroUsize {
        let is_in_bulk =
            self.last.is_some_and(|(at, was_full)| was_full && now.saturating_duration_since(at) < PROBE_AFTER_MIN);
        if is_in_bulk && self.datagrams >= FIRST_DATAGRAMS { system_max } else { NonZeroUsize::MIN }
    }
}

/// Tokio, with sockets that keep to [`Batches`].
#[derive(Debug)]
pub(super) struct CarefulRuntime;

impl Runtime for CarefulRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        Ok(Box::new(CarefulSocket(TokioRuntime.wrap_udp_socket(socket)?)))
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

#[derive(Debug)]
struct CarefulSocket(Box<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for CarefulSocket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(CarefulSender { sender: self.0.create_sender(), batches: Batches::default() })
    }

    fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(context, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.0.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

/// What one connection sends with.
struct CarefulSender {
    sender: Pin<Box<dyn UdpSender>>,
    batches: Batches,
}

impl fmt::Debug for CarefulSender {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sender.fmt(out)
    }
}

impl UdpSender for CarefulSender {
    fn poll_send(mut self: Pin<&mut Self>, transmit: &Transmit<'_>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.sender.as_mut().poll_send(transmit, context);
        if sent.is_ready() {
            self.batches.record(TokioRuntime.now(), transmit.contents.len(), transmit.segment_size);
        }
        sent
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.batches.limit(TokioRuntime.now(), self.sender.max_transmit_segments())
    }
}

/// Datagrams that leave one by one at first: a handshake, with what is lost of it and sent again, mixes packets of all
/// lengths.
const FIRST_DATAGRAMS: u32 = 64;
/// From here on a datagram is full: no path takes less (RFC 9000, 14).
const FULL_BYTES: usize = 1200;
/// No probe comes sooner after the last packet, while the frame is not acknowledged. Until then the peer may keep an
/// acknowledgement back for 25 ms (RFC 9002, 6.2.1).
const PROBE_AFTER_MIN: Duration = Duration::from_millis(20);
