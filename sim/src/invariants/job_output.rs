//! A job gives each record to the function, and each result to its bucket, exactly once: its output is, byte for byte,
//! what a plain sort of its input makes, and each stage has counted each record once. (`docs/semantics.md`: jobs.)

use std::collections::BTreeMap;

use protocol::{Counters, Digest};

use crate::{
    Kind,
    actor::{JobPlanned, RECORD_BYTES},
    environment::Environment,
    model::digest_of,
};

/// A job has ended well; its output by number, each with its digest, and what its stages have counted.
pub(crate) fn check(
    env: &mut Environment,
    planned: &JobPlanned,
    output: &BTreeMap<u32, Digest>,
    counters: &[Counters],
) {
    let records: u64 = planned.inputs.iter().map(|file| (file.len() / RECORD_BYTES) as u64).sum();
    let counted: Vec<u64> = counters.iter().map(|stage| stage.get("records").unwrap_or(0)).collect();
    if counted.iter().any(|counted| *counted != records) {
        env.violate(Kind::Safety, format!("the stages of a job counted {counted:?} records where there are {records}"));
    }
    let expected: Vec<Digest> = planned.expected.iter().map(|bytes| digest_of(bytes)).collect();
    let found: Vec<Digest> = output.values().copied().collect();
    if expected != found {
        let wrong = expected.iter().zip(&found).position(|(expected, found)| expected != found);
        env.violate(
            Kind::Safety,
            format!(
                "a job's output is not its input sorted: {} parts instead of {}, the first wrong one is {wrong:?}",
                found.len(),
                expected.len()
            ),
        );
    }
}
