//! Sphere's compute model (Sector/Sphere paper, section 3). A stream is cut into segments, segments are grouped into
//! tasks, and tasks are given to SPEs where their bytes lie. The results are gathered in buckets, exactly once. The
//! driver in `client` asks [`Job`] what to do and reports the results to it (path of a job). Everything here is pure,
//! so that a simulation and a real cluster run the same rules. It never uses sockets, files, a clock, a runtime or
//! randomness.

// Read in this order:
//
// - `plan` (what is wanted), `stream` (what goes in), `split_points` (where it may be cut), `segment` (how it is cut)
// - `task` (how segments are grouped), `fleet` (which SPEs exist), `schedule` with `busiest_nodes` (which SPE gets
//   which task) and `straggler` (which attempts are slow)
// - `bucket` (where results lie) with `vec_map`, `bucket_shares`, `bucket_placement`, `delivery` and `node_queues`
// - `stage`, `job` (the whole), `outcome` (how it ends), `output_commit` (how its output gets its place), `history`
//   (what became of its attempts)
// - `driver_core` (what every driver decides) with `input`, `clock`, `journal_pages` (its journal) and `output_folder`
// - `shuffle_write`, `retained_outputs` and `job_buckets` (what every node decides about results)
//
// `action` and `event` are what a job asks for and is told. What an SPE is made of, and how messages travel, is unknown
// here.

mod action;
mod bucket;
mod bucket_placement;
mod bucket_shares;
mod busiest_nodes;
pub mod clock;
mod counter_totals;
mod delivery;
pub mod driver_core;
mod event;
mod fleet;
pub mod history;
pub mod input;
pub mod job;
pub mod job_buckets;
pub mod journal_pages;
mod node_queues;
pub mod outcome;
pub mod output_commit;
pub mod output_folder;
pub mod plan;
pub mod retained_outputs;
mod schedule;
pub mod segment;
pub mod shuffle_write;
pub mod split_points;
mod stage;
mod straggler;
pub mod stream;
mod task;
mod vec_map;

pub use action::{
    AssignedLocator, AssignedPart, AssignedSegment, Assignment, BucketLocation, Delivery, JobAction, Placement,
    SegmentLocation,
};
pub use clock::JobClock;
pub use driver_core::{DriverCore, Replay, refused_by_node};
pub use event::Event;
pub use fleet::SpeId;
pub use history::History;
pub use input::OrderRefusal;
pub use job::{Job, StageProgress};
pub use job_buckets::{BucketAbsence, JobBuckets};
pub use journal_pages::{JournalEntry, JournalPage, PageWrite, PageWriteStep};
pub use outcome::{Outcome, OutputBucket, SkippedSegment, SphereError};
pub use output_commit::{CommitAction, OutputCommit, OutputEntry, OutputSnapshot, part_name};
pub use output_folder::{NameChange, OutputFolder};
pub use plan::{FinalOutput, JobPlan, SpeNodePlan, StageOutput, StagePlan};
pub use retained_outputs::{RetainedOutputs, RetainedSize};
pub use segment::lines_owned;
pub use split_points::SplitPointChooser;
pub use stream::{FileLayout, FileLocator, InputFile, SplitPoint};
