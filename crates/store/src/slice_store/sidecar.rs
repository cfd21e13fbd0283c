//! The small file beside a slice that makes it more than a file: what the slice is, and the checksum of each of its
//! blocks. A master that lost everything rebuilds names, owners and copies from these. Format:
//! `docs/formats-on-disk.md`.
//!
//! Bytes from a disk are anyone's bytes: decoding never panics and never reserves more than the bytes it was given.

use std::collections::BTreeMap;

use protocol::{
    Digest, JournalId, RecordFraming, SectorPath, SliceHeader, SliceId, SliceMetadata, UserName, Version, limits,
    slice::block_count,
};
use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;

/// The content of a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// What the slice is.
    pub metadata: SliceMetadata,
    /// Counts the sidecars written in this data folder. Of two sidecars of one slice (a crash can leave an old one
    /// behind) the one with the larger number is true.
    pub sequence: u64,
    /// CRC32C of each block.
    pub blocks: Vec<u32>,
}

impl Sidecar {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        // The metadata holds no maps of unknown length and no untagged enums: postcard cannot refuse it, and a `Vec`
        // cannot be full.
        #[allow(clippy::expect_used)]
        let metadata = postcard::to_stdvec(&self.metadata).expect("slice metadata is encodable");
        let mut bytes = Vec::with_capacity(HEAD_BYTES + metadata.len() + 4 * self.blocks.len() + CHECKSUM_BYTES);
        bytes.extend(MAGIC);
        bytes.push(SIDECAR_VERSION);
        bytes.extend(self.sequence.to_be_bytes());
        // Bounded by the check of the header before anything is written.
        bytes.extend(u32::try_from(metadata.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(metadata);
        for checksum in &self.blocks {
            bytes.extend(checksum.to_be_bytes());
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_be_bytes());
        bytes
    }

    /// Reads the bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Self, SidecarError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(SidecarError::Foreign);
        }
        let (rest, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(SidecarError::Torn)?;
        // First the checksum, then the version: a flipped bit must not look like a newer version.
        if crc32c::crc32c(rest) != u32::from_be_bytes(*checksum) {
            return Err(SidecarError::Torn);
        }
        let (head, body) = rest.split_first_chunk::<HEAD_BYTES>().ok_or(SidecarError::Torn)?;
        let [_, _, _, _, version, s0, s1, s2, s3, s4, s5, s6, s7, l0, l1, l2, l3] = *head;
        if !(VERSION_WITHOUT_JOURNAL..=SIDECAR_VERSION).contains(&version) {
            return Err(SidecarError::Version(version));
        }
        let metadata_bytes = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let (metadata, blocks) = body.split_at_checked(metadata_bytes).ok_or(SidecarError::Malformed("length"))?;
        let metadata = match version {
            SIDECAR_VERSION => whole::<SliceMetadata>(metadata)?,
            VERSION_WITHOUT_ACL => whole::<MetadataWithoutAcl>(metadata)?.into(),
            _ => whole::<MetadataWithoutJournal>(metadata)?.into(),
        };
        if metadata.bytes > limits::SLICE_BYTES_MAX || blocks.len() as u64 != 4 * block_count(metadata.bytes) {
            return Err(SidecarError::Malformed("number of blocks"));
        }
        let blocks = blocks.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
        let sequence = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        Ok(Self { metadata, sequence, blocks: blocks.collect() })
    }
}

/// All of `bytes` as one value.
fn whole<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SidecarError> {
    match postcard::take_from_bytes::<T>(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(SidecarError::Malformed("metadata")),
    }
}

/// What headers of all versions begin with, in the order of their bytes.
#[derive(Deserialize)]
struct OldHeader {
    slice: SliceId,
    path: SectorPath,
    version: Version,
    owner: UserName,
    modified_unix_millis: u64,
    copies: u8,
    records: RecordFraming,
    user: BTreeMap<String, String>,
}

/// The metadata of a sidecar of version 1.
#[derive(Deserialize)]
struct MetadataWithoutJournal {
    header: OldHeader,
    bytes: u64,
    digest: Digest,
}

/// The metadata of a sidecar of version 2.
#[derive(Deserialize)]
struct MetadataWithoutAcl {
    header: OldHeader,
    journal: JournalId,
    bytes: u64,
    digest: Digest,
}

