//! Which fault comes when, and which must not coincide: a random plan, and timely recovery.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use cluster::{HOME, Roles};
use fastrand::Rng;

use crate::{
    clock::Clocks,
    cut::Cuts,
    disk::Disks,
    fault::Faults,
    ledger::Ledger,
    record,
    rollback::{RollBacks, Stage},
};

/// See the module.
pub(crate) struct FaultPlan {
    pub(crate) faults: Faults,
    disks: Disks,
    clocks: Clocks,
    cuts: Cuts,
    rollbacks: RollBacks,
    /// When each role last had a fault.
    touched: BTreeMap<String, Instant>,
    rng: Rng,
    nodes: usize,
}

impl FaultPlan {
    /// Prepares roles that do not run yet.
    pub(crate) fn mount(mut rng: Rng, cloud: &mut Roles) -> Self {
        let (mut disks, clocks) = (Disks::default(), Clocks::default());
        disks.mount(cloud);
        clocks.mount(cloud);
        let nodes = cloud.names().iter().filter(|name| name.starts_with("node-")).count();
        let rollbacks = RollBacks::new(&mut rng);
        let (faults, cuts, touched) = (Faults::default(), Cuts::default(), BTreeMap::new());
        Self { faults, disks, clocks, cuts, rollbacks, touched, rng, nodes }
    }

    /// One step, in which a fault may start and another may be healed.
    pub(crate) fn step(&mut self, cloud: &mut Roles, ledger: &mut Ledger) {
        self.recover(cloud, ledger);
        if self.rollbacks.prepare() {
            if self.is_calm(cloud) {
                self.roll_back(cloud, ledger);
            }
            return;
        }
        if !self.faults.is_due() || self.clocks.is_to_ask() {
            return;
        }
        // Each kind has its own random numbers, so that how one went does not change what comes next.
        let mut rng = self.rng.fork();
        self.faults.defer(Duration::from_millis(rng.u64(200..2_500)));
        if let Stage::Unsettled(_) = self.rollbacks.stage() {
            if self.rollbacks.faults_left > 0 {
                self.rollbacks.faults_left -= 1;
                self.faults.fire_at_roles(&mut rng, cloud);
            }
            return;
        }
        match rng.u32(..100) {
            0..60 => self.faults.fire_at_roles(&mut rng, cloud),
            60..72 => self.faults.flip(&mut rng, cloud, ledger),
            72..82 => drop(self.disks.fire(&mut rng, cloud)),
            82..90 => {
                ledger.trash.note_jump();
                self.clocks.fire(&mut rng, cloud);
            }
            _ => drop(self.cuts.fire(&mut rng, cloud)),
        }
    }

    /// No roll-back starts any more: too little time is left.
    pub(crate) fn end_soon(&mut self) {
        self.rollbacks.defer();
    }

    /// Whether a roll-back is under way.
    pub(crate) fn is_unsettled(&self) -> bool {
        matches!(self.rollbacks.stage(), Stage::Unsettled(_))
    }

    /// Heals everything. The effects of a roll-back must still be waited for.
    pub(crate) fn heal(&mut self, cloud: &mut Roles, ledger: &mut Ledger) {
        self.disks.heal();
        self.clocks.heal(cloud);
        self.cuts.heal(cloud);
        self.recover(cloud, ledger);
        self.faults.heal(cloud);
    }

    /// Heals what is due, and restarts roles that ended for lack of room.
    pub(crate) fn recover(&mut self, cloud: &mut Roles, ledger: &mut Ledger) {
        let now = Instant::now();
        let troubled =
            self.faults.roles().chain(self.disks.roles()).chain(self.clocks.roles()).chain(self.cuts.roles());
        let troubled: Vec<_> = troubled.cloned().collect();
        let mut others = self.faults.roles().chain(self.disks.roles()).chain(self.cuts.roles());
        let is_masters = others.any(|role| role == "master" || role == HOME);
        drop(others);
        if self.is_unsettled() || is_masters {
            self.clocks.excuse();
        }
        self.touched.extend(troubled.into_iter().map(|role| (role, now)));
        self.disks.recover();
        self.cuts.recover(cloud);
        self.clocks.recover(cloud, ledger);
        for role in cloud.names() {
            if !self.faults.is_down(&role) && cloud.has_ended(&role) {
                self.note_end(cloud, ledger, &role);
            }
        }
        let (disks, rollbacks, rng) = (&self.disks, &mut self.rollbacks, &mut self.rng);
        self.faults.recover(cloud, |cloud, role| {
            let may_start = !disks.is_full(role);
            if may_start && role == "master" {
                rollbacks.copy(rng, cloud);
            }
            may_start
        });
        if !self.faults.is_down("master") && !self.disks.is_full("master") {
            self.rollbacks.back_up(&mut self.rng, cloud);
        }
        self.rollbacks.look(&mut self.rng, cloud, ledger, self.nodes);
    }

