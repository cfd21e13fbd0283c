//! A file of this machine with the checksums of its blocks (path *download*). It never gives out a block that does not
//! have its checksum.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use protocol::limits;

/// A local file whose bytes are verified with each read. Several threads may read it at once.
#[derive(Debug)]
pub struct ChecksummedFile {
    file: File,
    bytes: u64,
    /// CRC32C of each block.
    checksums: Vec<u32>,
}

/// Why bytes could not be read here.
#[derive(Debug)]
pub enum UnreadableBytes {
    /// The file could not be read, or the destination could not be written.
    Io(io::Error),
    /// A block, which begins at this byte, does not have its checksum.
    BadBlock(u64),
}

impl ChecksummedFile {
    /// A file of this many bytes, which ranges that are read may not leave, with the CRC32C of each [`BLOCK_BYTES`](limits::BLOCK_BYTES) of it.
    pub fn new(file: File, bytes: u64, checksums: Vec<u32>) -> Self {
        Self { file, bytes, checksums }
    }

    /// Reads and verifies the blocks that a range touches into `buffer`, which then holds just the range. Waits for the
    /// disk.
    pub fn read(&self, range: &Range<u64>, buffer: &mut Vec<u8>) -> Result<(), UnreadableBytes> {
        let blocks = self.blocks_of(range);
        buffer.resize((blocks.end - blocks.start) as usize, 0);
        let read = self.file.read_exact_at(buffer, blocks.start);
        read.map_err(|error| cut_is_bad(error, first_unreadable(&self.file, &blocks)))?;
        self.verify(buffer, blocks.start)?;
        cut(buffer, &blocks, range);
        Ok(())
    }

    /// The same, but only if the bytes are in memory: it never waits for the disk. False if they are not, or if the
    /// file system cannot tell.
    pub fn read_cached(&self, range: &Range<u64>, buffer: &mut Vec<u8>) -> Result<bool, UnreadableBytes> {
        let blocks = self.blocks_of(range);
        buffer.resize((blocks.end - blocks.start) as usize, 0);
        if !read_if_cached(&self.file, buffer, blocks.start) {
            return Ok(false);
        }
        self.verify(buffer, blocks.start)?;
        cut(buffer, &blocks, range);
        Ok(true)
    }

    /// The whole blocks that a range touches, as bytes.
    fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.next_multiple_of(limits::BLOCK_BYTES).min(self.bytes);
        range.start - range.start % limits::BLOCK_BYTES..end
    }

    fn verify(&self, bytes: &[u8], from: u64) -> Result<(), UnreadableBytes> {
        let first = (from / limits::BLOCK_BYTES) as usize;
        let mut blocks = (first..).zip(bytes.chunks(limits::BLOCK_BYTES as usize));
        match blocks.find(|(at, block)| self.checksums.get(*at) != Some(&crc32c::crc32c(block))) {
            Some((bad, _)) => Err(UnreadableBytes::BadBlock(bad as u64 * limits::BLOCK_BYTES)),
            None => Ok(()),
        }
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

/// Cuts whole blocks down to the range.
fn cut(buffer: &mut Vec<u8>, blocks: &Range<u64>, range: &Range<u64>) {
    buffer.truncate((range.end - blocks.start) as usize);
    buffer.drain(..(range.start - blocks.start) as usize);
}

/// A file that ends early, or has a bad sector, is as bad as one with a wrong block.
fn cut_is_bad(error: io::Error, at: u64) -> UnreadableBytes {
    let bad_sector = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    if bad_sector || error.kind() == io::ErrorKind::UnexpectedEof {
        UnreadableBytes::BadBlock(at)
    } else {
        UnreadableBytes::Io(error)
    }
}

/// Which one of the blocks that could not be read together is bad; the node checks that one.
fn first_unreadable(file: &File, blocks: &Range<u64>) -> u64 {
    let mut block = vec![0; limits::BLOCK_BYTES as usize];
    let mut starts = (blocks.start..blocks.end).step_by(limits::BLOCK_BYTES as usize);
    let is_bad = |at: &u64| {
        let bytes = limits::BLOCK_BYTES.min(blocks.end - at) as usize;
        file.read_exact_at(&mut block[..bytes], *at).is_err()
    };
    starts.find(is_bad).unwrap_or(blocks.start)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const BLOCK: usize = limits::BLOCK_BYTES as usize;

    /// Two whole blocks and a half, with the checksums of so many.
    fn file(sums: usize) -> (tempfile::NamedTempFile, Vec<u8>, ChecksummedFile) {
        let content: Vec<u8> = (0..BLOCK * 5 / 2).map(|at| (at / 3) as u8).collect();
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), &content).unwrap();
        let checksums = content.chunks(BLOCK).map(crc32c::crc32c).take(sums).collect();
        let open = ChecksummedFile::new(named.reopen().unwrap(), content.len() as u64, checksums);
        (named, content, open)
    }

    fn bad_block(read: Result<(), UnreadableBytes>) -> u64 {
        match read {
            Err(UnreadableBytes::BadBlock(at)) => at,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranges_are_what_they_say_wherever_blocks_end() {
        let (_named, content, file) = file(3);
        let mut buffer = vec![9; 10];
        for range in [0..1, 5..5, 0..content.len(), BLOCK - 1..BLOCK + 1, 2 * BLOCK + 7..content.len()] {
            let asked = range.start as u64..range.end as u64;
            file.read(&asked, &mut buffer).unwrap();
            assert_eq!(buffer, content[range.clone()], "{range:?}");
            // It was read just now; a file system that cannot tell says no.
            if file.read_cached(&asked, &mut buffer).unwrap() {
                assert_eq!(buffer, content[range.clone()], "{range:?}");
            }
        }
    }

    #[test]
    fn what_has_no_checksum_or_another_one_is_never_given_out() {
        let (named, mut content, whole) = file(3);
        let bytes = content.len() as u64;
        let (_other, _, short) = file(2);
        assert!(short.read(&(0..2 * limits::BLOCK_BYTES), &mut Vec::new()).is_ok());
        assert_eq!(bad_block(short.read(&(bytes - 1..bytes), &mut Vec::new())), 2 * limits::BLOCK_BYTES);
        content[BLOCK + 1] ^= 1;
        std::fs::write(named.path(), &content).unwrap();
        assert_eq!(bad_block(whole.read(&(0..bytes), &mut Vec::new())), limits::BLOCK_BYTES);
        assert!(whole.read(&(0..10), &mut Vec::new()).is_ok(), "other blocks are good");
        // A file that was cut is as bad from there on.
        named.as_file().set_len(limits::BLOCK_BYTES / 2).unwrap();
        assert_eq!(bad_block(whole.read(&(0..10), &mut Vec::new())), 0);
    }
}
