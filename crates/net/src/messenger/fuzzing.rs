//! Datagrams from strangers, for the fuzzer: any bytes sent to a messenger in the middle of a conversation. It is built
//! only with the feature `fuzzing`. It never opens a socket and never serves a peer.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use protocol::{
    SessionId,
    gmp::{Class, Message, MessageKind},
    wire::datagram::StatelessReset,
};
use tokio::sync::mpsc;

use super::{
    MessengerEvent, STATELESS_RESETS_PER_SECOND_MAX, SessionKeys, SessionRole, StatelessResetKey,
    session_table::SessionTable,
};
use crate::clock::Clock;

/// Takes the bytes as datagrams, each behind its length in two bytes, network byte order.
///
/// # Panics
/// When a datagram changes anything but counters, or keeps an authentic message from being heard afterwards. Also when
/// the answer is longer than the datagram, or is anything but a stateless reset.
pub fn strangers(mut bytes: &[u8]) {
    let (sender, mut events) = mpsc::channel(64);
    let mut ours = SessionTable::new(Clock::start(), sender.clone());
    let mut peers = SessionTable::new(Clock::start(), sender);
    ours.set_reset_key(StatelessResetKey::of_private_key("a key"));
    for (session, role, other) in [
        (OPENED, SessionRole::Initiator, SessionRole::Responder),
        (ACCEPTED, SessionRole::Responder, SessionRole::Initiator),
    ] {
        let keys = SessionKeys { session, key: [7; 32], role, peer: Some(PEER) };
        peers.add_session(SessionKeys { role: other, ..keys.clone() });
        ours.add_session(keys);
        ours.set_reset_token(session, [9; 16]);
        say(&mut ours, session);
    }
    // Datagrams under way are taken first, so that only answers are left to depart.
    let mut departures = Vec::new();
    ours.collect_due(&mut departures, 16);
    let before = ours.state();
    let mut answered = 0;
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (datagram, rest) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        bytes = rest;
        ours.receive(&mut datagram.to_vec(), STRANGER);
        assert_eq!(ours.state(), before, "a stranger changed something");
        ours.collect_due(&mut departures, 16);
        for answer in departures.iter().filter(|departure| departure.to == STRANGER) {
            assert!(StatelessReset::read(&answer.datagram).is_some() && answer.datagram.len() < datagram.len());
            answered += 1;
        }
        // Retransmissions that became due meanwhile are the only other thing that may leave.
        if departures.iter().any(|departure| departure.to != STRANGER) {
            return;
        }
    }
    assert!(answered <= 2 * STATELESS_RESETS_PER_SECOND_MAX, "in less than a second");
    assert!(events.try_recv().is_err(), "a stranger was believed");
    for session in [OPENED, ACCEPTED] {
        say(&mut peers, session);
    }
    peers.collect_due(&mut departures, 16);
    for departure in &departures {
        ours.receive(&mut departure.datagram.clone(), PEER);
    }
    let heard = std::iter::from_fn(|| events.try_recv().ok());
    assert_eq!(heard.filter(|event| matches!(event, MessengerEvent::Delivered(_))).count(), 2);
}

fn say(from: &mut SessionTable, session: SessionId) {
    let message = Message { kind: MessageKind::Notice, body: b"word".to_vec() };
    let said = from.send(session, Class::Ordinary, message);
    assert!(said.is_ok(), "there is room");
}

/// The session of [`strangers`] that this messenger opened itself.
pub const OPENED: SessionId = SessionId(1);
/// The one that it accepted.
pub const ACCEPTED: SessionId = SessionId(2);
const PEER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
const STRANGER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2));
