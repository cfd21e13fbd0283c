//! Results of a task on their way to their buckets: by a rename or a copy within this node, over kept connections to
//! others, several at once, and from task to task in another order, so that not all tasks of a stage are at the same
//! node at the same moment.
//!
//! It never counts a piece as delivered before its bucket has it whole. A piece that comes twice is taken once, so that a
//! delivery may be made again. What went to other nodes is [kept](crate::bucket::KeptResults).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use net::transfer::{Frame, Way};
use protocol::{
    NodeId, Pace, Status,
    message::{
        spe::{AttemptId, BucketId, BucketPlace, DeliveryOrder, Output, PieceId, PieceResult},
        transfer::{TransferReply, TransferRequest},
    },
};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    NodeError, blocking,
    bucket::{Begun, BucketStore, KeptContent, PieceWriter, Scratch},
    fetch::{ask, unexpected},
    flow::{FRAME_BYTES, FrameSource, Outflow, STALL_MAX},
    hands::Hands,
    peers::Peer,
    spe::{Chunk, TaskOutput},
};

/// Delivers the pieces of a task; what it has for each bucket. A piece that another node could not take is kept, and so is
/// what was taken, for the day on which that node is lost.
///
/// # Errors
/// Where a piece can be neither delivered nor kept, or a bucket does not want it any more.
pub(super) async fn deliver(
    hands: &Arc<Hands>,
    attempt: AttemptId,
    output: Output,
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<PieceResult>, NodeError> {
    match output {
        Output::Local => keep(hands, attempt, scratch, result).await,
        Output::Buckets(places) => spread(hands, attempt, &places, scratch, result).await,
    }
}

/// Delivers again what an attempt left and this node has kept.
pub(super) async fn deliver_again(hands: &Arc<Hands>, order: DeliveryOrder) -> Result<(), NodeError> {
    let attempt = order.attempt;
    let kept = hands.buckets.kept().find(attempt).ok_or_else(|| {
        let sentence = format!("what attempt {} of task {} left is not kept any more", attempt.attempt, attempt.task);
        NodeError::refused(Status::NotFound, sentence)
    })?;
    let places: BTreeMap<u32, BucketPlace> = order.places.into_iter().collect();
    let parts = Part::gather(kept.chunks.clone());
    let wanted = parts.into_iter().filter_map(|part| Some((places.get(&part.bucket)?.clone(), part)));
    let results = match &kept.content {
        KeptContent::File(scratch) => Results::File { file: scratch.open()?, path: scratch.path().to_owned() },
        KeptContent::Memory(bytes) => Results::Memory(Arc::clone(bytes)),
    };
    let undelivered = send_all(hands, attempt, wanted.collect(), Arc::new(results)).await?;
    undelivered.into_values().next().map_or(Ok(()), Err)
}

/// The whole scratch file becomes a piece of this node's bucket of the task's number.
async fn keep(
    hands: &Hands,
    attempt: AttemptId,
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<PieceResult>, NodeError> {
    let bytes = result.bytes();
    if bytes == 0 {
        let buckets = Arc::clone(&hands.buckets);
        let put_back = move || {
            buckets.put_back(attempt.job, scratch);
            Ok(Vec::new())
        };
        return blocking("putting a scratch file back", put_back).await;
    }
    let piece = PieceId { bucket: own_bucket(attempt), task: attempt.task, attempt: attempt.attempt };
    let buckets = Arc::clone(&hands.buckets);
    let take = move || {
        let (sums, checksum) = buckets.sums_of(&scratch, bytes)?;
        buckets.take_file(piece, scratch, bytes, Some(sums)).map(|()| checksum)
    };
    let checksum = blocking("keeping a task's results", take).await?;
    Ok(vec![PieceResult { bucket: attempt.task, bytes, checksum, is_delivered: true }])
}

async fn spread(
    hands: &Arc<Hands>,
    attempt: AttemptId,
    places: &[BucketPlace],
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<PieceResult>, NodeError> {
    let results = Arc::new(Results::File { file: scratch.share()?, path: scratch.path().to_owned() });
    let (from, chunks) = (Arc::clone(&results), result.chunks.clone());
    let sum_up = move || {
        let parts = Part::gather(chunks);
        let pieces = parts.iter().map(|part| part.result(&from)).collect::<Result<Vec<_>, _>>()?;
        Ok((parts, pieces))
    };
    let (parts, mut pieces) = blocking("reading a task's results", sum_up).await?;
    // The host of the SPE has checked that there is no bucket without a place.
    let placed = parts.into_iter().filter_map(|part| Some((places.get(part.bucket as usize)?.clone(), part)));
    let wanted: Vec<_> = placed.filter(|(place, _)| place.is_wanted).collect();
    let unwanted: BTreeSet<u32> =
        places.iter().zip(0..).filter(|(place, _)| !place.is_wanted).map(|(_, bucket)| bucket).collect();
    let is_all_here = unwanted.is_empty() && wanted.iter().all(|(place, _)| place.node == hands.node);
    let undelivered = send_all(hands, attempt, wanted, results).await?;
    // What is only in this node's buckets is lost with them, and nothing that is kept beside them would help.
    let (is_of_use, buckets) = (!is_all_here && !hands.buckets.is_forgotten(attempt.job), Arc::clone(&hands.buckets));
    let keep = move || {
        if is_of_use {
            return Ok(buckets.keep(attempt, scratch, result.chunks));
        }
        buckets.put_back(attempt.job, scratch);
        Ok(false)
    };
    let is_kept = blocking("keeping a task's results", keep).await?;
    for piece in &mut pieces {
        piece.is_delivered = !unwanted.contains(&piece.bucket) && !undelivered.contains_key(&piece.bucket);
    }
    match undelivered.into_values().next() {
        Some(error) if !is_kept => Err(error),
        _ => Ok(pieces),
    }
}

/// Sends parts to their buckets, several at once. Gives those that could not be delivered to another node, and why; when one
/// could not, no other is sent there.
async fn send_all(
    hands: &Arc<Hands>,
    attempt: AttemptId,
    parts: Vec<Placed>,
    results: Arc<Results>,
) -> Result<BTreeMap<u32, NodeError>, NodeError> {
    let (local, mut remote) = split(parts, &hands.node, attempt.task);
    let mut sending = JoinSet::new();
    let (buckets, from) = (Arc::clone(&hands.buckets), Arc::clone(&results));
    let append_all = blocking("giving pieces to this node's buckets", move || {
        local
            .into_iter()
            .try_for_each(|(place, part)| append(&buckets, piece(attempt, part.bucket, place.making), &from, part))
    });
    sending.spawn(async move { append_all.await.map(|()| (None, None)) });
    let mut undelivered = BTreeMap::new();
    let mut doubtful: BTreeSet<NodeId> = BTreeSet::new();
    // Bytes of the pieces that are under way to each site.
    let mut crossing: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        while sending.len() < DELIVERIES_MAX
            && let Some((place, part)) = next(&mut remote, &crossing, |site| hands.site_gates.limit(site))
        {
            let bucket = part.bucket;
            if doubtful.contains(&place.node) {
                let sentence = format!("node {} did not take another piece of the task", place.node);
                undelivered.insert(bucket, NodeError::refused(Status::Unavailable, sentence));
                continue;
            }
            let (hands, results) = (Arc::clone(hands), Arc::clone(&results));
            let (node, piece) = (place.node.clone(), piece(attempt, bucket, place.making));
            let way = (place.site.clone(), part.bytes);
            *crossing.entry(way.0.clone()).or_default() += way.1;
            sending.spawn(async move {
                match send(&hands, piece, place, results, part).await {
                    Ok(()) => Ok((Some(way), None)),
                    Err(error) if is_its_nodes(&error) => Ok((Some(way), Some((bucket, node, error)))),
                    Err(error) => Err(error),
                }
            });
        }
        // On an error that no other place helps against, the rest is dropped with the set: the attempt has failed.
        match sending.join_next().await {
            Some(Ok(sent)) => {
                let (way, refused) = sent?;
                if let Some((site, bytes)) = way {
                    *crossing.entry(site).or_default() -= bytes;
                }
                if let Some((bucket, node, error)) = refused {
                    doubtful.insert(node);
                    undelivered.insert(bucket, error);
                }
            }
            Some(Err(_)) => return Err(NodeError::Panicked { operation: "delivering a task's results" }),
            None => return Ok(undelivered),
        }
    }
}

/// The next part to be sent. To a site to which this node may send so many bytes a second, none is begun while a second's worth
/// is on its way: they would share the same rate, each would take the longer, and pieces for other sites would wait behind them.
fn next(
    parts: &mut VecDeque<Placed>,
    crossing: &BTreeMap<String, u64>,
    limit: impl Fn(&str) -> Option<u64>,
) -> Option<Placed> {
    let is_open = |site: &str| {
        let bytes = crossing.get(site).copied().unwrap_or(0);
        bytes == 0 || limit(site).is_none_or(|rate| bytes < rate)
    };
    let at = parts.iter().position(|(place, _)| is_open(&place.site))?;
    parts.remove(at)
}

/// Whether a piece was not taken because of the node it was for, and not because nobody wants it.
fn is_its_nodes(error: &NodeError) -> bool {
    matches!(error.refusal().status, Status::Unavailable | Status::NotFound)
}

/// The parts for buckets of this node, and those for others in the order in which they are sent.
fn split(parts: Vec<Placed>, here: &NodeId, task: u32) -> (Vec<Placed>, VecDeque<Placed>) {
    let (local, remote): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(place, _)| place.node == *here);
    let mut remote = VecDeque::from(remote);
    if !remote.is_empty() {
        remote.rotate_left(task as usize % remote.len());
    }
    (local, remote)
}

/// Copies a part into a bucket of this node.
fn append(buckets: &BucketStore, piece: PieceId, from: &Results, part: Part) -> Result<(), NodeError> {
    match buckets.begin(piece, part.bytes)? {
        Begun::Taken => Ok(()),
        Begun::Writer(mut writer) => {
            for chunk in &part.chunks {
                from.copy_to(&mut writer, chunk)?;
            }
            writer.commit()
        }
    }
}

/// Sends a part to a bucket of another node.
async fn send(
    hands: &Hands,
    piece: PieceId,
    place: BucketPlace,
    results: Arc<Results>,
    part: Part,
) -> Result<(), NodeError> {
    let (site, way) = (place.site, Way::of(place.distance));
    let peer = Peer { node: place.node, address: place.address, is_plain: false, way };
    let request = TransferRequest::Piece { ticket: place.ticket, piece, bytes: part.bytes };
    let (mut stream, reply) = ask(hands, &peer, &request).await?;
    let reply = match reply {
        TransferReply::Ready => {
            let flow = Outflow::begin(PartSource { results, chunks: part.chunks.into() }).await?;
            let crossing = hands.site_gates.cross(Some(&site), Pace::default());
            let sent = flow.send(&mut stream, crossing.toll(), STALL_MAX).await;
            drop(crossing);
            // Who stops taking says why before closing.
            let patience = if sent.is_ok() { STALL_MAX } else { LAST_WORD_TIME_MAX };
            match (timeout(patience, stream.receive()).await, sent) {
                (Ok(Ok(reply)), _) => reply,
                (_, Err(error)) => return Err(error),
                (Ok(Err(error)), Ok(())) => return Err(error.into()),
                (Err(_), Ok(())) => {
                    return Err(NodeError::Stalled { operation: "waiting for a bucket", after: STALL_MAX });
                }
            }
        }
        reply => reply,
    };
    match reply {
        TransferReply::Taken => {
            hands.peers.give_back(peer, stream);
            Ok(())
        }
        TransferReply::Refused(refusal) => Err(NodeError::Refused(refusal)),
        other => Err(unexpected(peer, "take a piece", &other)),
    }
}

/// The bucket of what an attempt leaves here as its own: each has one.
pub(super) fn own_bucket(attempt: AttemptId) -> BucketId {
    let AttemptId { job, stage, run, task, attempt } = attempt;
    BucketId { job, stage, run, bucket: task, making: attempt }
}

fn piece(attempt: AttemptId, bucket: u32, making: u32) -> PieceId {
    let bucket = BucketId { job: attempt.job, stage: attempt.stage, run: attempt.run, bucket, making };
    PieceId { bucket, task: attempt.task, attempt: attempt.attempt }
}

/// A part and where its bucket is.
type Placed = (BucketPlace, Part);

/// What of a scratch file goes to one bucket.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    bucket: u32,
    bytes: u64,
    chunks: Vec<Chunk>,
}

