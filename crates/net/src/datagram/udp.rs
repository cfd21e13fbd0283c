//! UDP: one socket, read and written many datagrams at a time. It waits through the runtime for datagrams that come. It
//! writes at once, and waits only in the rare case of a full buffer. It never interprets a datagram.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use protocol::HostAddress;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{Interest, unix::AsyncFd};
use tracing::{debug, info};

use super::{BATCH_BUFFERS, DatagramFuture, DatagramSocket, OutgoingDatagram, ReceiveBatch, batch};
use crate::NetError;

/// Binds a UDP port; port 0 takes a free one. The error says in words that the port is in use.
pub async fn bind_udp(address: SocketAddr) -> Result<Arc<dyn DatagramSocket>, NetError> {
    Ok(Arc::new(Udp::bind(address)?))
}

/// Binds a free port from which the host can be reached. The numbers of a name may be of both families.
pub async fn bind_udp_towards(host: &HostAddress) -> Result<Arc<dyn DatagramSocket>, NetError> {
    let any: IpAddr = match host {
        HostAddress::Ip(address) if address.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    match bind_udp(SocketAddr::new(any, 0)).await {
        // A system without IPv6.
        Err(error) if matches!(host, HostAddress::Name(..)) => {
            debug!(%error, "only IPv4 is used");
            bind_udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)).await
        }
        bound => bound,
    }
}

/// The address of a peer as a socket that is bound to `local` sees it. A socket for both families sees an IPv4 address
/// in its IPv6 form.
pub fn as_seen_from(local: SocketAddr, peer: SocketAddr) -> SocketAddr {
    match (local, peer.ip()) {
        (SocketAddr::V6(_), IpAddr::V4(ip)) => SocketAddr::new(ip.to_ipv6_mapped().into(), peer.port()),
        _ => peer,
    }
}

/// Binds a socket as [`bind_udp`] does, reports how much the system lets it buffer, and closes it.
pub fn granted_buffers() -> Result<SocketBuffers, NetError> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    open(address).map(|(_, buffers)| buffers).map_err(|source| NetError::Bind { address, source })
}

/// The buffers that the system grants a socket, in bytes: [`SOCKET_BUFFER_BYTES`] were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketBuffers {
    /// For datagrams that came and were not read yet; any more are lost.
    pub receive_bytes: usize,
    /// For datagrams that were sent and have not left yet; any more wait.
    pub send_bytes: usize,
}

impl SocketBuffers {
    /// Whether the system gave less than was asked for.
    pub fn is_reduced(self) -> bool {
        self.receive_bytes < SOCKET_BUFFER_BYTES || self.send_bytes < SOCKET_BUFFER_BYTES
    }
}

struct Udp {
    /// Registered for reading only: otherwise each sending would report new room, and wake tasks for nothing.
    socket: AsyncFd<UdpSocket>,
    local: SocketAddr,
    /// Whether the kernel cuts rows for this socket; it does not for every device.
    has_gso: AtomicBool,
}

impl Udp {
    fn bind(address: SocketAddr) -> Result<Self, NetError> {
        let error = |source| NetError::Bind { address, source };
        let (socket, buffers) = open(address).map_err(error)?;
        let (local, asked) = (socket.local_addr().map_err(error)?, SOCKET_BUFFER_BYTES);
        if buffers.is_reduced() {
            info!(%local, asked, ?buffers, "the system keeps less of messages than was asked; see `sector doctor`");
        }
        if !batch::turn_on(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO) {
            debug!("this system brings datagrams one by one");
        }
        let socket = batch::watch(socket, Interest::READABLE).map_err(error)?;
        Ok(Self { socket, local, has_gso: AtomicBool::new(true) })
    }

    fn socket(&self) -> &UdpSocket {
        self.socket.get_ref()
    }
}