impl From<MetadataWithoutJournal> for SliceMetadata {
    fn from(MetadataWithoutJournal { header, bytes, digest }: MetadataWithoutJournal) -> Self {
        MetadataWithoutAcl { header, journal: JournalId(0), bytes, digest }.into()
    }
}

impl From<MetadataWithoutAcl> for SliceMetadata {
    fn from(MetadataWithoutAcl { header: old, journal, bytes, digest }: MetadataWithoutAcl) -> Self {
        let header = SliceHeader {
            slice: old.slice,
            path: old.path,
            version: old.version,
            owner: old.owner,
            modified_unix_millis: old.modified_unix_millis,
            copies: old.copies,
            records: old.records,
            user: old.user,
            journal,
            acl: None,
        };
        Self { header, bytes, digest }
    }
}

/// Why bytes are not a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SidecarError {
    /// It does not begin like one.
    #[error("it is not a sidecar of ours")]
    Foreign,
    /// Its own checksum does not match: cut short, or a bit flipped.
    #[error("it is cut short or damaged")]
    Torn,
    /// It is whole, and of another version.
    #[error("it has version {0}, this build reads versions 1 to 3: start the build that wrote it")]
    Version(u8),
    /// Its checksum matches, its content makes no sense.
    #[error("its {0} makes no sense")]
    Malformed(&'static str),
}

/// The version this build writes.
pub const SIDECAR_VERSION: u8 = 3;
/// The version before slices said who may do what with them; still read.
const VERSION_WITHOUT_ACL: u8 = 2;
/// The version before slices knew their journal; still read.
const VERSION_WITHOUT_JOURNAL: u8 = 1;
/// Largest sidecar in bytes: the checksums of the largest slice, and far more metadata than the limits allow.
pub(crate) const SIDECAR_BYTES_MAX: u64 = 4 * (limits::SLICE_BYTES_MAX / limits::BLOCK_BYTES) + (1 << 20);

