//! Raw UDP: the floor. There is one task at each end, and one datagram per message. It never numbers, seals or
//! resends a message.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{net::UdpSocket, time::timeout};

use super::{
    latency::{LatencyRecorder, MeasurementWindow},
    system::{Announce, BoxFuture, LOOPBACK, MeasureError, PAYLOAD_BYTES, Requester, System, io},
};

pub(super) struct Udp;

struct UdpRequester(UdpSocket);

impl System for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()> {
        Box::pin(async move {
            let socket = UdpSocket::bind(LOOPBACK).await.map_err(io("binding a UDP socket"))?;
            announce.say(socket.local_addr().map_err(io("asking for a port"))?)?;
            let mut buffer = [0; PAYLOAD_BYTES];
            loop {
                let (bytes, from) = socket.recv_from(&mut buffer).await.map_err(io("receiving over UDP"))?;
                socket.send_to(&buffer[..bytes], from).await.map_err(io("sending over UDP"))?;
            }
        })
    }

    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>> {
        Box::pin(async move {
            let socket = UdpSocket::bind(LOOPBACK).await.map_err(io("binding a UDP socket"))?;
            socket.connect(peer).await.map_err(io("naming a UDP peer"))?;
            Ok(Arc::new(UdpRequester(socket)) as Arc<dyn Requester>)
        })
    }
}

impl Requester for UdpRequester {
    /// Nothing is reordered on the loopback, so an answer belongs to the oldest request.
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>> {
        Box::pin(async move {
            let (mut watch, mut asked) = (LatencyRecorder::new(course), VecDeque::new());
            let mut buffer = [0; PAYLOAD_BYTES];
            for _ in 0..course.in_flight {
                asked.push_back(Instant::now());
                self.0.send(&[1; PAYLOAD_BYTES]).await.map_err(io("sending over UDP"))?;
            }
            while let Some(begun) = asked.pop_front() {
                let received = timeout(PATIENCE, self.0.recv(&mut buffer)).await.map_err(|_| lost())?;
                received.map_err(io("receiving over UDP"))?;
                if watch.record_answer(begun) {
                    asked.push_back(Instant::now());
                    self.0.send(&[1; PAYLOAD_BYTES]).await.map_err(io("sending over UDP"))?;
                }
            }
            Ok(watch.times())
        })
    }
}

fn lost() -> MeasureError {
    MeasureError::System { system: "udp", reason: "a datagram was lost on the loopback: run it again".into() }
}

/// How long to wait for a datagram, which nobody sends again.
const PATIENCE: Duration = Duration::from_secs(2);
