//! What this node has to say about slowness: how long its SPEs took for bytes of its own, and which links were full.
//! Serves the path *judgement*. It is kept until the master has it, and bounded. It never says that something is slow:
//! the master compares nodes.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::{
    JobId,
    message::marks::{EvidenceReport, STAGES_MAX, StageWork},
};

/// What was measured and not yet reported.
#[derive(Debug, Default)]
pub(crate) struct Evidence(Mutex<BTreeMap<(JobId, u32), Work>>);

/// What SPEs did of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    bytes: u64,
    busy_micros: u64,
}

impl Evidence {
    /// A task has ended well that read so many bytes, all of them on this node.
    pub(crate) fn note_task(&self, job: JobId, stage: u32, bytes: u64, busy: Duration) {
        let mut work = self.lock();
        if bytes == 0 || (work.len() >= STAGES_MAX && !work.contains_key(&(job, stage))) {
            return;
        }
        let sums = work.entry((job, stage)).or_default();
        sums.bytes = sums.bytes.saturating_add(bytes);
        sums.busy_micros = sums.busy_micros.saturating_add(u64::try_from(busy.as_micros()).unwrap_or(u64::MAX));
    }

    /// What the master does not have yet, with the links that were full in the last second; `None` where that is nothing.
    pub(crate) fn untold(&self, full_links: Vec<String>) -> Option<EvidenceReport> {
        let row = |((job, stage), work): (&(JobId, u32), &Work)| StageWork {
            job: *job,
            stage: *stage,
            bytes: work.bytes,
            busy_micros: work.busy_micros,
        };
        let report = EvidenceReport { stages: self.lock().iter().map(row).collect(), full_links };
        (report != EvidenceReport::default()).then_some(report)
    }

    /// The master has this.
    pub(crate) fn note_told(&self, told: &EvidenceReport) {
        let mut work = self.lock();
        for stage in &told.stages {
            if let Some(sums) = work.get_mut(&(stage.job, stage.stage)) {
                sums.bytes = sums.bytes.saturating_sub(stage.bytes);
                sums.busy_micros = sums.busy_micros.saturating_sub(stage.busy_micros);
            }
        }
        work.retain(|_, sums| *sums != Work::default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(JobId, u32), Work>> {
        // Sums are whole after each line of this file.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(evidence: &Evidence) -> Vec<(u64, u32, u64, u64)> {
        let report = evidence.untold(Vec::new()).unwrap_or_default();
        report.stages.iter().map(|it| (it.job.0, it.stage, it.bytes, it.busy_micros)).collect()
    }

    #[test]
    fn work_adds_up_until_the_master_has_it() {
        let evidence = Evidence::default();
        let second = Duration::from_secs(1);
        evidence.note_task(JobId(1), 0, 10, second);
        evidence.note_task(JobId(1), 0, 5, second);
        evidence.note_task(JobId(1), 1, 7, second);
        evidence.note_task(JobId(2), 0, 0, second);
        let first = evidence.untold(Vec::new()).unwrap();
        assert_eq!(told(&evidence), [(1, 0, 15, 2_000_000), (1, 1, 7, 1_000_000)], "a task without bytes says nothing");
        evidence.note_task(JobId(1), 1, 1, second);
        evidence.note_told(&first);
        assert_eq!(told(&evidence), [(1, 1, 1, 1_000_000)], "what came meanwhile is kept");
        assert_eq!(evidence.untold(vec!["jhu".into()]).unwrap().full_links, ["jhu"]);
    }

    #[test]
    fn a_thousand_stages_take_no_more_room_than_a_report_has() {
        let evidence = Evidence::default();
        (0..1_000).for_each(|job| evidence.note_task(JobId(job), 0, 1, Duration::from_secs(1)));
        assert_eq!(told(&evidence).len(), STAGES_MAX);
        evidence.note_task(JobId(0), 0, 1, Duration::from_secs(1));
        assert_eq!(told(&evidence)[0], (0, 0, 2, 2_000_000));
    }
}
