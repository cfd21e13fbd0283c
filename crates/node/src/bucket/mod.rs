//! The buckets of Sphere jobs on this node (Sector/Sphere paper, 3.2 and 3.5.2): files that gather pieces from many
//! tasks. A sealed bucket is a segment of the next stage or becomes a slice. Each piece is in it whole or not at all;
//! see [`Pieces`]. Nothing is synced before it is published: the buckets of a node that dies are lost. The job makes
//! them again elsewhere from what the senders [retained](RetainedResults). All calls block on the disk, so network
//! tasks never make them.

mod job_folders;
mod piece_writer;
mod pieces;
mod retained_results;
mod scratch;
mod seal;
mod side_file;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use protocol::{
    JobId, Reason, SliceHeader, SliceId, SliceMetadata, limits,
    message::spe::{AttemptId, BucketId, PieceId, SealOrder},
};
use spe::Chunk;
use sphere::{BucketAbsence, JobBuckets, job_buckets::BUCKETS_PER_JOB_MAX};
use store::{DiskSet, SliceSums, clear_scratch};

use crate::NodeError;
pub use job_folders::JobFolders;
pub use piece_writer::PieceWriter;
use piece_writer::copy_range;
pub use pieces::{PieceRange, PieceRefused, Pieces, SealPlan, SealRefused};
pub use retained_results::{RetainedContent, RetainedResult, RetainedResults};
pub use scratch::{ClosedScratch, Scratch};
pub use seal::SealOutcome;
pub use side_file::{SideFile, SideFileContent};

/// All buckets of a node, below the job folders of its disks. Each bucket lies on the disk of its first piece.
#[derive(Debug)]
pub struct BucketStore {
    folders: Box<dyn JobFolders>,
    jobs: Mutex<Jobs>,
    retained: RetainedResults,
    scratch_count: AtomicU64,
}

impl BucketStore {
    /// Buckets in `folders` (those of a [`DiskSet`], which the store has emptied).
    pub fn new(folders: impl JobFolders + 'static) -> Self {
        let kept = RetainedResults::default();
        Self { folders: Box::new(folders), jobs: Mutex::default(), retained: kept, scratch_count: AtomicU64::new(0) }
    }

    /// Begins a piece of `bytes` bytes; [`BeginOutcome::Taken`] when the bucket already has it.
    pub fn begin(&self, piece: PieceId, bytes: u64) -> Result<BeginOutcome, NodeError> {
        let bucket = self.bucket(piece.bucket, None)?;
        if bucket.lock().pieces.has(piece.task, piece.attempt) {
            return Ok(BeginOutcome::Taken);
        }
        PieceWriter::begin(bucket, piece, bytes).map(BeginOutcome::Writer)
    }

    /// Takes a whole file as a piece. The first piece of a bucket is not copied, and `sums` is kept until the bucket is
    /// published. The scratch file is used up either way.
    pub fn add_file(
        &self,
        piece: PieceId,
        scratch: Scratch,
        bytes: u64,
        sums: Option<SliceSums>,
    ) -> Result<(), NodeError> {
        let bucket = self.bucket(piece.bucket, self.folders.of_file(scratch.path()))?;
        let mut state = bucket.lock();
        if state.pieces.has(piece.task, piece.attempt) {
            return Ok(());
        }
        // A file on another disk (where an earlier attempt began the bucket) cannot simply be renamed to the bucket.
        if state.pieces.is_untouched() && bucket.is_on_disk_of(&*self.folders, scratch.path()) {
            let range = state.pieces.reserve(bytes).map_err(|why| piece_refused(piece.bucket, why))?;
            if let Err(error) = scratch.rename(&bucket.path) {
                state.pieces.abandon(range);
                return Err(error);
            }
            state.sums = sums.map(|sums| (piece.task, piece.attempt, sums));
            return state
                .pieces
                .commit(piece.task, piece.attempt, range)
                .map_err(|why| piece_refused(piece.bucket, why));
        }
        drop(state);
        let mut writer = PieceWriter::begin(bucket, piece, bytes)?;
        writer.copy_from(scratch.file(), 0, bytes)?;
        writer.commit()
    }

    /// The sums of the first bytes of a scratch file, for [`add_file`](Self::add_file), and the CRC32C of all of them.
    pub fn sums_of(&self, scratch: &Scratch, bytes: u64) -> Result<(SliceSums, u32), NodeError> {
        seal::sums_of(scratch.file(), bytes).map_err(NodeError::io("read", scratch.path()))
    }

