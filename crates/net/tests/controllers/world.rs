//! Simulated time and a bottleneck: connections through one link that they share, back over links of their own. The
//! same seed is the same run, but for BBR3, whose lots cannot be seeded from outside.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use net::transfer::{
    base_transport_config,
    udt::{PathEstimate, Udt, UdtFactory},
};
use noq_proto::{
    TransportConfig, VarInt,
    congestion::{Bbr3Config, ControllerFactory, CubicConfig},
};
use testbed::link::{Fate, LinkCounts, LinkEmulator, LinkRules};

use crate::{
    host::{Host, TIMER, Trust},
    machine::Machine,
};

/// Who decides how fast a flow sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Udt(Option<PathEstimate>),
    Bbr3,
    Cubic,
    /// Someone else's CUBIC, as the kernel's TCP: each second packet is acknowledged, and the third overtaking is a
    /// loss.
    Theirs,
}

/// A flow: one connection with bytes to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// When it begins.
    pub(crate) begins_at: Duration,
    /// Its way beside the bottleneck's, there and back.
    pub(crate) further: Duration,
}

impl Flow {
    /// A flow that begins at once and has no further way.
    pub(crate) fn of(kind: Kind, bytes: u64) -> Self {
        Self { kind, bytes, begins_at: Duration::ZERO, further: Duration::ZERO }
    }
}

/// The simulation.
pub(crate) struct World {
    epoch: Instant,
    now: Duration,
    bottleneck: LinkEmulator,
    lines: Vec<Line>,
    events: BinaryHeap<Reverse<(Duration, u64, Happening)>>,
    order: u64,
    trust: Trust,
    machines: [Machine; 2],
    /// Queue of the bottleneck over time, for its mean.
    pub(crate) queue: Queue,
}

/// One flow under way.
struct Line {
    flow: Flow,
    hosts: Option<[Host; 2]>,
    back: LinkEmulator,
    /// When each end's timer runs out, and which event that is.
    timers: [Option<(Duration, u64)>; 2],
    /// Payload arrived by the end of each [`SLOT`].
    arrived_bytes: Vec<u64>,
    done_at: Option<Duration>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Begins(usize),
    Arrives(usize, usize, Vec<u8>),
    Timer(usize, usize),
}

/// How long the queue was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queue {
    samples: u64,
    sum: f64,
    pub(crate) most: Duration,
}

impl Queue {
    /// Mean time a packet waited.
    pub(crate) fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.sum / self.samples.max(1) as f64)
    }
}

impl World {
    /// Flows through one bottleneck.
    pub(crate) fn new(rules: LinkRules, seed: u64, flows: &[Flow]) -> Self {
        // Acknowledgements meet the same faults on their way back, but never a queue.
        let back = LinkRules { queue_bytes: u64::MAX, ..rules.clone() };
        let mut events = BinaryHeap::new();
        let mut lines = Vec::new();
        for (index, flow) in flows.iter().enumerate() {
            events.push(Reverse((flow.begins_at, index as u64, Happening::Begins(index))));
            let back = LinkEmulator::new(back.clone(), seed.wrapping_add(1000 + index as u64));
            let (flow, timers) = (*flow, [None; 2]);
            lines.push(Line { flow, hosts: None, back, timers, arrived_bytes: Vec::new(), done_at: None });
        }
        Self {
            epoch: Instant::now(),
            now: Duration::ZERO,
            bottleneck: LinkEmulator::new(rules, seed),
            lines,
            events,
            order: flows.len() as u64,
            trust: Trust::new(),
            machines: Default::default(),
            queue: Queue::default(),
        }
    }

    /// The machine of all senders, or of all receivers.
    pub(crate) fn machine(&mut self, side: usize) -> &mut Machine {
        &mut self.machines[side]
    }

