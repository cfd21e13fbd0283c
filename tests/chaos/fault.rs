//! The faults. Roles are killed and started again, or stopped and continued. Bits are flipped in slice files of which
//! another node has a good copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    time::{Duration, Instant},
};

use cluster::Roles;
use fastrand::Rng;

use crate::{ask, ledger::Ledger, record};

/// See the module.
#[derive(Default)]
pub(crate) struct Faults {
    /// When the next fault is due; `None` means now.
    next: Option<Instant>,
    /// Roles to start or continue, and when.
    outages: BTreeMap<String, (Instant, Outage)>,
    /// Contents of which a copy was corrupted: never two copies of one.
    flipped: BTreeSet<Vec<u8>>,
    fired: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outage {
    Dead,
    Stopped,
}

impl Faults {
    /// Whether the next fault is due.
    pub(crate) fn is_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// The next fault comes after this pause.
    pub(crate) fn defer(&mut self, pause: Duration) {
        self.next = Some(Instant::now() + pause);
    }

    /// Kills or stops a role.
    pub(crate) fn fire_at_roles(&mut self, rng: &mut Rng, cloud: &mut Roles) {
        let lot = rng.u32(..75);
        let names = cloud.names();
        let role = match lot % 10 {
            0 | 1 => "master".to_owned(),
            2 => "security".to_owned(),
            _ => names[rng.usize(..names.len())].clone(),
        };
        let span = Duration::from_millis(if rng.u8(..4) == 0 { rng.u64(6_000..12_000) } else { rng.u64(..3_000) });
        match lot {
            0..55 if self.may_leave(&role) && !cloud.has_ended(&role) => {
                cloud.kill(&role);
                self.leave(cloud, role, span, Outage::Dead);
            }
            _ if self.may_leave(&role) && !cloud.has_ended(&role) => {
                cloud.pause(&role);
                self.leave(cloud, role, span, Outage::Stopped);
            }
            _ => {}
        }
    }

    /// Kills at most this many nodes, of those that run.
    pub(crate) fn kill_nodes(&mut self, rng: &mut Rng, cloud: &mut Roles, count: usize) {
        let mut names = cloud.names();
        rng.shuffle(&mut names);
        for node in names.into_iter().filter(|name| name.starts_with("node-")).take(count) {
            let span = Duration::from_millis(rng.u64(200..8_000));
            if self.may_leave(&node) && !cloud.has_ended(&node) {
                cloud.kill(&node);
                self.leave(cloud, node, span, Outage::Dead);
            }
        }
    }

    /// A role no longer runs; it will be started again after a while.
    pub(crate) fn start_after(&mut self, role: &str, span: Duration) {
        self.outages.insert(role.into(), (Instant::now() + span, Outage::Dead));
    }

    /// Brings back roles that are due. Of those that do not run, `may_start` decides which may be started.
    pub(crate) fn recover(&mut self, cloud: &mut Roles, mut may_start: impl FnMut(&Roles, &str) -> bool) {
        let now = Instant::now();
        let due: Vec<_> = self.outages.iter().filter(|(_, (at, _))| *at <= now).map(|(role, _)| role.clone()).collect();
        for role in due {
            if self.outages[&role].1 == Outage::Stopped || may_start(cloud, &role) {
                self.bring_back(cloud, &role);
            }
        }
    }

    /// Whether a role is dead or stopped.
    pub(crate) fn is_down(&self, role: &str) -> bool {
        self.outages.contains_key(role)
    }

    /// The roles that are dead or stopped.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &String> {
        self.outages.keys()
    }

    /// Brings all back.
    pub(crate) fn heal(&mut self, cloud: &mut Roles) {
        let all: Vec<_> = self.outages.keys().cloned().collect();
        all.iter().for_each(|role| self.bring_back(cloud, role));
    }

    /// How often each fired.
    pub(crate) fn summary(&self) -> String {
        let parts: Vec<_> = self.fired.iter().map(|(name, count)| format!("{count} {name}")).collect();
        format!("fired: {}", parts.join(", "))
    }

