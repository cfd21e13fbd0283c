//! Reports on their way to the master: kept until acknowledged, in order for each slice, after the inventory that every
//! session begins with. It never grows without the master: without a session nothing is kept, since the next inventory
//! says it all.

use std::collections::{BTreeMap, VecDeque};

use protocol::{
    SliceId, limits,
    message::{node_master::Report, rebuild::MirrorPosition},
    wire::codec,
};
use store::MarkedSlices;

/// Names a report until it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportId(pub u64);

/// The reports of the present session.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Counts over all sessions, so that a late acknowledgement of an old session matches no report.
    next: u64,
    phase: Phase,
    /// What to send before the inventory.
    mark: Option<Report>,
    pages: VecDeque<Report>,
    waiting: VecDeque<Report>,
    in_flight: BTreeMap<ReportId, Option<SliceId>>,
}

impl Outbox {
    /// A session begins: the inventory will follow.
    pub(super) fn open(&mut self) {
        self.close();
        self.phase = Phase::Inventory;
    }

    /// The session ends; the next inventory covers what was still to be sent.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.mark = None;
        self.pages.clear();
        self.waiting.clear();
        self.in_flight.clear();
    }

    /// Which copy of the master's rows is kept here; sent before the inventory.
    pub(super) fn set_mirror_mark(&mut self, mark: Option<MirrorPosition>, all_seen: bool) {
        if self.phase == Phase::Inventory {
            self.mark = Some(Report::MirrorPosition { position: mark, all_seen });
        }
    }

    /// The inventory to send first.
    pub(super) fn inventory(&mut self, slices: Vec<MarkedSlices>) {
        if self.phase == Phase::Inventory {
            self.pages = pages(slices);
            if let Some(mark) = self.mark.take() {
                self.pages.push_front(mark);
            }
            self.phase = Phase::Paging;
        }
    }

    /// Keeps a report until the master has it. Fails when too many wait.
    pub(super) fn add(&mut self, report: Report) -> Result<(), OutboxFull> {
        if self.phase == Phase::Closed {
            return Ok(());
        }
        if self.waiting.len() >= REPORTS_WAITING_MAX {
            return Err(OutboxFull);
        }
        self.waiting.push_back(report);
        Ok(())
    }

    /// The next report to send, if one may be sent now.
    pub(super) fn send(&mut self) -> Option<(ReportId, Report)> {
        match self.phase {
            Phase::Closed | Phase::Inventory => None,
            // One page at a time: the master must see the last page last, and no report before it.
            Phase::Paging if !self.in_flight.is_empty() => None,
            Phase::Paging => {
                if let Some(page) = self.pages.pop_front() {
                    return Some(self.launch(page));
                }
                self.phase = Phase::Open;
                self.send()
            }
            Phase::Open => {
                let slice = slice_of(self.waiting.front()?);
                // Two reports on one slice may overtake each other in transit; the later one is the truth.
                let overtakes = slice.is_some() && self.in_flight.values().any(|flying| *flying == slice);
                if overtakes || self.in_flight.len() >= REPORTS_IN_FLIGHT_MAX {
                    return None;
                }
                let report = self.waiting.pop_front()?;
                Some(self.launch(report))
            }
        }
    }

    /// The master has a report.
    pub(super) fn acknowledged(&mut self, id: ReportId) {
        self.in_flight.remove(&id);
    }

    fn launch(&mut self, report: Report) -> (ReportId, Report) {
        let id = ReportId(self.next);
        self.next += 1;
        self.in_flight.insert(id, slice_of(&report));
        (id, report)
    }
}

/// How far the start of a session has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No session.
    #[default]
    Closed,
    /// The inventory is being taken.
    Inventory,
    /// Its pages are being sent.
    Paging,
    /// Reports are sent as they arrive.
    Open,
}

/// More reports wait than may.
#[derive(Debug)]
pub(super) struct OutboxFull;

fn slice_of(report: &Report) -> Option<SliceId> {
    match report {
        Report::Stored(metadata) => Some(metadata.header.slice),
        Report::ReplicateFailed { slice, .. }
        | Report::Corrupt(slice)
        | Report::Removed(slice)
        | Report::ForwardFailed { slice, .. } => Some(*slice),
        Report::Inventory { .. }
        | Report::Status { .. }
        | Report::Partials(_)
        | Report::MirrorPosition { .. }
        | Report::MirrorPage { .. }
        | Report::TicketsRefused { .. }
        | Report::Clock { .. }
        | Report::IncomingWrite(_)
        | Report::DisksSeen(_)
        | Report::Work(_)
        | Report::Load(_)
        | Report::Links(_)
        | Report::Evidence(_) => None,
    }
}

/// Cuts an inventory into pages that each fit a message, and puts what is known of a disk before its pages. There is at
/// least one page, so that an empty node reports too.
fn pages(disks: Vec<MarkedSlices>) -> VecDeque<Report> {
    let mut pages = VecDeque::new();
    for MarkedSlices { mark: seen, slices } in disks.into_iter().filter(|disk| !disk.slices.is_empty()) {
        pages.push_back(Report::DisksSeen(seen));
        let (mut page, mut page_bytes) = (Vec::new(), 0);
        for slice in slices {
            let bytes = codec::encode(&slice).len();
            if page.len() >= limits::INVENTORY_PAGE_SLICES_MAX || page_bytes + bytes > PAGE_BYTES_MAX {
                pages.push_back(Report::Inventory { slices: std::mem::take(&mut page), last: false });
                page_bytes = 0;
            }
            page_bytes += bytes;
            page.push(slice);
        }
        pages.push_back(Report::Inventory { slices: page, last: false });
    }
    match pages.back_mut() {
        Some(Report::Inventory { last, .. }) => *last = true,
        _ => pages.push_back(Report::Inventory { slices: Vec::new(), last: true }),
    }
    pages
}

/// Reports sent and not yet acknowledged: enough to report hundreds of small files a second to a far master (100 ms).
const REPORTS_IN_FLIGHT_MAX: usize = 64;
/// Reports that may wait: a few megabytes at some hundred bytes each; beyond that an inventory is cheaper.
const REPORTS_WAITING_MAX: usize = 16_384;
/// Bytes of a page's slices: half a GMP message, since one slice with the most user metadata has 68 KiB.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
