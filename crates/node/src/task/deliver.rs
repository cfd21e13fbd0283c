//! Results of a task on their way to their buckets: by a rename or a copy within this node, over kept connections to
//! others, several at once, and from task to task in another order, so that not all tasks of a stage are at the same
//! node at the same moment.
//!
//! It never counts a piece as delivered before its bucket has it whole. A piece that comes twice is taken once, so a
//! delivery that failed is simply made again by the next attempt.

use std::{
    collections::{BTreeMap, VecDeque},
    os::unix::fs::FileExt,
    sync::Arc,
    time::Duration,
};

use net::transfer::{Frame, Way};
use protocol::{
    NodeId, Pace,
    message::{
        spe::{AttemptId, BucketId, BucketPlace, Output, PieceId},
        transfer::{TransferReply, TransferRequest},
    },
};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    NodeError, blocking,
    bucket::{Begun, BucketStore, Scratch},
    fetch::{ask, unexpected},
    flow::{FRAME_BYTES, FrameSource, Outflow, STALL_MAX},
    hands::Hands,
    peers::Peer,
    spe::{Chunk, TaskOutput},
};

/// Delivers all pieces of a task; their buckets and lengths in bytes.
pub(super) async fn deliver(
    hands: &Arc<Hands>,
    attempt: AttemptId,
    output: Output,
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<(u32, u64)>, NodeError> {
    match output {
        Output::Local => keep(hands, attempt, scratch, result).await,
        Output::Buckets(places) => spread(hands, attempt, places, scratch, result.chunks).await,
    }
}

/// The whole scratch file becomes a piece of this node's bucket of the task's number.
async fn keep(
    hands: &Hands,
    attempt: AttemptId,
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<(u32, u64)>, NodeError> {
    let bytes: u64 = result.chunks.iter().map(|chunk| chunk.bytes).sum();
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let piece = piece(attempt, attempt.task);
    let buckets = Arc::clone(&hands.buckets);
    blocking("keeping a task's results", move || buckets.take_file(piece, scratch, bytes, result.sums)).await?;
    Ok(vec![(attempt.task, bytes)])
}

async fn spread(
    hands: &Arc<Hands>,
    attempt: AttemptId,
    places: Vec<BucketPlace>,
    scratch: Scratch,
    chunks: Vec<Chunk>,
) -> Result<Vec<(u32, u64)>, NodeError> {
    let parts = Part::gather(chunks);
    let delivered = parts.iter().map(|part| (part.bucket, part.bytes)).collect();
    let scratch = Arc::new(scratch);
    let (local, mut remote) = split(parts, &places, &hands.node, attempt.task);
    let mut sending = JoinSet::new();
    let (buckets, file) = (Arc::clone(&hands.buckets), Arc::clone(&scratch));
    sending.spawn(blocking("giving pieces to this node's buckets", move || {
        local.into_iter().try_for_each(|part| append(&buckets, piece(attempt, part.bucket), &file, part))
    }));
    loop {
        while sending.len() < DELIVERIES_MAX
            && let Some((part, place)) = remote.pop_front()
        {
            let (hands, scratch) = (Arc::clone(hands), Arc::clone(&scratch));
            sending.spawn(async move { send(&hands, piece(attempt, part.bucket), place, scratch, part).await });
        }
        // On the first error the rest is dropped with the set: the attempt has failed.
        match sending.join_next().await {
            Some(Ok(sent)) => sent?,
            Some(Err(_)) => return Err(NodeError::Panicked { operation: "delivering a task's results" }),
            None => return Ok(delivered),
        }
    }
}

/// The parts for buckets of this node, and those for others in the order in which they are sent.
fn split(
    parts: Vec<Part>,
    places: &[BucketPlace],
    here: &NodeId,
    task: u32,
) -> (Vec<Part>, VecDeque<(Part, BucketPlace)>) {
    let (mut local, mut remote) = (Vec::new(), VecDeque::new());
    for part in parts {
        match places.get(part.bucket as usize) {
            Some(place) if place.node != *here => remote.push_back((part, place.clone())),
            // The host of the SPE has checked that there is no bucket without a place.
            _ => local.push(part),
        }
    }
    if !remote.is_empty() {
        remote.rotate_left(task as usize % remote.len());
    }
    (local, remote)
}

/// Copies a part into a bucket of this node.
fn append(buckets: &BucketStore, piece: PieceId, scratch: &Scratch, part: Part) -> Result<(), NodeError> {
    match buckets.begin(piece, part.bytes)? {
        Begun::Taken => Ok(()),
        Begun::Writer(mut writer) => {
            for chunk in &part.chunks {
                writer.copy_from(scratch.file(), chunk.offset, chunk.bytes)?;
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
    scratch: Arc<Scratch>,
    part: Part,
) -> Result<(), NodeError> {
    let (site, way) = (place.site, Way::of(place.distance));
    let peer = Peer { node: place.node, address: place.address, is_plain: false, way };
    let request = TransferRequest::Piece { ticket: place.ticket, piece, bytes: part.bytes };
    let (mut stream, reply) = ask(hands, &peer, &request).await?;
    let reply = match reply {
        TransferReply::Ready => {
            let flow = Outflow::begin(PartSource { scratch, chunks: part.chunks.into() }).await?;
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

fn piece(attempt: AttemptId, bucket: u32) -> PieceId {
    let bucket = BucketId { job: attempt.job, stage: attempt.stage, run: attempt.run, bucket };
    PieceId { bucket, task: attempt.task, attempt: attempt.attempt }
}

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
}

/// Reads chunks one after the other, many to a frame.
struct PartSource {
    scratch: Arc<Scratch>,
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
            let read = self.scratch.file().read_exact_at(&mut buffer[filled..filled + bytes], chunk.offset);
            read.map_err(NodeError::io("read", self.scratch.path()))?;
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
            let (local, remote) = split(parts, &places, &here, task);
            assert_eq!(local.iter().map(|part| part.bucket).collect::<Vec<_>>(), [0]);
            remote.into_iter().map(|(part, _)| part.bucket).collect::<Vec<_>>()
        };
        assert_eq!((order(0), order(1), order(5)), (vec![1, 2, 3], vec![2, 3, 1], vec![3, 1, 2]));
    }

    #[test]
    fn a_part_is_read_in_frames_over_the_borders_of_its_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = BucketStore::new(folder.path().to_owned()).scratch(JobId(1)).unwrap();
        let content: Vec<u8> = (0..3 * FRAME_BYTES).map(|at| ((at * 13) >> 5) as u8).collect();
        scratch.file().write_all_at(&content, 0).unwrap();
        let (long, end) = (FRAME_BYTES as u64 + 5, 3 * FRAME_BYTES as u64);
        let chunks = vec![chunk(0, 0, 3), chunk(0, 10, long), chunk(0, end - 7, 7)];
        let mut source = PartSource { scratch: Arc::new(scratch), chunks: chunks.clone().into() };
        let (mut found, mut frame) = (Vec::new(), Frame::default());
        loop {
            source.fill(&mut frame).unwrap();
            if frame.payload.is_empty() {
                break;
            }
            assert!(frame.payload.len() <= FRAME_BYTES);
            found.extend_from_slice(&frame.payload);
        }
        let expected: Vec<u8> = chunks
            .iter()
            .flat_map(|chunk| &content[chunk.offset as usize..(chunk.offset + chunk.bytes) as usize])
            .copied()
            .collect();
        assert!(found == expected);
    }
}
