//! Tasks: what is given to an SPE in one go. A large segment is a task of its own. Neighbouring small ones on the same
//! node are put together, so that many small files cost few round trips. A bucket is always its own task. It never
//! splits a segment and never changes the order within a task.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    slice,
    sync::Arc,
};

use protocol::NodeId;

use crate::{
    schedule::fleet::Fleet,
    stream::{Stream, segment_cuts::Segment},
};

/// Some segments to be processed in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Its segments, in the order of the stream.
    pub(crate) segments: Segments,
    /// The nodes that hold all of it, by name. Tasks of one file share the list, since a job may have a million tasks.
    pub(crate) holders: Arc<[NodeId]>,
    /// The member of the stream that it began with; two tasks of the same member read the same file.
    pub(crate) member: usize,
}

impl Task {
    fn of(lists: &mut HolderLists, segments: Segments) -> Self {
        let member = segments.first().map_or(0, |segment| segment.member);
        let mut holders = lists.of(member);
        for segment in segments.iter().filter(|segment| segment.member != member) {
            let nodes = lists.stream.nodes(segment.member);
            if !holders.iter().all(|node| nodes.contains(node)) {
                holders = holders.iter().filter(|node| nodes.contains(node)).cloned().collect();
            }
        }
        Self { segments, holders, member }
    }
}

/// The segments of a task. Most have one, and a job may have a million tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segments {
    One(Segment),
    Some(Vec<Segment>),
}

impl Segments {
    fn of(list: Vec<Segment>) -> Self {
        if let [segment] = list[..] { Self::One(segment) } else { Self::Some(list) }
    }

    /// Bytes of all.
    pub(crate) fn bytes(&self) -> u64 {
        self.iter().map(|segment| segment.bytes).sum()
    }

    /// Removes the segment at this place and gives it.
    pub(crate) fn remove(&mut self, at: usize) -> Segment {
        let mut list = self.to_vec();
        let segment = list.remove(at);
        *self = Self::of(list);
        segment
    }
}

impl Deref for Segments {
    type Target = [Segment];

    fn deref(&self) -> &[Segment] {
        match self {
            Self::One(segment) => slice::from_ref(segment),
            Self::Some(segments) => segments,
        }
    }
}

/// The holders of the members of a stream, by name. Equal lists are shared.
struct HolderLists<'a> {
    stream: &'a Stream,
    last: Option<(usize, Arc<[NodeId]>)>,
    lists: BTreeSet<Arc<[NodeId]>>,
}

impl HolderLists<'_> {
    fn of(&mut self, member: usize) -> Arc<[NodeId]> {
        if let Some((_, list)) = self.last.as_ref().filter(|(last, _)| *last == member) {
            return Arc::clone(list);
        }
        let names: BTreeSet<_> =
            if member < self.stream.len() { self.stream.nodes(member).iter().collect() } else { BTreeSet::new() };
        let names: Vec<NodeId> = names.into_iter().cloned().collect();
        let list = self.lists.get(&names[..]).map_or_else(|| names.into(), Arc::clone);
        self.lists.insert(Arc::clone(&list));
        self.last = Some((member, Arc::clone(&list)));
        list
    }
}

