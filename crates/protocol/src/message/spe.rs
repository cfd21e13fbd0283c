//! Door 6: the driver of a job (the client) and an SPE of a node (Sector/Sphere paper, 3.3). It runs on a transfer
//! connection after [`TransferRequest::Spe`](crate::message::transfer::TransferRequest::Spe). When the connection
//! breaks, the SPE ends and its work is dropped. Results lie in buckets ([`BucketId`]). The driver sends
//! [`SpeRequest`]s one at a time. The node answers each with one or more [`SpeReply`]s; the last is never
//! [`SpeReply::Progress`] or [`SpeReply::Printed`].

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

pub use super::printed::{PrintedOutput, SegmentOutput};
use crate::{
    Counters, Digest, JobId, NodeId, RecordFraming, Refusal, SectorPath, SideFileName, SliceId, limits,
    message::client_reply::Source, ticket::SignedTicket, topology::Distance, wire::few::few,
};

/// A driver's request to an SPE or to the node's buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpeRequest {
    /// Load a function: [`SpeReply::Progress`] while its side files are fetched, then [`SpeReply::Loaded`]. Sent once
    /// before the first run, and again to change the function.
    Load(LoadOrder),
    /// Run it over the segments of a task: [`SpeReply::Progress`] now and then, at last [`SpeReply::Finished`],
    /// [`SpeReply::FunctionFailed`] or [`SpeReply::Refused`].
    Run(TaskOrder),
    /// Send pieces of a finished attempt, whose results this node has kept, to buckets that lack them:
    /// [`SpeReply::Delivered`]. Refused with [`Status::NotFound`](crate::Status::NotFound) when they are no longer
    /// kept.
    Deliver(DeliveryOrder),
    /// Make a bucket of this node final: [`SpeReply::Sealed`]. Refused with
    /// [`Status::NotFound`](crate::Status::NotFound) when a winning piece is missing.
    Seal(SealOrder),
    /// Make a sealed bucket a slice, by a write ticket: [`SpeReply::Published`] when it is synced.
    Publish {
        /// The bucket.
        bucket: BucketId,
        /// Right: write.
        ticket: SignedTicket,
    },
    /// Send a sealed bucket's bytes back to the driver, small ones only (at most one frame): [`SpeReply::Bytes`].
    Fetch(BucketId),
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpeReply {
    /// The function is ready.
    Loaded,
    /// The SPE lives and has read this many bytes of the task's input.
    Progress {
        /// Bytes of input processed.
        bytes: u64,
    },
    /// The task is processed. Every piece is in its bucket, or kept by the node until it is asked to deliver it.
    Finished(TaskResult),
    /// The function failed on this task: its fault or its input's. It must not be tried elsewhere (paper, 3.5.2).
    FunctionFailed(FunctionFailure),
    /// The SPE or a bucket's node failed: the task may be tried again, here or elsewhere.
    Refused(Refusal),
    /// The bucket is final.
    Sealed {
        /// Its length in bytes.
        bytes: u64,
        /// The tasks whose pieces are in it, in the order in which they lie: a rebuilt bucket has the same.
        order: Vec<u32>,
    },
    /// The bucket is a slice now, synced; the master has been told.
    Published {
        /// Its length in bytes.
        bytes: u64,
        /// Its digest.
        digest: Digest,
    },
    /// The bucket's bytes.
    Bytes(Vec<u8>),
    /// Every piece that was to be delivered is in its bucket.
    Delivered,
    /// The function's process was ended while the node's machine was out of memory. That is probably its fault, but
    /// perhaps not. It is to be tried once more, and only once.
    OutOfMemory(FunctionFailure),
    /// What the function printed meanwhile. Comes before the last reply to a load or a run, if it printed anything.
    Printed(PrintedOutput),
}

/// See [`SpeRequest::Load`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// The function.
    pub function: FunctionSpec,
    /// What every call of it may read beside its segment; at most [`SIDE_FILES_MAX`](crate::limits::SIDE_FILES_MAX).
    pub side_files: Vec<SideFileOrder>,
    /// Right: inputs, for all slices among the side files. `None` where there are none.
    pub inputs: Option<SignedTicket>,
}

impl LoadOrder {
    /// A function without side files.
    pub fn plain(function: FunctionSpec) -> Self {
        Self { function, side_files: Vec::new(), inputs: None }
    }
}

/// A side file: a whole slice that a node has, or fetches, once for all SPEs of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideFileOrder {
    /// The function's name for it; no two of an order have the same name.
    pub name: SideFileName,
    /// The slice.
    pub slice: SliceId,
    /// Its length in bytes, at most [`SIDE_FILE_BYTES_MAX`](crate::limits::SIDE_FILE_BYTES_MAX).
    pub bytes: u64,
    /// Who has it, with a read ticket; `None` where this node holds it.
    pub from: Option<Box<Source>>,
}

