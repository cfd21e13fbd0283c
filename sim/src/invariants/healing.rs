//! Once the faults have stopped, everything becomes well again within a bounded time. All nodes are up, every file has
//! all its copies at its path, and nothing is left over. (`docs/semantics.md`: replication and removal.) A check never
//! changes anything in the cloud.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use protocol::{
    SectorPath, SliceId, SliceMetadata,
    message::{
        client_master::{ClientReply, CopyState, EntryKind, NodeState},
        node_master::HeldState,
    },
};
use store::DiskSet;

use crate::{ViolationKind, environment::Environment, model::Model, role::Disks};

/// Whether all nodes are up; the sentence says which is not.
pub(crate) fn check_nodes(reply: &ClientReply, count: usize) -> Result<(), String> {
    let ClientReply::Nodes(nodes) = reply else { return Err(format!("no list of nodes: {reply:?}")) };
    match nodes.iter().find(|node| node.state != NodeState::Up) {
        Some(node) => Err(format!("{} is {:?}", node.node, node.state)),
        None if nodes.len() == count => Ok(()),
        None => Err(format!("the master knows {} of {count} nodes", nodes.len())),
    }
}

/// Whether the master calls the cloud well. One that lost its journal may have found removed files, of which perhaps no
/// copy is good. The copies of all other files are checked one by one anyway.
pub(crate) fn check_health(reply: &ClientReply, is_recovered: bool) -> Result<(), String> {
    let slow = format!("node n{SLOW_NODE} is slow ");
    let is_allowed = |reason: &String| reason.starts_with(&slow) || is_recovered && !reason.starts_with(ABOUT_A_NODE);
    match reply {
        ClientReply::Health(health) if health.reasons.iter().all(is_allowed) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Whether a file has as many good copies as it should.
pub(crate) fn check_copies(reply: &ClientReply, nodes: usize) -> Result<(), String> {
    let ClientReply::Status(status) = reply else { return Err(format!("no status: {reply:?}")) };
    let EntryKind::File(content) = &status.entry.kind else { return Ok(()) };
    let wanted = usize::from(content.copies).min(nodes);
    let all_good = status.copies.iter().all(|copy| copy.state == CopyState::Ok);
    if all_good && status.copies.len() == wanted {
        return Ok(());
    }
    Err(format!("{} has the copies {:?}, and should have {wanted}", status.entry.path, status.copies))
}

/// Whether a node holds exactly slices of files, each at its path; and, after a lost journal, older ones. `held` is
/// what all nodes hold.
pub(crate) fn check_held(
    store: &DiskSet,
    files: &BTreeMap<SliceId, SectorPath>,
    held: &BTreeSet<SliceId>,
    book: &Model,
) -> Result<(), String> {
    let all = store.held();
    let has_no_copy = |path| files.iter().any(|(slice, at)| at == path && !held.contains(slice));
    // An archived slice lies where a folder must be: entries below cannot come to their paths.
    let is_kept = |slice| book.has_lost_journal() && !files.contains_key(&slice);
    let is_blocked = |path: &SectorPath| {
        let mut kept = all.iter().map(|held| &held.metadata.header).filter(|header| is_kept(header.slice));
        kept.any(|header| header.path != *path && (header.path.is_within(path) || path.is_within(&header.path)))
    };
    for held in &all {
        let header = &held.metadata.header;
        match files.get(&header.slice) {
            None if book.may_be_kept(header) => {}
            // The file renamed over it has lost its bytes with a journal: it waits for them, until the name is
            // dismissed.
            None if book.has_lost_journal() && has_no_copy(&header.path) => {}
            None => return Err(format!("{} of {} is nobody's", header.slice, header.path)),
            // A removed file that was found again may block an archived slice.
            Some(_) if is_doubtful(book, &held.metadata) => {}
            Some(path) if held.state == HeldState::Staged && header.path == *path && is_blocked(path) => {}
            Some(path) if held.state != HeldState::Placed || header.path != *path => {
                return Err(format!("{} is {:?} at {} and not at {path}", header.slice, held.state, header.path));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A node has taken a disk out of use. It does so only if the disk fails, never for one copy that cannot be read.
pub(crate) fn check_lost_disk(env: &mut Environment, node: usize, disks: &Disks, folder: &Path, why: &str) {
    // Without power it is about to die, and has not noticed.
    if disks.is_sound(folder) && !why.contains("lost power") {
        env.violate(ViolationKind::Safety, format!("n{node} gave up {}, which works: {why}", folder.display()));
    }
}

fn is_doubtful(book: &Model, metadata: &SliceMetadata) -> bool {
    book.is_doubtful(book.contents.find(metadata.digest))
}

/// The node that takes six times as long as the others for the same. No other may be found to be slow.
pub(crate) const SLOW_NODE: usize = 1;
/// How the master's sentences about a missing node begin.
const ABOUT_A_NODE: &str = "node ";
/// How long healing may take after the faults of this run.
pub(crate) fn healed_after_max(book: &Model) -> Duration {
    // A driver reads its job's journal for ten minutes if a page of it is a name without bytes, and so does the next.
    HEALED_AFTER_MAX + if book.has_old_journal { 3 * HEALED_AFTER_MAX } else { Duration::ZERO }
}

/// Leases (60 s) have to end, and a lost copy to be declared so (60 s without news). A retry has to come after its
/// longest pause (60 s) and again after it failed, and a job to be restarted.
const HEALED_AFTER_MAX: Duration = Duration::from_secs(600);
