//! Links that carry nothing in one direction, for some seconds up to a minute. One end still hears the other, but is
//! not heard itself.

use std::time::{Duration, Instant};

use cluster::{HOME, Roles};
use fastrand::Rng;

use crate::record;

/// See the module.
#[derive(Default)]
pub(crate) struct Cuts {
    /// From which role, to which role, and until when.
    cut: Vec<(String, String, Instant)>,
    pub(crate) fired: u64,
}

impl Cuts {
    /// Cuts another link; returns whether that was possible.
    pub(crate) fn fire(&mut self, rng: &mut Rng, cloud: &Roles) -> bool {
        let mut ends = cloud.names();
        ends.push(HOME.into());
        // Most important traffic passes the master.
        if rng.bool() {
            ends.retain(|end| end != "security");
        }
        rng.shuffle(&mut ends);
        if rng.bool()
            && let Some(master) = ends.iter().position(|end| end == "master")
        {
            ends.swap(rng.usize(..2), master);
        }
        let span =
            Duration::from_millis(if rng.u8(..4) == 0 { rng.u64(20_000..60_000) } else { rng.u64(2_000..15_000) });
        let [from, to, ..] = &ends[..] else { return false };
        if self.cut.len() >= CUTS_MAX || self.cut.iter().any(|(other, its, _)| (other, its) == (from, to)) {
            return false;
        }
        cloud.network().block_one_way(from, to);
        record(cloud, &format!("{to} does not hear {from} for {span:?}"));
        self.cut.push((from.clone(), to.clone(), Instant::now() + span));
        self.fired += 1;
        true
    }

    /// Restores links that are due.
    pub(crate) fn recover(&mut self, cloud: &Roles) {
        let now = Instant::now();
        for (from, to, _) in self.cut.extract_if(.., |(_, _, until)| *until <= now) {
            cloud.network().unblock_one_way(&from, &to);
        }
    }

    /// Restores all links.
    pub(crate) fn heal(&mut self, cloud: &Roles) {
        for (from, to, _) in self.cut.drain(..) {
            cloud.network().unblock_one_way(&from, &to);
        }
    }

    /// The roles whose messages, or messages to which, are lost at this moment.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &String> {
        self.cut.iter().flat_map(|(from, to, _)| [from, to])
    }
}

/// Links cut at once: with more, nothing would ever succeed.
const CUTS_MAX: usize = 2;