/// A function and its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSpec {
    /// Where its code comes from.
    pub code: FunctionCode,
    /// Parameters, as given with `--param`.
    #[serde(deserialize_with = "few::<{ limits::ORDER_WORDS_MAX }, _, _>")]
    pub parameters: Vec<(String, String)>,
}

/// Where a function's code comes from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FunctionCode {
    /// A function that every SPE has.
    BuiltIn(String),
    /// A symbol of a dynamic library, sent along (paper, 3.3: "in the form of dynamic libraries are sent to each SPE").
    Native {
        /// The library's bytes.
        library: Vec<u8>,
        /// The function's symbol.
        symbol: String,
    },
    /// A function for the interpreter that the node's `spe_python` names.
    Python(PythonFunction),
    /// A program of the node's, run once for each segment. It reads the segment on its standard input, and its standard
    /// output is the results. No shell reads these arguments.
    Program {
        /// The program, by name or absolute path, and its arguments; at least one element.
        #[serde(deserialize_with = "few::<{ limits::ORDER_WORDS_MAX }, _, _>")]
        words: Vec<String>,
    },
}

/// A function in Python: `f(segment, out)`, or `f(segment)` that returns or yields its records (docs/functions.md).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonFunction {
    /// Its name in reports; for a source, also the name by which it is found there.
    pub name: String,
    /// The function itself, at most [`LIBRARY_BYTES_MAX`](crate::limits::LIBRARY_BYTES_MAX) bytes.
    pub code: PythonCode,
    /// Modules that must be importable where it runs, each with an exact version where only that one will do. They are
    /// checked before the function is loaded, so that a missing one is reported in a sentence and not in a traceback.
    #[serde(deserialize_with = "few::<{ limits::ORDER_WORDS_MAX }, _, _>")]
    pub requires: Vec<(String, Option<String>)>,
}

/// How a Python function travels.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PythonCode {
    /// The text of a module that defines it.
    Source {
        /// The file's name, for tracebacks.
        file: String,
        /// Its text.
        text: String,
    },
    /// The result of `cloudpickle.dumps(function)`. `cloudpickle` itself is needed where it runs, and need not be named
    /// in [`requires`](PythonFunction::requires).
    Pickle {
        /// The pickle.
        bytes: Vec<u8>,
        /// Major and minor version of the Python that made it: another version cannot be trusted to read its code.
        python: (u8, u8),
    },
    /// As [`Source`](Self::Source), with modules of the user's own that it may import.
    SourceWithModules {
        /// The file's name, for tracebacks.
        file: String,
        /// Its text.
        text: String,
        /// The files of the modules.
        #[serde(deserialize_with = "few::<{ limits::ORDER_WORDS_MAX }, _, _>")]
        modules: Vec<ModuleFile>,
    },
    /// As [`Pickle`](Self::Pickle), with modules of the user's own that it may import.
    PickleWithModules {
        /// The pickle.
        bytes: Vec<u8>,
        /// Major and minor version of the Python that made it.
        python: (u8, u8),
        /// The files of the modules.
        #[serde(deserialize_with = "few::<{ limits::ORDER_WORDS_MAX }, _, _>")]
        modules: Vec<ModuleFile>,
    },
    /// As [`SourceWithModules`](Self::SourceWithModules), with Python packages that it may import. The node installs them
    /// once, from the wheels in the side file [`WHEELS_SIDE_FILE`] and nothing else.
    SourceInEnvironment {
        /// The file's name, for tracebacks.
        file: String,
        /// Its text.
        text: String,
        /// The files of the modules.
        #[serde(deserialize_with = "few::<{ limits::ORDER_WORDS_MAX }, _, _>")]
        modules: Vec<ModuleFile>,
        /// What is required, as pip reads it from a file of requirements; at most
        /// [`REQUIREMENTS_BYTES_MAX`](limits::REQUIREMENTS_BYTES_MAX).
        requirements: String,
    },
    /// As [`PickleWithModules`](Self::PickleWithModules), with Python packages as above.
    PickleInEnvironment {
        /// The pickle.
        bytes: Vec<u8>,
        /// Major and minor version of the Python that made it.
        python: (u8, u8),
        /// The files of the modules.
        #[serde(deserialize_with = "few::<{ limits::ORDER_WORDS_MAX }, _, _>")]
        modules: Vec<ModuleFile>,
        /// What is required.
        requirements: String,
    },
}

