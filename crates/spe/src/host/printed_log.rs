//! What a function prints, by segment, within bounds. Serves the path *job*: `job --logs`. Of each segment the beginning
//! and the end are kept. It never holds more than a job's log may have, however much is printed.

use std::collections::VecDeque;

use protocol::{
    limits::{JOB_LOG_BYTES_MAX, LOG_ENTRY_BYTES, SEGMENT_LOG_BYTES_MAX},
    message::spe::{PrintedOutput, SegmentOutput},
};

/// What was printed since it was last taken.
#[derive(Default)]
pub(super) struct PrintedLog {
    /// Since the last mark.
    current: BoundedText,
    ended: Vec<SegmentOutput>,
    /// What `ended` takes of a job's log.
    ended_bytes: usize,
    left_out: u64,
}

/// The beginning and the end of a text.
#[derive(Default)]
struct BoundedText {
    first: Vec<u8>,
    left_out_bytes: u64,
    last: VecDeque<u8>,
}

impl PrintedLog {
    /// Takes some of what is printed.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.current.add(bytes);
    }

    /// What was printed since the last mark belongs to this segment, or to the loading of the function.
    pub(super) fn end(&mut self, segment: Option<u64>) {
        let Some(output) = std::mem::take(&mut self.current).into_output(segment) else { return };
        let bytes = LOG_ENTRY_BYTES + output.first.len() + output.last.len();
        if self.ended_bytes + bytes > JOB_LOG_BYTES_MAX {
            self.left_out += 1;
        } else {
            self.ended_bytes += bytes;
            self.ended.push(output);
        }
    }

    /// Gives all away. What came after the last mark belongs to `rest`, where the function came to its end without one.
    pub(super) fn take(&mut self, rest: Option<u64>) -> PrintedOutput {
        // It has room: most likely the function failed there.
        let rest = std::mem::take(&mut self.current).into_output(rest);
        let Self { ended, left_out, .. } = std::mem::take(self);
        PrintedOutput { segments: ended.into_iter().chain(rest).collect(), left_out }
    }
}

impl BoundedText {
    fn add(&mut self, bytes: &[u8]) {
        let room = HALF_BYTES - self.first.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.first.extend_from_slice(first);
        self.last.extend(rest);
        let surplus = self.last.len().saturating_sub(HALF_BYTES);
        self.last.drain(..surplus);
        self.left_out_bytes += surplus as u64;
    }

    /// As text, without the line end that comes before a mark; `None` if there is none.
    fn into_output(self, segment: Option<u64>) -> Option<SegmentOutput> {
        let Self { first, left_out_bytes, last } = self;
        let last = Vec::from(last);
        let (first, last) = if left_out_bytes == 0 { ([first, last].concat(), Vec::new()) } else { (first, last) };
        let text = |bytes: &[u8]| {
            // What is no UTF-8 becomes longer.
            let mut text = String::from_utf8_lossy(bytes).into_owned();
            text.truncate(text.floor_char_boundary(bytes.len()));
            text
        };
        let (mut first, mut last) = (text(&first), text(&last));
        let end = if last.is_empty() { &mut first } else { &mut last };
        while end.ends_with('\n') {
            end.pop();
        }
        let is_empty = first.is_empty() && last.is_empty();
        (!is_empty).then_some(SegmentOutput { segment, first, left_out_bytes, last })
    }
}

/// How much of the beginning is kept, and of the end.
const HALF_BYTES: usize = SEGMENT_LOG_BYTES_MAX / 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_printed_belongs_to_the_segment_whose_mark_follows() {
        let mut log = PrintedLog::default();
        log.add(b"import\n\n");
        log.end(None);
        log.add(b"a\nb");
        log.add(b"\n");
        log.end(Some(3));
        log.end(Some(4));
        log.add(b"it fails");
        let taken = log.take(Some(5));
        let found: Vec<_> = taken.segments.iter().map(|output| (output.segment, output.text())).collect();
        assert_eq!(found, [(None, "import".into()), (Some(3), "a\nb".into()), (Some(5), "it fails".into())]);
        assert_eq!((taken.left_out, log.take(Some(6))), (0, PrintedOutput::default()));
    }

    #[test]
    fn of_a_long_text_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let lines: String = (0..10_000).map(|line| format!("line {line}\n")).collect();
        for piece in [1, 7, 400, 100_000] {
            let mut log = PrintedLog::default();
            lines.as_bytes().chunks(piece).for_each(|bytes| log.add(bytes));
            log.end(Some(0));
            let output = log.take(None).segments.pop().unwrap();
            assert!(output.first.starts_with("line 0\nline 1\n") && output.last.ends_with("line 9998\nline 9999"));
            assert_eq!(output.left_out_bytes as usize, lines.len() - SEGMENT_LOG_BYTES_MAX, "in pieces of {piece}");
        }
        let mut log = PrintedLog::default();
        log.add(&vec![0xff; 100_000]);
        let output = log.take(None).segments.pop().unwrap();
        assert!(output.first.len() + output.last.len() <= SEGMENT_LOG_BYTES_MAX);
    }

    #[test]
    fn a_task_of_many_segments_is_kept_up_to_what_a_jobs_log_may_have() {
        let mut log = PrintedLog::default();
        for segment in 0..10_000 {
            log.add(b"x");
            log.end(Some(segment));
        }
        log.add(b"the last");
        let taken = log.take(Some(10_000));
        let kept = JOB_LOG_BYTES_MAX / (LOG_ENTRY_BYTES + 1);
        assert_eq!((taken.segments.len(), taken.left_out), (kept + 1, (10_000 - kept) as u64));
        assert_eq!(taken.segments.last().unwrap().text(), "the last");
    }
}
