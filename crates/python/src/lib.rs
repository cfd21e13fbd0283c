//! The native half of the Python package `sector`: the client library's calls as Python objects (floor 4; all paths
//! begin at its door). The other half, pure Python, lies in `crates/python/sector`; people import only that.
//!
//! Each call takes `awaited`: false waits here with the interpreter released, true gives an `asyncio` future at once.
//!
//! It decides nothing that the client does not: no retries, no messages, no rules. It never calls Python from a worker
//! of the runtime, which leases and transfers need.
//!
//! Read `runtime.rs` (how a call waits), `session.rs` (a cloud and its names), `reader.rs` and `writer.rs` (bytes),
//! `job.rs` (Sphere).

mod entry;
mod failure;
mod job;
mod job_status;
mod reader;
mod runtime;
mod session;
mod writer;

/// The module as Python sees it.
#[pyo3::pymodule(name = "_native", gil_used = true)]
mod native {
    #[pymodule_export]
    use super::{
        entry::{Copy, Entry},
        failure::{CorruptError, JobError, UnavailableError},
        job::Job,
        job_status::{JobStatus, StageStatus},
        reader::Reader,
        session::{Session, connect},
        writer::Writer,
    };
}
