//! The Sphere Processing Engine (Sector/Sphere paper, 3.3): a child process of the node that runs one user function over
//! segments. It serves the path *job*, doors 6 and 7.
//!
//! [`host`] is the node's side: it starts the process, hands it open files, and learns how it ended. [`child`] is what
//! runs inside: it maps a segment's file, calls the function, and appends the results to one scratch file. Between them
//! is a Unix socket and the messages of `words`. User code runs nowhere else, and never in the node's own process.

mod cgroups;
pub mod child;
mod death;
mod descriptors;
mod error;
mod function;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod host;
mod interpreter;
mod lines;
mod link;
mod map;
mod output;
mod parts;
mod prints;
pub(crate) mod probe;
mod program;
mod progression;
mod python;
mod reporter;
pub mod sandbox;
mod side;
mod slots;
mod tenant;
mod words;

pub use error::SpeError;
pub use host::{SegmentFile, SpeOutcome, SpeProcess, SpeProgram, TaskOutput, TaskRun};
pub use interpreter::Interpreter;
pub use probe::probe;
pub use sandbox::Confinement;
pub use slots::{MemoryBound, Sandbox, SandboxPlace};
pub use tenant::Tenant;
pub use words::Chunk;
