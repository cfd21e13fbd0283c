//! The small file beside the received bytes of a broken upload: its owner, and the checksums of the safe blocks. Each
//! checkpoint adds one entry; bytes that no entry covers do not count. Format: `docs/formats-on-disk.md`. What cannot
//! be read is dropped, since the sender has it all. Bytes from a disk are untrusted: decoding never panics, and never
//! reserves more than the bytes it was given.

use protocol::{ResumeKey, UserName, limits};

/// Identifies an upload and its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartialKey {
    /// The user who may resume it.
    pub user: UserName,
    /// The key that the client derived from the file and its destination.
    pub key: ResumeKey,
}

impl PartialKey {
    /// The name of its file; its record has the suffix `.record`.
    pub(crate) fn file_name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"sector partial upload\0");
        hasher.update(&self.key.0.to_be_bytes());
        hasher.update(self.user.as_str().as_bytes());
        let hex = hasher.finalize().to_hex();
        hex[..NAME_DIGITS].to_owned()
    }
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartialRecord {
    pub(crate) key: PartialKey,
    /// CRC32C of each safe block.
    pub(crate) blocks: Vec<u32>,
    /// Where the last whole entry ends in the record's file, in bytes.
    pub(crate) end: u64,
}

impl PartialRecord {
    /// The beginning of a record.
    pub(crate) fn encode_head(key: &PartialKey) -> Vec<u8> {
        let user = key.user.as_str().as_bytes();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + user.len() + CHECKSUM_BYTES);
        bytes.extend(MAGIC);
        bytes.push(RECORD_VERSION);
        bytes.extend(key.key.0.to_be_bytes());
        // A name has at most 64 bytes.
        bytes.push(u8::try_from(user.len()).unwrap_or(u8::MAX));
        bytes.extend(user);
        sealed(bytes)
    }

    /// An entry: these blocks are safe too, the first of them with this number.
    pub(crate) fn encode_entry(first: u64, blocks: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ENTRY_BYTES + 4 * blocks.len() + CHECKSUM_BYTES);
        bytes.extend(first.to_be_bytes());
        bytes.extend(u32::try_from(blocks.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(blocks.iter().flat_map(|checksum| checksum.to_be_bytes()));
        sealed(bytes)
    }

    /// Reads a record up to its last whole entry; `None` if not even its head is valid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (magic, head) = head.split_first_chunk::<4>()?;
        let (version, head) = head.split_first()?;
        let (key, user_bytes) = head.split_first_chunk::<16>()?;
        let user_bytes = usize::from(*user_bytes.first()?);
        let user = rest.get(..user_bytes)?;
        let end = HEAD_BYTES + user_bytes;
        if *magic != MAGIC || *version != RECORD_VERSION || !is_sealed(bytes.get(..end + CHECKSUM_BYTES)?) {
            return None;
        }
        let user = UserName::new(std::str::from_utf8(user).ok()?).ok()?;
        let key = PartialKey { user, key: ResumeKey(u128::from_be_bytes(*key)) };
        let mut record = Self { key, blocks: Vec::new(), end: (end + CHECKSUM_BYTES) as u64 };
        while let Some((blocks, length)) =
            bytes.get(record.end as usize..).and_then(|rest| decode_entry(rest, record.blocks.len() as u64))
        {
            record.blocks.extend(blocks);
            record.end += length as u64;
        }
        Some(record)
    }

    /// Bytes of the upload that are safe.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * limits::BLOCK_BYTES
    }
}

/// The entry at the start of `bytes`, and its length, if it is whole and follows `first` blocks.
fn decode_entry(bytes: &[u8], first: u64) -> Option<(impl Iterator<Item = u32> + '_, usize)> {
    let head = bytes.first_chunk::<ENTRY_BYTES>()?;
    let (number, count) = head.split_first_chunk::<8>()?;
    let count = u32::from_be_bytes(*count.first_chunk()?) as usize;
    let end = ENTRY_BYTES.checked_add(count.checked_mul(4)?)?;
    let entry = bytes.get(..end.checked_add(CHECKSUM_BYTES)?)?;
    if u64::from_be_bytes(*number) != first || count == 0 || !is_sealed(entry) {
        return None;
    }
    let blocks =
        entry[ENTRY_BYTES..end].chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
    Some((blocks, entry.len()))
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend(checksum.to_be_bytes());
    bytes
}