    /// Runs until all flows are done, or until `end`.
    pub(crate) fn run(&mut self, end: Duration) {
        while let Some(Reverse((at, order, happening))) = self.events.pop() {
            if at > end {
                self.events.push(Reverse((at, order, happening)));
                self.now = end;
                return;
            }
            self.now = at;
            let side = match happening {
                Happening::Begins(_) => SENDER,
                Happening::Arrives(_, side, _) | Happening::Timer(_, side) => side,
            };
            let runs_at = self.machines[side].runs_at(at);
            if runs_at > at {
                self.events.push(Reverse((runs_at, order, happening)));
                continue;
            }
            match happening {
                Happening::Begins(line) => self.begin(line),
                Happening::Arrives(line, side, datagram) => {
                    self.with_host(line, side, |host, now, send| {
                        host.handle(now, BytesMut::from(&datagram[..]), send);
                    });
                }
                // One that was set anew since is none: each would set another, for ever.
                Happening::Timer(line, side) if self.lines[line].timers[side].is_none_or(|(_, set)| set != order) => {}
                Happening::Timer(line, side) => {
                    self.lines[line].timers[side] = None;
                    self.with_host(line, side, |host, now, _| host.handle_timeout(now));
                }
            }
            if self.lines.iter().all(|line| line.done_at.is_some()) {
                return;
            }
        }
    }

    /// When a flow was done, since it began.
    pub(crate) fn took(&self, line: usize) -> Option<Duration> {
        let line = &self.lines[line];
        line.done_at.map(|at| at - line.flow.begins_at)
    }

    /// Payload of a flow that arrived between two times.
    pub(crate) fn arrived_bytes(&self, line: usize, from: Duration, to: Duration) -> u64 {
        let arrived = |at: Duration| {
            let slot = (at.as_nanos() / SLOT.as_nanos()) as usize;
            let slots = &self.lines[line].arrived_bytes;
            slot.checked_sub(1).and_then(|slot| slots.get(slot).or(slots.last())).copied().unwrap_or(0)
        };
        arrived(to).saturating_sub(arrived(from))
    }

    /// When a flow first kept `rate_bytes_per_second` for `over`, since it began: the beginning of that time.
    pub(crate) fn reached(&self, line: usize, rate_bytes_per_second: f64, over: Duration) -> Option<Duration> {
        let begins = self.lines[line].flow.begins_at;
        let last = self.lines[line].arrived_bytes.len() as u32;
        (0..last).map(|slot| SLOT * slot).filter(|from| *from >= begins).find_map(|from| {
            let bytes = self.arrived_bytes(line, from, from + over) as f64;
            (bytes >= rate_bytes_per_second * over.as_secs_f64()).then(|| from - begins)
        })
    }

    /// What the bottleneck did.
    pub(crate) fn counts(&self) -> LinkCounts {
        self.bottleneck.counts()
    }

    /// Changes the bottleneck, and the ways back with it.
    pub(crate) fn set_rules(&mut self, rules: &LinkRules) {
        self.bottleneck.set_rules(rules.clone());
        for line in &mut self.lines {
            line.back.set_rules(LinkRules { queue_bytes: u64::MAX, ..rules.clone() });
        }
    }

    /// Forgets how long the queue was until now.
    pub(crate) fn restart_queue(&mut self) {
        self.queue = Queue::default();
    }

    /// The UDT controller of a flow.
    pub(crate) fn udt(&self, line: usize) -> Option<Box<Udt>> {
        let [sender, _] = self.lines[line].hosts.as_ref()?;
        Udt::of(sender.controller()?.clone_box())
    }

    /// Lets a sender that was paused go on, or pauses it.
    pub(crate) fn pause(&mut self, line: usize, pause: bool) {
        self.ready(line, if pause { 0 } else { u64::MAX });
    }

    /// A sender has so many bytes for now, and no more.
    pub(crate) fn ready(&mut self, line: usize, bytes: u64) {
        self.with_host(line, SENDER, |host, _, _| host.ready(bytes));
    }

    fn begin(&mut self, line: usize) {
        let flow = self.lines[line].flow;
        let [from, to] = [1, 2].map(|host| SocketAddr::from((Ipv4Addr::new(10, 0, line as u8, host), 9000)));
        let seed = line as u8 * 2 + 1;
        let now = self.epoch + self.now;
        let sender = Host::sender(now, seed, &self.trust, transport(flow.kind, seed.into()), to, flow.bytes);
        let receiver = Host::receiver(seed + 1, &self.trust, transport(flow.kind, u64::from(seed) + 1), from);
        self.lines[line].hosts = Some([sender, receiver]);
        self.with_host(line, SENDER, |_, _, _| ());
    }

