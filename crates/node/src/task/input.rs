//! The files of a task's segments. Local bytes are verified and then handed over in place. Bytes of other nodes are
//! fetched first, into a file with the same offsets. So the function and the rules for lines see no difference. It
//! never hands over a byte of a slice that was not verified in this very task.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use net::transfer::StreamFrame;
use protocol::{
    JobId, RecordFraming, Refusal, SliceId, TransferQos,
    message::{
        client_master::Source,
        spe::{PartOrder, RecordLocator, SegmentOrder, SegmentSource},
    },
};
use spe::SegmentFile;
use store::SliceReader;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{
    NodeError, blocking,
    bucket::ClosedScratch,
    node_context::NodeContext,
    rules::NodeCompletion,
    transfer::{
        fetch::fetch,
        frame_pipe::{FRAME_BYTES, FrameSink},
    },
};

/// The files of these segments, one for each of their sources, opened (and verified) when its turn comes. Remote ones
/// are here on return.
pub(super) async fn open(
    context: &Arc<NodeContext>,
    job: JobId,
    orders: Vec<SegmentOrder>,
) -> Result<Vec<(SegmentOrder, Vec<SegmentFile>)>, NodeError> {
    let mut segments = Vec::with_capacity(orders.len());
    for order in orders {
        let mut files = Vec::with_capacity(order.sources().count());
        for part in order.parts() {
            files.push(open_part(context, job, &part.source, SlicePart::of(part)).await?);
            if let Some(RecordLocator::Offsets { source, from, until }) = &part.locator {
                let offsets = SlicePart { from: *from, until: *until, to_line_end: false, footer: None };
                files.push(open_part(context, job, source, offsets).await?);
            }
        }
        segments.push((order, files));
    }
    Ok(segments)
}

async fn open_part(
    context: &Arc<NodeContext>,
    job: JobId,
    source: &SegmentSource,
    part: SlicePart,
) -> Result<SegmentFile, NodeError> {
    Ok(match source {
        SegmentSource::Local(slice) => {
            let (context, slice) = (Arc::clone(context), *slice);
            SegmentFile::opened_by(move || in_place(|| open_slice(&context, slice, part)))
        }
        SegmentSource::Bucket(bucket) => {
            let (context, bucket) = (Arc::clone(context), *bucket);
            SegmentFile::opened_by(move || {
                let opened = in_place(|| context.storage.buckets.open_sealed(bucket));
                opened.map(|(file, _)| file).map_err(|error| error.refusal())
            })
        }
        SegmentSource::Remote { slice, from } => {
            let scratch = fetch_part(context, job, *slice, from, part).await?;
            // Once open, the file no longer needs its name: `scratch` ends here and removes it.
            SegmentFile::opened_by(move || scratch.open().map_err(|error| error.refusal()))
        }
    })
}

/// The bytes of a slice that a segment needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlicePart {
    from: u64,
    until: u64,
    /// Whether it continues after `until`, to the end of the line that contains byte `until - 1`.
    to_line_end: bool,
    /// Where in the same slice its description is.
    footer: Option<(u64, u64)>,
}

impl SlicePart {
    /// All of a slice of so many bytes.
    pub(super) fn whole(bytes: u64) -> Self {
        Self { from: 0, until: bytes, to_line_end: false, footer: None }
    }

    fn of(order: &PartOrder) -> Self {
        let to_line_end = order.records == RecordFraming::Lines && order.from < order.until;
        // The byte before `from` shows whether a line starts there.
        let from = if to_line_end { order.from.saturating_sub(1) } else { order.from };
        let footer = match order.locator {
            Some(RecordLocator::Footer { from, until, .. }) => Some((from, until)),
            Some(RecordLocator::Offsets { .. }) | None => None,
        };
        Self { from, until: order.until, to_line_end, footer }
    }
}

/// A slice's file, with its part verified.
pub(super) fn open_slice(context: &Arc<NodeContext>, slice: SliceId, part: SlicePart) -> Result<File, Refusal> {
    let opened = context.storage.slices.open_slice(slice).map_err(NodeError::from).and_then(|reader| {
        verify(&reader, part)?;
        let file = reader.os_file().map(File::try_clone).transpose();
        file.map_err(NodeError::io("share the file of slice", &PathBuf::from(slice.to_string())))
    });
    match opened {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(NodeError::Spe("cannot read slices of a disk in memory".into()).refusal()),
        Err(error) => {
            if matches!(&error, NodeError::Store(store::StoreError::Corrupt { .. })) {
                report_corrupt(context, slice);
            }
            Err(error.refusal())
        }
    }
}

fn verify(reader: &SliceReader, part: SlicePart) -> Result<(), NodeError> {
    reader.verify(part.from, part.until)?;
    if let Some((from, until)) = part.footer {
        reader.verify(from, until)?;
    }
    if part.to_line_end {
        let mut buffer = Vec::new();
        let mut next = part.until - 1;
        loop {
            reader.read_at(&mut buffer, next, LINE_STEP_BYTES)?;
            if buffer.is_empty() || buffer.contains(&b'\n') {
                break;
            }
            next += buffer.len() as u64;
        }
    }
    Ok(())
}