/// Groups segments into tasks of up to about `small_bytes` bytes, in the order of their first segments. Each has a home
/// among the live nodes of `fleet`.
pub(crate) fn group(stream: &Stream, segments: Vec<Segment>, fleet: &Fleet, small_bytes: u64) -> Vec<Task> {
    let mut lists = HolderLists { stream, last: None, lists: BTreeSet::new() };
    if stream.is_pinned() {
        return segments.into_iter().map(|segment| Task::of(&mut lists, Segments::One(segment))).collect();
    }
    let mut load = Load { fleet, bytes: BTreeMap::new() };
    let mut open: BTreeMap<Option<&NodeId>, Vec<Segment>> = BTreeMap::new();
    let mut tasks = Vec::new();
    for segment in segments {
        let home = load.assign(stream.nodes(segment.member), segment.bytes);
        if segment.bytes >= small_bytes {
            tasks.push(Task::of(&mut lists, Segments::One(segment)));
            continue;
        }
        let group = open.entry(home).or_default();
        let group_bytes: u64 = group.iter().map(|segment| segment.bytes).sum();
        // A segment counts once for each stream read together: each has slices of its own in the task's ticket.
        let streams = stream.file(segment.member).map_or(1, |file| file.parts().count());
        let is_full = group.len() >= TASK_SEGMENTS_MAX / streams;
        if !group.is_empty() && (group_bytes + segment.bytes > small_bytes || is_full) {
            tasks.push(Task::of(&mut lists, Segments::of(std::mem::take(group))));
        }
        group.push(segment);
    }
    tasks.extend(
        open.into_values().filter(|group| !group.is_empty()).map(|group| Task::of(&mut lists, Segments::of(group))),
    );
    tasks.sort_by_key(|task| task.segments.first().map(|segment| segment.number));
    tasks
}

/// The bytes of which each node is the home.
struct Load<'a> {
    fleet: &'a Fleet,
    bytes: BTreeMap<&'a NodeId, u64>,
}

impl<'a> Load<'a> {
    /// Gives `bytes` to the live holder with the least to do for its number of SPEs; a preferred one if there is one.
    fn assign(&mut self, holders: &[NodeId], bytes: u64) -> Option<&'a NodeId> {
        let live = holders.iter().filter_map(|node| self.fleet.weights().get_key_value(node));
        let share = |node: &NodeId, weight: u32| {
            // 2^44 bytes a slice and a 24-bit scale keep this far inside 128 bits, and it needs no fractions.
            (u128::from(self.bytes.get(node).copied().unwrap_or(0)) << 24) / u128::from(weight.max(1))
        };
        let (home, _) =
            live.min_by_key(|(node, weight)| (!self.fleet.is_preferred(node), share(node, **weight), *node))?;
        // Even an empty file takes an SPE's time.
        *self.bytes.entry(home).or_default() += bytes + 1;
        Some(home)
    }
}

