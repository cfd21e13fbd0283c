//! Delivers the results of a task to their buckets, several at once. Within this node it renames or copies; to others
//! it uses kept connections. The rules ([`ShuffleWrite`]) decide the order and what a refusal means. A piece that
//! arrives twice is taken once, so a delivery may be repeated. What went to other nodes is
//! [retained](crate::bucket::RetainedResults). It never counts a piece as delivered before its bucket has it whole.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use net::transfer::{Locality, StreamFrame};
use protocol::{
    TransferQos,
    message::{
        spe::{AttemptId, BucketTarget, DeliveryOrder, OutputPlacement, PieceId, PieceResult},
        transfer::{TransferReply, TransferRequest},
    },
};
use spe::{Chunk, TaskOutput};
use sphere::shuffle_write::{ShufflePiece, ShuffleWrite, own_piece};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    NodeError, blocking,
    bucket::{BeginOutcome, BucketStore, PieceWriter, RetainedContent, Scratch},
    node_context::NodeContext,
    transfer::{
        connection_pool::Peer,
        fetch::{send_request, unexpected_reply},
        frame_pipe::{FRAME_BYTES, FrameSource, FrameWriter, STALL_MAX},
        site_links::LinkDirection,
    },
};

/// Delivers the pieces of a task; returns what it has for each bucket. All pieces for other nodes are kept, whether
/// they were taken or not, in case such a node is lost later.
///
/// # Errors
/// If a piece can be neither delivered nor kept, or a bucket no longer wants it.
pub(super) async fn deliver(
    context: &Arc<NodeContext>,
    attempt: AttemptId,
    output: OutputPlacement,
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<PieceResult>, NodeError> {
    match output {
        OutputPlacement::Local => keep(context, attempt, scratch, result).await,
        OutputPlacement::Buckets(places) => spread(context, attempt, &places, scratch, result).await,
    }
}

/// Delivers again what an attempt left and this node has kept.
pub(super) async fn redeliver(context: &Arc<NodeContext>, order: DeliveryOrder) -> Result<(), NodeError> {
    let attempt = order.attempt;
    let kept = context.storage.buckets.retained().find(attempt)?;
    let parts = sized(BucketPart::gather(kept.chunks.clone()));
    let spreading = ShuffleWrite::redeliver(attempt, &context.node, order.targets.into_iter().collect(), parts);
    let results = match &kept.content {
        RetainedContent::File(scratch) => Results::File { file: scratch.open()?, path: scratch.path().to_owned() },
        RetainedContent::Memory(bytes) => Results::Memory(Arc::clone(bytes)),
    };
    send_all(context, spreading, Arc::new(results)).await?.end_redelivery().map_err(NodeError::Refused)
}

/// The whole scratch file becomes a piece of this node's bucket of the task's number.
async fn keep(
    context: &NodeContext,
    attempt: AttemptId,
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<PieceResult>, NodeError> {
    let bytes = result.bytes();
    if bytes == 0 {
        let buckets = Arc::clone(&context.storage.buckets);
        let put_back = move || {
            buckets.recycle_scratch(attempt.job, scratch);
            Ok(Vec::new())
        };
        return blocking("putting a scratch file back", put_back).await;
    }
    let piece = own_piece(attempt);
    let buckets = Arc::clone(&context.storage.buckets);
    let take = move || {
        let (sums, checksum) = buckets.sums_of(&scratch, bytes)?;
        buckets.add_file(piece, scratch, bytes, Some(sums)).map(|()| checksum)
    };
    let checksum = blocking("keeping a task's results", take).await?;
    Ok(vec![PieceResult { bucket: attempt.task, bytes, checksum, is_delivered: true }])
}

async fn spread(
    context: &Arc<NodeContext>,
    attempt: AttemptId,
    places: &[BucketTarget],
    scratch: Scratch,
    result: TaskOutput,
) -> Result<Vec<PieceResult>, NodeError> {
    let results = Arc::new(Results::File { file: scratch.share()?, path: scratch.path().to_owned() });
    let (from, chunks) = (Arc::clone(&results), result.chunks.clone());
    let sum_up = move || {
        let parts = BucketPart::gather(chunks);
        let pieces = parts.iter().map(|part| part.result(&from)).collect::<Result<Vec<_>, _>>()?;
        Ok((parts, pieces))
    };
    let (parts, mut pieces) = blocking("reading a task's results", sum_up).await?;
    // The host of the SPE has checked that no bucket lacks a place.
    let spreading = ShuffleWrite::new(attempt, &context.node, places, sized(parts));
    let spreading = send_all(context, spreading, results).await?;
    let is_of_use = spreading.is_worth_keeping() && !context.storage.buckets.is_forgotten(attempt.job);
    let buckets = Arc::clone(&context.storage.buckets);
    let keep = move || {
        if is_of_use {
            return Ok(buckets.retain(attempt, scratch, result.chunks));
        }
        buckets.recycle_scratch(attempt.job, scratch);
        Ok(false)
    };
    let is_kept = blocking("keeping a task's results", keep).await?;
    spreading.end(is_kept, &mut pieces).map_err(NodeError::Refused)?;
    Ok(pieces)
}

/// Sends parts to their buckets, several at once, as far as they can be delivered.
async fn send_all(
    context: &Arc<NodeContext>,
    mut spreading: ShuffleWrite<BucketPart>,
    results: Arc<Results>,
) -> Result<ShuffleWrite<BucketPart>, NodeError> {
    let mut sending = JoinSet::new();
    let (buckets, from, local) = (Arc::clone(&context.storage.buckets), Arc::clone(&results), spreading.take_local());
    let append_all = blocking("giving pieces to this node's buckets", move || {
        local.into_iter().try_for_each(|ShufflePiece { piece, part, .. }| append(&buckets, piece, &from, part))
    });
    sending.spawn(async move { (None, append_all.await) });
    loop {
        while let Some(spread) = spreading.next(|site| context.peers.site_limiters.limit(site)) {
            let (context, results) = (Arc::clone(context), Arc::clone(&results));
            let bucket = spread.piece.bucket.bucket;
            sending.spawn(async move { (Some(bucket), send(&context, spread, results).await) });
        }
        match sending.join_next().await {
            Some(Ok((None, taken))) => {
                taken?;
                spreading.handle_local_taken();
            }
            Some(Ok((Some(bucket), Ok(())))) => spreading.handle_taken(bucket),
            Some(Ok((Some(bucket), Err(error)))) => {
                if spreading.handle_refused(bucket, error.refusal()).is_err() {
                    // The rest is dropped with the set.
                    return Err(error);
                }
            }
            Some(Err(_)) => return Err(NodeError::Panicked { operation: "delivering a task's results" }),
            None => return Ok(spreading),
        }
    }
}

/// Copies a part into a bucket of this node.
fn append(buckets: &BucketStore, piece: PieceId, from: &Results, part: BucketPart) -> Result<(), NodeError> {
    match buckets.begin(piece, part.bytes)? {
        BeginOutcome::Taken => Ok(()),
        BeginOutcome::Writer(mut writer) => {
            for chunk in &part.chunks {
                from.copy_to(&mut writer, chunk)?;
            }
            writer.commit()
        }
    }
}

/// Sends a part to a bucket of another node.
async fn send(context: &NodeContext, spread: ShufflePiece<BucketPart>, results: Arc<Results>) -> Result<(), NodeError> {
    let ShufflePiece { piece, target: place, part, .. } = spread;
    let (site, way) = (place.site, Locality::of(place.distance));
    let peer = Peer { node: place.node, address: place.address, is_plain: false, locality: way };
    let request = TransferRequest::Piece { ticket: place.ticket, piece, bytes: part.bytes };
    let (mut stream, reply) = send_request(&context.peers, &peer, &request).await?;
    let reply = match reply {
        TransferReply::Ready => {
            let flow = FrameWriter::begin(PartSource { results, chunks: part.chunks.into() }).await?;
            let limiters = &context.peers.site_limiters;
            let crossing = limiters.for_transfer(Some(&site), LinkDirection::Sent, TransferQos::default());
            crossing.meter(&mut stream);
            let sent = flow.send(&mut stream, crossing.limiter(), STALL_MAX).await;
            drop(crossing);
            // A peer that stops accepting bytes says why before it closes.
            let patience = if sent.is_ok() { STALL_MAX } else { LAST_MESSAGE_TIME_MAX };
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
            context.peers.connections.release(peer, stream);
            Ok(())
        }
        TransferReply::Refused(refusal) => Err(NodeError::Refused(refusal)),
        other => Err(unexpected_reply(peer, "take a piece", &other)),
    }
}

/// Parts with their buckets and lengths.
fn sized(parts: Vec<BucketPart>) -> Vec<(u32, u64, BucketPart)> {
    parts.into_iter().map(|part| (part.bucket, part.bytes, part)).collect()
}

/// The part of a scratch file that goes to one bucket.
#[derive(Debug, PartialEq, Eq)]
struct BucketPart {
    bucket: u32,
    bytes: u64,
    chunks: Vec<Chunk>,
}

impl BucketPart {
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

    /// Its length and checksum: a repeated task must have the same result.
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
    part.ok_or(NodeError::LengthMismatch {
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
    fn fill(&mut self, frame: &mut StreamFrame) -> Result<(), NodeError> {
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
/// How long to wait for the reason after a peer has stopped accepting bytes.
const LAST_MESSAGE_TIME_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::JobId;

    use super::*;

    fn chunk(bucket: u32, offset: u64, bytes: u64) -> Chunk {
        Chunk { bucket, offset, bytes }
    }

    #[test]
    fn chunks_are_gathered_by_bucket_in_their_order() {
        let parts = BucketPart::gather(vec![chunk(1, 0, 5), chunk(0, 5, 2), chunk(1, 7, 3)]);
        let expected = [
            BucketPart { bucket: 0, bytes: 2, chunks: vec![chunk(0, 5, 2)] },
            BucketPart { bucket: 1, bytes: 8, chunks: vec![chunk(1, 0, 5), chunk(1, 7, 3)] },
        ];
        assert_eq!(parts, expected);
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
            let (mut found, mut frame) = (Vec::new(), StreamFrame::default());
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
