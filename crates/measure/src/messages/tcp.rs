//! Raw TCP in two forms. One keeps a connection, on which requests follow each other without waiting. The other makes
//! a connection for each message, which suits a program that wants no connections to look after. It never encrypts.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinSet,
};

use super::{
    latency::{LatencyRecorder, MeasurementWindow},
    system::{Announce, BoxFuture, LOOPBACK, MeasureError, PAYLOAD_BYTES, Requester, System, io},
};

/// One connection kept.
pub(super) struct Tcp;
/// A new connection for each message.
pub(super) struct TcpPerMessage;

struct TcpRequester(Mutex<TcpStream>);
struct TcpPerMessageRequester(SocketAddr);

impl System for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()> {
        Box::pin(echo(announce))
    }

    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>> {
        Box::pin(async move {
            let stream = TcpStream::connect(peer).await.map_err(io("connecting over TCP"))?;
            stream.set_nodelay(true).map_err(io("setting up a TCP connection"))?;
            Ok(Arc::new(TcpRequester(Mutex::new(stream))) as Arc<dyn Requester>)
        })
    }
}

impl System for TcpPerMessage {
    fn name(&self) -> &'static str {
        "tcp-new"
    }

    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()> {
        Box::pin(echo(announce))
    }

    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>> {
        Box::pin(async move { Ok(Arc::new(TcpPerMessageRequester(peer)) as Arc<dyn Requester>) })
    }
}

impl Requester for TcpRequester {
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>> {
        Box::pin(async move {
            let mut stream = self.0.lock().await;
            let mut watch = LatencyRecorder::new(course);
            let mut asked: VecDeque<_> = (0..course.in_flight).map(|_| Instant::now()).collect();
            let requests = vec![1; course.in_flight * PAYLOAD_BYTES];
            stream.write_all(&requests).await.map_err(io("writing to a TCP connection"))?;
            let (mut buffer, mut begun_bytes) = (vec![0; requests.len()], 0);
            while !asked.is_empty() {
                let bytes = stream.read(&mut buffer).await.map_err(io("reading from a TCP connection"))?;
                if bytes == 0 {
                    return Err(MeasureError::System { system: "tcp", reason: "the other end has gone".into() });
                }
                begun_bytes += bytes;
                let mut again = 0;
                for begun in asked.drain(..begun_bytes / PAYLOAD_BYTES) {
                    again += usize::from(watch.record_answer(begun));
                }
                begun_bytes %= PAYLOAD_BYTES;
                asked.extend((0..again).map(|_| Instant::now()));
                stream
                    .write_all(&requests[..again * PAYLOAD_BYTES])
                    .await
                    .map_err(io("writing to a TCP connection"))?;
            }
            Ok(watch.times())
        })
    }
}

impl Requester for TcpPerMessageRequester {
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>> {
        Box::pin(async move {
            let mut asking = JoinSet::new();
            for _ in 0..course.in_flight {
                let peer = self.0;
                asking.spawn(async move {
                    let mut watch = LatencyRecorder::new(course);
                    loop {
                        let begun = Instant::now();
                        once(peer).await.map_err(io("a message over a TCP connection of its own"))?;
                        if !watch.record_answer(begun) {
                            return Ok::<_, MeasureError>(watch.times());
                        }
                    }
                });
            }
            super::latency::collect_times(asking).await
        })
    }
}

async fn once(peer: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(peer).await?;
    stream.set_nodelay(true)?;
    // In TCP's favour: the connection is reset when it closes, so that its port is free again and not occupied for a
    // minute.
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.write_all(&[1; PAYLOAD_BYTES]).await?;
    stream.read_exact(&mut [0; PAYLOAD_BYTES]).await.map(drop)
}

/// Sends back whatever comes.
async fn echo(announce: Announce) -> Result<(), MeasureError> {
    let listener = TcpListener::bind(LOOPBACK).await.map_err(io("binding a TCP port"))?;
    announce.say(listener.local_addr().map_err(io("asking for a port"))?)?;
    loop {
        let (mut stream, _) = listener.accept().await.map_err(io("accepting a TCP connection"))?;
        stream.set_nodelay(true).map_err(io("setting up a TCP connection"))?;
        // If it fails, the other end reports the error.
        tokio::spawn(async move {
            let mut buffer = vec![0; ECHO_BYTES];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..bytes]).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Bytes sent back in one go.
const ECHO_BYTES: usize = 16 * 1024;