/// As [`Storage::quarantine_slice`](crate::disks::storage::Storage::quarantine_slice), for code that cannot await.
fn report_corrupt(context: &Arc<NodeContext>, slice: SliceId) {
    let context = Arc::clone(context);
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move { context.storage.quarantine_slice(slice).await });
    } else {
        let _ = context.storage.slices.mark_corrupt(slice);
        context.events.try_send_completion(NodeCompletion::FoundCorrupt(slice));
    }
}

/// Fetches a part of another node's slice into a file with the same offsets; the rest of the file is a hole.
pub(super) async fn fetch_part(
    context: &Arc<NodeContext>,
    job: JobId,
    slice: SliceId,
    from: &Source,
    part: SlicePart,
) -> Result<ClosedScratch, NodeError> {
    let buckets = Arc::clone(&context.storage.buckets);
    let scratch = blocking("creating a scratch file", move || buckets.scratch(job)).await?;
    let mut sink = PartSink {
        file: scratch.share()?,
        path: scratch.path().to_owned(),
        next: part.from,
        line_end_from: part.until.saturating_sub(1),
        line_ended: false,
    };
    if part.from < part.until {
        let ahead = if part.to_line_end { FRAME_BYTES as u64 } else { 0 };
        let mut until = part.until.saturating_add(ahead);
        sink = fetch(&context.peers, from, slice, part.from..until, TransferQos::default(), sink).await?;
        // The line is longer than what was fetched ahead: fetch more, each time twice as much. If fewer bytes arrived
        // than were requested, the slice has ended, and with it its last line.
        while part.to_line_end && !sink.line_ended && sink.next == until {
            until = until.saturating_add(until - part.until);
            let range = sink.next..until;
            sink = fetch(&context.peers, from, slice, range, TransferQos::default(), sink).await?;
        }
        if sink.next < part.until {
            let what = format!("the part of slice {slice} from node {}", from.node);
            return Err(NodeError::LengthMismatch {
                what,
                expected: part.until - part.from,
                found: sink.next - part.from,
            });
        }
    }
    if let Some((begin, until)) = part.footer.filter(|(begin, until)| begin < until) {
        sink.next = begin;
        sink = fetch(&context.peers, from, slice, begin..until, TransferQos::default(), sink).await?;
        if sink.next < until {
            let what = format!("the end of slice {slice} from node {}", from.node);
            return Err(NodeError::LengthMismatch { what, expected: until - begin, found: sink.next - begin });
        }
    }
    Ok(scratch.close())
}

/// Writes frames at their place, and looks for the end of the last line.
struct PartSink {
    file: File,
    path: PathBuf,
    next: u64,
    line_end_from: u64,
    line_ended: bool,
}

impl FrameSink for PartSink {
    fn write_frame(&mut self, frame: &StreamFrame) -> Result<(), NodeError> {
        let bytes = &frame.payload;
        self.file.write_all_at(bytes, self.next).map_err(NodeError::io("write", &self.path))?;
        let skip = usize::try_from(self.line_end_from.saturating_sub(self.next)).unwrap_or(usize::MAX);
        self.line_ended |= bytes.get(skip..).is_some_and(|bytes| bytes.contains(&b'\n'));
        self.next += bytes.len() as u64;
        Ok(())
    }
}

/// Waits for the disk without delaying the other tasks of this thread, if the runtime has other threads.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Bytes searched in one step for the end of a line: a block.
const LINE_STEP_BYTES: usize = protocol::limits::BLOCK_BYTES as usize;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part_sink(from: u64, until: u64) -> PartSink {
        let (file, path) = (tempfile::tempfile().unwrap(), PathBuf::from("scratch"));
        PartSink { file, path, next: from, line_end_from: until - 1, line_ended: false }
    }

    fn frame(bytes: &[u8]) -> StreamFrame {
        StreamFrame { payload: bytes.to_vec(), checksums: Vec::new() }
    }

    #[test]
    fn fetched_bytes_stand_where_they_stand_in_the_slice() {
        let mut sink = part_sink(100, 108);
        sink.write_frame(&frame(b"abcd")).unwrap();
        sink.write_frame(&frame(b"efgh")).unwrap();
        let mut found = [0; 8];
        sink.file.read_exact_at(&mut found, 100).unwrap();
        assert_eq!((&found, sink.file.metadata().unwrap().len()), (b"abcdefgh", 108));
    }

    #[test]
    fn the_last_line_ends_at_the_first_newline_from_the_last_byte_of_the_segment_on() {
        for (text, ended) in [("ab\ncdefg", false), ("abc\ndefg", true), ("abcd\nefg", true), ("abcdefg\n", true)] {
            let mut sink = part_sink(0, 4);
            sink.write_frame(&frame(&text.as_bytes()[..2])).unwrap();
            sink.write_frame(&frame(&text.as_bytes()[2..])).unwrap();
            assert_eq!(sink.line_ended, ended, "{text:?}");
        }
    }
}
