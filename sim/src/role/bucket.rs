//! A node's buckets, with their bytes in memory. The rules are the real ones: which buckets exist ([`JobBuckets`]),
//! where each piece lies and which of them count ([`node::bucket::Pieces`]). A bucket becomes a slice of the real
//! store. A crash loses all of them: an unpublished bucket never survives its process.

use std::{cell::RefCell, rc::Rc};

use ::node::bucket::{PieceRange, PieceRefused, Pieces, SealPlan, SealRefused};
use protocol::{
    JobId, Reason, Refusal, SliceHeader, SliceMetadata,
    message::spe::{BucketId, PieceId, SealOrder},
};
use sphere::{BucketAbsence, JobBuckets};
use store::{DiskSet, SliceHasher};

use super::disks::Disks;
use crate::Sabotage;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    buckets: JobBuckets<Bucket>,
    /// The disk of a sabotaged node repeats a piece's first record.
    repeats_records: bool,
    /// Another sabotaged node drops no piece of a losing attempt.
    mixes_attempts: bool,
}

#[derive(Debug, Default)]
struct Bucket {
    pieces: Pieces,
    /// Shared with the writers of pieces, like an open file: a seal that makes a new file leaves them the old one.
    file: Rc<RefCell<Vec<u8>>>,
    published: Option<SliceMetadata>,
}

/// A piece being written.
#[derive(Debug)]
pub(crate) struct PieceWriter {
    piece: PieceId,
    range: PieceRange,
    file: Rc<RefCell<Vec<u8>>>,
    written: usize,
}

impl PieceWriter {
    /// Bytes that have been written.
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let from = self.range.from as usize + self.written;
        let mut file = self.file.borrow_mut();
        if file.len() < from + bytes.len() {
            file.resize(from + bytes.len(), 0);
        }
        file[from..from + bytes.len()].copy_from_slice(bytes);
        self.written += bytes.len();
    }
}

