//! The sums of a slice: BLAKE3 of the whole and CRC32C of each [block](protocol::limits::BLOCK_BYTES). They are
//! computed while the bytes pass (upload, copy, bucket), and never in a second read.

use protocol::{Digest, limits};

/// BLAKE3 of the whole and CRC32C of each 64 KiB block, whatever the sizes of the updates. Cloning copies 2 KB and the
/// checksums so far (64 KB for each GB).
#[derive(Clone, Debug, Default)]
pub struct SliceHasher {
    whole: blake3::Hasher,
    blocks: BlockSums,
}

impl SliceHasher {
    /// A hasher that has seen no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.whole.update(bytes);
        self.blocks.update(bytes);
    }

    /// As `update`, for callers that already know and have checked the CRC32C of each 64 KiB block of `bytes` (a
    /// frame's). The checksums are used if `bytes` begins at a block of the slice. Otherwise they belong to other
    /// blocks and are computed anew.
    pub fn update_checked(&mut self, bytes: &[u8], checksums: &[u32]) {
        self.whole.update(bytes);
        self.blocks.update_checked(bytes, checksums);
    }

    /// Bytes seen so far.
    pub fn bytes(&self) -> u64 {
        self.blocks.bytes
    }

    /// The sums of all bytes seen.
    pub fn finish(self) -> SliceSums {
        self.blocks.finish(Digest(*self.whole.finalize().as_bytes()))
    }
}

/// CRC32C of each 64 KiB block: the half of a [`SliceHasher`] that belongs to the file. The other half, BLAKE3, may be
/// computed on another thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockSums {
    /// Checksums of the full blocks.
    full: Vec<u32>,
    /// Checksum of the bytes after the last full block.
    partial: u32,
    bytes: u64,
}

impl BlockSums {
    /// The sums of whole blocks that already exist.
    pub(crate) fn of_blocks(full: Vec<u32>) -> Self {
        let bytes = full.len() as u64 * limits::BLOCK_BYTES;
        Self { full, partial: 0, bytes }
    }

    /// See [`SliceHasher::update`].
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(rest.len().min(BLOCK_BYTES - self.partial_bytes()));
            let checksum = crc32c::crc32c_append(self.partial, head);
            self.take_checksum(checksum, head.len());
            rest = tail;
        }
    }

    /// See [`SliceHasher::update_checked`].
    pub(crate) fn update_checked(&mut self, bytes: &[u8], checksums: &[u32]) {
        if self.partial_bytes() != 0 || checksums.len() != bytes.len().div_ceil(BLOCK_BYTES) {
            return self.update(bytes);
        }
        for (block, checksum) in bytes.chunks(BLOCK_BYTES).zip(checksums) {
            self.take_checksum(*checksum, block.len());
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The checksums of the full blocks so far.
    pub(crate) fn full(&self) -> &[u32] {
        &self.full
    }

    /// All sums, with the digest that was computed elsewhere.
    pub(crate) fn finish(mut self, digest: Digest) -> SliceSums {
        if self.partial_bytes() != 0 {
            self.full.push(self.partial);
        }
        SliceSums { bytes: self.bytes, digest, blocks: self.full }
    }

    fn partial_bytes(&self) -> usize {
        (self.bytes % limits::BLOCK_BYTES) as usize
    }

    /// `checksum` is that of the current block with `bytes` more bytes, which stay within the block.
    fn take_checksum(&mut self, checksum: u32, bytes: usize) {
        self.bytes += bytes as u64;
        if self.partial_bytes() == 0 {
            self.full.push(checksum);
            self.partial = 0;
        } else {
            self.partial = checksum;
        }
    }
}

/// The sums of a complete slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSums {
    /// Its length in bytes.
    pub bytes: u64,
    /// BLAKE3 of all bytes.
    pub digest: Digest,
    /// CRC32C of each block; the last block may be short.
    pub blocks: Vec<u32>,
}

const BLOCK_BYTES: usize = limits::BLOCK_BYTES as usize;

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn bytes(count: usize) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(count as u64);
        let mut bytes = vec![0; count];
        rng.fill(&mut bytes);
        bytes
    }

    /// The slow, obvious way.
    fn sums(bytes: &[u8]) -> SliceSums {
        SliceSums {
            bytes: bytes.len() as u64,
            digest: Digest(*blake3::hash(bytes).as_bytes()),
            blocks: bytes.chunks(BLOCK_BYTES).map(crc32c::crc32c).collect(),
        }
    }

    fn checksums(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks(BLOCK_BYTES).map(crc32c::crc32c).collect()
    }

    #[test]
    fn a_slice_around_a_block_boundary_has_the_blocks_it_should() {
        for (count, blocks) in [
            (0, 0),
            (1, 1),
            (BLOCK_BYTES - 1, 1),
            (BLOCK_BYTES, 1),
            (BLOCK_BYTES + 1, 2),
            (2 * BLOCK_BYTES, 2),
            (3 * BLOCK_BYTES + 7, 4),
        ] {
            let bytes = bytes(count);
            let mut hasher = SliceHasher::new();
            hasher.update(&bytes);
            assert_eq!(hasher.bytes(), count as u64);
            let found = hasher.finish();
            assert_eq!(found.blocks.len(), blocks, "{count}");
            assert_eq!(found.blocks.len() as u64, protocol::slice::block_count(count as u64));
            assert_eq!(found, sums(&bytes), "{count}");
        }
    }

    #[test]
    fn checksums_given_for_aligned_bytes_are_kept_and_for_others_computed_anew() {
        let bytes = bytes(3 * BLOCK_BYTES);
        let mut hasher = SliceHasher::new();
        // Wrong on purpose, to see which are used.
        hasher.update_checked(&bytes[..BLOCK_BYTES], &[1]);
        hasher.update(b"x");
        hasher.update_checked(&bytes[..BLOCK_BYTES], &[2]);
        let blocks = hasher.finish().blocks;
        assert_eq!(blocks[0], 1);
        assert!(!blocks[1..].contains(&2), "{blocks:?}");
        let mut hasher = SliceHasher::new();
        hasher.update_checked(&bytes, &[1, 2]);
        assert_eq!(hasher.finish(), sums(&bytes), "a list of the wrong length is not used");
    }

    #[test]
    fn a_short_checked_block_goes_on_with_the_next_bytes() {
        let bytes = bytes(BLOCK_BYTES + 500);
        let mut hasher = SliceHasher::new();
        hasher.update_checked(&bytes[..100], &checksums(&bytes[..100]));
        hasher.update(&bytes[100..]);
        assert_eq!(hasher.finish(), sums(&bytes));
    }

    proptest! {
        #[test]
        fn the_sums_do_not_depend_on_the_sizes_of_the_updates(
            count in 0..5 * BLOCK_BYTES,
            cuts in proptest::collection::vec((0..2 * BLOCK_BYTES, any::<bool>()), 0..8),
        ) {
            let bytes = bytes(count);
            let mut hasher = SliceHasher::new();
            let mut rest = &bytes[..];
            for (cut, checked) in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                if checked { hasher.update_checked(head, &checksums(head)) } else { hasher.update(head) }
                rest = tail;
            }
            hasher.update(rest);
            prop_assert_eq!(hasher.finish(), sums(&bytes));
        }
    }
}
