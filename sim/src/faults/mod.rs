//! The faults and their times, decided by the seed alone. Everything may fail, several things at once. But the only
//! good copy of a slice is never destroyed, so acknowledged data can always be found again.

pub(crate) mod disk_faults;
mod journal_faults;
mod link_faults;

use std::{collections::BTreeSet, time::Duration};

use fastrand::Rng;
use protocol::SliceId;

use crate::{
    cloud::Cloud,
    environment::{
        Environment,
        network::NetworkConditions,
        queue::{Event, Participant},
    },
    model::Backup,
    report::FaultCounts,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Faults {
    until: Duration,
    /// Longest time between two faults, in milliseconds.
    pause_max_ms: u64,
    kinds: Vec<Fault>,
    /// Slices with one damaged copy: never two copies of one.
    flipped: BTreeSet<SliceId>,
    /// The most by which the master's clock was ahead.
    clock_ahead_max_millis: i64,
    /// When a disk was last destroyed or broken.
    destroyed_at: Option<Duration>,
    /// How often this round ends with the loss of the master's journal, or with an older one.
    losses: u32,
    /// Older states of the journal.
    copies: Vec<JournalCopy>,
    /// The one that is about to be restored.
    fresh: Option<JournalCopy>,
    /// Rounds that follow this one.
    rounds: u32,
    /// The faults that fired.
    pub(crate) fired: FaultCounts,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NodeCrash,
    PowerCut,
    MasterCrash,
    Cut,
    SiteCut,
    Weather,
    DiskFailure,
    DiskFull,
    DiskDestroyed,
    DiskBroken,
    Flip,
    BadSector,
    ClockJump,
    JournalFails,
    JournalFull,
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
            (Fault::SiteCut, 1),
            (Fault::Weather, 2),
            (Fault::DiskFailure, 2),
            (Fault::DiskFull, 1),
            (Fault::DiskDestroyed, 2),
            (Fault::DiskBroken, 2),
            (Fault::Flip, 2),
            (Fault::BadSector, 2),
            (Fault::ClockJump, 2),
            (Fault::JournalFails, 1),
            (Fault::JournalFull, 1),
            (Fault::AllCrash, 1),
        ];
        let mut kinds: Vec<_> = all
            .into_iter()
            // Each run leaves some out, so that a problem hidden by one fault shows in another run.
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
            clock_ahead_max_millis: 0,
            destroyed_at: None,
            losses: draw_losses(rng),
            copies: Vec::new(),
            fresh: None,
            rounds: [0, 0, 0, 1, 1, 2][rng.usize(..6)],
            fired: FaultCounts::default(),
        }
    }

    /// When the faults stop.
    pub(crate) fn until(&self) -> Duration {
        self.until
    }

    /// Whether faults follow once all is well.
    pub(crate) fn has_more_rounds(&self) -> bool {
        self.rounds > 0
    }

    /// Begins the next round.
    pub(crate) fn begin_round(&mut self, env: &mut Environment) {
        self.rounds -= 1;
        self.losses = draw_losses(&mut env.rng);
        self.until = env.now.monotonic + env.span(15_000, 50_000);
        env.note(format_args!("faults until {:?}, {} losses of the journal", self.until, self.losses));
    }

    /// Whether a copy of the journal may be needed.
    fn wants_copies(&self) -> bool {
        self.losses > 0 || self.rounds > 0
    }

    /// Whether the journal will be lost now.
    fn takes_journal(&mut self) -> bool {
        let takes = self.losses > 0;
        self.losses -= u32::from(takes);
        takes
    }

    /// Whether faults continue during a rebuild: always if the journal is to be lost once more.
    pub(crate) fn goes_on(&mut self, env: &mut Environment) -> bool {
        let goes_on = self.losses > 0 || env.chance(50);
        if goes_on {
            self.until = env.now.monotonic + env.span(1_000, 40_000);
            env.note(format_args!("faults go on until {:?}", self.until));
        }
        goes_on
    }

    /// How long a dead process stays away.
    pub(crate) fn down_time(&self, env: &mut Environment) -> Duration {
        if env.is_healing {
            return Duration::from_millis(500);
        }
        match env.rng.u8(..10) {
            // Long enough that its copies are made again elsewhere.
            0 => env.span(20_000, 45_000),
            1..4 => env.span(5_000, 15_000),
            _ => env.span(50, 5_000),
        }
    }
}

