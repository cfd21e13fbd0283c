//! The Sphere Processing Engine (Sector/Sphere paper, 3.3): a child process of the node that runs one user function over
//! segments. It serves the path *job*, door 7. `host` starts the process, passes open files, and learns how it ended.
//! [`child`] runs inside, locks itself in by `sandbox`, calls the function, and writes its results to a scratch file.
//! They exchange `messages` over a Unix socket. It never runs user code outside that process, and never knows a slice's
//! place or another machine.

pub mod child;
mod descriptor_passing;
mod error;
mod exit_cause;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod host;
mod messages;
mod sandbox;
mod segment_mark;

pub use child::FindBuiltIn;
pub use error::SpeError;
pub use host::{
    CLEARED_BYTES, ENVIRONMENT_BUCKET, FAULT_BUCKET, Interpreter, MAKER_BUCKETS, MemoryBound, RuntimeKind, Sandbox,
    SandboxAllocation, SandboxSettings, SegmentFile, SpeOutcome, SpeProcess, SpeProgram, TaskOutput, TaskRun,
    environment_maker, probe,
};
pub use messages::Chunk;
pub use sandbox::confinement::Confinement;
