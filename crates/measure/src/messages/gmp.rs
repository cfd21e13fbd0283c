//! GMP, sealed: the messenger that every role has, on a UDP socket or over an emulated link (`emulated_socket.rs`).
//! Each requester is a task that waits for its own answer. It never talks to a running cloud.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use net::{
    clock::Clock,
    datagram::{DatagramSocket, bind_udp},
    messenger::{Messenger, MessengerEvent, SessionKeys, SessionRole},
};
use protocol::SessionId;
use tokio::task::JoinSet;

use super::{
    emulated_socket::{EmulatedSocket, LinkConditions},
    latency::{self, LatencyRecorder, MeasurementWindow},
    system::{Announce, BoxFuture, LOOPBACK, MeasureError, PAYLOAD_BYTES, Requester, System},
};

pub(super) struct Gmp {
    name: &'static str,
    link: Option<LinkConditions>,
}

impl Gmp {
    pub(super) fn loopback() -> Self {
        Self { name: "gmp", link: None }
    }

    pub(super) fn emulated(name: &'static str, way: LinkConditions) -> Self {
        Self { name, link: Some(way) }
    }

    async fn bind(&self, seed: u64) -> Result<Arc<dyn DatagramSocket>, MeasureError> {
        let socket = bind_udp(LOOPBACK).await?;
        Ok(match self.link {
            Some(way) => EmulatedSocket::start(socket, way, seed),
            None => socket,
        })
    }
}

struct GmpRequester {
    messenger: Messenger,
    /// The number of the next request. Each number is requested once.
    next: AtomicU64,
    /// Whether the other end records which requests ran.
    is_counted: bool,
}

impl System for Gmp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turns(&self) -> u32 {
        if self.link.is_some() { FAR_TURNS } else { 1 }
    }

    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()> {
        Box::pin(async move {
            let (messenger, mut events) = Messenger::start(self.bind(SEED_ANSWERING).await?, Clock::start());
            messenger.add_session(SessionKeys { session: SESSION, key: KEY, role: SessionRole::Responder, peer: None });
            announce.say(messenger.local_address())?;
            let mut run = SeenRequests::default();
            while let Some(event) = events.recv().await {
                let MessengerEvent::Delivered(delivered) = event else { continue };
                let Some(request) = delivered.request else { continue };
                // Over a lossy link, each request that runs is recorded. Elsewhere the recording would be measured
                // too.
                let answer = match delivered.body.first_chunk().map(|number| u64::from_be_bytes(*number)) {
                    Some(HOW_OFTEN) => run.counts(),
                    Some(number) if self.link.is_some() => run.note(number, delivered.body),
                    _ => delivered.body,
                };
                messenger.reply(SESSION, request, answer);
            }
            Ok(())
        })
    }

    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>> {
        Box::pin(async move {
            // Only answers come to this end.
            let (messenger, _) = Messenger::start(self.bind(SEED_ASKING).await?, Clock::start());
            messenger.add_session(SessionKeys {
                session: SESSION,
                key: KEY,
                role: SessionRole::Initiator,
                peer: Some(peer),
            });
            let line = GmpRequester { messenger, next: AtomicU64::new(0), is_counted: self.link.is_some() };
            Ok(Arc::new(line) as Arc<dyn Requester>)
        })
    }
}

impl Requester for GmpRequester {
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>> {
        Box::pin(async move {
            let mut asking = JoinSet::new();
            for _ in 0..course.in_flight {
                let line = Arc::clone(&self);
                asking.spawn(async move {
                    let mut watch = LatencyRecorder::new(course);
                    loop {
                        let begun = Instant::now();
                        line.once().await?;
                        if !watch.record_answer(begun) {
                            return Ok(watch.times());
                        }
                    }
                });
            }
            latency::collect_times(asking).await
        })
    }

    fn check(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            if !self.is_counted {
                return Ok(());
            }
            let asked = self.next.load(Ordering::Relaxed);
            let counts = self.messenger.request(SESSION, HOW_OFTEN.to_be_bytes().to_vec(), PATIENCE).await?;
            if counts == [asked.to_be_bytes(), 0u64.to_be_bytes()].concat() {
                return Ok(());
            }
            let reason = format!("of {asked} requests not each ran once: {counts:?} (ran, ran again)");
            Err(MeasureError::System { system: "gmp", reason })
        })
    }
}

impl GmpRequester {
    async fn once(&self) -> Result<(), MeasureError> {
        let mut body = vec![1; PAYLOAD_BYTES];
        body[..8].copy_from_slice(&self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Ok(self.messenger.request(SESSION, body, PATIENCE).await.map(drop)?)
    }
}

/// Which requests ran.
#[derive(Default)]
struct SeenRequests {
    numbers: HashSet<u64>,
    duplicates: u64,
}

impl SeenRequests {
    fn note(&mut self, number: u64, body: Vec<u8>) -> Vec<u8> {
        self.duplicates += u64::from(!self.numbers.insert(number));
        body
    }

    /// How many ran, and how many of them more than once.
    fn counts(&self) -> Vec<u8> {
        [(self.numbers.len() as u64).to_be_bytes(), self.duplicates.to_be_bytes()].concat()
    }
}

const SESSION: SessionId = SessionId(7);
const KEY: [u8; 32] = [9; 32];
/// Seeds of the two ends' losses.
const SEED_ASKING: u64 = 1;
const SEED_ANSWERING: u64 = 2;
/// The number by which a request asks how many requests ran.
const HOW_OFTEN: u64 = u64::MAX;
/// Far longer than any loss costs: an answer that comes later counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// With a round trip of 20 ms, few messages fit into a turn.
const FAR_TURNS: u32 = 4;