/// How often the journal is lost or restored at the end of a round, mostly not at all.
fn draw_losses(rng: &mut Rng) -> u32 {
    [0, 0, 0, 0, 1, 1, 2, 3][rng.usize(..8)]
}

impl Cloud {
    /// The fate of the journal at the end of a round. Returns whether the round is over.
    pub(crate) fn end_journal(&mut self) -> bool {
        if let Some(fresh) = self.faults.fresh.take() {
            self.roll_back(&fresh);
            return !self.faults.goes_on(&mut self.env);
        }
        if !self.faults.takes_journal() {
            return true;
        }
        match self.env.rng.u8(..4) {
            0 if !self.faults.copies.is_empty() => {
                let copy = self.faults.copies[self.env.rng.usize(..self.faults.copies.len())].clone();
                self.roll_back(&copy);
            }
            // Changes that the disk reported as saved in the last moment are gone.
            1 if self.master.is_up() => {
                self.faults.fresh = self.copy_of_journal();
                self.faults.until = self.env.now.monotonic + self.env.span(10, 4_000);
                return false;
            }
            _ => self.lose_journal(),
        }
        !self.faults.goes_on(&mut self.env)
    }

    /// Causes one fault, and schedules the next.
    pub(crate) fn fault(&mut self) {
        let pause = self.env.span(100, self.faults.pause_max_ms);
        self.env.after(pause, Event::Fault);
        let fault = self.faults.kinds[self.env.rng.usize(..self.faults.kinds.len())];
        let node = self.env.rng.usize(..self.nodes.len());
        match fault {
            Fault::NodeCrash => self.crash_node(node),
            Fault::PowerCut if self.nodes[node].is_up() => {
                let changes = self.env.rng.u64(..40);
                let disk = self.env.rng.usize(..self.nodes[node].disks.count());
                self.nodes[node].cut_power_after(disk, changes);
                self.faults.fired.power_cuts += 1;
                self.faults.fired.node_crashes += 1;
                // An idle disk loses its power too, a little later.
                let span = self.env.span(200, 3_000);
                self.env.after(span, Event::Crash(Participant::Node(node), self.nodes[node].life));
            }
            Fault::MasterCrash => self.crash_master(),
            Fault::Cut => self.cut_one(node),
            Fault::SiteCut => self.cut_site(),
            Fault::Weather => {
                let weather = NetworkConditions::draw(&mut self.env.rng);
                self.env.note(format_args!("the weather changes: {weather:?}"));
                self.env.network.set_conditions(weather);
            }
            Fault::DiskFailure if self.nodes[node].is_up() => {
                let changes = self.env.rng.u64(..30);
                let disk = self.env.rng.usize(..self.nodes[node].disks.count());
                self.nodes[node].fail_disk_after(disk, changes);
                self.env.note(format_args!("disk {disk} of n{node} will fail once"));
                self.faults.fired.disk_failures += 1;
            }
            Fault::DiskFull => self.fill_disk(node),
            Fault::DiskDestroyed => self.destroy_disk(node),
            Fault::DiskBroken => self.break_disk(node),
            Fault::Flip => self.flip(node),
            Fault::BadSector => self.spoil_sector(node),
            Fault::ClockJump => self.jump_clock(node),
            Fault::JournalFails => self.fail_journal(),
            Fault::JournalFull => self.fill_journal(),
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
            self.crash(Participant::Node(node));
        }
    }

    fn crash_master(&mut self) {
        if self.master.is_up() {
            self.faults.fired.master_crashes += 1;
            self.crash(Participant::Master);
        }
    }
}

/// A copy of the journal's file, with its time and the names in it.
pub(crate) type JournalCopy = (Duration, Backup, Vec<u8>);