impl DatagramSocket for Udp {
    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn send_to<'a>(&'a self, datagram: &'a [u8], to: SocketAddr) -> DatagramFuture<'a, ()> {
        Box::pin(async move {
            loop {
                match self.try_send_to(datagram, to) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    sent => return sent,
                }
                // A second descriptor of the same socket, for as long as it is full. Readiness is only a hint.
                let waiting = batch::watch(self.socket().try_clone()?, Interest::WRITABLE)?;
                drop(waiting.writable().await?);
            }
        })
    }

    fn receive_from<'a>(&'a self, buffer: &'a mut [u8]) -> DatagramFuture<'a, (usize, SocketAddr)> {
        Box::pin(self.socket.async_io(Interest::READABLE, |socket| socket.recv_from(buffer)))
    }

    fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket().send_to(datagram, to).map(|_| ())
    }

    fn try_receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket().recv_from(buffer)
    }

    fn try_send_many(&self, departures: &[OutgoingDatagram]) -> io::Result<usize> {
        if let [only] = departures {
            return self.try_send_to(&only.datagram, only.to).map(|()| 1);
        }
        let in_rows = self.has_gso.load(Ordering::Relaxed);
        match batch::send(self.socket().as_fd(), departures, in_rows) {
            Err(error) if in_rows && batch::gso_segments(departures) > 1 && error.kind() != ErrorKind::WouldBlock => {
                // A link narrower than the datagrams concerns one peer; a device that cannot cut rows concerns every
                // peer.
                if error.raw_os_error() != Some(libc::EMSGSIZE) && !is_path_error(&error) {
                    debug!(%error, "this system sends no rows of datagrams; they go one by one");
                    self.has_gso.store(false, Ordering::Relaxed);
                }
                batch::send(self.socket().as_fd(), departures, false)
            }
            sent => sent,
        }
    }

    fn receive_many<'a>(&'a self, arrivals: &'a mut ReceiveBatch) -> DatagramFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let mut ready = self.socket.readable().await?;
                match ready.try_io(|socket| batch::receive(socket.get_ref().as_fd(), arrivals)) {
                    Ok(Ok(rooms)) => {
                        // The next datagram wakes us again: no extra call is needed to learn that nothing is left.
                        if rooms < BATCH_BUFFERS {
                            ready.clear_ready();
                        }
                        return Ok(());
                    }
                    Ok(Err(error)) => return Err(error),
                    // The datagram is gone: it had a wrong checksum, or another task took it.
                    Err(_) => {}
                }
            }
        })
    }
}

/// A bound, non-blocking socket, with the buffers that the system gave it.
fn open(address: SocketAddr) -> io::Result<(UdpSocket, SocketBuffers)> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // Only a request: the system gives what its own limit allows, and GMP copes with losses.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // Linux doubles the size that it is asked for, for its own bookkeeping, and reports the double.
    let buffers =
        SocketBuffers { receive_bytes: socket.recv_buffer_size()? / 2, send_bytes: socket.send_buffer_size()? / 2 };
    Ok((socket.into(), buffers))
}

/// Whether an error is about the path to a peer, and not about how the datagram was sent.
fn is_path_error(error: &io::Error) -> bool {
    let of_the_way = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ECONNREFUSED, libc::EPERM, libc::EACCES];
    error.raw_os_error().is_some_and(|number| of_the_way.contains(&number))
}

