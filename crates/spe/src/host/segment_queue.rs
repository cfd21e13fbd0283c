//! The queue of a task's segments to an SPE's process. Serves the path *job*, door 7. It opens each file when its turn
//! comes, sends few ahead, and knows which segment an error is about. It never reads the files it sends.

use std::{collections::VecDeque, os::fd::OwnedFd};

use protocol::{
    Refusal, limits,
    message::spe::{FunctionFailure, SegmentOrder},
};

use super::{
    host_link::HostLink,
    task_run::{SegmentFile, SpeOutcome},
};
use crate::messages::{SegmentSpec, ToChild, clip};

/// A task's segments on their way to the process. Few are sent ahead: a descriptor counts until it is received.
pub(super) struct SegmentQueue {
    /// The function's name.
    function: String,
    waiting: VecDeque<(SegmentOrder, Vec<SegmentFile>)>,
    /// Sent but not done; the process works on the first.
    sent: VecDeque<SegmentOrder>,
    /// The last one done.
    last: Option<SegmentOrder>,
    /// Whether the process knows that no more will come.
    ended: bool,
}

impl SegmentQueue {
    /// A queue with nothing sent yet. `function` is the function's name.
    pub(super) fn new(function: String, segments: Vec<(SegmentOrder, Vec<SegmentFile>)>) -> Self {
        Self { function, waiting: segments.into(), sent: VecDeque::new(), last: None, ended: false }
    }

    /// Opens and sends as many as may be ahead.
    pub(super) fn send(&mut self, link: &mut HostLink) -> Result<(), Refusal> {
        while self.sent.is_empty() || self.files_ahead() < FILES_AHEAD_MAX {
            let Some((order, files)) = self.waiting.pop_front() else {
                if !self.ended {
                    link.send(&ToChild::End, None);
                    self.ended = true;
                }
                return Ok(());
            };
            let open = |file| match file {
                SegmentFile::Open(file) => Ok(file),
                SegmentFile::Later(open) => open(),
            };
            let files: Vec<OwnedFd> =
                files.into_iter().map(|file| open(file).map(OwnedFd::from)).collect::<Result<_, Refusal>>()?;
            link.send(&ToChild::Segment(SegmentSpec::of(&order)), files);
            self.sent.push_back(order);
        }
        Ok(())
    }

    fn files_ahead(&self) -> usize {
        self.sent.iter().map(|order| order.sources().count()).sum()
    }

    /// The first of the sent segments is processed.
    pub(super) fn done(&mut self) {
        self.last = self.sent.pop_front().or(self.last.take());
    }

    /// The segment that the process works on, or else the last one.
    pub(super) fn current(&self) -> Option<u64> {
        self.sent.front().or(self.last.as_ref()).map(|order| order.segment)
    }

    /// An error of the function, on the segment it names or else on the current one.
    pub(super) fn failure(
        &mut self,
        segment: Option<u64>,
        record: Option<u64>,
        message: String,
        mut record_start: Vec<u8>,
    ) -> SpeOutcome {
        // The process belongs to the function: its text is cut to the allowed length.
        record_start.truncate(limits::FUNCTION_RECORD_BYTES_MAX);
        let named = self.sent.iter().find(|order| Some(order.segment) == segment);
        let Some(order) = named.or(self.sent.front()).or(self.last.as_ref()) else {
            return SpeOutcome::Died(format!("before its first segment, {message}"));
        };
        SpeOutcome::FunctionFailed(FunctionFailure {
            function: self.function.clone(),
            path: order.first.path.clone(),
            segment: order.segment,
            record,
            message: clip(message, limits::FUNCTION_MESSAGE_BYTES_MAX),
            record_start,
        })
    }
}

/// Most files of segments that are sent and not yet processed. This is enough that the process never waits for the
/// node, and few enough for any limit of descriptors in flight.
const FILES_AHEAD_MAX: usize = 32;
