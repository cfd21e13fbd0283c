//! What an idle session costs in memory, at the end that has many of them. A master with 100,000 clients must have room
//! for their sessions beside its names. Counted at the allocator, so that nothing is forgotten and no page rounds it
//! up.

#![allow(clippy::unwrap_used, unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use fastrand::Rng;
use net::{
    clock::Clock,
    memory_network::MemoryNetwork,
    messenger::{Messenger, MessengerEvent, SessionKeys, SessionRole},
};
use protocol::SessionId;
use tokio::task::JoinSet;

/// A quarter of them, which fill the tables as much as all do.
const SESSIONS: u64 = 25_000;
/// Sessions that send at the same time: fewer than the datagrams that fit into the network in memory.
const AT_ONCE: u64 = 1_000;
/// 200 MB for all.
const SESSION_BYTES_MAX: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_idle_sessions_take_less_than_two_hundred_megabytes() {
    let network = MemoryNetwork::new(1);
    let any = SocketAddr::from(([10, 0, 0, 1], 0));
    let (opener, _events) = Messenger::start(network.bind(any).unwrap(), Clock::start());
    let (acceptor, mut events) = Messenger::start(network.bind(any).unwrap(), Clock::start());
    let answering = acceptor.clone();
    tokio::spawn(async move {
        while let Some(MessengerEvent::Delivered(delivered)) = events.recv().await {
            answering.reply(delivered.session, delivered.request.unwrap(), delivered.body);
        }
    });
    let mut rng = Rng::with_seed(1);
    let before = ALLOCATED_BYTES.load(Ordering::Relaxed);
    for first in (0..SESSIONS).step_by(AT_ONCE as usize) {
        let mut asking = JoinSet::new();
        for _ in first..first + AT_ONCE {
            let (session, key) = (SessionId(rng.u64(..)), [7; 32]);
            let peer = Some(acceptor.local_address());
            opener.add_session(SessionKeys { session, key, role: SessionRole::Initiator, peer });
            opener.expect_reset_token(session, [3; 16]);
            acceptor.add_session(SessionKeys { session, key, role: SessionRole::Responder, peer: None });
            let opener = opener.clone();
            asking.spawn(async move { opener.request(session, vec![1; 300], PATIENCE).await.unwrap() });
        }
        assert_eq!(asking.join_all().await.len(), AT_ONCE as usize);
    }
    // Late acknowledgements, so that all are idle. Time stands still until there is nothing else to do.
    tokio::time::sleep(PATIENCE).await;
    // Both ends are in this process.
    let session_bytes = (ALLOCATED_BYTES.load(Ordering::Relaxed) - before) / (2 * SESSIONS as usize);
    println!("an idle session takes {session_bytes} bytes");
    assert!(session_bytes <= SESSION_BYTES_MAX, "{session_bytes} bytes");
    assert!(session_bytes > 300, "{session_bytes} bytes: less than its keys and windows");
}

/// The system's allocator, with a counter.
struct Counting;

static ALLOCATED_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counter touches no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
