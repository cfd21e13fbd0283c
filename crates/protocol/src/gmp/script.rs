//! Text scripts for one endpoint with one session: the input, and what the endpoint must then do. The scripts lie in
//! `scripts/`; `play` explains their lines. They never open a socket or read a clock.

#![allow(clippy::unwrap_used)]

use std::{collections::VecDeque, fmt::Write, time::Duration};

use data_encoding::HEXLOWER;

use super::{
    Class, Endpoint, EndpointAction, Fragment, Frame, Frames, KeyLimits, Message, MessageKind, OpenMode, bits::Bits,
    frame,
};
use crate::{Now, SessionId, wire::datagram};

const SESSION: SessionId = SessionId(1);

macro_rules! scripts {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            play(include_str!(concat!("scripts/", stringify!($name), ".txt")));
        })+
    };
}

scripts!(
    a_request_and_its_reply_take_three_datagrams,
    a_lost_datagram_is_sent_again_with_another_number,
    a_repeated_datagram_is_not_delivered_twice,
    a_large_message_is_cut_and_made_whole,
    a_session_that_listens_speaks_once_it_has_heard,
    a_silent_peer_is_given_up,
    nonsense_is_dropped_and_what_came_before_it_holds,
    without_room_a_request_comes_again_and_a_reply_passes,
    a_closed_session_says_what_it_had_to_say,
    what_is_urgent_leaves_before_the_rest_of_a_long_message,
    a_request_given_up_is_not_run_where_it_did_not_arrive,
    a_request_given_up_after_it_arrived_gets_no_reply,
    a_key_is_followed_by_the_next_once_the_peer_has_heard_it,
);

/// Runs a script from top to bottom:
///
/// ```text
/// speaks first              the session; or `listens`
/// @5ms                      it is now 5 ms after the start
/// > request 7 hello         send a message; `*3000` is a body of 3,000 bytes; `>!` an urgent one, `>.` one of bulk
/// cancel 7                  nobody waits for the reply to request 7 any more
/// < 0: fragment 0 1/1 notice hi | ack 3 5     datagram 0 comes, with these frames; `2/3@5`: the message began at 5
/// < 0 1/0: ack 3            the same, of the peer's key phase 1, which has heard our phase 0
/// < 0: 01ff                 the same, as bytes
/// = send 0: ack 1           after each line: all that the endpoint does, in order
/// ~ 305ms                   it wants to be called then; or `never`
/// keys 3                    a key seals three datagrams
/// room 1                    there is room for one more request or notice
/// close                     the session is closed
/// ```
fn play(script: &str) {
    let (mut endpoint, mut now) = (Endpoint::new(), Now::default());
    let mut done = VecDeque::new();
    for (line, number) in script.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(expected) = line.strip_prefix("= ") {
            assert_eq!(done.pop_front().as_deref(), Some(expected), "line {number}");
            continue;
        }
        if let Some(time) = line.strip_prefix("~ ") {
            let expected = (time != "never").then(|| milliseconds(time));
            assert_eq!(endpoint.next_timeout(), expected, "line {number}");
            continue;
        }
        assert_eq!(done, VecDeque::<String>::new(), "before line {number}");
        match line.split_once(' ').unwrap_or((line, "")) {
            ("speaks", "first") => endpoint.add_session(SESSION, OpenMode::Active),
            ("listens", "") => endpoint.add_session(SESSION, OpenMode::Passive),
            ("room", count) => endpoint.set_receive_capacity(count.parse().unwrap()),
            ("close", "") => endpoint.close_session(now, SESSION),
            (">", message) => endpoint.send(now, SESSION, Class::Ordinary, read_message(message)).unwrap(),
            (">!", message) => endpoint.send(now, SESSION, Class::Urgent, read_message(message)).unwrap(),
            (">.", message) => endpoint.send(now, SESSION, Class::Bulk, read_message(message)).unwrap(),
            ("cancel", request) => endpoint.cancel_request(now, SESSION, request.parse().unwrap()),
            ("keys", packets) => {
                let limits = KeyLimits { packets_max: packets.parse().unwrap(), ..KeyLimits::default() };
                endpoint.set_key_limits(limits);
            }
            ("<", datagram) => {
                let (head, frames) = datagram.split_once(": ").unwrap();
                endpoint.handle_datagram(now, &read_head(head), &read_frames(frames));
            }
            (time, "") if time.starts_with('@') => {
                now.monotonic = milliseconds(&time[1..]);
                endpoint.handle_timeout(now);
            }
            _ => panic!("line {number} says nothing known: {line}"),
        }
        done.extend(std::iter::from_fn(|| endpoint.poll_action()).map(|action| written(&action)));
    }
    assert_eq!(done, VecDeque::<String>::new(), "at the end");
}