/// Socket buffers asked for, in bytes. They hold several sessions' full windows at once, where the kernel charges 2,304
/// bytes for one of our datagrams.
pub const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    fn pair() -> (Udp, Udp) {
        (Udp::bind(ANY).unwrap(), Udp::bind(ANY).unwrap())
    }

    /// Numbered datagrams of these lengths.
    fn departures(lengths: &[usize], to: SocketAddr) -> Vec<OutgoingDatagram> {
        let datagram = |(number, bytes): (usize, &usize)| vec![number as u8; *bytes];
        lengths.iter().enumerate().map(|at| OutgoingDatagram { datagram: datagram(at), to }).collect()
    }

    /// Takes that many datagrams, in whatever batches they come.
    async fn take(socket: &Udp, count: usize) -> Vec<OutgoingDatagram> {
        let (mut arrivals, mut taken) = (ReceiveBatch::new(), Vec::new());
        while taken.len() < count {
            socket.receive_many(&mut arrivals).await.unwrap();
            for number in 0..arrivals.len() {
                let (datagram, from) = arrivals.datagram(number).unwrap();
                taken.push(OutgoingDatagram { datagram: datagram.to_vec(), to: from });
            }
        }
        taken
    }

    /// What `departures` from `a` look like on arrival: the same, but with `a` as the source.
    fn as_from(a: &Udp, departures: &[OutgoingDatagram]) -> Vec<OutgoingDatagram> {
        departures.iter().map(|departure| OutgoingDatagram { to: a.local, ..departure.clone() }).collect()
    }

    #[tokio::test]
    async fn a_datagram_crosses_and_says_where_it_came_from() {
        let (a, b) = pair();
        a.send_to(b"hello", b.local_address()).await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(b.receive_from(&mut buffer).await.unwrap(), (5, a.local_address()));
        assert_eq!(&buffer[..5], b"hello");
    }

    #[tokio::test]
    async fn what_is_there_is_taken_at_once_and_what_is_not_is_not_waited_for() {
        let (a, b) = pair();
        let mut buffer = [0; 16];
        assert_eq!(b.try_receive_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        for text in [b"one", b"two"] {
            a.try_send_to(text, b.local_address()).unwrap();
        }
        assert_eq!(b.receive_from(&mut buffer).await.unwrap(), (3, a.local_address()));
        assert_eq!(b.try_receive_from(&mut buffer).unwrap(), (3, a.local_address()));
        assert_eq!(&buffer[..3], b"two");
        assert_eq!(b.try_receive_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn many_of_all_lengths_arrive_whole_and_in_order() {
        let (a, b) = pair();
        let sent = departures(&[700, 700, 700, 20, 1_400, 1_400, 0, 1, 9_000, 700], b.local);
        assert_eq!(a.try_send_many(&sent).unwrap(), sent.len());
        assert_eq!(take(&b, sent.len()).await, as_from(&a, &sent));
        assert!(a.has_gso.load(Ordering::Relaxed), "this system knows rows");
    }

    #[tokio::test]
    async fn more_than_one_call_takes_are_all_there_at_the_next() {
        let (a, b) = pair();
        // Each is longer than the one before, so no two of them make a row.
        let sent = departures(&(100..100 + 3 * BATCH_BUFFERS).collect::<Vec<_>>(), b.local);
        assert_eq!(a.try_send_many(&sent).unwrap(), sent.len());
        assert_eq!(take(&b, sent.len()).await, as_from(&a, &sent));
        // Nothing is left, so the next datagram wakes us again.
        let one = departures(&[5], b.local);
        assert_eq!(a.try_send_many(&one).unwrap(), 1);
        assert_eq!(take(&b, 1).await, as_from(&a, &one));
    }

    #[tokio::test]
    async fn several_peers_get_their_own_of_one_call() {
        let ((a, b), c) = (pair(), Udp::bind(ANY).unwrap());
        let (to_b, to_c) = (departures(&[50; 6], b.local), departures(&[50; 6], c.local));
        let mixed: Vec<_> = to_b.iter().zip(&to_c).flat_map(|(b, c)| [b.clone(), c.clone()]).collect();
        assert_eq!(a.try_send_many(&mixed).unwrap(), 12);
        assert_eq!(take(&b, 6).await, as_from(&a, &to_b));
        assert_eq!(take(&c, 6).await, as_from(&a, &to_c));
    }

    #[tokio::test]
    async fn a_system_without_rows_sends_one_by_one() {
        let (a, b) = pair();
        // Without checksums the kernel refuses to cut rows, as it does over a device that cannot.
        assert!(batch::turn_on(a.socket().as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK));
        let sent = departures(&[700; 8], b.local);
        assert_eq!(a.try_send_many(&sent).unwrap(), 8);
        assert!(!a.has_gso.load(Ordering::Relaxed));
        assert_eq!(a.try_send_many(&sent).unwrap(), 8);
        assert_eq!(take(&b, 16).await, as_from(&a, &[&sent[..], &sent].concat()));
    }

    #[tokio::test]
    async fn one_that_is_too_long_is_said_and_holds_up_no_other() {
        let (a, b) = pair();
        let sent = departures(&[10, 70_000, 20], b.local);
        assert_eq!(a.try_send_many(&sent).unwrap(), 1);
        assert_eq!(a.try_send_many(&sent[1..]).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(a.try_send_many(&sent[2..]).unwrap(), 1);
        assert_eq!(take(&b, 2).await, as_from(&a, &[sent[0].clone(), sent[2].clone()]));
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_breaks_nothing() {
        let (a, b) = pair();
        let gone = Udp::bind(ANY).unwrap().local;
        for _ in 0..3 {
            // On some systems the answer that nobody listens there comes back as an error of the socket.
            let _ = a.try_send_many(&departures(&[30; 4], gone));
        }
        let sent = departures(&[30; 4], b.local);
        let mut left = &sent[..];
        while !left.is_empty() {
            left = &left[a.try_send_many(left).unwrap_or_default()..];
        }
        assert_eq!(take(&b, 4).await, as_from(&a, &sent));
        b.send_to(b"back", a.local).await.unwrap();
        assert_eq!(take(&a, 1).await[0].datagram, b"back");
    }

    #[tokio::test]
    async fn a_port_in_use_is_said_in_words() {
        let first = bind_udp(ANY).await.unwrap();
        let Err(error) = bind_udp(first.local_address()).await else { panic!("it is in use") };
        assert!(error.to_string().contains("port is in use"), "{error}");
    }

    #[test]
    fn the_system_gives_no_more_room_than_was_asked_for_and_says_how_much() {
        let buffers = granted_buffers().unwrap();
        assert!((1..=SOCKET_BUFFER_BYTES).contains(&buffers.receive_bytes), "{buffers:?}");
        assert!((1..=SOCKET_BUFFER_BYTES).contains(&buffers.send_bytes), "{buffers:?}");
        let whole = SocketBuffers { receive_bytes: SOCKET_BUFFER_BYTES, send_bytes: SOCKET_BUFFER_BYTES };
        assert!(!whole.is_reduced() && SocketBuffers { send_bytes: 1, ..whole }.is_reduced());
    }
}