/// Most segments of one task: keeps an order to an SPE under 1 MB and its loss cheap.
const TASK_SEGMENTS_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{sync::Arc, time::Duration};

    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
    use protocol::{Place, RecordFraming, SliceId};

    use super::*;
    use crate::{
        job::plan::SpeNodePlan,
        stream::{FileLayout, InputFile, segment_cuts::cut},
    };

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn stream(files: &[(u64, &[&str])]) -> Stream {
        let file = |(bytes, nodes): &(u64, &[&str])| InputFile {
            path: "/f".parse().unwrap(),
            slice: SliceId(0),
            bytes: *bytes,
            records: RecordFraming::File,
            nodes: nodes.iter().map(|name| node(name)).collect(),
            layout: FileLayout::default(),
        };
        Stream::Files(Arc::new(files.iter().map(file).collect()))
    }

    /// Nodes of one SPE each; `!` behind a name marks it.
    fn fleet(names: &[&str]) -> Fleet {
        let plan = |name: &&str| SpeNodePlan {
            node: node(name.trim_end_matches('!')),
            place: Place::new("s", "r"),
            slots: 1,
            is_marked: name.ends_with('!'),
        };
        Fleet::new(&names.iter().map(plan).collect::<Vec<_>>(), Duration::from_secs(1))
    }

    fn grouped(files: &[(u64, &[&str])], names: &[&str]) -> Vec<(Vec<usize>, Vec<String>)> {
        let stream = stream(files);
        let segments = cut(&stream, 1, (100, 1000)).unwrap();
        let tasks = group(&stream, segments, &fleet(names), 100);
        let shape = |task: &Task| {
            (task.segments.iter().map(|s| s.member).collect(), task.holders.iter().map(ToString::to_string).collect())
        };
        tasks.iter().map(shape).collect()
    }

    fn is(members: &[usize], holders: &[&str]) -> (Vec<usize>, Vec<String>) {
        (members.to_vec(), holders.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn small_neighbours_on_one_node_travel_together_and_a_large_one_alone() {
        let tasks = grouped(&[(10, &["a"]), (20, &["b"]), (30, &["a"]), (500, &["a"]), (80, &["a"])], &["a", "b"]);
        assert_eq!(tasks, [is(&[0, 2], &["a"]), is(&[1], &["b"]), is(&[3], &["a"]), is(&[4], &["a"])]);
    }

    #[test]
    fn files_with_several_copies_are_shared_out_evenly() {
        let tasks = grouped(&[(40, &["a", "b"]), (40, &["a", "b"]), (40, &["a", "b"]), (40, &["b", "a"])], &["a", "b"]);
        assert_eq!(tasks, [is(&[0, 2], &["a", "b"]), is(&[1, 3], &["a", "b"])]);
    }

    #[test]
    fn small_files_travel_with_what_lies_on_nodes_that_are_not_marked() {
        let files: &[(u64, &[&str])] = &[(40, &["a", "b"]), (40, &["a", "c"]), (40, &["a", "b"]), (10, &["a"])];
        let shared = grouped(files, &["a", "b", "c"]);
        assert_eq!(shared, [is(&[0, 3], &["a"]), is(&[1], &["a", "c"]), is(&[2], &["a", "b"])]);
        let tasks = grouped(files, &["a!", "b", "c"]);
        assert_eq!(tasks, [is(&[0, 2], &["a", "b"]), is(&[1], &["a", "c"]), is(&[3], &["a"])]);
        assert_eq!(grouped(files, &["a!", "b!", "c!"]), shared);
    }

    #[test]
    fn only_nodes_with_all_of_a_task_hold_it() {
        let tasks = grouped(&[(10, &["a", "b"]), (10, &["a", "c"]), (10, &["x"])], &["a"]);
        assert_eq!(tasks, [is(&[0, 1], &["a"]), is(&[2], &["x"])]);
    }

    #[test]
    fn the_number_of_segments_of_a_task_is_bounded() {
        let files: Vec<(u64, &[&str])> = vec![(0, &["a"]); TASK_SEGMENTS_MAX + 1];
        let tasks = grouped(&files, &["a"]);
        assert_eq!(tasks.iter().map(|(members, _)| members.len()).collect::<Vec<_>>(), [TASK_SEGMENTS_MAX, 1]);
    }

    proptest! {
        #[test]
        fn every_segment_is_in_exactly_one_task_and_small_tasks_stay_small(
            list in prop::collection::vec((0..300_u64, prop::collection::vec(0..4_usize, 0..3)), 1..60),
        ) {
            let names = ["a", "b", "c", "elsewhere"];
            let nodes: Vec<Vec<&str>> = list.iter().map(|(_, at)| at.iter().map(|at| names[*at]).collect()).collect();
            let files: Vec<(u64, &[&str])> = list.iter().zip(&nodes).map(|((bytes, _), nodes)| (*bytes, &nodes[..])).collect();
            let stream = stream(&files);
            let segments = cut(&stream, 3, (100, 200)).unwrap();
            let tasks = group(&stream, segments.clone(), &fleet(&["a", "b", "c"]), 100);
            let mut seen: Vec<u64> = tasks.iter().flat_map(|task| task.segments.iter().map(|s| s.number)).collect();
            for task in &tasks {
                prop_assert!(task.segments.len() == 1 || task.segments.bytes() <= 100);
                prop_assert!(task.segments.is_sorted_by_key(|s| s.number));
            }
            prop_assert!(tasks.is_sorted_by_key(|task| task.segments[0].number));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..segments.len() as u64).collect::<Vec<_>>());
        }
    }
}