impl Part {
    /// The parts by bucket; the chunks of each keep their order.
    fn gather(chunks: Vec<Chunk>) -> Vec<Self> {
        let mut parts = BTreeMap::new();
        for chunk in chunks {
            let empty = || Self { bucket: chunk.bucket, bytes: 0, chunks: Vec::new() };
            let part = parts.entry(chunk.bucket).or_insert_with(empty);
            part.bytes += chunk.bytes;
            part.chunks.push(chunk);
        }
        parts.into_values().collect()
    }

    /// What it is, with its sum: a task that is done again must come to the same.
    fn result(&self, from: &Results) -> Result<PieceResult, NodeError> {
        let (mut checksum, mut buffer) = (0, Vec::new());
        for chunk in &self.chunks {
            let (mut at, until) = (chunk.offset, chunk.offset + chunk.bytes);
            while at < until {
                let bytes = usize::try_from(until - at).unwrap_or(SUM_BYTES).min(SUM_BYTES);
                buffer.resize(bytes, 0);
                from.read_exact_at(&mut buffer, at)?;
                checksum = crc32c::crc32c_append(checksum, &buffer);
                at += bytes as u64;
            }
        }
        Ok(PieceResult { bucket: self.bucket, bytes: self.bytes, checksum, is_delivered: false })
    }
}

