//! How many threads messages take. Alone in its program, whose threads it counts.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{net::SocketAddr, time::Duration};

use net::{
    clock::Clock,
    datagram::bind_udp,
    messenger::{Messenger, MessengerEvent, SessionKeys, SessionRole},
};
use protocol::SessionId;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_peers_take_no_more_threads_than_one() {
    let (hub, mut events) = messenger().await;
    let answering = hub.clone();
    tokio::spawn(async move {
        while let Some(MessengerEvent::Delivered(delivered)) = events.recv().await {
            answering.reply(delivered.session, delivered.request.unwrap(), delivered.body);
        }
    });
    let mut peers = Vec::new();
    let mut threads_of_one = 0;
    for number in 0..500 {
        let (peer, events) = messenger().await;
        let keys = SessionKeys { session: SessionId(number), key: [7; 32], role: SessionRole::Initiator, peer: None };
        hub.add_session(SessionKeys { role: SessionRole::Responder, ..keys.clone() });
        peer.add_session(SessionKeys { peer: Some(hub.local_address()), ..keys });
        let reply = peer.request(SessionId(number), vec![1; 100], Duration::from_secs(60)).await;
        assert_eq!(reply.unwrap(), vec![1; 100]);
        peers.push((peer, events));
        if number == 0 {
            threads_of_one = threads();
        }
    }
    assert_eq!(threads(), threads_of_one);
}

async fn messenger() -> (Messenger, tokio::sync::mpsc::Receiver<MessengerEvent>) {
    Messenger::start(bind_udp(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap(), Clock::start())
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}
