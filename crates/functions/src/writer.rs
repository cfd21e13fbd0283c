//! Emits whole records and reports progress as they pass. Serves `hash`, `filter`, `group` and `reduce`. It never
//! emits a line without its end.

use udf::{FunctionError, Input, Output, RecordFormat, Stopped, key_hash};

use crate::batch::Batch;

/// Emits records of a segment's format, each to the bucket of its key's hash.
pub(crate) struct Writer<'o, 's> {
    output: &'o mut Output<'s>,
    has_ends: bool,
    /// With a single bucket nothing is hashed, and records travel together.
    only: Option<Batch>,
    line: Vec<u8>,
    done: u64,
    told: u64,
}

impl<'o, 's> Writer<'o, 's> {
    /// A writer of a function's results for this segment.
    pub(crate) fn new(input: &Input<'_>, output: &'o mut Output<'s>) -> Self {
        let only = (input.buckets() == 1).then(|| Batch::new(0));
        let has_ends = input.format() == RecordFormat::Lines;
        Self { output, has_ends, only, line: Vec::new(), done: 0, told: 0 }
    }

    /// Emits a record; a line gets its end.
    pub(crate) fn emit(&mut self, key: &[u8], content: &[u8]) -> Result<(), Stopped> {
        if let Some(batch) = &mut self.only {
            let bytes = batch.begin(content.len() + 1, self.output)?;
            bytes.extend_from_slice(content);
            bytes.extend(self.has_ends.then_some(b'\n'));
            return Ok(());
        }
        if !self.has_ends {
            return self.output.emit(key_hash(key), content);
        }
        self.line.clear();
        self.line.extend_from_slice(content);
        self.line.push(b'\n');
        self.output.emit(key_hash(key), &self.line)
    }

    /// Counts this many further bytes of the segment as processed.
    pub(crate) fn progress(&mut self, bytes: usize) {
        self.done += bytes as u64;
        if self.done - self.told >= PROGRESS_BYTES {
            self.told = self.done;
            self.output.progress(self.done);
        }
    }

    /// Emits what is left.
    pub(crate) fn finish(self) -> Result<(), FunctionError> {
        if let Some(batch) = self.only {
            batch.finish(self.output)?;
        }
        Ok(())
    }
}

/// Progress is told about every so many bytes.
const PROGRESS_BYTES: u64 = 1024 * 1024;
