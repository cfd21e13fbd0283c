//! Records for one bucket, gathered so that each call of the host moves about 1 MiB. Serves the path *job*. It never
//! reorders the records of a bucket.

use udf::{Output, Stopped};

/// A batch for one bucket.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    records: u64,
    bucket: u64,
}

impl Batch {
    /// An empty batch.
    pub(crate) fn new(bucket: u64) -> Self {
        Self { bytes: Vec::with_capacity(BATCH_BYTES), records: 0, bucket }
    }

    /// Adds one record.
    pub(crate) fn push(&mut self, record: &[u8], output: &mut Output<'_>) -> Result<(), Stopped> {
        self.begin(record.len(), output)?;
        self.bytes.extend_from_slice(record);
        Ok(())
    }

    /// Begins a record of about this many bytes, which are then written to the vector.
    pub(crate) fn begin(&mut self, record_bytes: usize, output: &mut Output<'_>) -> Result<&mut Vec<u8>, Stopped> {
        if self.bytes.len() + record_bytes > BATCH_BYTES {
            self.flush(output)?;
        }
        self.records += 1;
        Ok(&mut self.bytes)
    }

    /// Emits what is left.
    pub(crate) fn finish(mut self, output: &mut Output<'_>) -> Result<(), Stopped> {
        self.flush(output)
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Stopped> {
        if self.records > 0 {
            output.emit_records(self.bucket, &self.bytes, self.records)?;
        }
        self.bytes.clear();
        self.records = 0;
        Ok(())
    }
}

/// Bytes of a full batch: large enough that a call is noise, small enough for the second-level cache.
pub(crate) const BATCH_BYTES: usize = 1024 * 1024;