/// A task's results, wherever they are kept.
enum Results {
    File { file: File, path: PathBuf },
    Memory(Arc<[u8]>),
}

impl Results {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), NodeError> {
        match self {
            Self::File { file, path } => file.read_exact_at(buffer, offset).map_err(NodeError::io("read", path)),
            Self::Memory(bytes) => {
                buffer.copy_from_slice(part_of(bytes, offset, buffer.len() as u64)?);
                Ok(())
            }
        }
    }

    fn copy_to(&self, writer: &mut PieceWriter, chunk: &Chunk) -> Result<(), NodeError> {
        match self {
            Self::File { file, .. } => writer.copy_from(file, chunk.offset, chunk.bytes),
            Self::Memory(bytes) => writer.write(part_of(bytes, chunk.offset, chunk.bytes)?),
        }
    }
}

fn part_of(bytes: &[u8], offset: u64, length: u64) -> Result<&[u8], NodeError> {
    let part = bytes.get(offset as usize..(offset + length) as usize);
    part.ok_or(NodeError::Length {
        what: "what a task left".into(),
        expected: offset + length,
        found: bytes.len() as u64,
    })
}

/// Reads chunks one after the other, many to a frame.
struct PartSource {
    results: Arc<Results>,
    chunks: VecDeque<Chunk>,
}

