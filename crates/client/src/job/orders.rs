//! From what the rules assign to what an SPE is told: addresses, and tickets for what it must fetch from other nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use protocol::{
    JobId, NodeId, SectorPath, SliceId,
    message::{
        acl::{AclReply, AclRequest},
        client_master::{ClientReply, ClientRequest, Located, Source},
        spe::{Function, Guide, LoadOrder, Output, PartOrder, SegmentOrder, SegmentSource, SideOrder, TaskOrder},
    },
    record_index::offsets_of,
    ticket::SignedTicket,
};
use sphere::{AssignedGuide, AssignedPart, Assignment, OrderRefused, Placement, SegmentPlace, input};

use super::{doors::Doors, refusal, side::PinnedFile};
use crate::{Client, ClientError, error::advice_for_lost};

/// The order for an assignment to an SPE of `node`.
pub(super) async fn task_order(
    client: &Client,
    doors: &Doors,
    node: &NodeId,
    task: &Assignment,
) -> Result<TaskOrder, OrderRefused> {
    let output = match &task.output {
        Placement::Local => Output::Local,
        Placement::Buckets(homes) => {
            let is_wanted = |number: u32| task.wanted.as_ref().is_none_or(|wanted| wanted.contains(&number));
            let place = |(number, home)| doors.bucket_place(node, home, is_wanted(number)).map_err(OrderRefused::Now);
            Output::Buckets((0..).zip(homes.iter()).map(place).collect::<Result<_, _>>()?)
        }
    };
    let mut sources = PartSources { client, doors, node, found: BTreeMap::new() };
    let mut segments = Vec::with_capacity(task.segments.len());
    for segment in &task.segments {
        let first = sources.part(&segment.first).await?;
        let mut beside = Vec::with_capacity(segment.beside.len());
        for part in &segment.beside {
            beside.push(sources.part(part).await?);
        }
        segments.push(SegmentOrder { segment: segment.segment, first, beside });
    }
    let read = segments.iter().flat_map(SegmentOrder::sources).filter_map(SegmentSource::slice);
    let inputs = inputs_ticket(client, node, task.attempt.job, read).await?;
    Ok(TaskOrder { attempt: task.attempt, segments, output, inputs })
}

/// The order to load a stage's function into an SPE of `node`.
pub(super) async fn load_order(
    client: &Client,
    doors: &Doors,
    node: &NodeId,
    job: JobId,
    function: &Function,
    side: &[PinnedFile],
) -> Result<LoadOrder, OrderRefused> {
    let mut orders = Vec::with_capacity(side.len());
    for PinnedFile { file, slice, bytes } in side {
        let sources = find_sources(client, &file.path, *slice).await?;
        let distance = |source: &Source| doors.distance(node, source);
        let from = nearest_to(node, sources, distance).map(|source| {
            let ticket = client.holder().hand(&source.ticket, node);
            Box::new(Source { ticket, distance: distance(&source), ..source })
        });
        orders.push(SideOrder { name: file.name.clone(), slice: *slice, bytes: *bytes, from });
    }
    let inputs = inputs_ticket(client, node, job, side.iter().map(|file| file.slice)).await?;
    Ok(LoadOrder { function: function.clone(), side: orders, inputs })
}

/// Finds where a node gets the parts of a task's segments from.
struct PartSources<'a> {
    client: &'a Client,
    doors: &'a Doors,
    node: &'a NodeId,
    /// Segments of one file are neighbours: it is looked up once.
    found: BTreeMap<SliceId, Source>,
}

