//! The promises of the GMP rules, through the messenger that drives them. They cover key changes in the middle of
//! traffic, cancelled requests, urgent messages, and one request to many.

use protocol::gmp::{Class, KeyLimits};

use super::*;

/// Limits both ends' keys to so many datagrams.
fn roll_keys(pair: &Pair, packets_max: u64) {
    for messenger in [&pair.opener, &pair.acceptor] {
        let limits = KeyLimits { packets_max, ..KeyLimits::default() };
        messenger.shared.lock().sessions().endpoint().set_key_limits(limits);
    }
}

transports!(
    keys_roll_in_the_midst_of_traffic_and_nobody_notices,
    a_request_that_is_dropped_is_not_answered,
    one_request_to_many_has_one_result_each,
);

// Promise 25.
async fn keys_roll_in_the_midst_of_traffic_and_nobody_notices(ground: Ground) {
    let (pair, _answering) = ground.answering_pair().await;
    roll_keys(&pair, 3);
    for number in 0..100u8 {
        let body = vec![number; 40 * usize::from(number)];
        assert_eq!(pair.opener.request(SESSION, body.clone(), PATIENCE).await.unwrap(), body);
    }
    let phases =
        [&pair.opener, &pair.acceptor].map(|messenger| messenger.shared.lock().sessions().sealing_phase(SESSION));
    assert!(phases.iter().all(|phase| *phase > 16), "the head's phases went round: {phases:?}");
    assert_eq!(counter(&pair.acceptor, names::METRIC_DATAGRAMS_DROPPED), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_roll_through_bad_weather_and_when_they_are_an_hour_old() {
    let network = MemoryNetwork::new(11);
    let (pair, _answering) = Ground::Memory(network.clone()).answering_pair().await;
    roll_keys(&pair, 5);
    let delay = Duration::from_millis(20);
    network.set_conditions(LinkConditions {
        loss: 0.1,
        duplication: 0.05,
        reorder: 0.2,
        delay,
        ..LinkConditions::IDEAL
    });
    for number in 0..200u8 {
        let body = vec![number; 30 * usize::from(number)];
        assert_eq!(pair.opener.request(SESSION, body.clone(), PATIENCE).await.unwrap(), body);
    }
    network.set_conditions(LinkConditions::IDEAL);
    roll_keys(&pair, u64::MAX);
    pair.opener.request(SESSION, b"settle".to_vec(), PATIENCE).await.unwrap();
    let before = pair.opener.shared.lock().sessions().sealing_phase(SESSION);
    for _ in 0..3 {
        tokio::time::sleep(protocol::gmp::KEY_AGE_MAX).await;
        pair.opener.request(SESSION, b"awake?".to_vec(), PATIENCE).await.unwrap();
    }
    assert_eq!(pair.opener.shared.lock().sessions().sealing_phase(SESSION), before + 3, "one for each hour");
}

// Promise 24.
async fn a_request_that_is_dropped_is_not_answered(ground: Ground) {
    let mut pair = ground.pair().await;
    let dropped = {
        let asking = pair.opener.request(SESSION, b"slow".to_vec(), PATIENCE);
        tokio::select! {
            _ = asking => panic!("nobody answered"),
            delivered = next(&mut pair.acceptor_events) => delivered.request.unwrap(),
        }
    };
    // The next message comes after the cancellation, which was sent before it and is more urgent.
    let asking = pair.opener.request(SESSION, b"soon".to_vec(), PATIENCE);
    let answering = async {
        let soon = next(&mut pair.acceptor_events).await.request.unwrap();
        until(|| pair.acceptor.shared.lock().sessions().endpoint().is_cancelled(SESSION, dropped)).await;
        pair.acceptor.reply(SESSION, dropped, vec![0; 100_000]);
        assert!(pair.acceptor.shared.lock().sessions().endpoint().is_idle(SESSION), "the answer was not taken");
        pair.acceptor.reply(SESSION, soon, b"yes".to_vec());
    };
    let (reply, ()) = tokio::join!(asking, answering);
    assert_eq!(reply.unwrap(), b"yes");
}

// Promise 24.
#[tokio::test(start_paused = true)]
async fn a_request_given_up_while_it_could_not_arrive_never_runs() {
    let network = MemoryNetwork::new(12);
    let mut pair = Ground::Memory(network.clone()).pair().await;
    let (a, b) = (pair.opener.local_address(), pair.acceptor.local_address());
    pair.opener.notify(SESSION, b"here".to_vec()).unwrap();
    next(&mut pair.acceptor_events).await;
    network.cut(a, b);
    let given_up = pair.opener.request(SESSION, b"never".to_vec(), Duration::from_secs(3)).await;
    assert!(matches!(given_up, Err(NetError::Deadline { .. })), "{given_up:?}");
    network.heal(a, b);
    pair.opener.notify(SESSION, b"later".to_vec()).unwrap();
    assert_eq!(next(&mut pair.acceptor_events).await.body, b"later");
    until(|| pair.opener.shared.lock().sessions().endpoint().is_idle(SESSION)).await;
    assert!(pair.acceptor_events.try_recv().is_err(), "what was given up came after all");
}

// Promise 24.
#[tokio::test(start_paused = true)]
async fn an_urgent_request_passes_a_queue_of_long_messages() {
    let network = MemoryNetwork::new(13);
    let delay = Duration::from_millis(50);
    network.set_conditions(LinkConditions { delay, ..LinkConditions::IDEAL });
    let (pair, _answering) = Ground::Memory(network).answering_pair().await;
    pair.opener.request(SESSION, b"hello".to_vec(), PATIENCE).await.unwrap();
    let mut long = JoinSet::new();
    for _ in 0..8 {
        let opener = pair.opener.clone();
        let page = vec![1; limits::MESSAGE_BYTES_MAX];
        long.spawn(async move { opener.request_as(Class::Bulk, SESSION, page, PATIENCE).await.unwrap() });
    }
    tokio::time::sleep(Duration::from_millis(220)).await;
    let asked = tokio::time::Instant::now();
    pair.opener.request_as(Class::Urgent, SESSION, b"alive".to_vec(), PATIENCE).await.unwrap();
    // Simulated time: the network takes no longer, however busy the machine is.
    assert!(asked.elapsed() <= 2 * delay + Duration::from_millis(20), "{:?}", asked.elapsed());
    assert!(long.try_join_next().is_none(), "the long ones are still under way");
    assert_eq!(long.join_all().await.len(), 8);
}

async fn one_request_to_many_has_one_result_each(ground: Ground) {
    let (caller, _events) = ground.messenger().await;
    let mut sessions = Vec::new();
    let mut members = JoinSet::new();
    for number in 0..20u64 {
        let session = SessionId(number);
        let (member, mut events) = ground.messenger().await;
        caller.add_session(SessionKeys {
            session,
            key: KEY,
            role: SessionRole::Initiator,
            peer: Some(member.local_address()),
        });
        member.add_session(SessionKeys { session, key: KEY, role: SessionRole::Responder, peer: None });
        sessions.push(session);
        members.spawn(async move {
            while let Some(MessengerEvent::Delivered(delivered)) = events.recv().await {
                // The seventh never answers.
                if number != 7 {
                    let body = [&delivered.body[..], &number.to_be_bytes()].concat();
                    member.reply(session, delivered.request.unwrap(), body);
                }
            }
        });
    }
    // One session is named twice, and one does not exist.
    let named = [&sessions[..], &[SessionId(3), SessionId(99)]].concat();
    let deadline = Duration::from_secs(2);
    let mut results = Vec::new();
    for (session, asked) in caller.request_each(Class::Urgent, &named, b"all ".to_vec()) {
        let result = match asked {
            Ok(answer) => answer.within(deadline).await,
            Err(error) => Err(error),
        };
        results.push((session, result));
    }
    let of: Vec<_> = results.iter().map(|(session, _)| session.0).collect();
    assert_eq!(of, [(0..20).collect::<Vec<_>>(), vec![99]].concat());
    for (session, result) in results {
        match (session.0, result) {
            (7, result) => assert!(matches!(result, Err(NetError::Deadline { .. })), "{result:?}"),
            (99, result) => assert!(matches!(result, Err(NetError::SessionLost { .. })), "{result:?}"),
            (number, result) => assert_eq!(result.unwrap(), [&b"all "[..], &number.to_be_bytes()].concat()),
        }
    }
    assert_eq!(caller.shared.lock().sessions().waiting_count(), 0);
}