    /// Copies the first bytes of a scratch file that somebody else may still write to; nobody can write to the copy.
    pub fn copy_of(&self, job: JobId, scratch: &Scratch, bytes: u64) -> Result<Scratch, NodeError> {
        let copy = self.scratch(job)?;
        match copy_range(scratch.file(), 0, copy.file(), 0, bytes) {
            Ok(()) => Ok(copy),
            // Not the disk's fault: whoever may write to the file has truncated it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(NodeError::Spe("cut its results after it had said that they were whole".into()))
            }
            Err(error) => Err(NodeError::io("copy", scratch.path())(error)),
        }
    }

    /// Keeps what an attempt left in a scratch file, if there is room; returns whether it did.
    pub fn retain(&self, attempt: AttemptId, scratch: Scratch, chunks: Vec<Chunk>) -> bool {
        let until = chunks.iter().map(|chunk| chunk.offset + chunk.bytes).max().unwrap_or(0);
        let content = match self.retained.read_few(&scratch, until) {
            Some(bytes) => {
                self.recycle_scratch(attempt.job, scratch);
                RetainedContent::Memory(bytes)
            }
            None => RetainedContent::File(scratch.close()),
        };
        let is_kept = self.retained.retain(attempt, RetainedResult { content, chunks });
        if self.is_forgotten(attempt.job) {
            self.retained.forget(attempt.job);
        }
        is_kept
    }

    /// The results that attempts of tasks here have left, kept for as long as there is room.
    pub fn retained(&self) -> &RetainedResults {
        &self.retained
    }

    /// Makes a bucket final with exactly the winners' pieces. If a winner's piece is missing, it is refused with
    /// [`Reason::NotFound`]. Repeating the same order has no further effect.
    pub fn seal(&self, order: &SealOrder) -> Result<SealOutcome, NodeError> {
        self.bucket(order.bucket, None)?.seal(order)
    }

    /// A sealed bucket's file, for reading, and its length in bytes.
    pub fn open_sealed(&self, id: BucketId) -> Result<(File, u64), NodeError> {
        let bucket = self.known(id)?;
        let state = bucket.lock();
        if state.is_removed {
            return Err(not_here(id));
        }
        let bytes = state.pieces.sealed_bytes().ok_or_else(|| not_sealed(id))?;
        // The lock is held while opening: a publication would take the file away.
        let file = File::open(&bucket.path).map_err(NodeError::io("open the bucket", &bucket.path))?;
        Ok((file, bytes))
    }

    /// A small sealed bucket's bytes.
    pub fn fetch(&self, id: BucketId) -> Result<Vec<u8>, NodeError> {
        let (mut file, bytes) = self.open_sealed(id)?;
        if bytes > limits::FRAME_BYTES_MAX as u64 {
            let why = format!("has {bytes} bytes; only {} can be fetched, publish it instead", limits::FRAME_BYTES_MAX);
            return Err(NodeError::Bucket { bucket: id, reason: Reason::Invalid, why });
        }
        let mut content = Vec::with_capacity(bytes as usize);
        let path = &self.known(id)?.path;
        io::Read::read_to_end(&mut file, &mut content).map_err(NodeError::io("read the bucket", path))?;
        Ok(content)
    }

    /// Makes a sealed bucket a staged, synced slice. Repeating the same publication has no further effect.
    pub fn publish(&self, id: BucketId, header: SliceHeader, store: &DiskSet) -> Result<SliceMetadata, NodeError> {
        let bucket = self.known(id)?;
        let metadata = bucket.publish(header, store)?;
        let input = bucket.lock().input_bucket;
        if let Some(input) = input {
            let mut jobs = self.lock();
            if !jobs.buckets.is_forgotten(id.job) {
                jobs.all.entry(id.job).or_default().published.insert(metadata.header.slice, input);
            }
        }
        Ok(metadata)
    }

    /// The task that read all of the bucket `input` left only this bucket, and nothing elsewhere. Each bucket is read
    /// by one task.
    pub fn note_input_bucket(&self, made: BucketId, input: BucketId) {
        if let Ok(made) = self.known(made) {
            made.lock().input_bucket = Some(input);
        }
    }

    /// The master has given a slice its name. If the slice was published here, the bucket it was [made
    /// from](Self::note_input_bucket) is removed. Nobody reads that bucket again, and both lie on the same node. It is
    /// not removed earlier: a published slice that never gets its name is made again from it.
    pub fn note_placed(&self, slice: SliceId) {
        let input = self.lock().all.values_mut().find_map(|job| job.published.remove(&slice));
        if let Some(Ok(bucket)) = input.map(|input| self.known(input)) {
            let mut state = bucket.lock();
            state.is_removed = true;
            // What cannot be removed now goes with the job.
            let _ = fs::remove_file(&bucket.path);
        }
    }

    /// The slice as which a bucket was published.
    pub fn published(&self, id: BucketId) -> Option<SliceMetadata> {
        self.known(id).ok()?.lock().published.clone()
    }

    /// Removes all that a job left. Anything still being written for it is refused from now on.
    pub fn forget(&self, job: JobId) -> Result<(), NodeError> {
        let _gone = {
            let mut jobs = self.lock();
            (jobs.buckets.forget(job), jobs.all.remove(&job))
        };
        self.retained.forget(job);
        let mut removed = Ok(());
        for folder in self.folders.all() {
            let folder = folder.join(job.to_string());
            // A function may have left anything there, even what a plain removal stops at.
            let cleared = clear_scratch(&folder).and_then(|()| fs::remove_dir(&folder));
            match cleared {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    removed = Err(NodeError::io("remove", &folder)(error));
                }
                _ => {}
            }
        }
        removed
    }

    /// The entry of a side file of this job, shared by all who ask.
    ///
    /// # Errors
    /// When the job has ended, or already has as many side files as a job may.
    pub fn side_file(&self, job: JobId, slice: SliceId) -> Result<Arc<SideFile>, NodeError> {
        let mut jobs = self.lock();
        if jobs.buckets.is_forgotten(job) {
            return Err(forgotten(job));
        }
        let side = &mut jobs.all.entry(job).or_default().side;
        if side.len() >= limits::JOB_SIDE_FILES_MAX && !side.contains_key(&slice) {
            let message = format!("job {job} has {} side files here, as many as it may", limits::JOB_SIDE_FILES_MAX);
            return Err(NodeError::refused(Reason::Invalid, message));
        }
        Ok(Arc::clone(side.entry(slice).or_insert_with(|| Arc::new(SideFile::new(slice)))))
    }

    /// Whether the master has ordered this job forgotten.
    pub fn is_forgotten(&self, job: JobId) -> bool {
        self.lock().buckets.is_forgotten(job)
    }

    /// An empty file for what is fetched for this job.
    pub fn scratch(&self, job: JobId) -> Result<Scratch, NodeError> {
        Scratch::create(&self.scratch_folder(job)?, &self.scratch_count)
    }

    /// A file that a task of this job writes from its beginning. It is a new file, or one that was
    /// [returned](Self::recycle_scratch) and is not empty.
    pub fn scratch_for_results(&self, job: JobId) -> Result<Scratch, NodeError> {
        let spare = self.lock().all.get_mut(&job).and_then(|job| job.spare.pop());
        // Its disk may have failed meanwhile.
        let spare = spare.filter(|spare| self.folders.of_file(spare.path()).is_some());
        spare.map_or_else(|| self.scratch(job), Ok)
    }

    /// Takes back a scratch file that a task has finished with, for the next task. Nobody may still be writing to it.
    pub fn recycle_scratch(&self, job: JobId, scratch: Scratch) {
        // A file not worth keeping, or one too many, is removed.
        if scratch.clear() {
            let mut jobs = self.lock();
            if !jobs.buckets.is_forgotten(job) {
                let spare = &mut jobs.all.entry(job).or_default().spare;
                if spare.len() < SPARE_MAX {
                    spare.push(scratch);
                }
            }
        }
    }

    /// A folder for this job's scratch files, where its SPEs work, on whichever disk has room.
    pub fn scratch_folder(&self, job: JobId) -> Result<PathBuf, NodeError> {
        if self.is_forgotten(job) {
            return Err(forgotten(job));
        }
        let folder = self.folders.emptiest()?.join(job.to_string()).join(SCRATCH_FOLDER);
        fs::create_dir_all(&folder).map_err(NodeError::io("create the folder", &folder))?;
        Ok(folder)
    }

    /// The bucket; an unknown one begins in `near`, or where there is room.
    fn bucket(&self, id: BucketId, near: Option<PathBuf>) -> Result<Arc<Bucket>, NodeError> {
        let (bucket, stale) = {
            let mut jobs = self.lock();
            let stale = jobs.buckets.admit(id).map_err(|why| unavailable(id, why))?;
            let bucket = match jobs.buckets.find(id) {
                Ok(bucket) => Arc::clone(bucket),
                Err(_) => {
                    let bucket = Arc::new(Bucket::new(id, self.begin_path(id, near)?));
                    jobs.buckets.insert(id, Arc::clone(&bucket));
                    bucket
                }
            };
            (bucket, stale)
        };
        for old in stale {
            // What cannot be removed now goes with the job.
            let _ = fs::remove_file(&old.path);
        }
        Ok(bucket)
    }

    /// The bucket, if it was ever mentioned.
    fn known(&self, id: BucketId) -> Result<Arc<Bucket>, NodeError> {
        self.lock().buckets.find(id).map(|bucket| Arc::clone(bucket)).map_err(|why| unavailable(id, why))
    }

    /// The path of a new bucket; its folder is created.
    fn begin_path(&self, id: BucketId, near: Option<PathBuf>) -> Result<PathBuf, NodeError> {
        let folder = match near {
            Some(folder) => folder,
            None => self.folders.emptiest()?,
        };
        let folder = folder.join(id.job.to_string()).join(BUCKETS_FOLDER);
        fs::create_dir_all(&folder).map_err(NodeError::io("create the folder", &folder))?;
        Ok(folder.join(format!("{}-{}-{}-{}", id.epoch, id.stage, id.bucket, id.generation)))
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        // Each change under this lock is complete in itself.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a piece begins.
#[derive(Debug)]
pub enum BeginOutcome {
    /// It is here already, whole.
    Taken,
    /// It is to be written.
    Writer(PieceWriter),
}

#[derive(Debug, Default)]
struct Jobs {
    buckets: JobBuckets<Arc<Bucket>>,
    /// The rest of the state of the same jobs.
    all: BTreeMap<JobId, Job>,
}

#[derive(Debug, Default)]
struct Job {
    /// What its functions read beside their segments, in every run.
    side: BTreeMap<SliceId, Arc<SideFile>>,
    /// Slices that wait for their name, and the bucket each was made from.
    published: BTreeMap<SliceId, BucketId>,
    /// Scratch files for its next tasks.
    spare: Vec<Scratch>,
}

/// One bucket: its file and its pieces. The file is opened anew for each piece, since a stage may have thousands of
/// buckets and a process only so many open files.
#[derive(Debug)]
struct Bucket {
    id: BucketId,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pieces: Pieces,
    /// Sums that were computed over the whole piece of a task's attempt when it arrived.
    sums: Option<(u32, u32, SliceSums)>,
    sealed_sums: Option<SliceSums>,
    published: Option<SliceMetadata>,
    /// The bucket that was the only input of the task here that made this one.
    input_bucket: Option<BucketId>,
    /// The slice made from it has its name, and its file is gone. It stays sealed, so that no late piece begins it
    /// anew.
    is_removed: bool,
}

impl Bucket {
    fn new(id: BucketId, path: PathBuf) -> Self {
        Self { id, path, state: Mutex::default() }
    }

    fn open(&self) -> Result<File, NodeError> {
        open(&self.path)
    }

    fn is_on_disk_of(&self, folders: &dyn JobFolders, file: &Path) -> bool {
        folders.of_file(file) == folders.of_file(&self.path)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change under this lock is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a bucket's file for writing, and creates it if it is not there; what is in it stays.
fn open(path: &Path) -> Result<File, NodeError> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    opened.map_err(NodeError::io("open the bucket", path))
}

fn piece_refused(bucket: BucketId, refused: PieceRefused) -> NodeError {
    let why = match refused {
        PieceRefused::Sealed => "is sealed and takes no more pieces",
        PieceRefused::TooLong => "would be longer than a slice may be; use more buckets",
        PieceRefused::TooMany => "has more pieces than a node keeps account of; use fewer tasks",
    };
    NodeError::Bucket { bucket, reason: refused.reason(), why: why.into() }
}

fn not_here(bucket: BucketId) -> NodeError {
    NodeError::Bucket { bucket, reason: Reason::NotFound, why: "is not on this node".into() }
}

fn not_sealed(bucket: BucketId) -> NodeError {
    NodeError::Bucket { bucket, reason: Reason::NotPermitted, why: "is not sealed yet; seal it first".into() }
}

fn unavailable(bucket: BucketId, away: BucketAbsence) -> NodeError {
    let why = match away {
        BucketAbsence::Forgotten => return forgotten(bucket.job),
        BucketAbsence::NotHere => return not_here(bucket),
        BucketAbsence::OlderEpoch(run) => {
            format!("belongs to run {}, and the job is in run {run} by now", bucket.epoch)
        }
        BucketAbsence::TooMany => format!("is one too many: this node keeps {BUCKETS_PER_JOB_MAX} of a job"),
    };
    NodeError::Bucket { bucket, reason: away.reason(), why }
}

fn forgotten(job: JobId) -> NodeError {
    NodeError::refused(Reason::JobEnded, format!("job {job} has ended; admit it again"))
}

/// Where a job's buckets lie in its folder.
const BUCKETS_FOLDER: &str = "buckets";
/// Where its scratch files lie.
const SCRATCH_FOLDER: &str = "scratch";
/// Spare scratch files of a job: as many as tasks may end at once on a large machine.
const SPARE_MAX: usize = 16;