impl FrameSource for PartSource {
    fn fill(&mut self, frame: &mut Frame) -> Result<(), NodeError> {
        let buffer = &mut frame.payload;
        // No more than is left: most pieces of a stage with many buckets are far smaller than a frame.
        let left: u64 = self.chunks.iter().take(FRAME_BYTES).map(|chunk| chunk.bytes).sum();
        let frame_bytes = usize::try_from(left).unwrap_or(usize::MAX).min(FRAME_BYTES);
        buffer.resize(frame_bytes, 0);
        let mut filled = 0;
        while let Some(chunk) = self.chunks.front_mut()
            && filled < frame_bytes
        {
            let bytes = usize::try_from(chunk.bytes).unwrap_or(usize::MAX).min(frame_bytes - filled);
            self.results.read_exact_at(&mut buffer[filled..filled + bytes], chunk.offset)?;
            filled += bytes;
            chunk.offset += bytes as u64;
            chunk.bytes -= bytes as u64;
            if chunk.bytes == 0 {
                self.chunks.pop_front();
            }
        }
        Ok(())
    }
}

/// Bytes read at once to compute a sum: they stay in the processor's cache.
const SUM_BYTES: usize = 256 << 10;
/// Pieces of one task under way at once: enough to hide the waits for answers, few enough that a task's delivery does
/// not take all of a node's transfers.
const DELIVERIES_MAX: usize = 6;
/// How long to wait for the reason after a peer has stopped taking bytes.
const LAST_WORD_TIME_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{JobId, ticket::SignedTicket};

    use super::*;

    fn chunk(bucket: u32, offset: u64, bytes: u64) -> Chunk {
        Chunk { bucket, offset, bytes }
    }

    fn place(node: &str) -> BucketPlace {
        let ticket = SignedTicket { ticket: vec![], signature: vec![], handed: None };
        BucketPlace {
            node: NodeId::new(node).unwrap(),
            address: ([127, 0, 0, 1], 1).into(),
            distance: None,
            ticket,
            site: "s".into(),
            making: 0,
            is_wanted: true,
        }
    }

    #[test]
    fn chunks_are_gathered_by_bucket_in_their_order() {
        let parts = Part::gather(vec![chunk(1, 0, 5), chunk(0, 5, 2), chunk(1, 7, 3)]);
        let expected = [
            Part { bucket: 0, bytes: 2, chunks: vec![chunk(0, 5, 2)] },
            Part { bucket: 1, bytes: 8, chunks: vec![chunk(1, 0, 5), chunk(1, 7, 3)] },
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn tasks_begin_with_different_buckets_and_keep_their_own_nodes_apart() {
        let places = ["here", "b", "c", "d"].map(place);
        let here = NodeId::new("here").unwrap();
        let order = |task| {
            let parts = Part::gather((0..4).map(|bucket| chunk(bucket, u64::from(bucket), 1)).collect());
            let (local, remote) = split(places.iter().cloned().zip(parts).collect(), &here, task);
            assert_eq!(local.iter().map(|(_, part)| part.bucket).collect::<Vec<_>>(), [0]);
            remote.into_iter().map(|(_, part)| part.bucket).collect::<Vec<_>>()
        };
        assert_eq!((order(0), order(1), order(5)), (vec![1, 2, 3], vec![2, 3, 1], vec![3, 1, 2]));
    }

    #[test]
    fn over_a_thin_link_large_pieces_go_one_by_one_and_hold_up_no_others() {
        let order = |bytes: u64| {
            let at = |(node, site): (&str, &str)| {
                let part = Part { bucket: 0, bytes, chunks: vec![] };
                (BucketPlace { site: site.into(), ..place(node) }, part)
            };
            let mut parts: VecDeque<Placed> =
                [("a", "thin"), ("b", "thin"), ("c", "wide"), ("d", "thin")].map(at).into();
            let (mut crossing, mut order) = (BTreeMap::new(), String::new());
            let limit = |site: &str| (site == "thin").then_some(1_000);
            while let Some((place, _)) = next(&mut parts, &crossing, limit) {
                order += place.node.as_str();
                *crossing.entry(place.site).or_default() += bytes;
            }
            crossing.remove("thin");
            order += " ";
            order + &next(&mut parts, &crossing, limit).map_or(String::new(), |(place, _)| place.node.to_string())
        };
        assert_eq!((order(5_000), order(600), order(10)), ("ac b".into(), "abc d".into(), "abcd ".into()));
    }

    #[test]
    fn a_part_is_read_in_frames_over_the_borders_of_its_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = BucketStore::new(folder.path().to_owned()).scratch(JobId(1)).unwrap();
        let content: Vec<u8> = (0..3 * FRAME_BYTES).map(|at| ((at * 13) >> 5) as u8).collect();
        scratch.file().write_all_at(&content, 0).unwrap();
        let (long, end) = (FRAME_BYTES as u64 + 5, 3 * FRAME_BYTES as u64);
        let chunks = vec![chunk(0, 0, 3), chunk(0, 10, long), chunk(0, end - 7, 7)];
        let in_file = Results::File { file: scratch.share().unwrap(), path: scratch.path().to_owned() };
        let expected: Vec<u8> = chunks
            .iter()
            .flat_map(|chunk| &content[chunk.offset as usize..(chunk.offset + chunk.bytes) as usize])
            .copied()
            .collect();
        for results in [in_file, Results::Memory(content.as_slice().into())] {
            let mut source = PartSource { results: Arc::new(results), chunks: chunks.clone().into() };
            let (mut found, mut frame) = (Vec::new(), Frame::default());
            loop {
                source.fill(&mut frame).unwrap();
                if frame.payload.is_empty() {
                    break;
                }
                assert!(frame.payload.len() <= FRAME_BYTES);
                found.extend_from_slice(&frame.payload);
            }
            assert!(found == expected);
        }
    }
}