    fn with_host(&mut self, line: usize, side: usize, act: impl FnOnce(&mut Host, Instant, &mut dyn FnMut(&[u8]))) {
        let now = self.now;
        let state = &mut self.lines[line];
        let Some(hosts) = &mut state.hosts else { return };
        let host = &mut hosts[side];
        let (further, flow_bytes) = (state.flow.further / 2, state.flow.bytes);
        let (bottleneck, back, events, order, queue) =
            (&mut self.bottleneck, &mut state.back, &mut self.events, &mut self.order, &mut self.queue);
        let mut send = |datagram: &[u8]| {
            let bytes = datagram.len() as u32 + HEADER_BYTES;
            let fate = if side == SENDER {
                let rate = bottleneck.rules().rate_bits_per_second;
                let waits = bottleneck.backlog_bytes(now) as f64 * 8.0 / rate as f64;
                queue.samples += 1;
                queue.sum += waits;
                queue.most = queue.most.max(Duration::from_secs_f64(waits));
                bottleneck.send(now, bytes)
            } else {
                back.send(now, bytes)
            };
            let Fate::Arrives { at, duplicate_at: again } = fate else { return };
            for at in [Some(at), again].into_iter().flatten() {
                *order += 1;
                let arrives = Happening::Arrives(line, 1 - side, datagram.to_vec());
                events.push(Reverse((at + further, *order, arrives)));
            }
        };
        let instant = self.epoch + now;
        act(host, instant, &mut send);
        host.drive(instant, &mut send);
        if let Some(at) = host.next_timeout() {
            let at = at.saturating_duration_since(self.epoch).max(now + Duration::from_nanos(1));
            let at = Duration::from_nanos((at.as_nanos().div_ceil(TIMER.as_nanos()) * TIMER.as_nanos()) as u64);
            if state.timers[side].is_none_or(|(set, _)| at < set) {
                self.order += 1;
                state.timers[side] = Some((at, self.order));
                self.events.push(Reverse((at, self.order, Happening::Timer(line, side))));
            }
        }
        if side != SENDER {
            let received = hosts[side].received_bytes();
            let slot = (now.as_nanos() / SLOT.as_nanos()) as usize;
            let before = state.arrived_bytes.last().copied().unwrap_or(0);
            if state.arrived_bytes.len() <= slot {
                state.arrived_bytes.resize(slot + 1, before);
            }
            state.arrived_bytes[slot] = received;
            if received >= flow_bytes && state.done_at.is_none() {
                state.done_at = Some(now);
            }
        }
    }
}

/// The connection's settings: those of the real carrier, but for windows, since here no lanes are dealt.
fn transport(kind: Kind, seed: u64) -> TransportConfig {
    let controller: Arc<dyn ControllerFactory + Send + Sync> = match kind {
        Kind::Udt(learned) => Arc::new(UdtFactory::new(seed, learned)),
        Kind::Bbr3 => Arc::new(Bbr3Config::default()),
        Kind::Cubic | Kind::Theirs => Arc::new(CubicConfig::default()),
    };
    let mut transport = if kind == Kind::Theirs {
        let mut theirs = TransportConfig::default();
        theirs.congestion_controller_factory(controller);
        theirs
    } else {
        base_transport_config(DATAGRAM_BYTES_MAX, controller)
    };
    transport
        .stream_receive_window(VarInt::from_u32(32 << 20))
        .receive_window(VarInt::from_u32(256 << 20))
        .send_window(128 << 20)
        .max_concurrent_uni_streams(VarInt::from_u32(1_024));
    transport
}

pub(crate) const SENDER: usize = 0;
pub(crate) const RECEIVER: usize = 1;
/// UDP payload of a packet of Ethernet.
const DATAGRAM_BYTES_MAX: u16 = 1_472;
/// IP and UDP headers.
const HEADER_BYTES: u32 = 28;
/// How finely arrivals are kept.
pub(crate) const SLOT: Duration = Duration::from_millis(10);
