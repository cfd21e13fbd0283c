//! Datagrams from unknown senders, or from senders no longer known: the stateless reset after a restart, and what it
//! takes to be believed. Nothing unauthentic changes anything.

use proptest::{
    collection::vec,
    prelude::{ProptestConfig, any, prop_assert_eq, proptest},
};
use protocol::wire::datagram::{Head, STATELESS_RESET_BYTES, StatelessReset};

use super::*;

fn gone_key() -> StatelessResetKey {
    StatelessResetKey::of_private_key("a private key")
}

transports!(
    after_a_restart_its_peer_hears_at_once_that_the_session_is_gone,
    who_does_not_have_the_token_cannot_end_a_session,
    only_sealed_datagrams_are_answered_and_no_answer_is_longer_than_they,
);

// Promise 24.
async fn after_a_restart_its_peer_hears_at_once_that_the_session_is_gone(ground: Ground) {
    let (restarted, _events) = ground.messenger().await;
    restarted.enable_stateless_resets(gone_key());
    let (opener, mut events) = ground.messenger().await;
    opener.add_session(keys(SessionRole::Initiator, Some(restarted.local_address())));
    opener.expect_reset_token(SESSION, gone_key().token(SESSION));
    let begun = tokio::time::Instant::now();
    let reply = opener.request(SESSION, b"still there?".to_vec(), PATIENCE).await;
    assert!(matches!(reply, Err(NetError::SessionLost { session: SESSION })), "{reply:?}");
    assert_eq!(events.recv().await, Some(MessengerEvent::SessionLost(SESSION)));
    assert!(begun.elapsed() < protocol::gmp::UNREACHABLE_AFTER, "it did not have to find out by waiting");
    assert!(opener.shared.lock().sessions().is_empty());
}

// Promise 24.
async fn who_does_not_have_the_token_cannot_end_a_session(ground: Ground) {
    let (pair, _answering) = ground.answering_pair().await;
    pair.opener.expect_reset_token(SESSION, gone_key().token(SESSION));
    let thief = ground.bind().await;
    let token = gone_key().token(SESSION);
    let mut forged =
        vec![StatelessReset { session: SESSION, token: StatelessResetKey::of_private_key("another").token(SESSION) }];
    forged.push(StatelessReset { session: SESSION, token: gone_key().token(SessionId(1)) });
    forged.push(StatelessReset { session: SESSION, token: [0; 16] });
    forged.extend((0..16).map(|at| {
        let mut near = token;
        near[at] ^= 1;
        StatelessReset { session: SESSION, token: near }
    }));
    for gone in &forged {
        thief.send_to(&gone.to_bytes(), pair.opener.local_address()).await.unwrap();
        // The acceptor was told no token, so it believes nobody.
        thief.send_to(&gone.to_bytes(), pair.acceptor.local_address()).await.unwrap();
    }
    let count = forged.len() as u64;
    for messenger in [&pair.opener, &pair.acceptor] {
        until(|| counter(messenger, names::METRIC_DATAGRAMS_DROPPED) >= count).await;
    }
    assert_eq!(pair.opener.request(SESSION, b"abc".to_vec(), PATIENCE).await.unwrap(), b"cba");
}

async fn only_sealed_datagrams_are_answered_and_no_answer_is_longer_than_they(ground: Ground) {
    let (messenger, _events) = ground.messenger().await;
    messenger.enable_stateless_resets(gone_key());
    let stranger = ground.bind().await;
    let sealed = |session: u64, bytes: usize| {
        let head = Head { session: SessionId(session), packet: 0, phase: 0, heard_phase: 0 };
        [&head.to_bytes()[..], &vec![0; bytes]].concat()
    };
    let gone = StatelessReset { session: SessionId(3), token: [1; 16] }.to_bytes().to_vec();
    // The last one is answered, which shows that all were processed.
    for datagram in [sealed(1, 15), gone, b"hello".to_vec(), Vec::new(), sealed(2, 1_400), sealed(4, 16)] {
        stranger.send_to(&datagram, messenger.local_address()).await.unwrap();
    }
    let mut buffer = [0; 2_000];
    let (length, _) = heard(&*stranger, &mut buffer).await;
    let answer = StatelessReset::read(&buffer[..length]).unwrap();
    assert_eq!(answer, StatelessReset { session: SessionId(4), token: gone_key().token(SessionId(4)) });
    assert!(STATELESS_RESET_BYTES < sealed(4, 16).len());
}

