//! Sphere's compute model (Sector/Sphere paper, section 3): a stream is cut into segments, segments are grouped into
//! tasks, tasks are given to SPEs where their bytes lie, and their results are gathered in buckets, exactly once.
//!
//! It serves the path of a job: the driver in `client` asks [`Job`] what to do and tells it what came of it. Everything
//! here is pure: no sockets, no files, no clock, no runtime, no randomness, so that a simulation and a real cluster run
//! the same rules. It never knows what an SPE is made of, nor how its words travel.
//!
//! Read in this order: [`plan`] (what is wanted), [`stream`] (what goes in), [`split_points`] (where it may be cut),
//! [`segment`] (how it is cut), `task` (how cuts
//! are put together), `fleet` (who is there), `schedule` with `fullest` (which is given to whom), `pace` (who is slow),
//! `bucket` (where results lie) with `numbered`, `shares`, `places`, `delivery` and `turns`, `stage`, [`job`] (the
//! whole), [`outcome`] (how it ends), [`output_commit`] (how its output gets its place), [`history`] (what became of
//! its attempts). [`driver_core`] (what every driver decides) with [`input`], [`clock`], [`journal_pages`] (its
//! journal) and [`output_folder`]. What every node decides of results: [`shuffle_write`], [`retained_outputs`],
//! [`job_buckets`]. `action` and `event` are its two languages.

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
pub use output_folder::OutputFolder;
pub use plan::{FinalOutput, JobPlan, SpeNodePlan, StageOutput, StagePlan};
pub use retained_outputs::{RetainedOutputs, RetainedSize};
pub use segment::lines_owned;
pub use split_points::SplitPointChooser;
pub use stream::{FileLayout, FileLocator, InputFile, SplitPoint};