fn milliseconds(text: &str) -> Duration {
    Duration::from_millis(text.strip_suffix("ms").unwrap().parse().unwrap())
}

/// `PACKET` or `PACKET PHASE/HEARD`.
fn read_head(text: &str) -> datagram::Head {
    let (packet, phases) = text.split_once(' ').unwrap_or((text, "0/0"));
    let (phase, heard_phase) = phases.split_once('/').unwrap();
    let (phase, heard_phase) = (phase.parse().unwrap(), heard_phase.parse().unwrap());
    datagram::Head { session: SESSION, packet: packet.parse().unwrap(), phase, heard_phase }
}

fn read_message(text: &str) -> Message {
    let words: Vec<_> = text.split(' ').collect();
    let (kind, body) = read_kind(&words);
    Message { kind, body }
}

/// `notice BODY`, `request N BODY`, `reply N BODY`.
fn read_kind(words: &[&str]) -> (MessageKind, Vec<u8>) {
    let body = |text: &str| match text.strip_prefix('*') {
        Some(bytes) => vec![b'x'; bytes.parse().unwrap()],
        None => text.as_bytes().to_vec(),
    };
    match *words {
        ["notice", text] => (MessageKind::Notice, body(text)),
        ["request", number, text] => (MessageKind::Request(number.parse().unwrap()), body(text)),
        ["reply", number, text] => (MessageKind::Reply(number.parse().unwrap()), body(text)),
        _ => panic!("no message: {words:?}"),
    }
}

fn read_frames(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in text.split(" | ") {
        let words: Vec<_> = frame.split(' ').collect();
        match *words {
            ["ack", next, ref further @ ..] => {
                let next = next.parse().unwrap();
                let mut map = Bits::new();
                further.iter().for_each(|at| map.set(at.parse::<u64>().unwrap() - next));
                frame::write_acknowledgement(next, &map, &mut bytes);
            }
            ["fragment", sequence, place, ref message @ ..] => {
                let (place, first) = place.split_once('@').unwrap_or((place, ""));
                let (index, count) = place.split_once('/').unwrap();
                let (kind, payload) = read_kind(message);
                let (sequence, index) = (sequence.parse().unwrap(), index.parse::<u16>().unwrap() - 1);
                let count = count.parse().unwrap();
                let first = first.parse().unwrap_or(sequence - u64::from(index));
                Fragment { sequence, first, index, count, kind, payload: &payload }.write(&mut bytes);
            }
            ["cancel", sequence, request] => {
                frame::write_cancel(sequence.parse().unwrap(), request.parse().unwrap(), &mut bytes);
            }
            [hex] => bytes.extend(HEXLOWER.decode(hex.as_bytes()).unwrap()),
            _ => panic!("no frame: {frame}"),
        }
    }
    bytes
}

fn written(action: &EndpointAction) -> String {
    match action {
        EndpointAction::Send(sent) => {
            let whole = [&sent.bytes[..], &[0; datagram::SEAL_BYTES]].concat();
            let (head, _) = datagram::Head::split(&whole).unwrap();
            assert_eq!((head.session, head.packet, head.phase), (SESSION, sent.packet, (sent.phase % 16) as u8));
            let phases = match (head.phase, head.heard_phase) {
                (0, 0) => String::new(),
                (phase, heard) => format!(" {phase}/{heard}"),
            };
            let frames: Vec<_> = Frames::new(&sent.bytes[20..]).map(|frame| written_frame(&frame.unwrap())).collect();
            format!("send {}{phases}: {}", sent.packet, frames.join(" | "))
        }
        EndpointAction::Deliver { message, .. } => format!("deliver {}", written_message(message.kind, &message.body)),
        EndpointAction::SessionLost(_) => "lost".to_owned(),
        EndpointAction::SessionClosed(_) => "closed".to_owned(),
    }
}

fn written_frame(frame: &Frame<'_>) -> String {
    match frame {
        Frame::Acknowledgement { next, map } => {
            let mut text = format!("ack {next}");
            frame::marked(*next, map).for_each(|at| write!(text, " {at}").unwrap());
            text
        }
        Frame::Fragment(Fragment { sequence, first, index, count, kind, payload }) => {
            let from = if first + u64::from(*index) == *sequence { String::new() } else { format!("@{first}") };
            format!("fragment {sequence} {}/{count}{from} {}", index + 1, written_message(*kind, payload))
        }
        Frame::Cancel { sequence, request } => format!("cancel {sequence} {request}"),
    }
}

fn written_message(kind: MessageKind, body: &[u8]) -> String {
    let body = if body.len() > 20 { format!("*{}", body.len()) } else { String::from_utf8_lossy(body).into_owned() };
    match kind {
        MessageKind::Notice => format!("notice {body}"),
        MessageKind::Request(number) => format!("request {number} {body}"),
        MessageKind::Reply(number) => format!("reply {number} {body}"),
    }
}
