//! A master that lost its journal finds acknowledged data on the nodes' disks, and never anything else.
//! (`docs/semantics.md`: when the master is gone.) A check never changes anything in the cloud.

// Promise 17.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    SectorPath, SliceId,
    message::client_master::{ClientReply, Entry},
};

use super::names::item_of;
use crate::{
    ViolationKind,
    environment::Environment,
    model::{ContentId, Item},
    role::NodeRole,
};

/// The new master answered a question about names.
pub(crate) fn check_reply(env: &mut Environment, reply: &ClientReply) {
    let Some(recovered) = &env.model.recovered else { return };
    let entries: Vec<&Entry> = match reply {
        ClientReply::Status(status) => vec![&status.entry],
        ClientReply::Page(page) => page.entries.iter().collect(),
        _ => Vec::new(),
    };
    let wrong = entries.into_iter().find(|entry| match item_of(&env.model.contents, entry) {
        Some(Item::Folder) => false,
        Some(Item::File(content)) => !recovered.could_be(&entry.path, Some(content)),
        None => true,
    });
    if let Some(entry) = wrong {
        let message = format!("after the journal was lost there is something that was never there: {entry:?}");
        env.violate(ViolationKind::Safety, message);
    }
}

/// The path of a file that a client had removed or replaced, and that was found again. Perhaps no copy of it is good.
pub(crate) fn doubtful<'a>(env: &Environment, reply: &'a ClientReply) -> Option<&'a SectorPath> {
    let ClientReply::Status(status) = reply else { return None };
    match item_of(&env.model.contents, &status.entry) {
        // Leftovers of a job were removed, and may be found again.
        Some(Item::File(_)) if env.model.has_lost_journal() && is_left_over(&status.entry.path) => {
            Some(&status.entry.path)
        }
        Some(Item::File(content)) if env.model.is_doubtful(Some(content)) => Some(&status.entry.path),
        _ => None,
    }
}

/// Whether a file lies in a hidden folder of a job: no one else has such names.
fn is_left_over(path: &SectorPath) -> bool {
    path.as_str().starts_with("/out/.sphere-")
}

/// Required entries that are not among all entries: a sentence each.
pub(crate) fn missing(env: &Environment, entries: &[Entry]) -> Vec<String> {
    let Some(recovered) = &env.model.recovered else { return Vec::new() };
    let found: BTreeMap<&SectorPath, _> =
        entries.iter().map(|entry| (&entry.path, item_of(&env.model.contents, entry))).collect();
    // An abandoned write may still have been on its way to a node. Staged after the loss, it looks like an answered
    // one, and wins as the newest (`docs/decisions/0012-lost-journal.md`). The content it replaced is still owed.
    let is_newer = |path: &SectorPath, there: ContentId, content: ContentId| {
        env.model.was_begun_after(path, there, content) && recovered.could_be(path, Some(there))
    };
    let is_missing = |(path, content): &(&SectorPath, &ContentId)| match found.get(path) {
        Some(Some(Item::File(there))) => there != *content && !is_newer(path, *there, **content),
        _ => true,
    };
    let message = |(path, content): (&SectorPath, &ContentId)| {
        let there = found.get(path);
        format!("after the journal was lost {path} must hold {content:?} and there is {there:?}")
    };
    let is_folder = |path: &&SectorPath| matches!(found.get(path), Some(Some(Item::Folder)));
    let gone = recovered.folders().iter().filter(|path| !is_folder(path));
    let gone = gone.map(|path| format!("after the journal was lost the folder {path} is missing"));
    recovered.firm().iter().filter(is_missing).map(message).chain(gone).collect()
}

/// At the end: each acknowledged content is a file's, or is kept on a disk.
pub(crate) fn check_owed(env: &mut Environment, nodes: &[NodeRole], files: &BTreeMap<SliceId, SectorPath>) {
    let Some(recovered) = &env.model.recovered else { return };
    let held = nodes.iter().filter_map(|node| node.process.as_ref()).flat_map(|process| process.store.held());
    let kept: BTreeSet<_> = held.filter_map(|held| env.model.contents.find(held.metadata.digest)).collect();
    let lost: Vec<_> = recovered.owed().difference(&kept).copied().collect();
    if !lost.is_empty() {
        let count = files.len();
        let lost: Vec<_> = lost.iter().map(|id| (*id, env.model.contents.get(*id).digest)).collect();
        env.violate(
            ViolationKind::Safety,
            format!("after the journal was lost no disk has {lost:?}; there are {count} files"),
        );
    }
}
