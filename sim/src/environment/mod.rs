//! The surroundings of every process of the simulation: time, chance, the network, the queue of events, and the model
//! in which the truth is kept. Processes never reach each other except through it.

pub(crate) mod calls;
pub(crate) mod messenger;
pub(crate) mod network;
pub(crate) mod queue;
pub(crate) mod trace;

use std::{collections::BTreeMap, fmt, rc::Rc, time::Duration};

use fastrand::Rng;
use protocol::{Now, message::transfer::TransferRequest};

use crate::{
    Sabotage, Violation, ViolationKind,
    environment::{
        calls::{Call, CallId, CallReply, CallRequest, Calls},
        network::{Network, NetworkConditions},
        queue::{Event, Life, Participant, Queue},
        trace::Trace,
    },
    model::Model,
};

/// See the module.
pub(crate) struct Environment {
    pub(crate) now: Now,
    pub(crate) rng: Rng,
    pub(crate) queue: Queue,
    pub(crate) trace: Trace,
    pub(crate) network: Network,
    pub(crate) calls: Calls,
    pub(crate) model: Model,
    pub(crate) sabotage: Option<Sabotage>,
    /// The faults are over: clients finish their actions and begin no new ones.
    pub(crate) is_healing: bool,
    /// The master lost its journal: until all is well again, clients begin no new actions.
    pub(crate) is_quiet: bool,
    /// No faults follow this healing.
    pub(crate) is_last: bool,
    /// By how many milliseconds a participant's wall clock is ahead of the true time.
    clocks: BTreeMap<Participant, i64>,
    violation: Option<Violation>,
}

impl Environment {
    pub(crate) fn new(seed: u64, is_shown: bool, sabotage: Option<Sabotage>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let weather = NetworkConditions::draw(&mut rng);
        Self {
            now: Now { monotonic: Duration::ZERO, unix_millis: UNIX_MILLIS_AT_START },
            queue: Queue::default(),
            trace: Trace::new(is_shown),
            network: Network::new(weather),
            calls: Calls::default(),
            model: Model::default(),
            sabotage,
            is_healing: false,
            is_quiet: false,
            is_last: false,
            clocks: BTreeMap::new(),
            violation: None,
            rng,
        }
    }

    /// Lets time pass up to `at`.
    pub(crate) fn set_time(&mut self, at: Duration) {
        self.now = Now {
            monotonic: at,
            unix_millis: UNIX_MILLIS_AT_START + u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        };
    }

    /// From now to the end of this event, the wall clock is this participant's.
    pub(crate) fn use_clock_of(&mut self, who: Participant) {
        self.set_time(self.now.monotonic);
        self.now.unix_millis = self.now.unix_millis.saturating_add_signed(self.clock_ahead(who));
    }

    /// By how many milliseconds a participant's clock is ahead.
    pub(crate) fn clock_ahead(&self, who: Participant) -> i64 {
        self.clocks.get(&who).copied().unwrap_or(0)
    }

    /// Sets a participant's clock this many milliseconds ahead of the true time.
    pub(crate) fn set_clock(&mut self, who: Participant, ahead_millis: i64) {
        self.clocks.insert(who, ahead_millis);
    }

    /// Schedules an event after a while.
    pub(crate) fn after(&mut self, span: Duration, event: Event) {
        self.queue.push(self.now.monotonic + span, event);
    }

    /// A span between these two, in milliseconds.
    pub(crate) fn span(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_micros(self.rng.u64(from_ms * 1_000..=to_ms * 1_000))
    }

    /// True in `share` of 100 cases.
    pub(crate) fn chance(&mut self, share: u32) -> bool {
        self.rng.u32(..100) < share
    }

    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now, what);
    }

    /// Notes that a promise was broken; only the first counts.
    pub(crate) fn violate(&mut self, kind: ViolationKind, sentence: String) {
        self.note(format_args!("VIOLATION ({kind:?}): {sentence}"));
        let at = self.now.monotonic;
        self.violation.get_or_insert(Violation { kind, message: sentence, at });
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Sends a datagram on its way.
    pub(crate) fn send_datagram(&mut self, from: Participant, to: Participant, datagram: Vec<u8>) {
        self.network.send_datagram(self.now.monotonic, &mut self.rng, &mut self.queue, from, to, datagram);
    }

    /// Sends a node a request with bytes.
    pub(crate) fn transfer(
        &mut self,
        from: (Participant, Life),
        node: usize,
        request: TransferRequest,
        bytes: Rc<Vec<u8>>,
    ) -> CallId {
        self.call(from, node, CallRequest::Transfer(request, bytes))
    }

    /// Begins a call; it will be answered by one [`Event::CallAnswered`] unless the caller dies or hangs up.
    pub(crate) fn call(&mut self, (from, from_life): (Participant, Life), node: usize, wish: CallRequest) -> CallId {
        let moved_at = self.now.monotonic;
        let id = self.calls.add(Call { from, from_life, node, node_life: None, request: wish, moved_at });
        let delay = self.network.delay(&mut self.rng);
        self.after(delay, Event::CallArrives(id));
        id
    }

    /// The caller hangs up; the node notices after a while.
    pub(crate) fn hang_up(&mut self, id: CallId) {
        if self.calls.get(id).is_some() {
            let delay = self.span(0, 2_000);
            self.after(delay, Event::CallDropped(id));
        }
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, id: CallId, reply: CallReply) {
        let delay = self.network.delay(&mut self.rng);
        self.after(delay, Event::CallAnswered(id, reply));
    }

    /// Lets a call move on.
    pub(crate) fn go_on(&mut self, id: CallId) {
        let delay = self.network.delay(&mut self.rng) + self.span(0, 40);
        self.after(delay, Event::CallGoesOn(id));
    }
}

/// The wall clock at the start of every simulation.
const UNIX_MILLIS_AT_START: u64 = 1_790_000_000_000;
/// Fewest nodes of a cloud.
pub(crate) const NODES_MIN: usize = 3;