/// The side file with the wheels of a job: an archive (`tar`) of files `NAME.whl`. Functions do not see it.
pub const WHEELS_SIDE_FILE: &str = "sector_wheels";

/// A file of a module that travels with a function.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleFile {
    /// Where it lies below the folder in which modules are looked for: names with `/` between them.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl PythonFunction {
    /// Bytes of its code, with those of the modules and the requirements that go along.
    pub fn code_bytes(&self) -> usize {
        let modules = self.code.modules().iter().map(|file| file.path.len() + file.bytes.len());
        let requirements = self.code.requirements().map_or(0, str::len);
        self.code.bytes().len() + requirements + modules.sum::<usize>()
    }
}

impl PythonCode {
    /// The text or the pickle.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Source { text, .. }
            | Self::SourceWithModules { text, .. }
            | Self::SourceInEnvironment { text, .. } => text.as_bytes(),
            Self::Pickle { bytes, .. }
            | Self::PickleWithModules { bytes, .. }
            | Self::PickleInEnvironment { bytes, .. } => bytes,
        }
    }

    /// The name of the file whose text it is.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Source { file, .. }
            | Self::SourceWithModules { file, .. }
            | Self::SourceInEnvironment { file, .. } => Some(file),
            Self::Pickle { .. } | Self::PickleWithModules { .. } | Self::PickleInEnvironment { .. } => None,
        }
    }

    /// The Python that made the pickle.
    pub fn python(&self) -> Option<(u8, u8)> {
        match self {
            Self::Source { .. } | Self::SourceWithModules { .. } | Self::SourceInEnvironment { .. } => None,
            Self::Pickle { python, .. }
            | Self::PickleWithModules { python, .. }
            | Self::PickleInEnvironment { python, .. } => Some(*python),
        }
    }

    /// The files of the modules that go along.
    pub fn modules(&self) -> &[ModuleFile] {
        match self {
            Self::Source { .. } | Self::Pickle { .. } => &[],
            Self::SourceWithModules { modules, .. }
            | Self::PickleWithModules { modules, .. }
            | Self::SourceInEnvironment { modules, .. }
            | Self::PickleInEnvironment { modules, .. } => modules,
        }
    }

    /// The Python packages that it needs, as pip reads them; `None` where it has no environment of its own.
    pub fn requirements(&self) -> Option<&str> {
        match self {
            Self::SourceInEnvironment { requirements, .. } | Self::PickleInEnvironment { requirements, .. } => {
                Some(requirements)
            }
            _ => None,
        }
    }

    /// The same with these modules, in place of those that it had.
    #[must_use]
    pub fn with_modules(self, modules: Vec<ModuleFile>) -> Self {
        match self {
            Self::Source { file, text } | Self::SourceWithModules { file, text, .. } => {
                Self::SourceWithModules { file, text, modules }
            }
            Self::Pickle { bytes, python } | Self::PickleWithModules { bytes, python, .. } => {
                Self::PickleWithModules { bytes, python, modules }
            }
            Self::SourceInEnvironment { file, text, requirements, .. } => {
                Self::SourceInEnvironment { file, text, modules, requirements }
            }
            Self::PickleInEnvironment { bytes, python, requirements, .. } => {
                Self::PickleInEnvironment { bytes, python, modules, requirements }
            }
        }
    }

    /// The same in an environment of what is required, in place of the one that it had.
    #[must_use]
    pub fn with_requirements(self, requirements: String) -> Self {
        let modules = self.modules().to_vec();
        match self {
            Self::Source { file, text }
            | Self::SourceWithModules { file, text, .. }
            | Self::SourceInEnvironment { file, text, .. } => {
                Self::SourceInEnvironment { file, text, modules, requirements }
            }
            Self::Pickle { bytes, python }
            | Self::PickleWithModules { bytes, python, .. }
            | Self::PickleInEnvironment { bytes, python, .. } => {
                Self::PickleInEnvironment { bytes, python, modules, requirements }
            }
        }
    }
}

impl FunctionCode {
    /// The function's name. It is that of a built-in one, the symbol in its library, its name in Python, or the program
    /// without its folder.
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn(name) => name,
            Self::Native { symbol, .. } => symbol,
            Self::Python(function) => &function.name,
            Self::Program { words } => {
                let program = words.first().map_or("", String::as_str);
                program.rsplit('/').next().unwrap_or(program)
            }
        }
    }
}

impl std::fmt::Debug for PythonFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Python({}, {} bytes)", self.name, self.code_bytes())
    }
}

