//! Datagrams: the trait that UDP and the in-memory network share, and UDP itself. One socket serves all sessions of a
//! process (Sector/Sphere paper, 2.4: "a single UDP port is used for messaging"). It knows nothing of what it carries.

use std::{future::Future, io, net::SocketAddr, pin::Pin, sync::Arc};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use crate::NetError;

/// What a datagram socket answers with, later.
pub type DatagramFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A bound socket for datagrams, which may be lost, doubled, or overtaken.
pub trait DatagramSocket: Send + Sync + 'static {
    /// Where it is bound, with the port that was chosen for port 0.
    fn local_address(&self) -> SocketAddr;
    /// Sends one datagram. Success says that it left, not that it arrives.
    fn send_to<'a>(&'a self, datagram: &'a [u8], to: SocketAddr) -> DatagramFuture<'a, ()>;
    /// Waits for a datagram, and says how long it is and where it came from. One longer than `buffer` is cut. To stop
    /// waiting loses nothing.
    fn receive_from<'a>(&'a self, buffer: &'a mut [u8]) -> DatagramFuture<'a, (usize, SocketAddr)>;
    /// Sends one datagram at once, or says [`WouldBlock`](io::ErrorKind::WouldBlock): then [`send_to`](Self::send_to)
    /// waits. Saves a future where there is room, which is nearly always.
    fn try_send_to(&self, _datagram: &[u8], _to: SocketAddr) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    /// Takes a datagram that is there already, or says [`WouldBlock`](io::ErrorKind::WouldBlock).
    fn try_receive_from(&self, _buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Binds a UDP port; port 0 takes a free one. The error says in words when the port is in use.
pub async fn bind_udp(address: SocketAddr) -> Result<Arc<dyn DatagramSocket>, NetError> {
    let error = |source| NetError::Bind { address, source };
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)).map_err(error)?;
    // A wish: the system gives what its own limit allows, and GMP copes with losses.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.set_nonblocking(true).map_err(error)?;
    socket.bind(&address.into()).map_err(error)?;
    let socket = UdpSocket::from_std(socket.into()).map_err(error)?;
    let local = socket.local_addr().map_err(error)?;
    Ok(Arc::new(Udp { socket, local }))
}

struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
}

impl DatagramSocket for Udp {
    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn send_to<'a>(&'a self, datagram: &'a [u8], to: SocketAddr) -> DatagramFuture<'a, ()> {
        Box::pin(async move { self.socket.send_to(datagram, to).await.map(|_| ()) })
    }

    fn receive_from<'a>(&'a self, buffer: &'a mut [u8]) -> DatagramFuture<'a, (usize, SocketAddr)> {
        Box::pin(self.socket.recv_from(buffer))
    }

    fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.try_send_to(datagram, to).map(|_| ())
    }

    fn try_receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.try_recv_from(buffer)
    }
}

/// Socket buffers asked for, in bytes: several sessions' full windows at once, at the kernel's cost of 2,304 bytes for a
/// datagram of ours.
const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_datagram_crosses_and_says_where_it_came_from() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (a, b) = (bind_udp(any).await.unwrap(), bind_udp(any).await.unwrap());
        a.send_to(b"hello", b.local_address()).await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(b.receive_from(&mut buffer).await.unwrap(), (5, a.local_address()));
        assert_eq!(&buffer[..5], b"hello");
    }

    #[tokio::test]
    async fn what_is_there_is_taken_at_once_and_what_is_not_is_not_waited_for() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (a, b) = (bind_udp(any).await.unwrap(), bind_udp(any).await.unwrap());
        let mut buffer = [0; 16];
        assert_eq!(b.try_receive_from(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        for text in [b"one", b"two"] {
            a.send_to(text, b.local_address()).await.unwrap();
        }
        assert_eq!(b.receive_from(&mut buffer).await.unwrap(), (3, a.local_address()));
        assert_eq!(b.try_receive_from(&mut buffer).unwrap(), (3, a.local_address()));
        assert_eq!(&buffer[..3], b"two");
        assert_eq!(b.try_receive_from(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // It has sent before, so it is known that it can.
        a.try_send_to(b"three", b.local_address()).unwrap();
        assert_eq!(b.receive_from(&mut buffer).await.unwrap().0, 5);
    }

    #[tokio::test]
    async fn a_port_in_use_is_said_in_words() {
        let first = bind_udp(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let Err(error) = bind_udp(first.local_address()).await else { panic!("it is in use") };
        assert!(error.to_string().contains("port is in use"), "{error}");
    }
}
