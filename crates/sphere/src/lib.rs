//! Sphere's compute model (Sector/Sphere paper, section 3): a stream is cut into segments, segments are grouped into
//! tasks, tasks are given to SPEs where their bytes lie, and their results are gathered in buckets, exactly once.
//!
//! It serves the path of a job: the driver in `client` asks [`Job`] what to do and tells it what came of it. Everything
//! here is pure: no sockets, no files, no clock, no runtime, no randomness, so that a simulation and a real cluster run
//! the same rules. It never knows what an SPE is made of, nor how its words travel.
//!
//! Read in this order: [`plan`] (what is wanted), [`stream`] (what goes in), [`marks`] (where it may be cut),
//! [`segment`] (how it is cut), `task` (how cuts
//! are put together), `fleet` (who is there), `schedule` with `fullest` (which is given to whom), `pace` (who is slow), `bucket` (where
//! results lie) with `numbered`, `shares`, `places`, `delivery` and `turns`, `stage`, [`job`] (the whole), [`outcome`] (how it ends), [`reveal`] (how its output gets its place), [`history`] (what became of its attempts).
//! [`driving`] (what every driver decides) with [`input`], [`clock`], [`pages`] (its journal) and [`output_folder`]. What
//! every node decides of results: [`spreading`], [`kept`], [`job_buckets`]. `action` and `event` are its two languages.

mod action;
mod bucket;
pub mod clock;
mod delivery;
pub mod driving;
mod event;
mod fleet;
mod fullest;
pub mod history;
pub mod input;
pub mod job;
pub mod job_buckets;
pub mod kept;
pub mod marks;
mod numbered;
pub mod outcome;
pub mod output_folder;
mod pace;
pub mod pages;
mod places;
pub mod plan;
pub mod reveal;
mod schedule;
pub mod segment;
mod shares;
pub mod spreading;
mod stage;
pub mod stream;
mod tally;
mod task;
mod turns;

pub use action::{
    Action, AssignedGuide, AssignedPart, AssignedSegment, Assignment, BucketHome, Delivery, Placement, SegmentPlace,
};
pub use clock::JobTime;
pub use driving::{Driving, Replay, refused_by_node};
pub use event::Event;
pub use fleet::SpeId;
pub use history::History;
pub use input::OrderRefused;
pub use job::{Job, Progress};
pub use job_buckets::{BucketAway, JobBuckets};
pub use kept::{KeptShelf, KeptSize};
pub use marks::MarkChooser;
pub use outcome::{LeftOut, Outcome, OutputBucket, SphereError};
pub use output_folder::OutputFolder;
pub use pages::{Page, PageTurn, PageWrite, Told};
pub use plan::{FinalOutput, JobPlan, SpeNodePlan, StageOutput, StagePlan};
pub use reveal::{Reveal, RevealAction, Seen, SeenFile, part_name};
pub use segment::lines_owned;
pub use stream::{FileGuide, InputFile, Layout, Mark};