impl Buckets {
    /// No buckets yet.
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        let repeats_records = sabotage == Some(Sabotage::BucketRepeatsRecord);
        let mixes_attempts = sabotage == Some(Sabotage::BucketsMixAttempts);
        Self { repeats_records, mixes_attempts, ..Self::default() }
    }

    /// Begins a piece; `None` when the bucket has it already.
    pub(crate) fn begin(&mut self, piece: PieceId, bytes: u64) -> Result<Option<PieceWriter>, Refusal> {
        let bucket = self.bucket(piece.bucket)?;
        if bucket.pieces.has(piece.task, piece.attempt) {
            return Ok(None);
        }
        let range = bucket.pieces.reserve(bytes).map_err(piece_refused)?;
        Ok(Some(PieceWriter { piece, range, file: Rc::clone(&bucket.file), written: 0 }))
    }

    /// A piece is complete.
    pub(crate) fn commit(&mut self, writer: &PieceWriter) -> Result<(), Refusal> {
        let (piece, repeats) = (writer.piece, self.repeats_records);
        let bucket = self.known(piece.bucket)?;
        bucket.pieces.commit(piece.task, piece.attempt, writer.range).map_err(piece_refused)?;
        if repeats {
            repeat_record(&mut bucket.file.borrow_mut(), writer.range);
        }
        Ok(())
    }

    /// A piece broke off.
    pub(crate) fn abandon(&mut self, writer: &PieceWriter) {
        if let Ok(bucket) = self.known(writer.piece.bucket)
            && Rc::ptr_eq(&bucket.file, &writer.file)
            && let Some(bytes) = bucket.pieces.abandon(writer.range)
        {
            bucket.file.borrow_mut().truncate(bytes as usize);
        }
    }

    /// Makes a bucket final; returns its length in bytes, and the tasks in the order of their pieces.
    pub(crate) fn seal(&mut self, order: &SealOrder) -> Result<(u64, Vec<u32>), Refusal> {
        let mixes = self.mixes_attempts;
        let bucket = self.bucket(order.bucket)?;
        match bucket.pieces.plan_seal(&order.winners, order.in_order).map_err(|why| seal_refused(&why))? {
            SealPlan::Done { bytes, order } => Ok((bytes, order)),
            SealPlan::Keep { bytes, order: lie } => {
                bucket.file.borrow_mut().resize(bytes as usize, 0);
                bucket.pieces.seal(&order.winners, bytes, &lie);
                Ok((bytes, lie))
            }
            SealPlan::Rewrite { ranges, bytes, order: lie } => {
                let mut file = Vec::with_capacity(bytes as usize);
                for range in ranges {
                    let from = range.from as usize;
                    file.extend_from_slice(&bucket.file.borrow()[from..from + range.bytes as usize]);
                }
                if mixes {
                    bucket.file.borrow_mut().truncate(bytes as usize);
                } else {
                    bucket.file = Rc::new(RefCell::new(file));
                }
                bucket.pieces.seal(&order.winners, bytes, &lie);
                Ok((bytes, lie))
            }
        }
    }

    /// A sealed bucket's bytes.
    pub(crate) fn read(&mut self, id: BucketId) -> Result<Vec<u8>, Refusal> {
        let bucket = self.known(id)?;
        match bucket.pieces.sealed_bytes() {
            Some(_) if bucket.published.is_none() => Ok(bucket.file.borrow().clone()),
            Some(_) => Err(Refusal::new(Reason::NotFound, "the bucket became a slice")),
            None => Err(Refusal::new(Reason::NoRight, "the bucket is not sealed")),
        }
    }

    /// Makes a sealed bucket a staged, synced slice.
    pub(crate) fn publish(
        &mut self,
        id: BucketId,
        header: SliceHeader,
        store: &DiskSet,
        disks: &Disks,
    ) -> Result<SliceMetadata, Refusal> {
        let bucket = self.known(id)?;
        if let Some(published) = &bucket.published {
            if published.header.slice == header.slice {
                return Ok(published.clone());
            }
            return Err(Refusal::new(Reason::Exists, "the bucket was published before"));
        }
        if bucket.pieces.sealed_bytes().is_none() {
            return Err(Refusal::new(Reason::NoRight, "the bucket is not sealed"));
        }
        let folder = store.emptiest_jobs_folder().map_err(|error| error.refusal())?;
        let path = folder.join(header.slice.to_string());
        let mut hasher = SliceHasher::new();
        hasher.update(&bucket.file.borrow());
        let written = disks.write_file(&path, &bucket.file.borrow());
        written.map_err(|error| {
            store.note_error(&path, &error, false);
            Refusal::new(Reason::Failed, error.to_string())
        })?;
        let metadata = store.ingest_file(header, &path, hasher.finish()).map_err(|error| error.refusal())?;
        bucket.published = Some(metadata.clone());
        Ok(metadata)
    }

    /// A bucket's content, even after it was published.
    pub(crate) fn bytes(&mut self, id: BucketId) -> Vec<u8> {
        self.known(id).map(|bucket| bucket.file.borrow().clone()).unwrap_or_default()
    }

    /// The slice that a bucket was published as.
    pub(crate) fn published(&mut self, id: BucketId) -> Option<SliceMetadata> {
        self.known(id).ok()?.published.clone()
    }

    /// Removes all that a job left.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.buckets.forget(job);
    }

    /// Whether the master has ordered this job forgotten.
    pub(crate) fn is_forgotten(&self, job: JobId) -> bool {
        self.buckets.is_forgotten(job)
    }

    /// The bucket, created if it is unknown.
    fn bucket(&mut self, id: BucketId) -> Result<&mut Bucket, Refusal> {
        self.buckets.admit(id).map_err(bucket_unavailable)?;
        if self.buckets.find(id).is_err() {
            self.buckets.insert(id, Bucket::default());
        }
        self.known(id)
    }

    /// The bucket, if it was ever mentioned.
    fn known(&mut self, id: BucketId) -> Result<&mut Bucket, Refusal> {
        self.buckets.find(id).map_err(bucket_unavailable)
    }
}

/// A bucket that takes a piece's record twice looks like this to everyone but a reader who counts.
fn repeat_record(file: &mut [u8], range: PieceRange) {
    let (from, bytes) = (range.from as usize, range.bytes as usize);
    if bytes >= 2 * crate::actor::RECORD_BYTES {
        file.copy_within(from..from + crate::actor::RECORD_BYTES, from + bytes - crate::actor::RECORD_BYTES);
    }
}

fn bucket_unavailable(why: BucketAbsence) -> Refusal {
    Refusal::new(why.reason(), format!("the bucket is away: {why:?}"))
}

fn piece_refused(why: PieceRefused) -> Refusal {
    Refusal::new(why.reason(), format!("a piece is refused: {why:?}"))
}

fn seal_refused(why: &SealRefused) -> Refusal {
    Refusal::new(why.reason(), format!("a seal is refused: {why:?}"))
}
