//! An emulated link: a socket that sends its datagrams later and loses some, drawn from a seed. Each end has one, so
//! that a round trip takes both delays and both losses. It never reorders or changes a datagram.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use net::datagram::{DatagramFuture, DatagramSocket, OutgoingDatagram, ReceiveBatch};
use tokio::{
    sync::Notify,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{gmp::Gmp, system::System};

/// What happens to datagrams on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkConditions {
    /// Time on the way, in one direction.
    delay: Duration,
    /// Share that is lost, from 0.0 to 1.0.
    loss: f64,
}

/// GMP over links that lose nothing, 1 % and 10 %.
pub(super) fn systems() -> Vec<Arc<dyn System>> {
    let ways = [("gmp-20ms", 0.0), ("gmp-20ms-1%", 0.01), ("gmp-20ms-10%", 0.1)];
    ways.map(|(name, loss)| Arc::new(Gmp::emulated(name, LinkConditions { delay: DELAY, loss })) as Arc<dyn System>)
        .to_vec()
}

/// See the module.
pub(super) struct EmulatedSocket {
    shared: Arc<Shared>,
    carrying: AbortHandle,
}

struct Shared {
    socket: Arc<dyn DatagramSocket>,
    link: LinkConditions,
    in_transit: Mutex<InTransit>,
    departed: Notify,
}

struct InTransit {
    rng: Rng,
    /// The datagrams, each with its time of arrival, the earliest first.
    datagrams: VecDeque<(Instant, OutgoingDatagram)>,
}

impl EmulatedSocket {
    /// Puts the link before a socket. Call it within a runtime.
    pub(super) fn start(socket: Arc<dyn DatagramSocket>, way: LinkConditions, seed: u64) -> Arc<dyn DatagramSocket> {
        let under_way = Mutex::new(InTransit { rng: Rng::with_seed(seed), datagrams: VecDeque::new() });
        let shared = Arc::new(Shared { socket, link: way, in_transit: under_way, departed: Notify::new() });
        let carrying = tokio::spawn(carry(Arc::clone(&shared))).abort_handle();
        Arc::new(Self { shared, carrying })
    }
}

impl DatagramSocket for EmulatedSocket {
    fn local_address(&self) -> SocketAddr {
        self.shared.socket.local_address()
    }

    fn send_to<'a>(&'a self, datagram: &'a [u8], to: SocketAddr) -> DatagramFuture<'a, ()> {
        Box::pin(std::future::ready(self.try_send_to(datagram, to)))
    }

    fn receive_from<'a>(&'a self, buffer: &'a mut [u8]) -> DatagramFuture<'a, (usize, SocketAddr)> {
        self.shared.socket.receive_from(buffer)
    }

    fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        let Shared { link: way, in_transit: under_way, departed: left, .. } = &*self.shared;
        let mut under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = under_way.rng.f64() < way.loss;
        if !is_lost && under_way.datagrams.len() < IN_TRANSIT_DATAGRAMS_MAX {
            let departure = OutgoingDatagram { datagram: datagram.to_vec(), to };
            under_way.datagrams.push_back((Instant::now() + way.delay, departure));
            left.notify_one();
        }
        Ok(())
    }

    fn receive_many<'a>(&'a self, arrivals: &'a mut ReceiveBatch) -> DatagramFuture<'a, ()> {
        self.shared.socket.receive_many(arrivals)
    }
}

impl Drop for EmulatedSocket {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

/// Sends datagrams whose delay has passed.
async fn carry(shared: Arc<Shared>) {
    loop {
        let first = {
            let mut under_way = shared.in_transit.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let count = under_way.datagrams.partition_point(|(at, _)| *at <= now);
            for (_, arrived) in under_way.datagrams.drain(..count) {
                // A full socket loses it, as a full link would.
                let _ = shared.socket.try_send_to(&arrived.datagram, arrived.to);
            }
            under_way.datagrams.front().map(|(at, _)| *at)
        };
        match first {
            Some(at) => sleep_until(at).await,
            None => shared.departed.notified().await,
        }
    }
}

/// Half of a round trip of 20 ms.
const DELAY: Duration = Duration::from_millis(10);
/// Datagrams on their way at once; more are lost.
const IN_TRANSIT_DATAGRAMS_MAX: usize = 65_536;