impl std::fmt::Debug for PythonCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let modules = self.modules();
        let with = if modules.is_empty() { String::new() } else { format!(", {modules:?}") };
        match (self.file(), self.python()) {
            (Some(file), _) => write!(f, "Source({file}{with})"),
            (None, python) => {
                let (major, minor) = python.unwrap_or_default();
                write!(f, "Pickle({} bytes of Python {major}.{minor}{with})", self.bytes().len())
            }
        }
    }
}

impl std::fmt::Debug for ModuleFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.path, self.bytes.len())
    }
}

impl std::fmt::Debug for FunctionCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn(name) => write!(f, "BuiltIn({name})"),
            Self::Native { library, symbol } => write!(f, "Native({symbol}, {} bytes)", library.len()),
            Self::Python(function) => write!(f, "{function:?}"),
            Self::Program { words } => write!(f, "Program({words:?})"),
        }
    }
}

/// Some segments to process together: neighbours on one node, so that many small files cost few round trips.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// The task and which attempt at it this is.
    pub attempt: AttemptId,
    /// Its segments, in order; the function is called once for each.
    #[serde(deserialize_with = "few::<{ limits::TASK_SEGMENTS_MAX }, _, _>")]
    pub segments: Vec<SegmentOrder>,
    /// Where results go.
    pub output: OutputPlacement,
    /// Right: inputs, for all slices among the segments. `None` where all segments are buckets of the job.
    pub inputs: Option<SignedTicket>,
}

/// One segment: whole records of one slice or bucket, and the parts of a job's further input streams that go with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentOrder {
    /// Its number in the stage's input stream.
    pub segment: u64,
    /// Its part of the first stream, which identifies it.
    pub first: PartOrder,
    /// Its parts of the further streams, in their order; at most [`STREAMS_MAX`](crate::limits::STREAMS_MAX) in all.
    pub zipped: Vec<PartOrder>,
}

/// A segment's part of one input stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOrder {
    /// Where its bytes come from.
    pub source: SegmentSource,
    /// The path the function sees.
    pub path: SectorPath,
    /// First byte.
    pub from: u64,
    /// First byte after it.
    pub until: u64,
    /// How its bytes are divided into records.
    pub records: RecordFraming,
    /// The record locations, for formats whose bytes alone do not show them.
    pub locator: Option<RecordLocator>,
}

/// Where the records of a part are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordLocator {
    /// A part of the file's index: the offset in the file where each record begins, and where the last one ends. It is
    /// the paper's "corresponding portion of the idx index file" (3.3).
    Offsets {
        /// Where the index is.
        source: SegmentSource,
        /// First byte of the offsets in the index.
        from: u64,
        /// First byte behind them.
        until: u64,
    },
    /// The same file's end, which describes all its row groups.
    Footer {
        /// First byte; it goes to the end of the file.
        from: u64,
        /// The file's end.
        until: u64,
        /// Which row group of the file it is, from 0.
        row_group: u32,
        /// Its rows.
        rows: u64,
    },
}

impl SegmentOrder {
    /// A segment of a job with one input stream.
    pub fn single(segment: u64, first: PartOrder) -> Self {
        Self { segment, first, zipped: Vec::new() }
    }

    /// Its parts, in the order of the streams.
    pub fn parts(&self) -> impl Iterator<Item = &PartOrder> {
        std::iter::once(&self.first).chain(&self.zipped)
    }

    /// The sources of all that it reads: its parts and their locators.
    pub fn sources(&self) -> impl Iterator<Item = &SegmentSource> {
        self.parts().flat_map(|part| {
            let guide = match &part.locator {
                Some(RecordLocator::Offsets { source, .. }) => Some(source),
                Some(RecordLocator::Footer { .. }) | None => None,
            };
            std::iter::once(&part.source).chain(guide)
        })
    }
}

impl PartOrder {
    /// A part without a locator.
    pub fn plain(source: SegmentSource, path: SectorPath, from: u64, until: u64, records: RecordFraming) -> Self {
        Self { source, path, from, until, records, locator: None }
    }
}

impl SegmentSource {
    /// Whether its bytes are on the node that reads them.
    pub fn is_local(&self) -> bool {
        !matches!(self, Self::Remote { .. })
    }

    /// The slice that is read; `None` for a bucket.
    pub fn slice(&self) -> Option<SliceId> {
        match self {
            Self::Local(slice) | Self::Remote { slice, .. } => Some(*slice),
            Self::Bucket(_) => None,
        }
    }
}

/// Where a segment's bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentSource {
    /// A slice that this node holds.
    Local(SliceId),
    /// A slice of another node: it is fetched first.
    Remote {
        /// The slice.
        slice: SliceId,
        /// Who has it, with a read ticket.
        from: Box<Source>,
    },
    /// A sealed bucket of this node.
    Bucket(BucketId),
}