#[tokio::test(start_paused = true)]
async fn strangers_are_answered_so_often_in_a_second_and_not_more() {
    let ground = Ground::Memory(MemoryNetwork::new(21));
    let (messenger, _events) = ground.messenger().await;
    messenger.enable_stateless_resets(gone_key());
    let stranger = ground.bind().await;
    let limit = STATELESS_RESETS_PER_SECOND_MAX;
    let head = Head { session: SESSION, packet: 0, phase: 0, heard_phase: 0 };
    let datagram = [&head.to_bytes()[..], &[0; 16]].concat();
    for number in 0..4 * limit {
        stranger.send_to(&datagram, messenger.local_address()).await.unwrap();
        // Only a few at a time, so that none is refused for lack of room to wait.
        if number % 16 == 0 {
            until(|| counter(&messenger, names::METRIC_DATAGRAMS_DROPPED) > u64::from(number)).await;
        }
    }
    let (mut answers, mut buffer) = (0, [0; 100]);
    while tokio::time::timeout(Duration::from_millis(5), stranger.receive_from(&mut buffer)).await.is_ok() {
        answers += 1;
    }
    assert_eq!(answers, limit);
}

/// A session table in the middle of a conversation, and the next datagrams that its peer would send it.
fn switchboard(seed: u64) -> (SessionTable, Vec<Vec<u8>>, mpsc::Receiver<MessengerEvent>) {
    let (events, receiver) = mpsc::channel(EVENTS_MAX);
    let clock = Clock::start();
    let mut ours = SessionTable::new(clock, events.clone());
    let mut peers = SessionTable::new(clock, events);
    let address = SocketAddr::from(([10, 0, 0, 1], 1));
    ours.add_session(keys(SessionRole::Responder, Some(address)));
    ours.set_reset_key(gone_key());
    ours.set_reset_token(SESSION, gone_key().token(SESSION));
    peers.add_session(keys(SessionRole::Initiator, Some(address)));
    let mut departures = Vec::new();
    for round in 0..4 {
        for from in [&mut ours, &mut peers] {
            let bytes = (seed as usize * 37 + round * 900) % 4_000;
            let message = Message { kind: MessageKind::Request(round as u64), body: vec![3; bytes] };
            from.send(SESSION, Class::Ordinary, message).unwrap();
        }
        // The last datagrams of the peer stay on their way.
        peers.collect_due(&mut departures, 100);
        let sent: Vec<_> = departures.iter().map(|departure| departure.datagram.clone()).collect();
        if round == 3 {
            return (ours, sent, receiver);
        }
        for mut datagram in sent {
            ours.receive(&mut datagram, address);
        }
        ours.collect_due(&mut departures, 100);
        for departure in &mut departures {
            peers.receive(&mut departure.datagram, address);
        }
    }
    unreachable!("the last round returns");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    // Promise 25.
    #[test]
    fn no_unauthentic_byte_changes_anything_but_counters(
        seed in 0u64..50,
        noise in vec(any::<u8>(), 0..120),
        changes in vec((any::<u16>(), 1u8..=255), 1..4),
    ) {
        let (mut ours, true_ones, mut events) = switchboard(seed);
        while events.try_recv().is_ok() {}
        let thief = SocketAddr::from(([10, 9, 9, 9], 9));
        let before = ours.state();
        let head = Head { session: SESSION, packet: 50, phase: (seed % 16) as u8, heard_phase: 0 }.to_bytes();
        let mut forged = vec![noise.clone(), [&head[..], &noise].concat(), [&head[..4], &noise].concat()];
        forged.push(StatelessReset { session: SESSION, token: [seed as u8; 16] }.to_bytes().to_vec());
        for datagram in &true_ones {
            let mut changed = datagram.clone();
            for (at, by) in &changes {
                let at = usize::from(*at) % changed.len();
                changed[at] ^= by;
            }
            // Two changes of one byte may have cancelled each other.
            if changed != *datagram {
                forged.push(changed);
            }
            forged.push(datagram[..datagram.len() - 1].to_vec());
            forged.push([&datagram[..], &[0]].concat());
        }
        for mut datagram in forged {
            ours.receive(&mut datagram, thief);
            prop_assert_eq!(&ours.state(), &before);
        }
        prop_assert_eq!(events.try_recv().ok(), None);
        // The authentic datagrams are still taken: nothing of them was used up.
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        for mut datagram in true_ones {
            ours.receive(&mut datagram, address);
        }
        prop_assert_eq!(events.try_recv().is_ok(), true);
    }
}