impl PartSources<'_> {
    async fn part(&mut self, part: &AssignedPart) -> Result<PartOrder, OrderRefused> {
        let source = self.source(&part.place, &part.path).await?;
        let guide = match &part.guide {
            None => None,
            Some(AssignedGuide::Index { place, path, records }) => {
                let Range { start: from, end: until } = offsets_of(records.clone());
                Some(Guide::Offsets { source: self.source(place, path).await?, from, until })
            }
            Some(AssignedGuide::Footer { from, until, row_group, rows }) => {
                Some(Guide::Footer { from: *from, until: *until, row_group: *row_group, rows: *rows })
            }
        };
        let (path, from, until, records) = (part.path.clone(), part.from, part.until, part.records);
        Ok(PartOrder { source, path, from, until, records, guide })
    }

    async fn source(&mut self, place: &SegmentPlace, path: &SectorPath) -> Result<SegmentSource, OrderRefused> {
        let (slice, nearest) = match place {
            SegmentPlace::Local(slice) => return Ok(SegmentSource::Local(*slice)),
            SegmentPlace::Bucket(bucket) => return Ok(SegmentSource::Bucket(*bucket)),
            SegmentPlace::Remote { slice, nearest } => (*slice, nearest.as_ref()),
        };
        let from = match self.found.get(&slice) {
            Some(source) => source.clone(),
            None => {
                let source = choose(find_sources(self.client, path, slice).await?, nearest);
                // The ticket is ours; the node that runs the task is to use it, and may be nearer or farther.
                let ticket = self.client.holder().hand(&source.ticket, self.node);
                let source = Source { ticket, distance: self.doors.distance(self.node, &source), ..source };
                self.found.insert(slice, source.clone());
                source
            }
        };
        Ok(SegmentSource::Remote { slice, from: Box::new(from) })
    }
}

/// The master's word that the job may read these slices at the node; none is needed where there are none, and all that is
/// read are buckets of the job.
async fn inputs_ticket(
    client: &Client,
    node: &NodeId,
    job: JobId,
    read: impl Iterator<Item = SliceId>,
) -> Result<Option<SignedTicket>, OrderRefused> {
    let slices: Vec<_> = read.collect::<BTreeSet<_>>().into_iter().collect();
    if slices.is_empty() {
        return Ok(None);
    }
    match client.ask(ClientRequest::Acl(AclRequest::Inputs { job, node: node.clone(), slices })).await {
        Ok(ClientReply::Acl(AclReply::Inputs(ticket))) => Ok(Some(ticket)),
        Ok(_) => Err(OrderRefused::Now(refusal(ClientError::Unexpected { who: "master", request: "inputs" }))),
        Err(error) => Err(OrderRefused::by_master(refusal(error))),
    }
}

/// Where the slice can be read, which is still that of its path: at least one place.
async fn find_sources(client: &Client, path: &SectorPath, slice: SliceId) -> Result<Vec<Source>, OrderRefused> {
    match input::sources_of(slice, locate(client, path).await?) {
        Err(OrderRefused::InputAway(mut refusal)) => {
            refusal.sentence = format!("{}; {}", refusal.sentence, advice_for_lost(path));
            match client.ask(ClientRequest::Stat(path.clone())).await {
                Ok(ClientReply::Status(found)) => Err(OrderRefused::by_copies(refusal, &found.copies)),
                _ => Err(OrderRefused::Now(refusal)),
            }
        }
        found => found,
    }
}

async fn locate(client: &Client, path: &SectorPath) -> Result<Located, OrderRefused> {
    match client.ask(ClientRequest::Locate(path.clone())).await {
        Ok(ClientReply::Located(located)) => Ok(located),
        Ok(_) => Err(OrderRefused::Now(refusal(ClientError::Unexpected { who: "master", request: "locate" }))),
        Err(error) => Err(OrderRefused::by_master(refusal(error))),
    }
}

/// The copy to read, of one at least: at the nearest node that the rules know of, else at whoever the master names first.
fn choose(mut sources: Vec<Source>, nearest: Option<&NodeId>) -> Source {
    let at = sources.iter().position(|source| Some(&source.node) == nearest).unwrap_or(0);
    sources.swap_remove(at)
}

/// The copy for `node` to fetch; nothing where it has one itself. Of those equally near, nodes take different ones: all of a
/// job's want the file at the same moment.
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
            ticket: SignedTicket { ticket: vec![], signature: vec![], handed: None },
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
