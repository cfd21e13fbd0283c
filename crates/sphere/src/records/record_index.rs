//! The index beside a file with records of any length (path *job*; `docs/records.md` has the format). Sector/Sphere
//! paper, 3.1: "the index files are named by adding an `.idx` postfix to the data file name". A driver cuts a file by
//! it without reading the file, and an SPE finds its segment's records by a portion. The header names the indexed bytes
//! by length and digest: an index of other bytes is never used. The code here locates offsets in an index; it never
//! reads one.

use std::ops::Range;

use protocol::{Digest, SectorPath};
use thiserror::Error;

/// The head of an index: the bytes it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHeader {
    /// Length of the indexed file in bytes.
    pub bytes: u64,
    /// The file's version when it was indexed, for people. It does not decide anything, since a copy has the same
    /// bytes.
    pub version: u64,
    /// BLAKE3 of the indexed file.
    pub digest: Digest,
}

/// Why bytes are not the head of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// They do not begin like one.
    #[error("it is no index of records")]
    NoIndex,
    /// Their version is not known here.
    #[error("it is an index of version {0}, and this is known up to version 1")]
    Version(u32),
    /// The offsets do not fill the file.
    #[error("it is cut off: {0} bytes are no whole number of offsets")]
    CutOff(u64),
}

impl IndexHeader {
    /// The bytes with which an index begins; its offsets follow, each 64 bits, little-endian.
    pub fn encode(&self) -> [u8; INDEX_HEADER_BYTES as usize] {
        let mut bytes = [0; INDEX_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        // Four bytes stay 0.
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.to_le_bytes());
        bytes[32..].copy_from_slice(&self.digest.0);
        bytes
    }

    /// Reads the first [`INDEX_HEADER_BYTES`] of a file.
    ///
    /// # Errors
    /// What these bytes are instead.
    pub fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let bytes: &[u8; INDEX_HEADER_BYTES as usize] = bytes.first_chunk().ok_or(IndexError::NoIndex)?;
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|at| bytes[from + at]));
        let format = u32::from_le_bytes(std::array::from_fn(|at| bytes[8 + at]));
        if bytes[..8] != MAGIC {
            return Err(IndexError::NoIndex);
        }
        if format != FORMAT_VERSION {
            return Err(IndexError::Version(format));
        }
        let digest = Digest(std::array::from_fn(|at| bytes[32 + at]));
        Ok(Self { bytes: number(16), version: number(24), digest })
    }

    /// Whether it belongs to a file of this length and digest.
    pub fn is_of(&self, bytes: u64, digest: &Digest) -> bool {
        self.bytes == bytes && self.digest == *digest
    }
}

/// How many records an index of `bytes` bytes has: there is one offset for each, and one for the end.
///
/// # Errors
/// [`IndexError::CutOff`] where that is no whole number.
pub fn index_records(bytes: u64) -> Result<u64, IndexError> {
    let offsets = bytes.checked_sub(INDEX_HEADER_BYTES).filter(|rest| rest.is_multiple_of(OFFSET_BYTES));
    offsets.and_then(|rest| (rest / OFFSET_BYTES).checked_sub(1)).ok_or(IndexError::CutOff(bytes))
}

/// Where in an index the offsets of these records are, followed by the offset of the last one's end.
pub fn offsets_of(records: Range<u64>) -> Range<u64> {
    let place = |record: u64| INDEX_HEADER_BYTES + record * OFFSET_BYTES;
    place(records.start)..place(records.end + 1)
}

/// Where the index of a file is; `None` where the name would be too long.
pub fn index_path(path: &SectorPath) -> Option<SectorPath> {
    SectorPath::parse(&format!("{path}{INDEX_SUFFIX}")).ok()
}

/// The file that an index of this name would belong to; `None` for any other name.
pub fn indexed_path(path: &SectorPath) -> Option<SectorPath> {
    SectorPath::parse(path.as_str().strip_suffix(INDEX_SUFFIX)?).ok()
}

/// Bytes before the first offset: a multiple of an offset's, so that mapped offsets are aligned.
pub const INDEX_HEADER_BYTES: u64 = 64;
/// Bytes of an offset.
pub const OFFSET_BYTES: u64 = 8;
const MAGIC: [u8; 8] = *b"SECTRIDX";
const FORMAT_VERSION: u32 = 1;
const INDEX_SUFFIX: &str = ".idx";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn header() -> IndexHeader {
        IndexHeader { bytes: 0x0102, version: 3, digest: Digest([9; 32]) }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_stands_as_the_page_says() {
        let bytes = header().encode();
        assert_eq!(IndexHeader::decode(&bytes), Ok(header()));
        let mut expected = b"SECTRIDX\x01\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0".to_vec();
        expected.extend([9; 32]);
        assert_eq!(bytes, expected[..]);
    }

    #[test]
    fn other_bytes_are_no_header_and_a_later_version_is_named() {
        let mut bytes = header().encode();
        assert_eq!(IndexHeader::decode(&bytes[..63]), Err(IndexError::NoIndex));
        bytes[8] = 2;
        assert_eq!(IndexHeader::decode(&bytes), Err(IndexError::Version(2)));
        bytes[0] = b'x';
        assert_eq!(IndexHeader::decode(&bytes), Err(IndexError::NoIndex));
    }

    #[test]
    fn an_index_belongs_to_bytes_and_not_to_a_version() {
        assert!(header().is_of(0x0102, &Digest([9; 32])));
        assert!(!header().is_of(0x0103, &Digest([9; 32])) && !header().is_of(0x0102, &Digest([8; 32])));
    }

    #[test]
    fn an_index_has_an_offset_more_than_records() {
        assert_eq!((index_records(72), index_records(64 + 5 * 8)), (Ok(0), Ok(4)));
        for bytes in [0, 63, 64, 73] {
            assert_eq!(index_records(bytes), Err(IndexError::CutOff(bytes)));
        }
        assert_eq!((offsets_of(0..1), offsets_of(2..5)), (64..80, 80..112));
    }

    #[test]
    fn an_index_stands_beside_its_file() {
        let (file, index): (SectorPath, SectorPath) = ("/a/b.dat".parse().unwrap(), "/a/b.dat.idx".parse().unwrap());
        assert_eq!(index_path(&file).as_ref(), Some(&index));
        assert_eq!(indexed_path(&index), Some(file.clone()));
        assert_eq!(indexed_path(&file), None);
    }
}
