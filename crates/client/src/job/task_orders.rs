//! Turns the assignments of the rules into orders to SPEs: addresses, and tickets for what they must fetch from other
//! nodes. It never decides which SPE gets a task.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use protocol::{
    JobId, NodeId, SectorPath, SliceId,
    message::{
        client_master::{Located, Source},
        request::{JobInputsRequest, LocateRequest, StatRequest},
        spe::{
            FunctionSpec, LoadOrder, OutputPlacement, PartOrder, RecordLocator, SegmentOrder, SegmentSource,
            SideFileOrder, TaskOrder,
        },
    },
    ticket::SignedTicket,
};
use sphere::{
    AssignedLocator, AssignedPart, Assignment, OrderRefusal, Placement, SegmentLocation, input,
    records::record_index::offsets_of,
};

use super::{node_connections::NodeConnections, refusals::refusal, side_files::PinnedFile};
use crate::{Client, error::advice_for_lost};

/// The order for an assignment to an SPE of `node`.
pub(super) async fn task_order(
    client: &Client,
    doors: &NodeConnections,
    node: &NodeId,
    task: &Assignment,
) -> Result<TaskOrder, OrderRefusal> {
    let output = match &task.output {
        Placement::Local => OutputPlacement::Local,
        Placement::Buckets(homes) => {
            let is_wanted = |number: u32| task.wanted.as_ref().is_none_or(|wanted| wanted.contains(&number));
            let place =
                |(number, home)| doors.bucket_place(node, home, is_wanted(number)).map_err(OrderRefusal::Retryable);
            OutputPlacement::Buckets((0..).zip(homes.iter()).map(place).collect::<Result<_, _>>()?)
        }
    };
    let mut sources = PartSources { client, connections: doors, node, found: BTreeMap::new() };
    let mut segments = Vec::with_capacity(task.segments.len());
    for segment in &task.segments {
        let first = sources.part(&segment.first).await?;
        let mut beside = Vec::with_capacity(segment.zipped.len());
        for part in &segment.zipped {
            beside.push(sources.part(part).await?);
        }
        segments.push(SegmentOrder { segment: segment.segment, first, zipped: beside });
    }
    let read = segments.iter().flat_map(SegmentOrder::sources).filter_map(SegmentSource::slice);
    let inputs = inputs_ticket(client, node, task.attempt.job, read).await?;
    Ok(TaskOrder { attempt: task.attempt, segments, output, inputs })
}

/// The order to load a stage's function into an SPE of `node`.
pub(super) async fn load_order(
    client: &Client,
    doors: &NodeConnections,
    node: &NodeId,
    job: JobId,
    function: &FunctionSpec,
    side: &[PinnedFile],
) -> Result<LoadOrder, OrderRefusal> {
    let mut orders = Vec::with_capacity(side.len());
    for PinnedFile { file, slice, bytes } in side {
        let sources = find_sources(client, &file.path, *slice).await?;
        let distance = |source: &Source| doors.distance(node, source);
        let from = nearest_to(node, sources, distance).map(|source| {
            let ticket = client.holder().delegate(&source.ticket, node);
            Box::new(Source { ticket, distance: distance(&source), ..source })
        });
        orders.push(SideFileOrder { name: file.name.clone(), slice: *slice, bytes: *bytes, from });
    }
    let inputs = inputs_ticket(client, node, job, side.iter().map(|file| file.slice)).await?;
    Ok(LoadOrder { function: function.clone(), side_files: orders, inputs })
}

/// Finds where a node gets the parts of a task's segments.
struct PartSources<'a> {
    client: &'a Client,
    connections: &'a NodeConnections,
    node: &'a NodeId,
    /// Segments of one file are neighbours: the file is located once.
    found: BTreeMap<SliceId, Source>,
}

impl PartSources<'_> {
    async fn part(&mut self, part: &AssignedPart) -> Result<PartOrder, OrderRefusal> {
        let source = self.source(&part.location, &part.path).await?;
        let guide = match &part.locator {
            None => None,
            Some(AssignedLocator::Index { location: place, path, records }) => {
                let Range { start: from, end: until } = offsets_of(records.clone());
                Some(RecordLocator::Offsets { source: self.source(place, path).await?, from, until })
            }
            Some(AssignedLocator::Footer { from, until, row_group, rows }) => {
                Some(RecordLocator::Footer { from: *from, until: *until, row_group: *row_group, rows: *rows })
            }
        };
        let (path, from, until, records) = (part.path.clone(), part.from, part.until, part.records);
        Ok(PartOrder { source, path, from, until, records, locator: guide })
    }

    async fn source(&mut self, place: &SegmentLocation, path: &SectorPath) -> Result<SegmentSource, OrderRefusal> {
        let (slice, nearest) = match place {
            SegmentLocation::Local(slice) => return Ok(SegmentSource::Local(*slice)),
            SegmentLocation::Bucket(bucket) => return Ok(SegmentSource::Bucket(*bucket)),
            SegmentLocation::Remote { slice, nearest } => (*slice, nearest.as_ref()),
        };
        let from = match self.found.get(&slice) {
            Some(source) => source.clone(),
            None => {
                let source = choose(find_sources(self.client, path, slice).await?, nearest);
                // The ticket is ours; the node that runs the task is to use it, and may be nearer or farther.
                let ticket = self.client.holder().delegate(&source.ticket, self.node);
                let source = Source { ticket, distance: self.connections.distance(self.node, &source), ..source };
                self.found.insert(slice, source.clone());
                source
            }
        };
        Ok(SegmentSource::Remote { slice, from: Box::new(from) })
    }
}

