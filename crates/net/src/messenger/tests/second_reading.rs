//! The bytes on the wire, read twice. One reader is the rules and the seal; the other is a program in another language
//! that was written from `docs/formats.md` alone (`tests/read_datagrams.py`). It shows that the document says every
//! byte.

use std::{fmt::Write, path::Path, process::Command};

use protocol::{
    gmp::{Class, Frame, Frames, KeyLimits},
    wire::datagram::{HEAD_BYTES, Head, StatelessReset},
};
use ring::digest::{SHA256, digest};

use super::*;

const PRIVATE_KEY: &str = "-----BEGIN PRIVATE KEY-----\nof a test\n";

/// The datagrams between two session tables, by side, in order of arrival.
struct Wire {
    ends: [(SessionRole, SessionTable); 2],
    captured: Vec<(SessionRole, Vec<u8>)>,
    /// Datagrams on their way are lost.
    is_cut: bool,
    _events: mpsc::Receiver<MessengerEvent>,
}

impl Wire {
    fn new() -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let clock = Clock::start();
        let ends = [SessionRole::Initiator, SessionRole::Responder].map(|side| {
            let mut switchboard = SessionTable::new(clock, sender.clone());
            switchboard.add_session(keys(side, Some(ADDRESS)));
            switchboard.endpoint().set_key_limits(KeyLimits { packets_max: 1, ..KeyLimits::default() });
            switchboard.set_reset_key(StatelessResetKey::of_private_key(PRIVATE_KEY));
            (side, switchboard)
        });
        Self { ends, captured: Vec::new(), is_cut: false, _events: events }
    }

    fn say(&mut self, end: usize, class: Class, kind: MessageKind, bytes: usize) {
        let body = (0..bytes).map(|at| (at * 7 + end) as u8).collect();
        self.ends[end].1.send(SESSION, class, Message { kind, body }).unwrap();
    }

    /// Lets both ends send all that they have.
    fn run(&mut self) {
        let mut departures = Vec::new();
        loop {
            let before = self.captured.len();
            for from in 0..2 {
                self.ends[from].1.collect_due(&mut departures, 1_000);
                for departure in &departures {
                    self.captured.push((self.ends[from].0, departure.datagram.clone()));
                    if !self.is_cut {
                        self.ends[1 - from].1.receive(&mut departure.datagram.clone(), ADDRESS);
                    }
                }
            }
            if self.captured.len() == before {
                break;
            }
        }
    }
}

/// The capture as this crate reads it.
fn read_here(captured: &[(SessionRole, Vec<u8>)]) -> String {
    // The keys of the other side unseal.
    let mut seals = [seal::Seal::new(&KEY, SessionRole::Responder), seal::Seal::new(&KEY, SessionRole::Initiator)];
    let (mut text, mut phases) = (String::new(), [0u64; 2]);
    for (side, datagram) in captured {
        let at = usize::from(*side == SessionRole::Responder);
        write!(text, "{} ", name(*side)).unwrap();
        if let Some(gone) = StatelessReset::read(datagram) {
            let is_right = gone.token == StatelessResetKey::of_private_key(PRIVATE_KEY).token(gone.session);
            writeln!(text, "gone {:016x}: {}", gone.session.0, if is_right { "right" } else { "wrong" }).unwrap();
            continue;
        }
        let (head, _) = Head::split(datagram).unwrap();
        let mut sealed = datagram[HEAD_BYTES..].to_vec();
        let Some(body) = seals[at].unseal(Duration::ZERO, head, &mut sealed) else {
            writeln!(text, "not authentic").unwrap();
            continue;
        };
        phases[at] += u64::from(u64::from(head.phase) == (phases[at] + 1) % 16);
        let frames: Vec<_> = Frames::new(body).map(|frame| written(&frame.unwrap())).collect();
        let (packet, heard) = (head.packet, head.heard_phase);
        writeln!(text, "{packet} phase {} heard {heard}: {}", phases[at], frames.join(" | ")).unwrap();
    }
    text
}

