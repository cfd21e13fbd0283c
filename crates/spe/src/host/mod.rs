//! The node's side of an SPE: where it may run, its process, and the tasks it is given. Serves the path *job*, door 7.
//! All of it runs in the node's process, so it never maps a slice or runs user code.

mod captured_output;
mod cgroup_limits;
mod environment_maker;
mod host_link;
mod interpreter;
mod printed_log;
mod probe;
mod runtime_kind;
mod sandbox_pool;
mod sandbox_settings;
mod segment_queue;
mod spe_process;
mod task_run;

pub use environment_maker::{ENVIRONMENT_BUCKET, FAULT_BUCKET, MAKER_BUCKETS, environment_maker};
pub use interpreter::Interpreter;
pub use probe::probe;
pub use runtime_kind::RuntimeKind;
pub use sandbox_pool::{MemoryBound, Sandbox, SandboxAllocation};
pub use sandbox_settings::SandboxSettings;
pub use spe_process::{SpeProcess, SpeProgram};
pub use task_run::{CLEARED_BYTES, SegmentFile, SpeOutcome, TaskOutput, TaskRun};