    /// How often each fired.
    pub(crate) fn summary(&self) -> String {
        let (disks, clocks, rollbacks) = (&self.disks, &self.clocks, &self.rollbacks);
        format!(
            "{}, {} full disks of nodes, {} of servers ({} roles ended by that), {} jumps of clocks ({} of the master told \
             by health, {} confirmed), {} links cut one way, {} roll-backs to a copy, {} to a backup, {} lost journals",
            self.faults.summary(),
            disks.fired_at_nodes,
            disks.fired_at_servers,
            disks.ended,
            clocks.fired,
            clocks.told,
            clocks.confirmed,
            self.cuts.fired,
            rollbacks.copied,
            rollbacks.restored,
            rollbacks.lost,
        )
    }

    /// Whether every kind fired that a run of this length must have.
    pub(crate) fn all_kinds_fired(&self, span: Duration) -> bool {
        let (disks, clocks) = (&self.disks, &self.clocks);
        let few = self.faults.all_kinds_fired();
        let more = [disks.fired_at_nodes, disks.fired_at_servers, clocks.fired, clocks.told, self.cuts.fired];
        let most = [self.rollbacks.copied, self.rollbacks.restored, self.rollbacks.lost];
        (span < SHORT || few)
            && (span < LONG || (more.iter().all(|count| *count > 0) && self.rollbacks.fired() > 0))
            && (span < LONGER || most.iter().all(|count| *count > 0))
    }

    fn roll_back(&mut self, cloud: &mut Roles, ledger: &mut Ledger) {
        let mut rng = self.rng.fork();
        let nodes = rng.usize(..3);
        if rng.bool() {
            self.faults.kill_nodes(&mut rng, cloud, nodes);
        }
        record(cloud, "the journal is taken back");
        self.rollbacks.fire(&mut rng, cloud, ledger);
        self.faults.start_after("master", Duration::from_millis(rng.u64(..2_000)));
        self.faults.kill_nodes(&mut rng, cloud, nodes);
    }

    /// Whether the servers, and all nodes but one, had no fault for long enough. Then everything that was answered
    /// has reached the nodes. Even of a file with two copies, at least one node has heard of everything.
    fn is_calm(&self, cloud: &Roles) -> bool {
        let is_left = |role: &String| self.touched.get(role).is_none_or(|at| at.elapsed() > CALM_AFTER);
        let names = cloud.names();
        let (nodes, servers): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with("node-"));
        servers.into_iter().all(is_left) && nodes.into_iter().filter(|node| is_left(node)).count() + 1 >= self.nodes
    }

    /// A role has ended by itself. It may end so for lack of room, and is then started again.
    fn note_end(&mut self, cloud: &Roles, ledger: &mut Ledger, role: &str) {
        if self.disks.was_full(role) {
            self.disks.ended += 1;
            println!("{role} ended on a full disk; {}", cloud.log(role).lines().last().unwrap_or_default());
        } else {
            ledger.wrong.push(format!("{role} has ended by itself; {}", cloud.log(role)));
        }
        self.faults.start_after(role, Duration::from_secs(1));
    }
}

/// Runs from this length on must have kills, stops and flipped bits.
const SHORT: Duration = Duration::from_secs(30);
/// Runs from this length on must have all kinds.
const LONG: Duration = Duration::from_secs(300);
/// Runs from this length on must have every kind of roll-back.
const LONGER: Duration = Duration::from_secs(3_000);
/// How long a role must have had no fault to have heard of everything.
const CALM_AFTER: Duration = Duration::from_secs(8);