fn written(frame: &Frame<'_>) -> String {
    match frame {
        Frame::Acknowledgement { next, map } => {
            let marked = (0..8 * map.len()).filter(|at| map[at / 8] >> (at % 8) & 1 == 1);
            let arrived: String = marked.map(|at| format!(" {}", next + at as u64)).collect();
            format!("ack {next}{arrived}")
        }
        Frame::Fragment(fragment) => {
            let (kind, request) = match fragment.kind {
                MessageKind::Notice => ("notice", 0),
                MessageKind::Request(request) => ("request", request),
                MessageKind::Reply(request) => ("reply", request),
            };
            let payload = fragment.payload;
            let digest: String =
                digest(&SHA256, payload).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let (sequence, first, index, count) = (fragment.sequence, fragment.first, fragment.index, fragment.count);
            format!("fragment {sequence} of {first} {index}/{count} {kind} {request} {} {digest}", payload.len())
        }
        Frame::Cancel { sequence, request } => format!("cancel {sequence} {request}"),
    }
}

fn read_there(captured: &[(SessionRole, Vec<u8>)]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut capture = format!("key {}\nprivate {}\n", hex(&KEY), hex(PRIVATE_KEY.as_bytes()));
    for (side, datagram) in captured {
        writeln!(capture, "{} {}", name(*side), hex(datagram)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture");
    std::fs::write(&file, capture).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_datagrams.py");
    let output = Command::new("python3").arg(program).arg(file).output().expect("python3 is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn name(side: SessionRole) -> &'static str {
    if side == SessionRole::Initiator { "opener" } else { "acceptor" }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_knows_only_the_document_reads_every_datagram_alike() {
    let mut wire = Wire::new();
    wire.say(0, Class::Ordinary, MessageKind::Request(1), 20);
    wire.run();
    // A long message each way, with an urgent one in its middle, until keys have gone round the head's sixteen phases.
    for round in 0..20 {
        wire.say(1, Class::Bulk, MessageKind::Reply(1 + round), 8_000);
        wire.say(0, Class::Bulk, MessageKind::Request(100 + round), 500 * round as usize);
        wire.say(0, Class::Urgent, MessageKind::Notice, 0);
        wire.run();
        tokio::time::advance(protocol::gmp::ACKNOWLEDGEMENT_DELAY_MAX).await;
        wire.run();
    }
    // Lost, given up, and sent again as a cancellation; what follows shows the gap.
    wire.is_cut = true;
    let answer = oneshot::channel().0;
    let request = wire.ends[0].1.request(SESSION, Class::Ordinary, vec![1; 3_000], answer).unwrap();
    wire.run();
    assert!(wire.ends[0].1.stop_waiting(SESSION, request));
    wire.is_cut = false;
    wire.run();
    tokio::time::advance(Duration::from_secs(2)).await;
    wire.run();
    // A datagram that was changed on its way, and a stranger's datagram with its answer.
    let (side, mut changed) = wire.captured.last().unwrap().clone();
    changed[30] ^= 1;
    wire.captured.push((side, changed));
    wire.ends[0].1.add_session(SessionKeys { session: SessionId(77), ..keys(SessionRole::Initiator, Some(ADDRESS)) });
    let notice = Message { kind: MessageKind::Notice, body: Vec::new() };
    wire.ends[0].1.send(SessionId(77), Class::Ordinary, notice).unwrap();
    let strangers = wire.captured.len();
    wire.run();
    // It belongs to another session, and so to other phases: only the answer is read.
    wire.captured.remove(strangers);
    let here = read_here(&wire.captured);
    for what in ["phase 17", "ack ", "fragment ", "cancel ", "not authentic", "acceptor gone 000000000000004d: right"] {
        assert!(here.contains(what), "the capture has no {what}:\n{here}");
    }
    assert_eq!(read_there(&wire.captured), here);
}

const ADDRESS: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 9));