fn is_sealed(bytes: &[u8]) -> bool {
    let split = bytes.split_last_chunk::<CHECKSUM_BYTES>();
    split.is_some_and(|(rest, checksum)| crc32c::crc32c(rest) == u32::from_be_bytes(*checksum))
}

/// The version this build writes and reads.
const RECORD_VERSION: u8 = 1;
/// Largest record in bytes: the checksums of the largest slice, with entries of a single block at the worst.
pub(crate) const RECORD_BYTES_MAX: u64 = (4 + ENTRY_BYTES as u64 + CHECKSUM_BYTES as u64)
    * (limits::SLICE_BYTES_MAX / limits::BLOCK_BYTES)
    + HEAD_BYTES as u64
    + 128;

const MAGIC: [u8; 4] = *b"SPRT";
/// Magic, version, key, length of the user's name.
const HEAD_BYTES: usize = 4 + 1 + 16 + 1;
/// Number of the first block, number of blocks.
const ENTRY_BYTES: usize = 8 + 4;
const CHECKSUM_BYTES: usize = 4;

pub(crate) const RECORD_SUFFIX: &str = ".record";
/// Hexadecimal digits of a file's name: 128 bits, so that no two uploads collide.
const NAME_DIGITS: usize = 32;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, prop_assert_eq, proptest},
    };

    use super::*;

    fn key() -> PartialKey {
        PartialKey { user: UserName::new("alice").unwrap(), key: ResumeKey(0xabc) }
    }

    fn encode(entries: &[Vec<u32>]) -> Vec<u8> {
        let mut bytes = PartialRecord::encode_head(&key());
        let mut first = 0;
        for blocks in entries {
            bytes.extend(PartialRecord::encode_entry(first, blocks));
            first += blocks.len() as u64;
        }
        bytes
    }

    proptest! {
        #[test]
        fn a_record_says_what_was_entered_and_a_torn_end_only_costs_its_last_entry(
            entries in vec(vec(any::<u32>(), 1..9), 0..6),
            torn in any::<proptest::sample::Index>(),
        ) {
            let bytes = encode(&entries);
            let record = PartialRecord::decode(&bytes).unwrap();
            prop_assert_eq!((record.end, &record.key), (bytes.len() as u64, &key()));
            prop_assert_eq!(&record.blocks, &entries.concat());
            let at = torn.index(bytes.len());
            match PartialRecord::decode(&bytes[..at]) {
                Some(cut) => prop_assert!(record.blocks.starts_with(&cut.blocks) && cut.end <= at as u64),
                None => prop_assert!(at < encode(&[]).len()),
            }
        }

        #[test]
        fn a_flipped_bit_never_makes_a_block_safe_that_was_not(
            entries in vec(vec(any::<u32>(), 1..9), 1..6),
            at in any::<proptest::sample::Index>(),
            bit in 0u8..8,
        ) {
            let mut bytes = encode(&entries);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            if let Some(record) = PartialRecord::decode(&bytes) {
                prop_assert_eq!(record.key, key());
                prop_assert!(entries.concat().starts_with(&record.blocks));
            }
        }

        #[test]
        fn any_bytes_are_taken_or_refused_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = PartialRecord::decode(&bytes);
            let _ = PartialRecord::decode(&[encode(&[vec![1]]), bytes].concat());
        }
    }

    #[test]
    fn an_entry_that_leaves_a_gap_does_not_count() {
        let mut bytes = encode(&[vec![1, 2]]);
        bytes.extend(PartialRecord::encode_entry(3, &[4]));
        assert_eq!(PartialRecord::decode(&bytes).unwrap().blocks, [1, 2]);
    }

    #[test]
    fn a_record_of_version_1_stays_readable() {
        let written = "535052540100000000000000000000000000000abc05616c696365";
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert!(hex(&PartialRecord::encode_head(&key())).starts_with(written));
        assert!(hex(&PartialRecord::encode_entry(1, &[2, 3])).starts_with("0000000000000001000000020000000200000003"));
    }
}
