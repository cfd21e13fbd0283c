//! What is far slower than its peers: nodes, disks, and links between sites (Open Cloud Testbed paper, section 3). Evidence
//! goes in, marks come out; begin with [`comparison`]. Pure: times are told, and all of them are of the monotonic clock.
//! A slow disk is not held against its node, nor a slow link against anybody. It never makes anything unavailable.

pub(crate) mod comparison;
mod disk_evidence;
mod link_evidence;
pub(crate) mod mark_table;
mod stage_evidence;

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    NodeId, Now,
    message::{
        load::DiskLoad,
        marks::{MarkSubject, StageWork},
    },
};
use store::RowChange;

use comparison::{Comparison, Verdict, Verdicts};
use disk_evidence::DiskEvidence;
use link_evidence::{JudgedLink, LinkEvidence};
use mark_table::MarkTable;
use stage_evidence::StageEvidence;

/// Evidence, verdicts and marks.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) marks: MarkTable,
    disks: DiskEvidence,
    stages: StageEvidence,
    links: LinkEvidence,
    verdicts: BTreeMap<Observed, Verdicts>,
    next: Duration,
}

/// What verdicts are about. A link has two directions, each with its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Observed {
    subject: MarkSubject,
    /// The site that sends.
    from: Option<String>,
}

/// What the judge must know of the cloud.
pub(crate) trait JudgedCloud {
    /// The folder of a node's disk, by its number.
    fn disk_folder(&self, node: &NodeId, number: usize) -> Option<String>;

    /// What went over a link in a second, in bytes.
    fn link_rate(&self, from: &str, to: &str, second: u64) -> Option<f64>;

    /// Whether it is not part of the cloud any more.
    fn is_gone(&self, subject: &MarkSubject) -> bool;
}

impl Judgement {
    /// What the disks of a node did in the last second, in the order of its settings.
    pub(crate) fn note_disks(&mut self, node: &NodeId, disks: &[Option<DiskLoad>]) {
        for (number, load) in disks.iter().enumerate() {
            if let Some(load) = load {
                self.disks.add(node, number, load);
            }
        }
    }

    /// What SPEs of a node did over bytes of its own.
    pub(crate) fn note_stages(&mut self, now: Now, node: &NodeId, work: &[StageWork]) {
        work.iter().for_each(|work| self.stages.add(now.monotonic, node, work));
    }

    /// A link held a node up all through the last second.
    pub(crate) fn note_full_link(&mut self, now: Now, from: &str, to: &str) {
        self.links.add(now.monotonic, from, to);
    }

    /// What the link between two sites carries, both ways together, as far as it was measured while it was full.
    pub(crate) fn capacity(&self, a: &str, b: &str) -> Option<u64> {
        self.links.capacity(a, b)
    }

    /// Takes a mark away, and what led to it.
    pub(crate) fn clear(&mut self, subject: &MarkSubject) -> Option<RowChange> {
        self.verdicts.retain(|observed, _| observed.subject != *subject);
        self.marks.clear(subject)
    }

