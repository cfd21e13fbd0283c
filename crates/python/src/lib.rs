//! The native half of the Python package `sector`: the client library's calls as Python objects (floor 4; all paths
//! begin at its door). People import only the pure-Python half in `crates/python/sector`. It decides nothing that the
//! client does not (retries, messages, rules). It never calls Python from a worker of the runtime, which leases and
//! transfers need.

// Start with `runtime.rs` (how a call waits), then `session.rs` (a cloud and its names), `reader.rs` and `writer.rs`
// (bytes), and `job.rs` (Sphere).
mod entry;
mod events;
mod failure;
mod gmp;
mod job;
mod job_status;
mod management;
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
        events::{Events, events},
        failure::{BusyError, CorruptError, JobError, UnavailableError},
        gmp::{GmpInstance, GmpMessage, make_group},
        job::Job,
        job_status::{JobStatus, StageStatus},
        management::{
            acl, cancel_job, change_mark, check, empty_trash, find_jobs, job_logs, job_status, links, marks, policy,
            profile_file, quotas, restore, set_acl, set_policy, set_quota, trash, versions,
        },
        reader::Reader,
        session::{Session, connect},
        writer::Writer,
    };
}
