//! What goes wrong, and when: by the seed alone. Disks are never destroyed here, so that whatever was acknowledged can
//! always be found again; everything else may fail, several things at once.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use fastrand::Rng;
use protocol::{SliceId, message::node_master::HeldState};

use crate::{
    cloud::Cloud,
    environment::Environment,
    network::Weather,
    queue::{Event, Who},
    role::DATA_FOLDER,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Faults {
    until: Duration,
    /// Longest time between two faults, in milliseconds.
    pause_max_ms: u64,
    kinds: Vec<Fault>,
    /// Slices of which a copy was made bad: never two copies of one.
    flipped: BTreeSet<SliceId>,
    /// The faults that fired.
    pub(crate) fired: Fired,
}

/// How often each fault fired: proof that a run tests something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Nodes that died.
    pub node_crashes: u64,
    /// Of these, in the middle of writing to their disks.
    pub power_cuts: u64,
    /// Times that the master died.
    pub master_crashes: u64,
    /// Processes that were cut off from all others for a while.
    pub cuts: u64,
    /// Calls to a disk that failed once.
    pub disk_failures: u64,
    /// Copies in which a bit was turned over.
    pub flips: u64,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NodeCrash,
    PowerCut,
    MasterCrash,
    Cut,
    Weather,
    DiskFailure,
    Flip,
    /// Every process dies.
    AllCrash,
}

impl Faults {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let all = [
            (Fault::NodeCrash, 4),
            (Fault::PowerCut, 4),
            (Fault::MasterCrash, 3),
            (Fault::Cut, 3),
            (Fault::Weather, 2),
            (Fault::DiskFailure, 2),
            (Fault::Flip, 2),
            (Fault::AllCrash, 1),
        ];
        let mut kinds: Vec<_> = all
            .into_iter()
            // Each run leaves some out, so that what one fault hides is seen in another run.
            .filter(|_| rng.u8(..3) > 0)
            .flat_map(|(fault, weight)| std::iter::repeat_n(fault, weight))
            .collect();
        if kinds.is_empty() {
            kinds.push(Fault::NodeCrash);
        }
        Self {
            until: Duration::from_secs(rng.u64(40..110)),
            pause_max_ms: rng.u64(2_000..15_000),
            kinds,
            flipped: BTreeSet::new(),
            fired: Fired::default(),
        }
    }

    /// When the faults stop.
    pub(crate) fn until(&self) -> Duration {
        self.until
    }

    /// How long a process that died stays away.
    pub(crate) fn down_time(&self, env: &mut Environment) -> Duration {
        if env.is_healing {
            return Duration::from_millis(500);
        }
        match env.rng.u8(..10) {
            // So long that its copies are made anew elsewhere.
            0 => env.span(20_000, 45_000),
            1..4 => env.span(5_000, 15_000),
            _ => env.span(50, 5_000),
        }
    }
}

impl Cloud {
    /// Lets one thing go wrong, and decides when the next does.
    pub(crate) fn fault(&mut self) {
        let pause = self.env.span(100, self.faults.pause_max_ms);
        self.env.after(pause, Event::Fault);
        let fault = self.faults.kinds[self.env.rng.usize(..self.faults.kinds.len())];
        let node = self.env.rng.usize(..self.nodes.len());
        match fault {
            Fault::NodeCrash => self.crash_node(node),
            Fault::PowerCut if self.nodes[node].is_up() => {
                let changes = self.env.rng.u64(..40);
                self.nodes[node].cut_power_after(changes);
                self.faults.fired.power_cuts += 1;
                self.faults.fired.node_crashes += 1;
                // A disk at rest is cut off too, a little later.
                let span = self.env.span(200, 3_000);
                self.env.after(span, Event::Crash(Who::Node(node), self.nodes[node].life));
            }
            Fault::MasterCrash => self.crash_master(),
            Fault::Cut => self.cut(node),
            Fault::Weather => {
                let weather = Weather::draw(&mut self.env.rng);
                self.env.note(format_args!("the weather changes: {weather:?}"));
                self.env.network.set_weather(weather);
            }
            Fault::DiskFailure if self.nodes[node].is_up() => {
                let changes = self.env.rng.u64(..30);
                self.nodes[node].fail_disk_after(changes);
                self.env.note(format_args!("the disk of n{node} will fail once"));
                self.faults.fired.disk_failures += 1;
            }
            Fault::Flip => self.flip(node),
            Fault::AllCrash => {
                self.crash_master();
                (0..self.nodes.len()).for_each(|node| self.crash_node(node));
            }
            Fault::PowerCut | Fault::DiskFailure => {}
        }
    }

    fn crash_node(&mut self, node: usize) {
        if self.nodes[node].is_up() {
            self.faults.fired.node_crashes += 1;
            self.crash(Who::Node(node));
        }
    }

    fn crash_master(&mut self) {
        if self.master.is_up() {
            self.faults.fired.master_crashes += 1;
            self.crash(Who::Master);
        }
    }

    fn cut(&mut self, node: usize) {
        let who = match self.env.rng.u8(..4) {
            0 => Who::Master,
            1 => Who::Client(self.env.rng.usize(..self.actors.len())),
            _ => Who::Node(node),
        };
        self.faults.fired.cuts += 1;
        self.env.note(format_args!("{who:?} is cut off"));
        self.env.network.set_cut(who, true);
        let span = self.env.span(500, 14_000);
        self.env.after(span, Event::Reconnect(who));
    }

    /// Turns over a bit of a copy of which there is another, good one.
    fn flip(&mut self, node: usize) {
        let held = match &self.nodes[node].process {
            Some(process) => process.store.held(),
            None => return,
        };
        let candidates: Vec<_> = held
            .into_iter()
            .filter(|held| held.metadata.bytes > 0 && held.state != HeldState::Retired)
            .filter(|held| !self.faults.flipped.contains(&held.metadata.header.slice))
            .filter(|held| {
                let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != node);
                let mut processes = others.filter_map(|(_, role)| role.process.as_ref());
                processes.any(|process| process.store.contains(held.metadata.header.slice))
            })
            .collect();
        if candidates.is_empty() {
            return;
        }
        let held = &candidates[self.env.rng.usize(..candidates.len())];
        let header = &held.metadata.header;
        let file = match held.state {
            HeldState::Placed => PathBuf::from(format!("{DATA_FOLDER}/slices{}", header.path)),
            _ => PathBuf::from(format!("{DATA_FOLDER}/staging/{}", header.slice)),
        };
        let offset = self.env.rng.u64(..held.metadata.bytes);
        if self.nodes[node].disk.flip_bit(&file, offset).is_ok() {
            self.env.note(format_args!("a bit of {} on n{node} turns over", header.slice));
            self.faults.flipped.insert(header.slice);
            self.faults.fired.flips += 1;
        }
    }
}
