//! The Sphere Processing Engine (Sector/Sphere paper, 3.3): a child process of the node that runs one user function
//! over segments. It serves the path *job*, doors 6 and 7. [`host`] is the node's side: it starts the process, passes
//! open files, and learns how it ended. [`child`] runs inside: it maps a segment's file, calls the function, and
//! appends the results to a scratch file. They exchange `messages` over a Unix socket. User code runs nowhere else, and
//! never in the node's own process.

mod captured_output;
mod cgroups;
pub mod child;
mod descriptor_passing;
mod exit_cause;
mod function;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod host;
mod host_link;
mod interpreter;
mod lines;
mod mapped_part;
mod messages;
mod output;
mod parts;
pub(crate) mod probe;
mod program;
mod python;
mod reporter;
mod runtime_kind;
pub mod sandbox;
mod sandbox_pool;
mod segment_queue;
mod side_file_maps;
mod spe_error;

pub use host::{SegmentFile, SpeOutcome, SpeProcess, SpeProgram, TaskOutput, TaskRun};
pub use interpreter::Interpreter;
pub use messages::Chunk;
pub use probe::probe;
pub use runtime_kind::RuntimeKind;
pub use sandbox::Confinement;
pub use sandbox_pool::{MemoryBound, Sandbox, SandboxAllocation};
pub use spe_error::SpeError;
