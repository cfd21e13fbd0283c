//! A job gives each record to the function, and each result to its bucket, exactly once. Its output equals a plain sort
//! of its input, byte for byte. If the function's results vary, it equals the results of one execution of each task.
//! Each stage has counted each record once. A part of the output is never seen. (`docs/semantics.md`: jobs.) A check
//! never changes anything in the cloud.

// Promise 18, 19.

use protocol::Counters;

use crate::{
    ViolationKind,
    actor::{JobPlanned, RECORD_BYTES},
    environment::Environment,
    tagged,
};

/// The content of a job's output place, part by part in order, is the output: all of it, and nothing else.
pub(crate) fn check(planned: &JobPlanned, parts: &[Vec<u8>]) -> Result<(), String> {
    let parts_told = parts.len();
    if planned.is_tagged {
        return tagged::check(&planned.inputs, parts).map_err(|why| format!("of its {parts_told} parts: {why}"));
    }
    if planned.expected == parts {
        return Ok(());
    }
    let wrong = planned.expected.iter().zip(parts).position(|(expected, found)| expected != found);
    Err(format!(
        "it is not its input sorted: {parts_told} parts instead of {}, the first wrong one is {wrong:?}",
        planned.expected.len()
    ))
}

/// The counters of the stages of a job that ended well.
pub(crate) fn check_counters(env: &mut Environment, planned: &JobPlanned, counters: &[Counters]) {
    let records: u64 = planned.inputs.iter().map(|file| (file.len() / RECORD_BYTES) as u64).sum();
    let counted: Vec<u64> = counters.iter().map(|stage| stage.get("records").unwrap_or(0)).collect();
    // Records that a function invents are counted by its reader.
    let exact = if planned.is_tagged { &counted[..1.min(counted.len())] } else { &counted[..] };
    if exact.iter().any(|counted| *counted != records) {
        env.violate(
            ViolationKind::Safety,
            format!("the stages of a job counted {counted:?} records where there are {records}"),
        );
    }
}
