//! Sphere's compute model (Sector/Sphere paper, section 3). A stream is cut into segments, segments are grouped into
//! tasks, and tasks are given to SPEs where their bytes lie. The results are gathered in buckets, exactly once. The
//! driver in `client` asks [`Job`] what to do and reports the results to it (path of a job). Everything here is pure,
//! so that a simulation and a real cluster run the same rules. It never uses sockets, files, a clock, a runtime or
//! randomness.

// Read in this order:
//
// - `stream` (what goes in), with `split_point_chooser` (where it may be cut) and `segment_cuts` (how it is cut)
// - `records` (where an index and a Parquet file say that records begin)
// - `schedule` (which SPE gets which task), with `task` (how segments are grouped), `fleet` (which SPEs exist),
//   `busiest_nodes` and `slow_threshold` (which attempts are slow)
// - `bucket` (where results lie), with `vec_map`, `bucket_shares`, `bucket_placement`, `delivery` and `node_queues`;
//   `shuffle_write`, `retained_outputs` and `job_buckets` are what every node decides about results
// - `job` (the whole), with `plan` (what is wanted), `stage`, its `speculation` (second attempts), and `history` (what
//   became of its attempts)
// - `outcome` (how it ends), with `output_commit` (how its output gets its place) and `output_folder`
// - `driver`, with `driver_core` (what every driver decides), `input`, `clock` and `journal_pages` (its journal)
//
// `job::action` and `job::event` are what a job asks for and is told. What an SPE is made of, and how messages travel,
// is unknown here.

mod bucket;
pub mod driver;
pub mod job;
pub mod outcome;
pub mod records;
mod schedule;
pub mod stream;

pub use bucket::{
    job_buckets,
    job_buckets::{BucketAbsence, JobBuckets},
    retained_outputs,
    retained_outputs::{RetainedOutputs, RetainedSize},
    shuffle_write,
};
pub use driver::{
    clock::JobClock,
    driver_core::{DriverCore, Replay, refused_by_node},
    input,
    input::OrderRefusal,
    journal_pages::{JournalEntry, JournalPage, PageWrite, PageWriteStep},
};
pub use job::{
    Job, StageProgress,
    action::{
        AssignedLocator, AssignedPart, AssignedSegment, Assignment, BucketLocation, Delivery, JobAction, Placement,
        SegmentLocation,
    },
    error_groups::{ErrorGroup, ErrorGroups},
    event::Event,
    history::History,
    plan::{FinalOutput, JobPlan, SpeNodePlan, StageOutput, StagePlan},
};
pub use outcome::{
    Outcome, OutputBucket, SkippedSegment, SphereError,
    output_commit::{CommitAction, OutputCommit, OutputEntry, OutputSnapshot, part_name},
    output_folder::{NameChange, OutputFolder},
};
pub use schedule::fleet::SpeId;
pub use stream::{FileLayout, FileLocator, InputFile, SplitPoint, split_point_chooser::SplitPointChooser};
