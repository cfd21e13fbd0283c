//! Gives out the tasks of a stage (Sector/Sphere paper, 3.5.2): which attempt an SPE makes next, and where it finds its
//! bytes. It never says which SPE is to be asked: the [job](crate::job) does, and [speculation](super::speculation)
//! beside a slow attempt.

use std::collections::BTreeSet;

use protocol::{
    NodeId, Now, SliceId,
    message::{client_master::StageRecord, spe::AttemptId},
};

use super::{Running, Stage};
use crate::{
    SpeId,
    job::action::{AssignedLocator, AssignedPart, AssignedSegment, Assignment, Placement, SegmentLocation},
    schedule::fleet::Fleet,
    stream::{FileLocator, InputFile, Stream, segment_cuts::Segment},
};

impl Stage {
    /// The attempt that an idle SPE should make now; see [`TaskPool::take`](crate::schedule::TaskPool::take).
    pub(crate) fn assign(
        &mut self,
        now: Now,
        fleet: &Fleet,
        spe: SpeId,
        node: &NodeId,
        far: bool,
        record: &mut StageRecord,
    ) -> Option<Assignment> {
        let task = self.pool.take(fleet, node, far)?;
        let state = &mut self.tasks[task as usize];
        // A first attempt is no retry, since none failed before it. The same holds after a segment was left out for an
        // error, or when the attempt before was not begun for lack of input.
        record.retried += u64::from(state.begun > 0 && !std::mem::take(&mut state.is_unblamed));
        Some(self.begin_attempt(now, fleet, task, spe, node))
    }

    /// Counts on a new attempt at a task, and says where it finds its bytes.
    pub(super) fn begin_attempt(
        &mut self,
        now: Now,
        fleet: &Fleet,
        task: u32,
        spe: SpeId,
        node: &NodeId,
    ) -> Assignment {
        let given = self.buckets.placement().clone();
        let state = &mut self.tasks[task as usize];
        let attempt = self.attempts_from + state.begun;
        state.begun += 1;
        let (node, began) = (node.clone(), now.monotonic);
        let running = Running { spe, node: node.clone(), attempt, began, read_bytes: 0, placement: given.clone() };
        self.running_attempts.entry(task).or_default().push(running);
        let state = &self.tasks[task as usize];
        let past = state.past.as_deref();
        let lacking = past.map(|past| &past.lacking);
        let segments = state.segments.iter().map(|segment| self.assigned(fleet, segment, &node, lacking)).collect();
        let wanted = match given {
            Placement::Local => None,
            Placement::Buckets(_) => past.and_then(|past| Some(self.buckets.wanted(past.previous.as_ref()?))),
        };
        let attempt = AttemptId { job: self.job, stage: self.number, epoch: self.epoch, task, attempt };
        Assignment { spe, node, attempt, segments, output: given, wanted }
    }

    fn assigned(
        &self,
        fleet: &Fleet,
        segment: &Segment,
        node: &NodeId,
        lacking: Option<&BTreeSet<NodeId>>,
    ) -> AssignedSegment {
        let (number, from, until) = (segment.number, segment.from, segment.until);
        let file = match &self.stream {
            Stream::Buckets(buckets) => {
                let place = SegmentLocation::Bucket(buckets[segment.member].bucket);
                let (path, records) = (self.stream.path(segment.member), self.stream.records(segment.member));
                let first = AssignedPart { location: place, path, from, until, records, locator: None };
                return AssignedSegment { segment: number, first, zipped: Vec::new() };
            }
            Stream::Files(files) => &files[segment.member],
        };
        let find = |slice, nodes: &[NodeId]| find(fleet, slice, nodes, node, lacking);
        let assign = |part: &InputFile| {
            let (from, until) = segment.range_in(part);
            let guide = segment.split_points.and_then(|marks| locator(part, marks, &find));
            let (place, path, records) = (find(part.slice, &part.nodes), part.path.clone(), part.records);
            AssignedPart { location: place, path, from, until, records, locator: guide }
        };
        let beside = file.layout.zipped.iter().map(assign).collect();
        AssignedSegment { segment: number, first: assign(file), zipped: beside }
    }
}

/// Where an SPE of `node` finds a slice that `nodes` hold.
fn find(
    fleet: &Fleet,
    slice: SliceId,
    nodes: &[NodeId],
    node: &NodeId,
    lacking: Option<&BTreeSet<NodeId>>,
) -> SegmentLocation {
    let lacks = |holder: &NodeId| lacking.is_some_and(|lacking| lacking.contains(holder));
    if nodes.contains(node) && !lacks(node) {
        return SegmentLocation::Local(slice);
    }
    let live = nodes.iter().filter(|holder| fleet.is_live(holder) && !lacks(holder));
    let nearest = live.min_by_key(|holder| (fleet.distance(node, holder), !fleet.is_preferred(holder), *holder));
    let nearest = nearest.cloned();
    SegmentLocation::Remote { slice, nearest }
}

/// What locates the records of a file between two of its marks.
fn locator(
    file: &InputFile,
    (begin, end): (u32, u32),
    find: &dyn Fn(SliceId, &[NodeId]) -> SegmentLocation,
) -> Option<AssignedLocator> {
    let marks = &file.layout.split_points;
    let records = marks[begin as usize].record..marks[end as usize].record;
    Some(match file.layout.locator.as_ref()? {
        FileLocator::Index { path, slice, nodes } => {
            AssignedLocator::Index { location: find(*slice, nodes), path: path.clone(), records }
        }
        FileLocator::Footer { from } => {
            let (until, rows) = (file.bytes, records.end - records.start);
            AssignedLocator::Footer { from: *from, until, row_group: begin, rows }
        }
    })
}
