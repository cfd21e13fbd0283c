//! Datagrams: the trait that UDP and the in-memory network share, and batches of datagrams that travel through it. One
//! socket serves all sessions of a process (Sector/Sphere paper, 2.4: "a single UDP port is used for messaging"). It
//! never interprets what a datagram carries.

mod batch;
mod udp;

use std::{future::Future, io, net::SocketAddr, pin::Pin};

pub use udp::{SOCKET_BUFFER_BYTES, SocketBuffers, as_seen_from, bind_udp, bind_udp_towards, granted_buffers};

/// The answer of a datagram socket, as a future.
pub type DatagramFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A bound socket for datagrams, which may be lost, duplicated or reordered.
pub trait DatagramSocket: Send + Sync + 'static {
    /// The address where it is bound, with the port that was chosen for port 0.
    fn local_address(&self) -> SocketAddr;
    /// Sends one datagram. Success means that it left, not that it arrives.
    fn send_to<'a>(&'a self, datagram: &'a [u8], to: SocketAddr) -> DatagramFuture<'a, ()>;
    /// Waits for a datagram, and returns its length and its source. A datagram longer than `buffer` is cut. Cancelling
    /// the wait loses nothing.
    fn receive_from<'a>(&'a self, buffer: &'a mut [u8]) -> DatagramFuture<'a, (usize, SocketAddr)>;
    /// Sends one datagram at once, or returns [`WouldBlock`](io::ErrorKind::WouldBlock): then
    /// [`send_to`](Self::send_to) waits. Saves a future where there is room, which is nearly always.
    fn try_send_to(&self, _datagram: &[u8], _to: SocketAddr) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    /// Takes a datagram that is already there, or returns [`WouldBlock`](io::ErrorKind::WouldBlock).
    fn try_receive_from(&self, _buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    /// Sends as many datagrams as there is room for now, from the first on. Returns how many left, at least one. An
    /// error is that of the first datagram: [`WouldBlock`](io::ErrorKind::WouldBlock) where [`send_to`](Self::send_to)
    /// would wait. The error of a later datagram is returned once it is the first.
    fn try_send_many(&self, departures: &[OutgoingDatagram]) -> io::Result<usize> {
        for (sent, departure) in departures.iter().enumerate() {
            match self.try_send_to(&departure.datagram, departure.to) {
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(sent),
                Ok(()) => {}
            }
        }
        Ok(departures.len())
    }
    /// Waits for datagrams, and takes along those that are already there. The previous content of `arrivals` is
    /// forgotten. Cancelling the wait loses nothing.
    fn receive_many<'a>(&'a self, arrivals: &'a mut ReceiveBatch) -> DatagramFuture<'a, ()> {
        Box::pin(async move {
            arrivals.clear();
            let (bytes, from) = self.receive_from(arrivals.buffer(0)).await?;
            arrivals.note_received(0, bytes, from, bytes);
            for room in 1..BATCH_BUFFERS {
                let Ok((bytes, from)) = self.try_receive_from(arrivals.buffer(room)) else { break };
                arrivals.note_received(room, bytes, from, bytes);
            }
            Ok(())
        })
    }
}

/// A datagram on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingDatagram {
    /// Its bytes.
    pub datagram: Vec<u8>,
    /// Where to.
    pub to: SocketAddr,
}

/// Datagrams that came together, and buffers for them, used again and again.
pub struct ReceiveBatch {
    /// [`BATCH_BUFFERS`] of [`BUFFER_BYTES`], one behind the other. The system gives memory only to those that are
    /// used.
    buffers: Vec<u8>,
    received: Vec<ReceivedDatagram>,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self { buffers: vec![0; BATCH_BUFFERS * BUFFER_BYTES], received: Vec::with_capacity(BATCH_BUFFERS) }
    }
}

impl ReceiveBatch {
    /// Empty buffers for datagrams.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many came.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether none came.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// The datagram of that number, from 0 in order of arrival, and its source. `None` past the last.
    pub fn datagram(&mut self, number: usize) -> Option<(&mut [u8], SocketAddr)> {
        let ReceivedDatagram { at, bytes, from } = *self.received.get(number)?;
        Some((self.buffers.get_mut(at..at + bytes)?, from))
    }

    fn clear(&mut self) {
        self.received.clear();
    }

    fn buffer(&mut self, room: usize) -> &mut [u8] {
        &mut self.buffers[room * BUFFER_BYTES..][..BUFFER_BYTES]
    }

    /// Notes the content of a buffer: one datagram, or several of one length (the last may be shorter).
    fn note_received(&mut self, room: usize, bytes: usize, from: SocketAddr, each_bytes: usize) {
        let begin = room * BUFFER_BYTES;
        if bytes <= each_bytes || each_bytes == 0 {
            self.received.push(ReceivedDatagram { at: begin, bytes, from });
            return;
        }
        let starts = (0..bytes).step_by(each_bytes);
        self.received.extend(starts.map(|at| ReceivedDatagram {
            at: begin + at,
            bytes: each_bytes.min(bytes - at),
            from,
        }));
    }
}

#[derive(Clone, Copy, Debug)]
struct ReceivedDatagram {
    at: usize,
    bytes: usize,
    from: SocketAddr,
}

/// What one system call may bring: datagrams, or rows of them.
const BATCH_BUFFERS: usize = 16;
/// The longest UDP datagram has 65,507 bytes, and so has the longest row that a system delivers as one.
const BUFFER_BYTES: usize = 65_536;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::memory_network::MemoryNetwork;

    fn from(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn a_row_is_taken_apart_into_the_datagrams_it_was_made_of() {
        let mut arrivals = ReceiveBatch::new();
        arrivals.buffer(1)[..8].copy_from_slice(b"aaabbbcc");
        arrivals.note_received(0, 0, from(1), 0);
        arrivals.note_received(1, 8, from(2), 3);
        arrivals.note_received(2, 5, from(3), 9);
        let mut seen = |number| arrivals.datagram(number).map(|(datagram, from)| (datagram.len(), from));
        let all: Vec<_> = (0..5).map_while(&mut seen).collect();
        assert_eq!(all, [(0, from(1)), (3, from(2)), (3, from(2)), (2, from(2)), (5, from(3))]);
        assert_eq!(arrivals.datagram(3).unwrap().0, b"cc");
        assert_eq!((arrivals.len(), arrivals.datagram(5)), (5, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_knows_one_at_a_time_gives_and_takes_many_all_the_same() {
        let network = MemoryNetwork::new(1);
        let (a, b) = (network.bind(from(1)).unwrap(), network.bind(from(2)).unwrap());
        let two = [b"one", b"two"].map(|text| OutgoingDatagram { datagram: text.to_vec(), to: b.local_address() });
        assert_eq!(a.try_send_many(&two).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        for departure in &two {
            a.send_to(&departure.datagram, departure.to).await.unwrap();
        }
        let mut arrivals = ReceiveBatch::new();
        for text in [b"one", b"two"] {
            b.receive_many(&mut arrivals).await.unwrap();
            assert_eq!((arrivals.len(), arrivals.datagram(0).unwrap().0), (1, &mut text.to_vec()[..]));
        }
    }
}
