//! Writes the results of a task to its scratch file. In the SPE process alone. Records of the same bucket are gathered,
//! so that the file consists of few chunks. However many buckets there are, memory never exceeds a fixed bound.

use std::{fs::File, io, os::unix::fs::FileExt};

use udf::Stopped;

use crate::messages::{CHUNKS_MAX, Chunk};

/// One file with a buffer for each bucket. The paper (3.5.2) has "Each SPE dumps the result to local disk before
/// attempting to send the results to buckets on other nodes".
pub(super) struct BucketWriter {
    file: File,
    file_bytes: u64,
    buffers: Vec<Vec<u8>>,
    /// Bytes at which a bucket's buffer is written.
    buffer_bytes: usize,
    chunks: Vec<Chunk>,
    records: u64,
    failure: Option<io::Error>,
}

/// What a finished task left in the scratch file.
pub(super) struct WrittenResults {
    /// The chunks of each bucket.
    pub(super) chunks: Vec<Chunk>,
    /// Records written.
    pub(super) records: u64,
}

impl BucketWriter {
    /// A writer into an empty file, for at least one bucket.
    pub(super) fn new(file: File, buckets: u32) -> Self {
        let buckets = buckets.max(1) as usize;
        Self {
            file,
            file_bytes: 0,
            buffers: vec![Vec::new(); buckets],
            buffer_bytes: (BUFFERS_BYTES / buckets).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX),
            chunks: Vec::new(),
            records: 0,
            failure: None,
        }
    }

    /// Takes records for a bucket, modulo the number of buckets. After a disk error it takes nothing more. Returns
    /// whether bytes went to the file.
    pub(super) fn emit(&mut self, bucket: u64, bytes: &[u8], records: u64) -> Result<bool, Stopped> {
        if self.failure.is_some() {
            return Err(Stopped);
        }
        self.records += records;
        let count = self.buffers.len() as u64;
        // A division costs more than all the rest for a small record, and most functions need none.
        let bucket = if bucket < count { bucket } else { bucket % count } as usize;
        let buffer = &mut self.buffers[bucket];
        if buffer.len() + bytes.len() <= self.buffer_bytes {
            if buffer.capacity() == 0 {
                buffer.reserve_exact(self.buffer_bytes);
            }
            buffer.extend_from_slice(bytes);
            return Ok(false);
        }
        self.flush(bucket)?;
        if bytes.len() >= self.buffer_bytes / 4 {
            self.append(bucket, bytes)?;
        } else {
            self.buffers[bucket].extend_from_slice(bytes);
        }
        Ok(true)
    }

    /// Number of buckets, at least 1.
    pub(super) fn bucket_count(&self) -> u32 {
        self.buffers.len() as u32
    }

    /// The disk error, if there was one.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Writes what is still in the buffers.
    pub(super) fn finish(mut self) -> Result<WrittenResults, io::Error> {
        for bucket in 0..self.buffers.len() {
            if self.flush(bucket).is_err() {
                break;
            }
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        Ok(WrittenResults { chunks: self.chunks, records: self.records })
    }

    fn flush(&mut self, bucket: usize) -> Result<(), Stopped> {
        let mut buffer = std::mem::take(&mut self.buffers[bucket]);
        let result = self.append(bucket, &buffer);
        buffer.clear();
        self.buffers[bucket] = buffer;
        result
    }

    /// Appends bytes of a bucket to the file. A chunk grows until another bucket's bytes follow it.
    fn append(&mut self, bucket: usize, bytes: &[u8]) -> Result<(), Stopped> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.write_all_at(bytes, self.file_bytes) {
            self.failure = Some(error);
            return Err(Stopped);
        }
        let is_full = self.chunks.len() >= CHUNKS_MAX;
        match self.chunks.last_mut() {
            Some(last) if last.bucket as usize == bucket => last.bytes += bytes.len() as u64,
            _ if is_full => {
                let why = format!(
                    "they lie in more than {CHUNKS_MAX} places; use fewer buckets, or smaller segments (`--segment-bytes`)"
                );
                self.failure = Some(io::Error::new(io::ErrorKind::QuotaExceeded, why));
                return Err(Stopped);
            }
            _ => {
                let chunk = Chunk { bucket: bucket as u32, offset: self.file_bytes, bytes: bytes.len() as u64 };
                self.chunks.push(chunk);
            }
        }
        self.file_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Most bytes of all buffers together: an SPE stays small beside the segment it maps.
const BUFFERS_BYTES: usize = 32 * 1024 * 1024;
/// Least bytes of a bucket's buffer; even with the most buckets, all buffers together stay within the limit.
const BUFFER_BYTES_MIN: usize = 8 * 1024;
/// Most bytes of a bucket's buffer: larger writes are no faster.
const BUFFER_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Seek};

    use protocol::limits;

    use super::*;

    /// The content of each bucket, reassembled from the chunks.
    fn buckets(mut file: &File, chunks: &[Chunk], count: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(chunks.iter().map(|chunk| chunk.bytes).sum::<u64>(), all.len() as u64);
        let mut buckets = vec![Vec::new(); count];
        for chunk in chunks {
            let from = chunk.offset as usize;
            buckets[chunk.bucket as usize].extend_from_slice(&all[from..from + chunk.bytes as usize]);
        }
        buckets
    }

    #[test]
    fn each_bucket_gets_its_records_in_order_whatever_their_sizes() {
        let file = tempfile::tempfile().unwrap();
        let count = 37;
        let mut writer = BucketWriter::new(file.try_clone().unwrap(), count as u32);
        writer.buffer_bytes = 100;
        let mut expected = vec![Vec::new(); count];
        for at in 0..5_000u32 {
            let bucket = at.wrapping_mul(2_654_435_761) >> 7;
            let record = vec![at as u8; [0, 3, 24, 26, 99, 100, 101, 900][at as usize % 8]];
            writer.emit(u64::from(bucket), &record, 1).unwrap();
            expected[bucket as usize % count].extend_from_slice(&record);
        }
        let written = writer.finish().unwrap();
        assert_eq!(written.records, 5_000);
        assert_eq!(buckets(&file, &written.chunks, count), expected);
    }

    #[test]
    fn one_bucket_is_one_chunk() {
        let file = tempfile::tempfile().unwrap();
        let mut writer = BucketWriter::new(file.try_clone().unwrap(), 1);
        for bytes in [10, 2_000_000, 5, 1_048_576, 700_000, 700_000] {
            writer.emit(0, &vec![7; bytes], 1).unwrap();
        }
        let written = writer.finish().unwrap();
        assert_eq!(written.chunks, [Chunk { bucket: 0, offset: 0, bytes: 4_448_591 }]);
        assert_eq!(file.metadata().unwrap().len(), 4_448_591);
    }

    #[test]
    fn the_most_buckets_there_may_be_keep_within_the_bound() {
        let writer = BucketWriter::new(tempfile::tempfile().unwrap(), limits::BUCKETS_MAX);
        assert!(writer.buffer_bytes * writer.buffers.len() <= BUFFERS_BYTES);
    }

    #[test]
    fn a_full_disk_closes_the_output_and_is_told_at_the_end() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut writer = BucketWriter::new(full, 1);
        assert_eq!(writer.emit(0, &[0; 3_000_000], 1), Err(Stopped));
        assert_eq!(writer.emit(0, b"x", 1), Err(Stopped));
        assert!(writer.failure().is_some());
        assert_eq!(writer.finish().map(|_| ()).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