const MAGIC: [u8; 4] = *b"SSID";
/// Magic, version, sequence, length of the metadata.
const HEAD_BYTES: usize = 4 + 1 + 8 + 4;
const CHECKSUM_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::{
        collection::{btree_map, vec},
        prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest},
    };

    use super::*;

    fn sidecars() -> impl Strategy<Value = Sidecar> {
        let header = (any::<u128>(), "(/[a-zü ]{1,9}){1,4}", any::<u64>(), "[a-z]{1,9}", any::<u8>());
        let user = btree_map("[a-z]{0,9}", ".{0,9}", 0..3);
        let acl = "(none|(user:[a-z]{1,9}:[rx],)?(group:[a-z]{1,9}:wa,)?everyone:r)";
        let acl = proptest::option::of(acl.prop_map(|text| text.parse().unwrap()));
        let user = (user, acl);
        (header, user, vec(any::<u32>(), 0..40), any::<[u8; 32]>(), any::<u64>(), 1..=limits::BLOCK_BYTES).prop_map(
            |((slice, path, number, owner, copies), (user, acl), blocks, digest, sequence, last)| {
                let bytes = (blocks.len() as u64).saturating_sub(1) * limits::BLOCK_BYTES;
                let header = SliceHeader {
                    slice: SliceId(slice),
                    path: SectorPath::parse(&path).unwrap(),
                    version: Version(number),
                    owner: UserName::new(owner).unwrap(),
                    modified_unix_millis: number,
                    copies,
                    records: RecordFraming::Fixed(100),
                    user,
                    journal: JournalId(number),
                    acl,
                };
                let bytes = if blocks.is_empty() { 0 } else { bytes + last };
                Sidecar { metadata: SliceMetadata { header, bytes, digest: Digest(digest) }, sequence, blocks }
            },
        )
    }

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn a_sidecar_comes_back_as_it_was(sidecar in sidecars()) {
            prop_assert_eq!(Sidecar::decode(&sidecar.encode()), Ok(sidecar));
        }

        #[test]
        fn a_flipped_bit_is_noticed_wherever_it_is(sidecar in sidecars(), at in any::<proptest::sample::Index>(), bit in 0u8..8) {
            let mut bytes = sidecar.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert!(matches!(Sidecar::decode(&bytes), Err(SidecarError::Torn | SidecarError::Foreign)));
        }

        #[test]
        fn a_torn_sidecar_is_noticed_wherever_it_ends(sidecar in sidecars(), at in any::<proptest::sample::Index>()) {
            let bytes = sidecar.encode();
            prop_assert!(Sidecar::decode(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_taken_or_refused_without_a_panic(bytes in vec(any::<u8>(), 0..300), ours in any::<bool>()) {
            // With a true head and checksum, so that the inside is reached too.
            let bytes = if ours { sealed([&MAGIC[..], &[SIDECAR_VERSION], &bytes].concat()) } else { bytes };
            if let Ok(sidecar) = Sidecar::decode(&bytes) {
                prop_assert_eq!(Sidecar::decode(&sidecar.encode()), Ok(sidecar));
            }
        }
    }

    /// The sidecar of the tests below.
    fn example(journal: JournalId, acl: Option<&str>) -> Sidecar {
        let header = SliceHeader {
            slice: SliceId(0xab),
            path: SectorPath::parse("/a/b").unwrap(),
            version: Version(300),
            owner: UserName::new("alice").unwrap(),
            modified_unix_millis: 1,
            copies: 3,
            records: RecordFraming::Lines,
            user: [("k".to_owned(), "v".to_owned())].into(),
            journal,
            acl: acl.map(|text| text.parse().unwrap()),
        };
        let metadata = SliceMetadata { header, bytes: limits::BLOCK_BYTES + 1, digest: Digest([7; 32]) };
        Sidecar { metadata, sequence: 258, blocks: vec![1, 0xfffe_fdfc] }
    }

    fn from_hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a_sidecar_of_version_1_stays_readable() {
        // Written by the first build.
        let written = concat!(
            "5353494401000000000000010200",
            "00003aab01042f612f62ac0205616c69636501030201016b0176818004",
            "0707070707070707070707070707070707070707070707070707070707070707",
            "00000001fffefdfc9b05a547",
        );
        assert_eq!(Sidecar::decode(&from_hex(written)), Ok(example(JournalId(0), None)));
    }

    #[test]
    fn a_sidecar_of_version_2_stays_readable() {
        // Written by a build that knew journals, and no rights.
        let written = concat!(
            "5353494402000000000000010200",
            "00003cab01042f612f62ac0205616c69636501030201016b0176ac02818004",
            "0707070707070707070707070707070707070707070707070707070707070707",
            "00000001fffefdfc",
        );
        assert_eq!(Sidecar::decode(&sealed(from_hex(written))), Ok(example(JournalId(300), None)));
    }

    #[test]
    fn a_sidecar_of_version_3_has_its_rights_and_its_bytes() {
        // A change that breaks this is a new version.
        let written = concat!(
            "5353494403000000000000010200",
            "000046ab01042f612f62ac0205616c69636501030201016b0176ac02",
            "01020003626f62030201",
            "818004",
            "0707070707070707070707070707070707070707070707070707070707070707",
            "00000001fffefdfc",
        );
        let sidecar = example(JournalId(300), Some("user:bob:rw,everyone:r"));
        assert_eq!(sidecar.encode(), sealed(from_hex(written)));
        assert_eq!(Sidecar::decode(&sidecar.encode()), Ok(sidecar));
    }

    #[test]
    fn each_kind_of_nonsense_has_its_name() {
        let head = |version: u8, metadata_bytes: u32| {
            [&MAGIC[..], &[version], &[0; 8], &metadata_bytes.to_be_bytes()].concat()
        };
        assert_eq!(Sidecar::decode(b"a file of someone's"), Err(SidecarError::Foreign));
        assert_eq!(Sidecar::decode(b""), Err(SidecarError::Foreign));
        assert_eq!(Sidecar::decode(&MAGIC), Err(SidecarError::Torn));
        assert_eq!(Sidecar::decode(&sealed(head(4, 0))), Err(SidecarError::Version(4)));
        assert_eq!(Sidecar::decode(&sealed(head(0, 0))), Err(SidecarError::Version(0)));
        assert_eq!(Sidecar::decode(&sealed(head(1, u32::MAX))), Err(SidecarError::Malformed("length")));
        assert_eq!(Sidecar::decode(&sealed(head(1, 0))), Err(SidecarError::Malformed("metadata")));
    }
}
