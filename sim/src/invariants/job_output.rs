//! A job gives each record to the function, and each result to its bucket, exactly once: its output is, byte for byte,
//! what a plain sort of its input makes. (`docs/semantics.md`: jobs.)

use std::collections::BTreeMap;

use protocol::Digest;

use crate::{Kind, actor::JobPlanned, environment::Environment, model::digest_of};

/// A job has ended well; its output by number, each with its digest.
pub(crate) fn check(env: &mut Environment, planned: &JobPlanned, output: &BTreeMap<u32, Digest>) {
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
