//! How long operations take at each disk, beside disks that do at least half as much. A slow disk has the longer queue
//! for the same work, so the queue does not tell the load: operations and bytes do. Serves the path *judgement*. It never
//! counts a second in which a disk did next to nothing.

use std::collections::BTreeMap;

use protocol::{NodeId, message::load::DiskLoad};

use super::comparison::{Comparison, Verdict, compare};

/// What disks did in the current span.
#[derive(Debug, Default)]
pub(crate) struct DiskEvidence {
    by_disk: BTreeMap<(NodeId, usize), DiskSums>,
}

/// A disk, and how it compares.
pub(crate) struct JudgedDisk {
    pub(crate) node: NodeId,
    /// Its number in the node's settings, from 0.
    pub(crate) number: usize,
    pub(crate) comparison: Comparison,
}

#[derive(Clone, Copy, Debug, Default)]
struct DiskSums {
    seconds: u32,
    operations: f64,
    bytes: f64,
    wait_micros: f64,
}

impl DiskEvidence {
    /// What a disk of a node did in one second.
    pub(crate) fn add(&mut self, node: &NodeId, number: usize, load: &DiskLoad) {
        let (queue, latency) = (load.queue_hundredths as f64 / 100.0, load.latency_micros as f64);
        if queue <= 0.0 || latency <= 0.0 {
            return;
        }
        // By Little's law, what waits or runs is the rate times the time that each takes.
        let operations = queue * 1e6 / latency;
        let sums = self.by_disk.entry((node.clone(), number)).or_default();
        sums.seconds += 1;
        sums.operations += operations;
        sums.bytes += load.read_bytes.saturating_add(load.written_bytes) as f64;
        sums.wait_micros += operations * latency;
    }

    /// How the disks compare that did enough; the next span begins.
    pub(crate) fn judge(&mut self) -> Vec<JudgedDisk> {
        let mut disks = std::mem::take(&mut self.by_disk);
        disks.retain(|_, sums| sums.seconds >= SECONDS_MIN && sums.operations >= OPERATIONS_MIN);
        let cost = |sums: &DiskSums| sums.wait_micros / sums.operations;
        let judged = disks.iter().filter_map(|(disk, own)| {
            let is_peer = |sums: &DiskSums| sums.operations * 2.0 >= own.operations && sums.bytes * 2.0 >= own.bytes;
            let peers = disks.iter().filter(|(other, sums)| *other != disk && is_peer(sums));
            let mut comparison = compare(cost(own), peers.map(|(_, sums)| cost(sums)).collect())?;
            if comparison.verdict == Verdict::Slow && comparison.cost < LATENCY_MICROS_MIN {
                comparison.verdict = Verdict::Unclear;
            }
            Some(JudgedDisk { node: disk.0.clone(), number: disk.1, comparison })
        });
        judged.collect()
    }

    /// Forgets the current span.
    pub(crate) fn clear(&mut self) {
        self.by_disk.clear();
    }
}

/// Seconds of a span in which a disk must have worked.
const SECONDS_MIN: u32 = 2;
/// Operations that it must have done in a span: a few say more of chance than of the disk.
const OPERATIONS_MIN: f64 = 20.0;
/// What is quicker is not slow, whatever its peers do: a MiB takes as long on a fast network.
const LATENCY_MICROS_MIN: f64 = 2_000.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    /// So many operations of 64 KiB in a second.
    fn load(operations: u64, latency_micros: u64) -> DiskLoad {
        DiskLoad {
            written_bytes: operations << 16,
            latency_micros,
            queue_hundredths: operations * latency_micros / 10_000,
            ..DiskLoad::default()
        }
    }

    fn verdicts(disks: &[(u64, u64)]) -> Vec<(usize, Verdict)> {
        let mut evidence = DiskEvidence::default();
        for _ in 0..5 {
            for (number, (operations, latency)) in disks.iter().enumerate() {
                evidence.add(&node("n"), number, &load(*operations, *latency));
            }
        }
        evidence.judge().into_iter().map(|judged| (judged.number, judged.comparison.verdict)).collect()
    }

    #[test]
    fn a_disk_is_slow_beside_disks_that_do_as_much() {
        let found = verdicts(&[(50, 3_000), (60, 41_000), (55, 3_000), (90, 2_500)]);
        assert_eq!(found[1], (1, Verdict::Slow));
        assert!(found.iter().all(|(number, verdict)| *number == 1 || *verdict == Verdict::Fine), "{found:?}");
    }

    #[test]
    fn a_disk_that_has_all_the_work_is_not_slow_and_one_without_work_is_not_judged() {
        assert_eq!(verdicts(&[(500, 41_000), (20, 3_000), (20, 3_000), (20, 3_000)])[0].0, 1, "it has no peer");
        assert_eq!(verdicts(&[(1, 90_000), (50, 3_000), (50, 3_000), (50, 3_000)]).len(), 3);
        assert!(verdicts(&[(0, 0), (0, 0), (0, 0)]).is_empty(), "all idle");
    }

    #[test]
    fn one_second_of_work_and_quick_disks_mark_nobody() {
        let mut evidence = DiskEvidence::default();
        (0..4)
            .for_each(|number| evidence.add(&node("n"), number, &load(500, if number == 0 { 90_000 } else { 3_000 })));
        assert!(evidence.judge().is_empty());
        assert_eq!(verdicts(&[(50, 1_500), (50, 200), (50, 200)])[0], (0, Verdict::Unclear));
    }
}
