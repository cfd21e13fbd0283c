//! The faults: roles that are killed and started again, stopped and continued; bits that are turned over in slice files of
//! which another node has a good copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, Instant},
};

use cluster::Roles;
use fastrand::Rng;

use crate::ledger::{Content, Ledger};

/// See the module.
#[derive(Default)]
pub(crate) struct Faults {
    /// When the next is due, since the beginning.
    pub(crate) next: Duration,
    /// Roles that are to be started or continued, and when.
    away: BTreeMap<String, (Instant, Away)>,
    /// Contents of which a copy was made bad: never two copies of one.
    flipped: BTreeSet<Content>,
    fired: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Away {
    Dead,
    Stopped,
}

impl Faults {
    /// Lets something go wrong.
    pub(crate) fn fire(&mut self, rng: &mut Rng, cloud: &mut Roles, ledger: &Ledger) {
        let lot = rng.u32(..100);
        let names = cloud.names();
        let role = match lot % 10 {
            0 | 1 => "master".to_owned(),
            2 => "security".to_owned(),
            _ => names[rng.usize(..names.len())].clone(),
        };
        let span = Duration::from_millis(if rng.u8(..4) == 0 { rng.u64(6_000..12_000) } else { rng.u64(..3_000) });
        match lot {
            0..55 if self.may_leave(&role) => {
                cloud.kill(&role);
                self.leave(role, span, Away::Dead);
            }
            55..75 if self.may_leave(&role) => {
                cloud.pause(&role);
                self.leave(role, span, Away::Stopped);
            }
            75..100 if !self.away.contains_key("master") && !self.away.contains_key("security") => {
                self.flip(rng, cloud, ledger);
            }
            _ => {}
        }
    }

    /// Brings back whose time has come.
    pub(crate) fn recover(&mut self, cloud: &mut Roles) {
        let now = Instant::now();
        let due: Vec<_> = self.away.iter().filter(|(_, (at, _))| *at <= now).map(|(role, _)| role.clone()).collect();
        due.iter().for_each(|role| self.bring_back(cloud, role));
    }

    /// Brings all back.
    pub(crate) fn heal(&mut self, cloud: &mut Roles) {
        let all: Vec<_> = self.away.keys().cloned().collect();
        all.iter().for_each(|role| self.bring_back(cloud, role));
    }

    /// How often each fired.
    pub(crate) fn summary(&self) -> String {
        let parts: Vec<_> = self.fired.iter().map(|(name, count)| format!("{count} {name}")).collect();
        format!("fired: {}", parts.join(", "))
    }

    /// Whether there was one of each kind.
    pub(crate) fn all_kinds_fired(&self) -> bool {
        [NODE_KILLS, MASTER_KILLS, STOPS, FLIPS].iter().all(|kind| self.fired.contains_key(kind))
    }

    fn may_leave(&self, role: &str) -> bool {
        self.away.len() < AWAY_MAX && !self.away.contains_key(role)
    }

    fn leave(&mut self, role: String, span: Duration, away: Away) {
        let kind = match (away, role.as_str()) {
            (Away::Stopped, _) => STOPS,
            (Away::Dead, "master") => MASTER_KILLS,
            (Away::Dead, "security") => "kills of the security server",
            (Away::Dead, _) => NODE_KILLS,
        };
        *self.fired.entry(kind).or_default() += 1;
        self.away.insert(role, (Instant::now() + span, away));
    }

    fn bring_back(&mut self, cloud: &mut Roles, role: &str) {
        match self.away.remove(role) {
            Some((_, Away::Dead)) => cloud.run_role(role),
            Some((_, Away::Stopped)) => cloud.resume(role),
            None => {}
        }
    }

    /// Turns over a bit of one copy of a file that has two good ones.
    fn flip(&mut self, rng: &mut Rng, cloud: &Roles, ledger: &Ledger) {
        let paths = ledger.paths();
        let candidates: Vec<_> = paths
            .iter()
            .filter_map(|path| Some((path, ledger.certain(path)?)))
            .filter(|(_, content)| content.bytes > 0 && !self.flipped.contains(content))
            .collect();
        if candidates.is_empty() {
            return;
        }
        let (path, content) = candidates[rng.usize(..candidates.len())];
        let stat = cloud.run(&["stat", "--json", path]);
        if stat.code != 0 || stat.text().matches("\"ok\"").count() < 2 {
            return;
        }
        let nodes: Vec<_> = cloud.names().into_iter().filter(|name| name.starts_with("node-")).collect();
        let native = |node: &String| cloud.role_folder(node).join(format!("slices{path}"));
        let good = |node: &&String| fs::read(native(node)).is_ok_and(|bytes| bytes == content.make());
        let holders: Vec<_> = nodes.iter().filter(good).collect();
        if holders.len() < 2 {
            return;
        }
        let file = native(holders[rng.usize(..holders.len())]);
        let mut bytes = content.make();
        bytes[rng.usize(..content.bytes)] ^= 1 << rng.u8(..8);
        // In place, as a rotting disk does; the file may have been moved on a moment ago.
        if file.exists() && fs::write(&file, bytes).is_ok() {
            self.flipped.insert(content);
            *self.fired.entry(FLIPS).or_default() += 1;
        }
    }
}

const NODE_KILLS: &str = "kills of nodes";
const MASTER_KILLS: &str = "kills of the master";
const STOPS: &str = "stopped processes";
const FLIPS: &str = "turned bits";
/// Roles away at once: with more, nothing would ever be done.
const AWAY_MAX: usize = 2;
