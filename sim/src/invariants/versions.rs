//! Versions grow: over restarts of the master, over removals, and whatever its clock does. (`docs/semantics.md`:
//! upload.) A check never changes anything in the cloud.

// Promise 5.

use std::time::Duration;

use protocol::{
    SectorPath,
    message::client_master::{Entry, EntryKind},
};

use crate::{ViolationKind, environment::Environment};

/// A write begun at `began` was answered with this entry.
pub(crate) fn check(env: &mut Environment, path: &SectorPath, entry: &Entry, began: Duration) {
    let EntryKind::File(content) = &entry.kind else { return };
    let version = content.version;
    if let Some(before) = env.model.versions.largest_before(began)
        && before >= version
    {
        env.violate(
            ViolationKind::Safety,
            format!("{path} got version {version} although {before} had been told before it was begun"),
        );
    }
    let now = env.now.monotonic;
    env.model.versions.note(now, version);
}