    /// Whether a span is over.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        now.monotonic >= self.next
    }

    /// Compares what was done in the span that is over, and marks what is slow; gives the rows to save.
    pub(crate) fn judge(&mut self, now: Now, cloud: &impl JudgedCloud) -> Vec<RowChange> {
        let late = now.monotonic.saturating_sub(self.next);
        self.next = now.monotonic + SPAN;
        if late > SPAN {
            // The master itself was away: what came meanwhile came in a heap, and compares with nothing.
            self.disks.clear();
            self.stages.clear();
            self.links.clear();
        }
        self.verdicts
            .retain(|observed, verdicts| verdicts.forget_old(now.monotonic) && !cloud.is_gone(&observed.subject));
        let mut changes = self.marks.expire(now, |subject| cloud.is_gone(subject));
        self.judge_disks(now, cloud, &mut changes);
        self.judge_nodes(now, &mut changes);
        for judged in self.links.judge(now.monotonic, |from, to, second| cloud.link_rate(from, to, second)) {
            self.judge_link(now, judged, &mut changes);
        }
        changes
    }

    fn judge_disks(&mut self, now: Now, cloud: &impl JudgedCloud, changes: &mut Vec<RowChange>) {
        for judged in self.disks.judge() {
            let Some(folder) = cloud.disk_folder(&judged.node, judged.number) else { continue };
            let (node, number, found) = (judged.node, judged.number + 1, judged.comparison);
            let reason = format!(
                "disk {number} of {node} (`{folder}`) takes {} an operation; the median of {} disks under like load is {}",
                span(found.cost),
                found.peers,
                span(found.median)
            );
            let subject = MarkSubject::Disk { node, folder };
            changes.extend(self.note_verdict(
                now,
                Observed { subject, from: None },
                (now.monotonic.as_secs(), 1),
                found,
                reason,
            ));
        }
    }

    fn judge_nodes(&mut self, now: Now, changes: &mut Vec<RowChange>) {
        for judged in self.stages.judge(now.monotonic) {
            let subject = MarkSubject::Node(judged.node.clone());
            let observed = Observed { subject, from: None };
            if self.has_suspect_disk(&judged.node) {
                // Its disk is the reason, or may be.
                self.verdicts.remove(&observed);
                changes.extend(self.marks.clear_measured(&observed.subject));
                continue;
            }
            let (node, found) = (judged.node, judged.comparison);
            let reason = format!(
                "an SPE of {node} takes {} for a megabyte of its own files; the median of {} other nodes in the same stage \
                 is {}",
                span(found.cost * 1e6),
                found.peers,
                span(found.median * 1e6)
            );
            // Records may be uneven within one stage: a second one must say the same.
            changes.extend(self.note_verdict(now, observed, (judged.source, 2), found, reason));
        }
    }

    fn judge_link(&mut self, now: Now, judged: JudgedLink, changes: &mut Vec<RowChange>) {
        let JudgedLink { from, to, comparison: found } = judged;
        let reason = format!(
            "the link from {from} to {to} carries {} when it is full; the median of {} others is {}",
            rate(1.0 / found.cost),
            found.peers,
            rate(1.0 / found.median)
        );
        let observed = Observed { subject: MarkSubject::link(from.clone(), to), from: Some(from) };
        changes.extend(self.note_verdict(now, observed, (0, 1), found, reason));
    }

    /// Notes a verdict, and what follows from it: a mark, a mark that holds on, or none any more.
    fn note_verdict(
        &mut self,
        now: Now,
        observed: Observed,
        (source, sources_min): (u64, usize),
        found: Comparison,
        reason: String,
    ) -> Option<RowChange> {
        let subject = observed.subject.clone();
        let verdicts = self.verdicts.entry(observed).or_default();
        verdicts.add(now.monotonic, source, found.verdict);
        if found.verdict == Verdict::Slow && verdicts.is_slow(sources_min) {
            let was_slow = self.marks.is_slow(&subject);
            let change = self.marks.note_slow(now, &subject, reason.clone());
            if !was_slow && self.marks.is_slow(&subject) {
                tracing::warn!(%subject, reason, "marked as slow");
            }
            return change;
        }
        // The other direction of a link may still be slow.
        let of_subject = || self.verdicts.iter().filter(|(of, _)| of.subject == subject).map(|(_, verdicts)| verdicts);
        if of_subject().all(Verdicts::is_fine) {
            let change = self.marks.clear_measured(&subject);
            if change.is_some() {
                tracing::info!(%subject, "not slow any more");
            }
            return change;
        }
        None
    }

    /// Whether a disk of a node is slow, or was at times in the last half hour.
    fn has_suspect_disk(&self, node: &NodeId) -> bool {
        let is_disk = |subject: &MarkSubject| matches!(subject, MarkSubject::Disk { node: of, .. } if of == node);
        self.marks.has_slow_disk(node)
            || self.verdicts.iter().any(|(of, verdicts)| is_disk(&of.subject) && verdicts.was_ever_slow())
    }
}

/// A time in microseconds, for people.
fn span(micros: f64) -> String {
    match micros {
        micros if micros >= 1e6 => format!("{:.1} s", micros / 1e6),
        micros if micros >= 1e4 => format!("{:.0} ms", micros / 1e3),
        micros if micros >= 1e3 => format!("{:.1} ms", micros / 1e3),
        micros => format!("{micros:.0} µs"),
    }
}

/// A rate in bytes per second, for people.
fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e9 => format!("{:.1} GB/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.1} MB/s", rate / 1e6),
        rate => format!("{:.1} kB/s", rate / 1e3),
    }
}

/// What is compared at once. It is long enough for some operations of a disk that is hardly used.
const SPAN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
