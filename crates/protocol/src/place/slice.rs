//! What is known of a slice (Sector/Sphere paper, 2.2). The sidecar beside the bytes holds its [`SliceMetadata`], so
//! that names, owners and copies can be rebuilt from the nodes' disks alone. A slice is one whole file, never a chunk.

use std::{collections::BTreeMap, fmt, str::FromStr};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::{Acl, JournalId, SectorPath, SliceId, UserName, Version, limits};

/// The BLAKE3 digest of a whole slice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// How a slice's bytes are divided into records (paper, 3.1 and 3.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub enum RecordFraming {
    /// The whole file is one record.
    #[default]
    File,
    /// Records of the same length, in bytes (never 0).
    Fixed(u32),
    /// Lines that end with `\n`; the last may lack it.
    Lines,
    /// Records of any length; a file of offsets (`sphere::records::record_index`) beside it says where they begin.
    Index,
    /// A Parquet file: records are its rows, in row groups.
    Parquet,
}

impl fmt::Display for RecordFraming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Fixed(bytes) => write!(f, "fixed:{bytes}"),
            Self::Lines => f.write_str("lines"),
            Self::Index => f.write_str("index"),
            Self::Parquet => f.write_str("parquet"),
        }
    }
}

impl FromStr for RecordFraming {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "file" => Ok(Self::File),
            "lines" => Ok(Self::Lines),
            "index" => Ok(Self::Index),
            "parquet" => Ok(Self::Parquet),
            _ => match text.strip_prefix("fixed:").map(str::parse::<u32>) {
                Some(Ok(bytes)) if bytes > 0 => Ok(Self::Fixed(bytes)),
                _ => Err(format!(
                    "`{text}` is not a record format: use `fixed:BYTES`, `lines`, `index`, `parquet` or `file`"
                )),
            },
        }
    }
}

/// The facts about a slice that are decided before its first byte is written; the master signs them into the write
/// ticket. Path, owner, copies and rights may change later, and nodes are told then.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SliceHeader {
    /// Which slice this is.
    pub slice: SliceId,
    /// Its path when this replica was last told it.
    pub path: SectorPath,
    /// The version at that path.
    pub version: Version,
    /// Who owns it.
    pub owner: UserName,
    /// When its content was last changed, in milliseconds since the Unix epoch. It is when the master allowed this
    /// version to be written, unless the client gave an earlier date.
    pub modified_unix_millis: u64,
    /// Copies wanted in the whole cloud, where the file itself says so; 0: as its folders say.
    pub copies: u8,
    /// How its bytes fall into records.
    pub records: RecordFraming,
    /// The user's own keys and values.
    pub user: BTreeMap<String, String>,
    /// The journal of the master that allowed this version to be written, or this copy to be made.
    pub journal: JournalId,
    /// Its own access list; `None`: as its folders say.
    pub acl: Option<Acl>,
}

/// All that is known of a complete slice: the content of its sidecar, but for the block checksums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceMetadata {
    /// The facts decided before it was written.
    pub header: SliceHeader,
    /// Length of the slice in bytes.
    pub bytes: u64,
    /// BLAKE3 of all its bytes.
    pub digest: Digest,
}

/// Number of blocks (checksums) of a slice of `bytes` bytes.
pub fn block_count(bytes: u64) -> u64 {
    bytes.div_ceil(limits::BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_print_and_parse() {
        use RecordFraming::{File, Fixed, Index, Lines, Parquet};
        for format in [File, Lines, Fixed(100), Index, Parquet] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        for text in ["", "fixed", "fixed:", "fixed:0", "fixed:-1", "fixed:99999999999", "line", "indexed"] {
            assert!(text.parse::<RecordFraming>().is_err(), "{text}");
        }
    }
}
