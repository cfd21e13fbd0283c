//! The Sphere Processing Engine (Sector/Sphere paper, 3.3): a child process of the node that runs one user function
//! over segments. It serves the path *job*, doors 6 and 7. [`host`] is the node's side: it starts the process, passes
//! open files, and learns how it ended. [`child`] runs inside: it maps a segment's file, calls the function, and
//! appends the results to a scratch file. They exchange `messages` over a Unix socket. User code runs nowhere else, and
//! never in the node's own process.

mod call_error;
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
mod probe;
mod program;
mod python;
mod reporter;
mod runtime_kind;
mod sandbox;
mod sandbox_pool;
mod sandbox_settings;
mod segment_queue;
mod side_file_maps;
mod spe_error;
mod task_run;

pub use function::FindBuiltIn;
pub use host::{SpeProcess, SpeProgram};
pub use interpreter::Interpreter;
pub use messages::Chunk;
pub use probe::probe;
pub use runtime_kind::RuntimeKind;
pub use sandbox::confinement::Confinement;
pub use sandbox_pool::{MemoryBound, Sandbox, SandboxAllocation};
pub use sandbox_settings::SandboxSettings;
pub use spe_error::SpeError;
pub use task_run::{CLEARED_BYTES, SegmentFile, SpeOutcome, TaskOutput, TaskRun};
