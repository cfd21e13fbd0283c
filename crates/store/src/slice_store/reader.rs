//! A slice being read (download, copy, check, SPE). Its reads never return a byte that was not verified against its
//! block's checksum in this very read.

use std::{fs::File, io, sync::Arc};

use protocol::{SliceId, SliceMetadata, limits};

use crate::{
    Disk, DiskFile, Sidecar, StoreError,
    disk::{is_bad_sector, read_exactly, read_whole},
    error::WhileDoing,
    slice_store::{inventory::Held, layout::Layout, sidecar::SIDECAR_BYTES_MAX},
};

/// An open slice: keeps its version even if the path gets another. May be used from several threads at once. Takes 64
/// KB of checksums for each GB of the slice.
pub struct SliceReader {
    metadata: Arc<SliceMetadata>,
    blocks: Vec<u32>,
    file: Box<dyn DiskFile>,
}

impl SliceReader {
    pub(crate) fn open(disk: &dyn Disk, layout: &Layout, held: &Held) -> Result<Self, StoreError> {
        let header = &held.metadata.header;
        let slice = header.slice;
        let corrupt = |what: &str| StoreError::Corrupt { slice, what: what.to_owned() };
        let missing = |error: io::Error, path: &std::path::Path, what: &str| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => corrupt(&format!("{what} is missing")),
            _ if is_bad_sector(&error) => corrupt(&format!("{what} cannot be read: {error}")),
            _ => StoreError::io("open", path, error),
        };
        let files = layout.files(slice, held.state, &header.path);
        // Bytes first: if another slice takes the path between the two, the sidecar shows it.
        let file = disk.open_to_read(&files.bytes).map_err(|error| missing(error, &files.bytes, "its file"))?;
        let sidecar = read_whole(disk, &files.sidecar, SIDECAR_BYTES_MAX)
            .map_err(|error| missing(error, &files.sidecar, "its sidecar"))?;
        let sidecar = Sidecar::decode(&sidecar).map_err(|error| corrupt(&format!("its sidecar: {error}")))?;
        if sidecar.metadata != *held.metadata {
            return Err(corrupt("its sidecar is another slice's"));
        }
        if file.bytes().while_doing("open", &files.bytes)? != held.metadata.bytes {
            return Err(corrupt("its file has another length"));
        }
        Ok(Self { metadata: Arc::clone(&held.metadata), blocks: sidecar.blocks, file })
    }

    /// The slice's metadata.
    pub fn metadata(&self) -> &SliceMetadata {
        &self.metadata
    }

    /// Reads `bytes` bytes from `offset`: fewer at the slice's end, and none after it. `buffer` contains exactly these
    /// afterwards; reusing one buffer costs least. Every block they touch is verified whole: if one does not match, the
    /// error is [`StoreError::Corrupt`] and the buffer is empty.
    pub fn read_at(&self, buffer: &mut Vec<u8>, offset: u64, bytes: usize) -> Result<(), StoreError> {
        self.read_through(buffer, offset, bytes, |blocks, first| self.read_blocks(blocks, first).map(|()| true))?;
        Ok(())
    }

    /// As [`read_at`](Self::read_at), but only if the bytes are in memory. It never waits for the disk, so code that
    /// must not wait may call it. False if they are not, or if the file system cannot tell; the buffer is then empty.
    pub fn read_cached_at(&self, buffer: &mut Vec<u8>, offset: u64, bytes: usize) -> Result<bool, StoreError> {
        let Some(file) = self.file.os_file() else {
            buffer.clear();
            return Ok(false);
        };
        self.read_through(buffer, offset, bytes, |blocks, first| {
            if !read_if_cached(file, blocks, first) {
                return Ok(false);
            }
            self.verify_blocks(blocks, first).map(|()| true)
        })
    }

    /// The checksums of the blocks that make up `bytes` bytes from `offset`; none if these are not whole blocks.
    pub fn checksums(&self, offset: u64, bytes: u64) -> &[u32] {
        let until = offset.saturating_add(bytes);
        let is_whole = offset.is_multiple_of(limits::BLOCK_BYTES)
            && (until.is_multiple_of(limits::BLOCK_BYTES) || until == self.metadata.bytes);
        let blocks = (offset / limits::BLOCK_BYTES) as usize..until.div_ceil(limits::BLOCK_BYTES) as usize;
        if is_whole { self.blocks.get(blocks).unwrap_or_default() } else { &[] }
    }

    /// Verifies all blocks that `from..until` touches without returning them.
    pub fn verify(&self, from: u64, until: u64) -> Result<(), StoreError> {
        let until = until.min(self.metadata.bytes);
        let mut buffer = Vec::new();
        let mut next = from - from % limits::BLOCK_BYTES;
        while next < until {
            let end = (next + VERIFY_BYTES).min(until.next_multiple_of(limits::BLOCK_BYTES)).min(self.metadata.bytes);
            grow(&mut buffer, (end - next) as usize);
            self.read_blocks(&mut buffer, next)?;
            next = end;
        }
        Ok(())
    }

    /// Lets the system drop `bytes` bytes from `offset` from its cache, so that the next read comes from the disk. A
    /// hint.
    pub(crate) fn drop_cached(&self, offset: u64, bytes: u64) {
        let _ = self.file.start_writeback(offset, bytes);
    }

    /// The operating system's file, read-only: for an SPE to map, or for `copy_file_range`. Its bytes are not verified;
    /// [`verify`](Self::verify) the range first.
    pub fn os_file(&self) -> Option<&File> {
        self.file.os_file()
    }

    /// Reads the blocks that a range touches with `read`, and keeps only the range; nothing if `read` gives false.
    fn read_through(
        &self,
        buffer: &mut Vec<u8>,
        offset: u64,
        bytes: usize,
        read: impl FnOnce(&mut [u8], u64) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let until = offset.saturating_add(bytes as u64).min(self.metadata.bytes);
        if offset >= until {
            buffer.clear();
            return Ok(true);
        }
        let first = offset - offset % limits::BLOCK_BYTES;
        let end = until.next_multiple_of(limits::BLOCK_BYTES).min(self.metadata.bytes);
        grow(buffer, (end - first) as usize);
        let done = read(buffer, first);
        if !matches!(done, Ok(true)) {
            buffer.clear();
            return done;
        }
        buffer.truncate((until - first) as usize);
        buffer.drain(..(offset - first) as usize);
        done
    }

    /// Fills the buffer with whole blocks from `first`, which begins one.
    fn read_blocks(&self, buffer: &mut [u8], first: u64) -> Result<(), StoreError> {
        read_exactly(&*self.file, buffer, first).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.corrupt("its file was cut".to_owned()),
            // A bad sector costs only this copy; a disk that is gone altogether is for its owner to notice.
            _ if is_bad_sector(&source) => self.corrupt(format!("its file cannot be read: {source}")),
            _ => StoreError::Io { operation: "read", path: self.name().into(), source },
        })?;
        self.verify_blocks(buffer, first)
    }

    fn verify_blocks(&self, buffer: &[u8], first: u64) -> Result<(), StoreError> {
        let first_block = (first / limits::BLOCK_BYTES) as usize;
        let checksums = self.blocks[first_block..].iter();
        let blocks = buffer.chunks(limits::BLOCK_BYTES as usize);
        match blocks.zip(checksums).position(|(block, checksum)| crc32c::crc32c(block) != *checksum) {
            Some(bad) => Err(self.corrupt(format!("block {}", first_block + bad))),
            None => Ok(()),
        }
    }

    fn slice(&self) -> SliceId {
        self.metadata.header.slice
    }

    fn name(&self) -> String {
        format!("slice {} ({})", self.slice(), self.metadata.header.path)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt { slice: self.slice(), what }
    }
}

/// Fills the buffer from the page cache; false if not all of it is there.
#[cfg(target_os = "linux")]
fn read_if_cached(file: &File, buffer: &mut [u8], offset: u64) -> bool {
    let wanted = buffer.len();
    let into = &mut [io::IoSliceMut::new(buffer)];
    rustix::io::preadv2(file, into, offset, rustix::io::ReadWriteFlags::NOWAIT) == Ok(wanted)
}

#[cfg(not(target_os = "linux"))]
fn read_if_cached(_file: &File, _buffer: &mut [u8], _offset: u64) -> bool {
    false
}

/// Bytes verified in one read: a whole number of blocks, small enough to stay in the processor's cache.
const VERIFY_BYTES: u64 = 1 << 20;

/// Gives a buffer this length. It was not cleared before, so that only growth is filled with zeros; memory that is new has
/// them already.
fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.capacity() == 0 {
        *buffer = vec![0; bytes];
    } else {
        buffer.resize(bytes, 0);
    }
}