    /// Whether a copy of these bytes was corrupted.
    pub(crate) fn has_flipped(&self, bytes: &[u8]) -> bool {
        self.flipped.contains(bytes)
    }

    /// Whether there was one of each kind.
    pub(crate) fn all_kinds_fired(&self) -> bool {
        [NODE_KILLS, MASTER_KILLS, STOPS, FLIPS].iter().all(|kind| self.fired.contains_key(kind))
    }

    /// Whether a node was killed and something stopped.
    pub(crate) fn has_fired_at_nodes(&self) -> bool {
        [NODE_KILLS, STOPS].iter().all(|kind| self.fired.contains_key(kind))
    }

    fn may_leave(&self, role: &str) -> bool {
        self.outages.len() < OUTAGES_MAX && !self.outages.contains_key(role)
    }

    fn leave(&mut self, cloud: &Roles, role: String, span: Duration, away: Outage) {
        let kind = match (away, role.as_str()) {
            (Outage::Stopped, _) => STOPS,
            (Outage::Dead, "master") => MASTER_KILLS,
            (Outage::Dead, "security") => "kills of the security server",
            (Outage::Dead, _) => NODE_KILLS,
        };
        *self.fired.entry(kind).or_default() += 1;
        record(cloud, &format!("{kind}: {role} for {span:?}"));
        self.outages.insert(role, (Instant::now() + span, away));
    }

    fn bring_back(&mut self, cloud: &mut Roles, role: &str) {
        record(cloud, &format!("{role} is back"));
        match self.outages.remove(role) {
            Some((_, Outage::Dead)) => cloud.run_role(role),
            Some((_, Outage::Stopped)) => cloud.resume(role),
            None => {}
        }
    }

    /// Flips a bit of one copy of a file that has two good ones.
    pub(crate) fn flip(&mut self, rng: &mut Rng, cloud: &Roles, ledger: &Ledger) {
        if self.is_down("master") || self.is_down("security") {
            return;
        }
        let mut paths = ledger.idle_paths();
        rng.shuffle(&mut paths);
        // Only a few are examined: each costs a command.
        for path in paths.iter().take(PATHS_TRIED) {
            let Some(stat) = ask(cloud, &["stat", "--json", path]) else { return };
            if stat.code != 0 {
                continue;
            }
            let holders = good_copies(&stat.text());
            let native = |node: &String| cloud.role_folder(node).join(format!("slices{path}"));
            let copies: Vec<_> = holders.iter().filter_map(|node| Some((node, fs::read(native(node)).ok()?))).collect();
            let [(node, bytes), (_, other), ..] = &copies[..] else { continue };
            if bytes.is_empty() || bytes != other || !self.flipped.insert(bytes.clone()) {
                continue;
            }
            let mut bad = bytes.clone();
            bad[rng.usize(..bytes.len())] ^= 1 << rng.u8(..8);
            // In place, as a decaying disk does. The file may have been moved a moment ago.
            let file = fs::File::options().write(true).open(native(node));
            if file.and_then(|mut file| file.write_all(&bad)).is_ok() {
                *self.fired.entry(FLIPS).or_default() += 1;
                record(cloud, &format!("a bit is turned in {path} at {node}"));
            }
            return;
        }
    }
}

/// The nodes with good copies, according to `stat --json`.
fn good_copies(stat: &str) -> Vec<String> {
    let stat: serde_json::Value = serde_json::from_str(stat).unwrap_or_default();
    let copies = stat["copies"].as_array().cloned().unwrap_or_default();
    let good = copies.iter().filter(|copy| copy["state"] == "ok");
    good.filter_map(|copy| copy["node"].as_str().map(str::to_owned)).collect()
}

const NODE_KILLS: &str = "kills of nodes";
const MASTER_KILLS: &str = "kills of the master";
const STOPS: &str = "stopped processes";
const FLIPS: &str = "turned bits";
/// Roles down at once: with more, nothing would ever succeed.
const OUTAGES_MAX: usize = 2;
/// Paths that are examined for one that has two good copies.
const PATHS_TRIED: usize = 8;
