//! Measures messages between two processes of this machine. It prints the requests per second of N tasks that each wait
//! for their answer, and the time of one large answer. `cargo run --release -p sector-net --example messages --
//! [TASKS]`.

// This is a measurement, not a server: any failure ends it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use net::{
    clock::Clock,
    datagram::bind_udp,
    messenger::{Messenger, MessengerEvent, SessionKeys, SessionRole},
};
use protocol::SessionId;

fn main() {
    let argument = std::env::args().nth(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match argument.as_deref() {
        Some("serve") => runtime.block_on(async { tokio::spawn(serve()).await.unwrap() }),
        tasks => {
            let tasks = tasks.map_or(8, |text| text.parse().unwrap());
            runtime.block_on(async { tokio::spawn(ask(tasks)).await.unwrap() });
        }
    }
}

/// Answers each request with as many bytes as its first four say.
async fn serve() {
    let socket = bind_udp(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    println!("{}", socket.local_address());
    let (messenger, mut events) = Messenger::start(socket, Clock::start());
    messenger.add_session(SessionKeys { session: SESSION, key: KEY, role: SessionRole::Responder, peer: None });
    while let Some(event) = events.recv().await {
        if let MessengerEvent::Delivered(delivered) = event {
            let bytes = u32::from_be_bytes(*delivered.body.first_chunk().unwrap());
            messenger.reply(SESSION, delivered.request.unwrap(), vec![7; bytes as usize]);
        }
    }
}

async fn ask(tasks: usize) {
    let program = std::env::current_exe().unwrap();
    let mut server = Command::new(program).arg("serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let peer: SocketAddr = line.trim().parse().unwrap();
    let socket = bind_udp(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let (messenger, _events) = Messenger::start(socket, Clock::start());
    messenger.add_session(SessionKeys { session: SESSION, key: KEY, role: SessionRole::Initiator, peer: Some(peer) });
    for tasks in [1, tasks, 8 * tasks] {
        let count = 40_000;
        let begun = Instant::now();
        let asking: Vec<_> = (0..tasks)
            .map(|_| {
                let messenger = messenger.clone();
                tokio::spawn(async move {
                    for _ in 0..count / tasks {
                        one(&messenger, 300).await;
                    }
                })
            })
            .collect();
        for task in asking {
            task.await.unwrap();
        }
        println!("{tasks:3} tasks: {:8.0} answers/s", count as f64 / begun.elapsed().as_secs_f64());
    }
    let mut times = Vec::new();
    for _ in 0..50 {
        let begun = Instant::now();
        one(&messenger, 300_000).await;
        times.push(begun.elapsed());
    }
    times.sort();
    println!("300 kB: {:.2} ms at the median, {:.2} ms at worst", ms(times[25]), ms(times[49]));
    println!("{:?}", messenger.counters());
    server.kill().unwrap();
    server.wait().unwrap();
}

async fn one(messenger: &Messenger, answer_bytes: u32) {
    let body = [&answer_bytes.to_be_bytes()[..], &[1; 40]].concat();
    let answer = messenger.request(SESSION, body, Duration::from_secs(10)).await.unwrap();
    assert_eq!(answer.len(), answer_bytes as usize);
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

const SESSION: SessionId = SessionId(7);
const KEY: [u8; 32] = [9; 32];