/// The master's permission for the job to read these slices at the node. None is needed if there are none, and only
/// buckets of the job are read.
async fn inputs_ticket(
    client: &Client,
    node: &NodeId,
    job: JobId,
    read: impl Iterator<Item = SliceId>,
) -> Result<Option<SignedTicket>, OrderRefusal> {
    let slices: Vec<_> = read.collect::<BTreeSet<_>>().into_iter().collect();
    if slices.is_empty() {
        return Ok(None);
    }
    let asked = client.ask(JobInputsRequest { job, node: node.clone(), slices }).await;
    asked.map(Some).map_err(|error| OrderRefusal::from_master(refusal(error)))
}

/// Where the slice can be read, at least one place, if it is still the content of its path.
async fn find_sources(client: &Client, path: &SectorPath, slice: SliceId) -> Result<Vec<Source>, OrderRefusal> {
    match input::sources_of(slice, locate(client, path).await?) {
        Err(OrderRefusal::InputUnavailable(mut refusal)) => {
            refusal.message = format!("{}; {}", refusal.message, advice_for_lost(path));
            match client.ask(StatRequest(path.clone())).await {
                Ok(found) => Err(OrderRefusal::from_copies(refusal, &found.copies)),
                _ => Err(OrderRefusal::Retryable(refusal)),
            }
        }
        found => found,
    }
}

async fn locate(client: &Client, path: &SectorPath) -> Result<Located, OrderRefusal> {
    client.ask(LocateRequest(path.clone())).await.map_err(|error| OrderRefusal::from_master(refusal(error)))
}

/// The copy to read, of one at least: at the nearest node that the rules know of, else the first that the master named.
fn choose(mut sources: Vec<Source>, nearest: Option<&NodeId>) -> Source {
    let at = sources.iter().position(|source| Some(&source.node) == nearest).unwrap_or(0);
    sources.swap_remove(at)
}

/// The copy for `node` to fetch; `None` if it has one itself. Among equally near copies nodes take different ones,
/// since all nodes of a job want the file at the same moment.
fn nearest_to<D: Ord>(node: &NodeId, sources: Vec<Source>, distance: impl Fn(&Source) -> D) -> Option<Source> {
    if sources.iter().any(|source| source.node == *node) {
        return None;
    }
    let any = |source: &Source| {
        let mut hasher = DefaultHasher::new();
        (node, &source.node).hash(&mut hasher);
        hasher.finish()
    };
    sources.into_iter().min_by_key(|source| (distance(source), any(source)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Place;

    use super::*;

    fn sources(nodes: &[&str]) -> Vec<Source> {
        let source = |name: &&str| Source {
            node: NodeId::new(*name).unwrap(),
            place: Place::new("s", "r"),
            address: "127.0.0.1:1".parse().unwrap(),
            distance: None,
            local: None,
            ticket: SignedTicket { ticket: vec![], signature: vec![], delegation: None },
        };
        nodes.iter().map(source).collect()
    }

    #[test]
    fn the_nearest_copy_is_read_and_else_the_one_the_master_names_first() {
        let name = |nodes: &[&str], nearest: Option<&str>| {
            let nearest = nearest.map(|name| NodeId::new(name).unwrap());
            choose(sources(nodes), nearest.as_ref()).node.to_string()
        };
        assert_eq!(name(&["a", "b"], Some("b")), "b");
        assert_eq!(name(&["a", "b"], Some("c")), "a");
        assert_eq!(name(&["a", "b"], None), "a");
    }

    #[test]
    fn a_node_that_has_a_side_file_fetches_none_and_others_spread_over_the_nearest() {
        let name = |name: &str| NodeId::new(name).unwrap();
        let sources = || sources(&["a", "b", "c"]);
        assert!(nearest_to(&name("b"), sources(), |_| 0).is_none());
        let far = |source: &Source| u8::from(source.node != name("c"));
        assert_eq!(nearest_to(&name("x"), sources(), far).map(|source| source.node), Some(name("c")));
        let chosen = (0..50).filter_map(|node| nearest_to(&name(&format!("node-{node}")), sources(), |_| 0));
        assert_eq!(chosen.map(|source| source.node).collect::<BTreeSet<_>>().len(), 3);
    }
}
