//! Where a function's results go. Serves the path *job*; it never keeps results: what is emitted belongs to the host,
//! which decides where a bucket lies.

use std::collections::BTreeMap;

use crate::{Stopped, key_hash};

/// The buckets of the job's output, and the way to say that work goes on.
pub struct Output<'a> {
    sink: &'a mut dyn Sink,
}

impl<'a> Output<'a> {
    /// An output into `sink`: for hosts and for tests.
    pub fn new(sink: &'a mut dyn Sink) -> Self {
        Self { sink }
    }

    /// Adds one record to a bucket: `bucket` modulo the number of buckets. The bytes are copied.
    pub fn emit(&mut self, bucket: u64, bytes: &[u8]) -> Result<(), Stopped> {
        self.sink.emit(bucket, bytes, 1)
    }

    /// Adds `records` records, whose bytes follow each other, to a bucket. The faster way where there are many: batches
    /// of about 1 MiB into a single bucket are written without another copy.
    pub fn emit_records(&mut self, bucket: u64, bytes: &[u8], records: u64) -> Result<(), Stopped> {
        self.sink.emit(bucket, bytes, records)
    }

    /// Adds one record to the bucket of `key`, by its [hash](key_hash).
    pub fn emit_key(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Stopped> {
        self.sink.emit(key_hash(key), bytes, 1)
    }

    /// Says how many bytes of the segment are processed. Cheap; called now and then in long work, it moves the
    /// job's progress bar. Who neither says this nor emits anything for long (an hour, if the nodes' settings say
    /// nothing else) counts as stuck.
    pub fn progress(&mut self, bytes_done: u64) {
        self.sink.progress(bytes_done);
    }

    /// Adds to one of the job's counters, which `sector job ID` shows. A name has 1 to 64 bytes without control
    /// characters, and a stage 64 names at most: more are an error of the function. What a segment counts is counted
    /// once, however often it is tried, and not at all where it fails.
    pub fn count(&mut self, name: &str, count: u64) {
        self.sink.count(name, count);
    }
}

/// What stands behind an [`Output`].
pub trait Sink {
    /// Takes `records` records for a bucket (to be taken modulo the number of buckets).
    fn emit(&mut self, bucket: u64, bytes: &[u8], records: u64) -> Result<(), Stopped>;
    /// Hears how many bytes of the segment are processed.
    fn progress(&mut self, bytes_done: u64);
    /// Adds to a counter. Who cannot says so when the segment ends.
    fn count(&mut self, name: &str, count: u64);
}

/// An output in memory, to try a function in a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of buckets; 0 leaves bucket numbers as they are emitted.
    pub bucket_count: u64,
    /// The content of each bucket that got something.
    pub buckets: BTreeMap<u64, Vec<u8>>,
    /// Records emitted.
    pub records: u64,
    /// The last progress heard of, in bytes.
    pub bytes_done: u64,
    /// What was counted, by name.
    pub counters: BTreeMap<String, u64>,
}

impl Collected {
    /// An empty output with this number of buckets.
    pub fn with_buckets(bucket_count: u64) -> Self {
        Self { bucket_count, ..Self::default() }
    }

    /// What a bucket holds; nothing if it got nothing.
    pub fn bucket(&self, bucket: u64) -> &[u8] {
        self.buckets.get(&bucket).map_or(&[], Vec::as_slice)
    }
}

impl Sink for Collected {
    fn emit(&mut self, bucket: u64, bytes: &[u8], records: u64) -> Result<(), Stopped> {
        let bucket = bucket.checked_rem(self.bucket_count).unwrap_or(bucket);
        self.buckets.entry(bucket).or_default().extend_from_slice(bytes);
        self.records += records;
        Ok(())
    }

    fn progress(&mut self, bytes_done: u64) {
        self.bytes_done = bytes_done;
    }

    fn count(&mut self, name: &str, count: u64) {
        let counter = self.counters.entry(name.to_owned()).or_default();
        *counter = counter.wrapping_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_meet_in_one_bucket_and_records_are_counted() {
        let mut collected = Collected::with_buckets(8);
        let mut output = Output::new(&mut collected);
        for (key, value) in [("bee", "1"), ("cow", "2"), ("bee", "3")] {
            assert_eq!(output.emit_key(key.as_bytes(), value.as_bytes()), Ok(()));
        }
        assert_eq!(output.emit_records(9, b"xyz", 3), Ok(()));
        output.progress(5);
        output.count("odd", 2);
        output.count("odd", 1);
        let text = |bucket: u64| String::from_utf8_lossy(collected.bucket(bucket)).into_owned();
        assert!(text(key_hash(b"bee") % 8).contains("13"));
        assert!(text(1).contains("xyz"));
        assert_eq!((collected.records, collected.bytes_done), (6, 5));
        assert_eq!(collected.counters, BTreeMap::from([("odd".to_owned(), 3)]));
    }
}
