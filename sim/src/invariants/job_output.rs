//! A job gives each record to the function, and each result to its bucket, exactly once: its output is, byte for byte,
//! what a plain sort of its input makes, or where the function leaves something else each time, what one execution of
//! each task made; and each stage has counted each record once. Nobody ever sees a part of it. (`docs/semantics.md`:
//! jobs.)

use protocol::Counters;

use crate::{
    ViolationKind,
    actor::{JobPlanned, RECORD_BYTES},
    environment::Environment,
    tagged,
};

/// What lies in the place of a job's output, part by part in order, is the output: all of it, and nothing else.
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

/// What the stages of a job that ended well have counted.
pub(crate) fn check_counters(env: &mut Environment, planned: &JobPlanned, counters: &[Counters]) {
    let records: u64 = planned.inputs.iter().map(|file| (file.len() / RECORD_BYTES) as u64).sum();
    let counted: Vec<u64> = counters.iter().map(|stage| stage.get("records").unwrap_or(0)).collect();
    // What a function makes of its own is counted by who reads it.
    let exact = if planned.is_tagged { &counted[..1.min(counted.len())] } else { &counted[..] };
    if exact.iter().any(|counted| *counted != records) {
        env.violate(
            ViolationKind::Safety,
            format!("the stages of a job counted {counted:?} records where there are {records}"),
        );
    }
}
