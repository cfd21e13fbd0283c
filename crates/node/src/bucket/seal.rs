//! Makes a bucket final, and publishes it as a slice. It never takes a piece that is not among the winners of the seal
//! order.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
};

use protocol::{
    Reason, SliceHeader, SliceMetadata,
    message::spe::{BucketId, SealOrder},
};
use store::{DiskSet, SliceHasher, SliceSums};

use super::{
    Bucket, State, not_sealed, open,
    piece_writer::copy_range,
    pieces::{PieceRange, SealPlan, SealRefused},
};
use crate::NodeError;

/// A bucket that has been sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealOutcome {
    /// Its length in bytes.
    pub bytes: u64,
    /// The tasks whose pieces are in it, in the order in which they lie.
    pub order: Vec<u32>,
}

impl Bucket {
    pub(super) fn seal(&self, order: &SealOrder) -> Result<SealOutcome, NodeError> {
        let mut state = self.lock();
        let plan = state.pieces.plan_seal(&order.winners, order.in_order);
        let sealed = match plan.map_err(|why| seal_refused(self.id, why))? {
            SealPlan::Done { bytes, order } => SealOutcome { bytes, order },
            SealPlan::Keep { bytes, order: lie } => {
                // A piece that broke off at the end may have left bytes there; an empty bucket has no file yet.
                let cut = self.open()?.set_len(bytes);
                cut.map_err(NodeError::io("cut the bucket", &self.path))?;
                state.pieces.seal(&order.winners, bytes, &lie);
                SealOutcome { bytes, order: lie }
            }
            SealPlan::Rewrite { ranges, bytes, order: lie } => {
                self.rewrite(&ranges)?;
                state.pieces.seal(&order.winners, bytes, &lie);
                SealOutcome { bytes, order: lie }
            }
        };
        if order.publish && state.published.is_none() && state.sealed_sums.is_none() {
            state.sealed_sums = Some(self.sums(&state, sealed.bytes)?);
        }
        Ok(sealed)
    }

    pub(super) fn publish(&self, header: SliceHeader, store: &DiskSet) -> Result<SliceMetadata, NodeError> {
        let mut state = self.lock();
        if let Some(published) = &state.published {
            // The answer to the first request may have been lost.
            if published.header.slice == header.slice {
                return Ok(published.clone());
            }
            let why = format!("was published as slice {} before", published.header.slice);
            return Err(NodeError::Bucket { bucket: self.id, reason: Reason::Exists, why });
        }
        let bytes = state.pieces.sealed_bytes().ok_or_else(|| not_sealed(self.id))?;
        let sums = match &state.sealed_sums {
            Some(sums) => sums.clone(),
            None => self.sums(&state, bytes)?,
        };
        let metadata = store.ingest_file(header, &self.path, sums)?;
        state.sealed_sums = None;
        state.published = Some(metadata.clone());
        Ok(metadata)
    }

    /// Replaces the bucket's file by one of these ranges only. A writer that is still at work on a piece has the old
    /// file open.
    fn rewrite(&self, ranges: &[PieceRange]) -> Result<(), NodeError> {
        let path = with_suffix(&self.path, ".sealed");
        let from = self.open()?;
        let new = open(&path)?;
        let written = new.set_len(0).and_then(|()| {
            let mut at = 0;
            ranges.iter().try_for_each(|range| {
                let copied = copy_range(&from, range.from, &new, at, range.bytes);
                at += range.bytes;
                copied
            })
        });
        written.map_err(NodeError::io("write the sealed bucket", &path))?;
        fs::rename(&path, &self.path).map_err(NodeError::io("rename the sealed bucket", &path))
    }

    /// The sums of the sealed bucket: the known ones if it is one whole piece, otherwise computed from its bytes.
    fn sums(&self, state: &State, bytes: u64) -> Result<SliceSums, NodeError> {
        if let Some((task, attempt, sums)) = &state.sums
            && state.pieces.consists_of(*task, *attempt)
            && sums.bytes == bytes
        {
            return Ok(sums.clone());
        }
        let file = self.open()?;
        let sums = sums_of(&file, bytes).map_err(NodeError::io("read the bucket", &self.path))?;
        Ok(sums.0)
    }
}

/// The sums of the first bytes of a file, and the CRC32C of all of them.
pub(super) fn sums_of(file: &File, bytes: u64) -> io::Result<(SliceSums, u32)> {
    let (mut hasher, mut checksum, mut at) = (SliceHasher::new(), 0, 0);
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(HASH_BYTES).min(HASH_BYTES)];
    while at < bytes {
        let want = usize::try_from(bytes - at).unwrap_or(buffer.len()).min(buffer.len());
        file.read_exact_at(&mut buffer[..want], at)?;
        hasher.update(&buffer[..want]);
        checksum = crc32c::crc32c_append(checksum, &buffer[..want]);
        at += want as u64;
    }
    Ok((hasher.finish(), checksum))
}

fn seal_refused(bucket: BucketId, refused: SealRefused) -> NodeError {
    let why = match refused {
        SealRefused::Missing(winner) => format!("lacks the piece of task {}, attempt {}", winner.task, winner.attempt),
        SealRefused::Length { winner, found } => {
            format!("has {found} bytes of task {}, attempt {}, and not {}", winner.task, winner.attempt, winner.bytes)
        }
        SealRefused::TwoWinners { task } => format!("cannot have two winners for task {task}"),
        SealRefused::Sealed => "was sealed with other winners before".into(),
    };
    NodeError::Bucket { bucket, reason: refused.reason(), why }
}

fn with_suffix(path: &std::path::Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Bytes read at once to compute sums: the sum of 1 MiB uses all of BLAKE3's lanes.
const HASH_BYTES: usize = 1024 * 1024;
