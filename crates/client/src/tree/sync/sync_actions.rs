//! What makes one folder equal to another: two listings and a filter become actions (path: `docs/paths/sync.md`). It is
//! a rule: it never asks a cloud or a disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use protocol::{Digest, RecordFraming};

use super::path_filter::PathFilter;
use crate::ClientError;

/// What a folder holds, by the path below it. The folder itself has the empty path, and is missing where it is not
/// there.
pub(super) type Listing = BTreeMap<PathBuf, ListedItem>;

/// Something in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedItem {
    Folder,
    File(FileFacts),
    /// Something that is never sent, made or removed: a link, a pipe, a socket, or what could not be read.
    Other,
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileFacts {
    pub(super) bytes: u64,
    pub(super) is_executable: bool,
    pub(super) modified_unix_millis: Option<u64>,
    /// In the cloud.
    pub(super) digest: Option<Digest>,
    /// In the cloud.
    pub(super) records: Option<RecordFraming>,
}

/// One step that makes the destination equal to the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncAction {
    /// What is done.
    pub kind: SyncActionKind,
    /// The path below source and destination.
    pub path: PathBuf,
    /// The length of the file that goes or is removed, in bytes.
    pub bytes: u64,
}

/// What is done with a path. The order is the order in which it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncActionKind {
    /// A folder is made.
    MakeFolder,
    /// A file goes that the destination lacks.
    New,
    /// A file replaces another one of its name.
    Changed,
    /// A file of the same length: their digests say whether it goes.
    Compare,
    /// A file that the source lacks is removed.
    Remove,
    /// A folder that the source lacks, and that is empty by then, is removed.
    RemoveFolder,
}

impl SyncActionKind {
    /// Its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MakeFolder => "make-folder",
            Self::New => "new",
            Self::Changed => "changed",
            Self::Compare => "compare",
            Self::Remove => "remove",
            Self::RemoveFolder => "remove-folder",
        }
    }

    /// Whether something is removed.
    pub fn is_removal(self) -> bool {
        matches!(self, Self::Remove | Self::RemoveFolder)
    }
}

/// How two folders are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    /// Files that the source lacks are removed.
    pub(super) delete: bool,
    /// Times say nothing.
    pub(super) checksum: bool,
}

/// The actions, in the order in which they are done, and by path. What source or filter do not name stays as it is.
///
/// # Errors
/// If one side has a folder where the other has a file.
pub(super) fn actions(
    from: &Listing,
    to: &Listing,
    filter: &PathFilter,
    how: Comparison,
) -> Result<Vec<SyncAction>, ClientError> {
    let mut actions = Vec::new();
    for (path, item) in from {
        let is_folder = *item == ListedItem::Folder;
        // A folder that is not selected is still made where a file in it goes.
        if !path.as_os_str().is_empty() && !filter.selects(path, is_folder) {
            continue;
        }
        let kind = match (item, to.get(path)) {
            (ListedItem::Other, _) | (ListedItem::Folder, Some(ListedItem::Folder | ListedItem::Other)) => continue,
            (ListedItem::Folder, None) => SyncActionKind::MakeFolder,
            (ListedItem::File(_), None | Some(ListedItem::Other)) => SyncActionKind::New,
            (ListedItem::File(source), Some(ListedItem::File(there))) => match compared(source, there, how.checksum) {
                Some(kind) => kind,
                None => continue,
            },
            (ListedItem::File(_), Some(ListedItem::Folder)) => return Err(conflict(path, "a file", "a folder")),
            (ListedItem::Folder, Some(ListedItem::File(_))) => return Err(conflict(path, "a folder", "a file")),
        };
        actions.push(SyncAction { kind, path: path.clone(), bytes: bytes_of(item) });
    }
    if how.delete {
        actions.extend(removals(from, to, filter));
    }
    // Of folders that are removed, those below come first: see `removals`.
    actions.sort_by_key(|action| action.kind);
    Ok(actions)
}

/// Whether a file has to go; `None`: the destination has it.
fn compared(source: &FileFacts, there: &FileFacts, checksum: bool) -> Option<SyncActionKind> {
    if (source.bytes, source.is_executable) != (there.bytes, there.is_executable) {
        return Some(SyncActionKind::Changed);
    }
    if let (Some(one), Some(other)) = (source.digest, there.digest) {
        let is_same = one == other && source.records == there.records;
        return (!is_same).then_some(SyncActionKind::Changed);
    }
    let is_dated_alike =
        source.modified_unix_millis.is_some() && source.modified_unix_millis == there.modified_unix_millis;
    (checksum || !is_dated_alike).then_some(SyncActionKind::Compare)
}

/// What the source lacks: files by path, then folders, those below before those above. A folder stays where something
/// in it does. Nobody knows what the source has below a link, or in a folder that cannot be read.
fn removals(from: &Listing, to: &Listing, filter: &PathFilter) -> Vec<SyncAction> {
    let (mut files, mut folders, mut kept) = (Vec::new(), Vec::new(), BTreeSet::new());
    let is_unknown = |path: &Path| path.ancestors().any(|above| from.get(above) == Some(&ListedItem::Other));
    // What a folder holds comes before it.
    for (path, item) in to.iter().rev() {
        let is_folder = *item == ListedItem::Folder;
        let goes = !path.as_os_str().is_empty()
            && *item != ListedItem::Other
            && !from.contains_key(path)
            && !is_unknown(path)
            && !kept.contains(path)
            && filter.selects(path, is_folder);
        if !goes {
            kept.extend(path.parent().map(Path::to_path_buf));
            continue;
        }
        let kind = if is_folder { SyncActionKind::RemoveFolder } else { SyncActionKind::Remove };
        let action = SyncAction { kind, path: path.clone(), bytes: bytes_of(item) };
        if is_folder { folders.push(action) } else { files.push(action) }
    }
    files.into_iter().rev().chain(folders).collect()
}

fn bytes_of(item: &ListedItem) -> u64 {
    match item {
        ListedItem::File(facts) => facts.bytes,
        _ => 0,
    }
}

fn conflict(path: &Path, source: &str, there: &str) -> ClientError {
    let path = path.display();
    let message = format!(
        "`{path}` is {source} in the source and {there} in the destination: nothing was done; rename or remove one of \
         them"
    );
    ClientError::Usage(message)
}

#[cfg(test)]
mod tests;
