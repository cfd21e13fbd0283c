//! Writes one piece into its reserved range of a bucket's file. A writer dropped before [`PieceWriter::commit`] never
//! adds anything of the piece to the bucket.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use protocol::message::spe::PieceId;
use rustix::{fs::copy_file_range, io::Errno};

use super::{Bucket, piece_refused, pieces::PieceRange};
use crate::NodeError;

/// A piece being written.
#[derive(Debug)]
pub struct PieceWriter {
    bucket: Arc<Bucket>,
    piece: PieceId,
    range: PieceRange,
    file: File,
    written: u64,
    committed: bool,
}

impl PieceWriter {
    pub(super) fn begin(bucket: Arc<Bucket>, piece: PieceId, bytes: u64) -> Result<Self, NodeError> {
        // Reserved and opened under one lock: a seal between the two might put another file in this one's place.
        let mut state = bucket.lock();
        let range = state.pieces.reserve(bytes).map_err(|why| piece_refused(piece.bucket, why))?;
        match bucket.open() {
            Ok(file) => {
                drop(state);
                Ok(Self { bucket, piece, range, file, written: 0, committed: false })
            }
            Err(error) => {
                state.pieces.abandon(range);
                Err(error)
            }
        }
    }

    /// Appends bytes; more than were announced are refused.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), NodeError> {
        let at = self.claim(bytes.len() as u64)?;
        self.file.write_all_at(bytes, at).map_err(NodeError::io("write to the bucket", &self.bucket.path))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Appends `bytes` bytes of another file of this disk, without bringing them into this process where the system
    /// can.
    pub fn copy_from(&mut self, from: &File, offset: u64, bytes: u64) -> Result<(), NodeError> {
        let at = self.claim(bytes)?;
        copy_range(from, offset, &self.file, at, bytes)
            .map_err(NodeError::io("copy to the bucket", &self.bucket.path))?;
        self.written += bytes;
        Ok(())
    }

    /// The piece is whole: it is in the bucket from now on.
    pub fn commit(mut self) -> Result<(), NodeError> {
        if self.written != self.range.bytes {
            let what = format!("the piece of task {} for bucket {}", self.piece.task, self.piece.bucket.bucket);
            return Err(NodeError::LengthMismatch { what, expected: self.range.bytes, found: self.written });
        }
        self.committed = true;
        let committed = self.bucket.lock().pieces.commit(self.piece.task, self.piece.attempt, self.range);
        committed.map_err(|why| piece_refused(self.piece.bucket, why))
    }

    /// Where the next `bytes` bytes go, if they are among those announced.
    fn claim(&self, bytes: u64) -> Result<u64, NodeError> {
        let found = self.written.saturating_add(bytes);
        if found > self.range.bytes {
            let what = format!("the piece of task {} for bucket {}", self.piece.task, self.piece.bucket.bucket);
            return Err(NodeError::LengthMismatch { what, expected: self.range.bytes, found });
        }
        Ok(self.range.from + self.written)
    }
}

impl Drop for PieceWriter {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let mut state = self.bucket.lock();
        if let Some(bytes) = state.pieces.abandon(self.range) {
            // Done under the lock, because the next piece is reserved exactly here. If truncating fails now, the seal
            // does it.
            let _ = self.file.set_len(bytes);
        }
    }
}

/// Copies bytes from one file to another at the given offsets.
pub(super) fn copy_range(from: &File, offset: u64, to: &File, at: u64, bytes: u64) -> io::Result<()> {
    let (mut offset, mut at, until) = (offset, at, offset + bytes);
    while offset < until {
        let want = usize::try_from(until - offset).unwrap_or(usize::MAX).min(COPY_BYTES);
        match copy_file_range(from, Some(&mut offset), to, Some(&mut at), want) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            // Some file systems, or a pair of them, cannot do this; then the bytes go through this process.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::BADF) => {
                return copy_through_memory(from, offset, to, at, until - offset);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_through_memory(from: &File, mut offset: u64, to: &File, mut at: u64, mut bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(bytes).unwrap_or(COPY_BYTES))];
    while bytes > 0 {
        let want = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
        from.read_exact_at(&mut buffer[..want], offset)?;
        to.write_all_at(&buffer[..want], at)?;
        offset += want as u64;
        at += want as u64;
        bytes -= want as u64;
    }
    Ok(())
}

/// Bytes copied per call: large enough that the calls cost little, small enough that a stop is not delayed.
const COPY_BYTES: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_ways_of_copying_give_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let new =
            |name| File::options().read(true).write(true).create_new(true).open(folder.path().join(name)).unwrap();
        let (from, kernel, memory) = (new("from"), new("kernel"), new("memory"));
        let content: Vec<u8> = (0..COPY_BYTES + 70_000).map(|at| ((at * 31) >> 3) as u8).collect();
        from.write_all_at(&content, 0).unwrap();
        let bytes = content.len() as u64 - 9;
        copy_range(&from, 9, &kernel, 3, bytes).unwrap();
        copy_through_memory(&from, 9, &memory, 3, bytes).unwrap();
        for to in [kernel, memory] {
            let mut found = vec![0; content.len() - 9];
            to.read_exact_at(&mut found, 3).unwrap();
            assert!(found == content[9..]);
        }
    }

    #[test]
    fn a_file_that_is_too_short_is_an_error_and_no_endless_loop() {
        let folder = tempfile::tempdir().unwrap();
        let new =
            |name| File::options().read(true).write(true).create_new(true).open(folder.path().join(name)).unwrap();
        let (from, to) = (new("from"), new("to"));
        from.write_all_at(b"abc", 0).unwrap();
        assert_eq!(copy_range(&from, 0, &to, 0, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(copy_through_memory(&from, 0, &to, 0, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
