//! From what the rules assign to what an SPE is told: addresses, and tickets for what it must fetch from other nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use protocol::{
    JobId, NodeId, Refusal, SectorPath, SliceId, Status,
    message::{
        acl::{AclReply, AclRequest},
        client_master::{ClientReply, ClientRequest, CopyState, CopyStatus, EntryKind, Located, Source},
        spe::{Function, Guide, LoadOrder, Output, PartOrder, SegmentOrder, SegmentSource, SideOrder, TaskOrder},
    },
    record_index::offsets_of,
    ticket::SignedTicket,
};
use sphere::{AssignedGuide, AssignedPart, Assignment, Placement, SegmentPlace};

use super::{doors::Doors, refusal, side::PinnedFile};
use crate::{Client, ClientError, error::advice_for_lost};

/// Why an order cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OrderRefused {
    /// It may be possible later.
    Now(Refusal),
    /// No copy of what is to be read can be reached now.
    InputAway(Refusal),
    /// The input is no longer what the job was to read.
    ForEver(Refusal),
}

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
        Err(error) => Err(refused(error)),
    }
}

/// Where the slice can be read, which is still that of its path: at least one place. It is away only where that may change
/// by itself, since a node that has it is not there now; not where all copies are bad or gone.
async fn find_sources(client: &Client, path: &SectorPath, slice: SliceId) -> Result<Vec<Source>, OrderRefused> {
    match current_sources(locate(client, path).await?, slice) {
        Err(OrderRefused::InputAway(refusal)) => match client.ask(ClientRequest::Stat(path.clone())).await {
            Ok(ClientReply::Status(found)) if has_copies_away(&found.copies) => Err(OrderRefused::InputAway(refusal)),
            _ => Err(OrderRefused::Now(refusal)),
        },
        found => found,
    }
}

fn has_copies_away(copies: &[CopyStatus]) -> bool {
    copies.iter().any(|copy| matches!(copy.state, CopyState::Stale | CopyState::Writing))
}

async fn locate(client: &Client, path: &SectorPath) -> Result<Located, OrderRefused> {
    match client.ask(ClientRequest::Locate(path.clone())).await {
        Ok(ClientReply::Located(located)) => Ok(located),
        Ok(_) => Err(OrderRefused::Now(refusal(ClientError::Unexpected { who: "master", request: "locate" }))),
        Err(error) => Err(refused(error)),
    }
}

/// What is missing or not allowed is so the next time too.
fn refused(error: ClientError) -> OrderRefused {
    let refusal = refusal(error);
    match refusal.status {
        Status::NotFound | Status::Refused => OrderRefused::ForEver(refusal),
        _ => OrderRefused::Now(refusal),
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

/// What the master names of them.
fn current_sources(located: Located, slice: SliceId) -> Result<Vec<Source>, OrderRefused> {
    let path = located.entry.path;
    if !matches!(&located.entry.kind, EntryKind::File(content) if content.slice == slice) {
        let sentence = format!("`{path}` was changed while the job read it; run the job again");
        return Err(OrderRefused::ForEver(Refusal::new(Status::Refused, sentence)));
    }
    if located.sources.is_empty() {
        let sentence = format!("no copy of `{path}` can be reached now; {}", advice_for_lost(&path));
        return Err(OrderRefused::InputAway(Refusal::new(Status::Unavailable, sentence)));
    }
    Ok(located.sources)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{
        Digest, FileId, Place, RecordFormat, UserName, Version,
        message::client_master::{Entry, FileContent},
    };

    use super::*;

    fn located(nodes: &[&str]) -> Located {
        let content = FileContent {
            slice: SliceId(7),
            version: Version(1),
            bytes: 20,
            digest: Digest([0; 32]),
            records: RecordFormat::File,
            copies: 1,
            user: BTreeMap::new(),
        };
        let source = |name: &&str| Source {
            node: NodeId::new(*name).unwrap(),
            place: Place::new("s", "r"),
            address: "127.0.0.1:1".parse().unwrap(),
            distance: None,
            local: None,
            ticket: SignedTicket { ticket: vec![], signature: vec![], handed: None },
        };
        Located {
            entry: Entry {
                path: "/x".parse().unwrap(),
                id: FileId(1),
                owner: UserName::new("u").unwrap(),
                modified_unix_millis: 0,
                kind: EntryKind::File(content),
                nodes: vec![],
                has_acl: false,
            },
            sources: nodes.iter().map(source).collect(),
        }
    }

    #[test]
    fn a_copy_comes_back_by_itself_where_its_node_is_away_and_not_where_it_is_bad() {
        let copy = |state| CopyStatus { node: NodeId::new("a").unwrap(), place: Place::new("s", "r"), state };
        let away = |states: &[CopyState]| has_copies_away(&states.iter().map(|state| copy(*state)).collect::<Vec<_>>());
        assert!(away(&[CopyState::Corrupt, CopyState::Stale]) && away(&[CopyState::Writing]));
        assert!(!away(&[CopyState::Corrupt]) && !away(&[]), "nobody has a good one");
    }

    #[test]
    fn the_nearest_copy_is_read_and_else_the_one_the_master_names_first() {
        let name = |nodes: &[&str], nearest: Option<&str>| {
            let nearest = nearest.map(|name| NodeId::new(name).unwrap());
            let sources = current_sources(located(nodes), SliceId(7));
            sources.map(|sources| choose(sources, nearest.as_ref()).node.to_string())
        };
        assert_eq!(name(&["a", "b"], Some("b")), Ok("b".into()));
        assert_eq!(name(&["a", "b"], Some("c")), Ok("a".into()));
        assert_eq!(name(&["a", "b"], None), Ok("a".into()));
        assert!(
            matches!(name(&[], Some("a")), Err(OrderRefused::InputAway(refusal)) if refusal.status == Status::Unavailable)
        );
    }

    #[test]
    fn a_node_that_has_a_side_file_fetches_none_and_others_spread_over_the_nearest() {
        let name = |name: &str| NodeId::new(name).unwrap();
        let sources = || located(&["a", "b", "c"]).sources;
        assert!(nearest_to(&name("b"), sources(), |_| 0).is_none());
        let far = |source: &Source| u8::from(source.node != name("c"));
        assert_eq!(nearest_to(&name("x"), sources(), far).map(|source| source.node), Some(name("c")));
        let chosen = (0..50).filter_map(|node| nearest_to(&name(&format!("node-{node}")), sources(), |_| 0));
        assert_eq!(chosen.map(|source| source.node).collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn a_file_that_was_overwritten_ends_the_job_instead_of_mixing_versions() {
        let refused = current_sources(located(&["a"]), SliceId(8)).unwrap_err();
        assert!(matches!(refused, OrderRefused::ForEver(refusal) if refusal.sentence.contains("`/x` was changed")));
    }
}
