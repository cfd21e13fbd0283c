//! Runs of bytes of a slice, packed into frames. What lies between them is read where that is cheaper than another read,
//! and never leaves the node.

use std::sync::Arc;

use net::transfer::StreamFrame;
use protocol::message::byte_runs::ByteRuns;
use store::SliceReader;

use crate::{
    NodeError,
    transfer::frame_pipe::{FRAME_BYTES, FrameSource},
};

/// Verified runs of a slice.
pub(super) struct RunSource {
    reader: Arc<SliceReader>,
    rest: Option<ByteRuns>,
    span: Vec<u8>,
}

impl RunSource {
    /// Runs that were checked, and lie within the slice.
    pub(super) fn new(reader: Arc<SliceReader>, runs: ByteRuns) -> Self {
        Self { reader, rest: Some(runs), span: Vec::new() }
    }

    /// What it reads from.
    pub(super) fn reader(&self) -> &Arc<SliceReader> {
        &self.reader
    }

    /// Bytes that are not in a frame yet.
    pub(super) fn left_bytes(&self) -> u64 {
        self.rest.as_ref().map_or(0, ByteRuns::bytes)
    }

    /// Fills a frame by `read`, which says whether it could.
    fn fill_by(
        &mut self,
        frame: &mut StreamFrame,
        read: impl Fn(&SliceReader, &mut Vec<u8>, u64, usize) -> Result<bool, NodeError>,
    ) -> Result<bool, NodeError> {
        frame.payload.clear();
        frame.checksums.clear();
        while let Some(runs) = self.rest {
            let (first, rest) = runs.split_first();
            if frame.payload.len() + first.bytes() as usize > FRAME_BYTES {
                break;
            }
            let span_bytes = (first.runs - 1) * first.stride_bytes + first.run_bytes;
            if !read(&self.reader, &mut self.span, first.from, span_bytes as usize)? {
                // What is in the frame already can go; the next frame waits for the disk.
                return Ok(!frame.payload.is_empty());
            }
            first.pick(&self.span, &mut frame.payload);
            self.rest = rest;
        }
        Ok(true)
    }
}

impl FrameSource for RunSource {
    fn fill(&mut self, frame: &mut StreamFrame) -> Result<(), NodeError> {
        self.fill_by(frame, |reader, span, from, bytes| {
            reader.read_at(span, from, bytes)?;
            Ok(true)
        })?;
        Ok(())
    }

    fn try_fill(&mut self, frame: &mut StreamFrame) -> Result<bool, NodeError> {
        self.fill_by(frame, |reader, span, from, bytes| Ok(reader.read_cached_at(span, from, bytes)?))
    }
}