/// Where a task's results go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputPlacement {
    /// Into one bucket of the same node, whose number is the task's.
    Local,
    /// Into buckets, bucket `i` at `places[i]`.
    Buckets(Vec<BucketTarget>),
}

/// Where a bucket is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketTarget {
    /// Its node.
    pub node: NodeId,
    /// The node's transfer address.
    pub address: SocketAddr,
    /// How far it is from the node that sends to it.
    pub distance: Option<Distance>,
    /// Right: compute, at that node.
    pub ticket: SignedTicket,
    /// The bucket's site.
    pub site: String,
    /// Which [generation](BucketId::generation) of the bucket is there.
    pub generation: u32,
    /// Whether the bucket wants this task's piece. It does not where it has the piece of an earlier attempt. The piece
    /// is then made and reported, so that the two can be compared, but not sent.
    pub is_wanted: bool,
}

/// A bucket of a stage of a job: a file on a node that holds results and is not yet a slice.
///
/// A bucket takes each task's piece as a whole or not at all. It is **sealed** with the list of the attempts that won,
/// which makes its content exactly once. Then it is a segment of the next stage, or is published as a slice. `epoch`
/// counts how often the whole job was restarted; messages of an older run are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BucketId {
    /// The job.
    pub job: JobId,
    /// The stage whose output it is, from 0.
    pub stage: u32,
    /// The run of the job.
    pub epoch: u32,
    /// The bucket's number, from 0.
    pub bucket: u32,
    /// How often it was begun again because its content was lost, so that nothing old is taken for the new. A bucket of
    /// a task's own results has the number of the attempt.
    pub generation: u32,
}

/// An attempt at a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// The stage, from 0.
    pub stage: u32,
    /// The run of the job, from 0.
    pub epoch: u32,
    /// The task within the stage, from 0.
    pub task: u32,
    /// The attempt, from 0.
    pub attempt: u32,
}

/// One task's part of one bucket, from one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PieceId {
    /// The bucket.
    pub bucket: BucketId,
    /// The task it comes from.
    pub task: u32,
    /// The attempt it comes from.
    pub attempt: u32,
}

/// See [`SpeRequest::Deliver`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryOrder {
    /// The attempt whose results are to be sent.
    pub attempt: AttemptId,
    /// The buckets that lack its piece, by number, and where they are.
    pub targets: Vec<(u32, BucketTarget)>,
}

/// See [`SpeRequest::Seal`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealOrder {
    /// The bucket.
    pub bucket: BucketId,
    /// The winning attempt of each task that has a piece here, with the piece's length.
    #[serde(deserialize_with = "few::<{ limits::BUCKET_WINNERS_MAX }, _, _>")]
    pub winners: Vec<Winner>,
    /// Whether the bucket will be published: its digest is needed.
    pub publish: bool,
    /// Whether the pieces must lie in the order of the list. The bucket is then being rebuilt, and earlier readers must
    /// find the same bytes.
    pub in_order: bool,
}

/// A piece that belongs in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Winner {
    /// The task.
    pub task: u32,
    /// The attempt.
    pub attempt: u32,
    /// The piece's length in bytes.
    pub bytes: u64,
}

/// What a finished task reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Records read.
    pub records_in: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Records (emits) written.
    pub records_out: u64,
    /// Its pieces for the buckets, without empty ones.
    pub pieces: Vec<PieceResult>,
    /// What the function counted.
    pub counters: Counters,
}

/// A finished task's piece for one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceResult {
    /// The bucket's number.
    pub bucket: u32,
    /// The piece's length in bytes.
    pub bytes: u64,
    /// CRC32C of its bytes. A repeated task must give the same, where others have already read its first result.
    pub checksum: u32,
    /// Whether the bucket has it. If not, the node has kept it for [`SpeRequest::Deliver`].
    pub is_delivered: bool,
}

/// An error of a user function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionFailure {
    /// Which function, by its [`FunctionCode::name`].
    pub function: String,
    /// The path of the input.
    pub path: SectorPath,
    /// The segment's number in the stream.
    pub segment: u64,
    /// The record within the segment, where known.
    pub record: Option<u64>,
    /// The message of the function (or its end: a signal, an exit).
    pub message: String,
    /// The beginning of that record, where it is known: at most
    /// [`FUNCTION_RECORD_BYTES_MAX`](crate::limits::FUNCTION_RECORD_BYTES_MAX) bytes.
    pub record_start: Vec<u8>,
}
