//! Once the faults have stopped, everything becomes well again within a bounded time: all nodes up, every file with all
//! its copies at its path, nothing left over anywhere. (`docs/semantics.md`: replication, removal.)

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    SectorPath, SliceId,
    message::{
        client_master::{ClientReply, CopyState, EntryKind, NodeState},
        node_master::HeldState,
    },
};
use store::SliceStore;

/// Whether all nodes are up; the sentence says which is not.
pub(crate) fn check_nodes(reply: &ClientReply, count: usize) -> Result<(), String> {
    let ClientReply::Nodes(nodes) = reply else { return Err(format!("no list of nodes: {reply:?}")) };
    match nodes.iter().find(|node| node.state != NodeState::Up) {
        Some(node) => Err(format!("{} is {:?}", node.node, node.state)),
        None if nodes.len() == count => Ok(()),
        None => Err(format!("the master knows {} of {count} nodes", nodes.len())),
    }
}

/// Whether the master calls the cloud well.
pub(crate) fn check_health(reply: &ClientReply) -> Result<(), String> {
    match reply {
        ClientReply::Health(health) if health.reasons.is_empty() => Ok(()),
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

/// Whether a node holds exactly slices of files, each at its path.
pub(crate) fn check_held(store: &SliceStore, files: &BTreeMap<SliceId, SectorPath>) -> Result<(), String> {
    for held in store.held() {
        let header = &held.metadata.header;
        match files.get(&header.slice) {
            None => return Err(format!("{} of {} is nobody's", header.slice, header.path)),
            Some(path) if held.state != HeldState::Placed || header.path != *path => {
                return Err(format!("{} is {:?} at {} and not at {path}", header.slice, held.state, header.path));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// How long healing may take: leases (60 s) have to end, a lost copy to be declared so (60 s without news), a retry to
/// come after its longest pause (60 s) and again after it failed, and a job to be begun anew.
pub(crate) const HEALED_AFTER_MAX: Duration = Duration::from_secs(600);
