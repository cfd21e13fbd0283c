//! Pages of a folder, ordered by path, depth first. A listing can resume after any path although names change in
//! between. Serves `ls`, `find`, job inputs. It never keeps a cursor between two pages: the last path of a page is
//! enough.

use protocol::{
    FileId, Reason, Refusal, SectorPath, limits,
    message::client_master::{Entry, EntryKind},
};

use super::{Namespace, change::folder_refusal, children::Cursor, not_found_refusal};
use crate::catalog::compact_storage::Slot;

/// A page of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListedPage {
    pub(crate) entries: Vec<Entry>,
    /// Whether more may follow.
    pub(crate) more: bool,
    /// The path to continue after, if it is not the last entry's.
    pub(crate) next: Option<SectorPath>,
}

impl Namespace {
    /// The entries below `folder` that come after `after`, and whether more follow. A folder comes before its content;
    /// siblings are ordered by name. A file lists itself.
    pub(crate) fn list(
        &self,
        folder: &SectorPath,
        recursive: bool,
        after: Option<&SectorPath>,
    ) -> Result<(Vec<Entry>, bool), Refusal> {
        self.list_filtered(folder, recursive, after, None).map(|page| (page.entries, page.more))
    }

    /// The same, limited to entries for which `is_seen` is true. Below a folder that is not seen, nothing is listed.
    pub(crate) fn list_filtered(
        &self,
        folder: &SectorPath,
        recursive: bool,
        after: Option<&SectorPath>,
        is_seen: Option<&dyn Fn(FileId) -> bool>,
    ) -> Result<ListedPage, Refusal> {
        let slot = self.find_slot(folder).ok_or_else(|| not_found_refusal(folder))?;
        let mut page = ListedPage::default();
        if !self.items.is_folder(slot) {
            // As in `ls`: a file is the listing of itself.
            page.entries.extend(if after.is_none() { self.entry_at(slot, folder.clone()) } else { None });
            return Ok(page);
        }
        let mut walk = Walk { stack: vec![Level { folder: slot, path: folder.clone(), next: Cursor::default() }] };
        if let Some(after) = after {
            self.skip(&mut walk, folder, after, recursive)?;
        }
        let (mut bytes, mut passed_over) = (0, 0);
        while let Some((child, path)) = self.step(&mut walk) {
            let is_hidden = is_seen.is_some_and(|is_seen| self.items.id(child).is_none_or(|id| !is_seen(id)));
            if is_hidden {
                passed_over += 1;
                page.next = Some(path);
                if passed_over == PASSED_OVER_MAX {
                    page.more = true;
                    break;
                }
                continue;
            }
            let Some(entry) = self.entry_at(child, path) else { continue };
            bytes += entry_bytes(&entry);
            let is_full = page.entries.len() == limits::LISTING_PAGE_ENTRIES_MAX;
            if is_full || (bytes > PAGE_BYTES_MAX && !page.entries.is_empty()) {
                page.more = true;
                break;
            }
            if recursive && self.items.is_folder(child) {
                walk.stack.push(Level { folder: child, path: entry.path.clone(), next: Cursor::default() });
            }
            page.next = None;
            page.entries.push(entry);
        }
        page.next = page.next.filter(|_| page.more);
        Ok(page)
    }

    /// Puts the walk where it was after `after`, whether or not that entry still exists.
    fn skip(&self, walk: &mut Walk, folder: &SectorPath, after: &SectorPath, recursive: bool) -> Result<(), Refusal> {
        if !after.is_within(folder) {
            return Err(Refusal::new(Reason::Invalid, format!("a listing of `{folder}` cannot go on after `{after}`")));
        }
        let levels = if recursive { usize::MAX } else { 1 };
        for name in after.components().skip(folder.components().count()).take(levels) {
            let Some(level) = walk.stack.last_mut() else { break };
            let child = self.items.child(level.folder, name);
            level.next = self.items.folder(level.folder).map_or_else(Cursor::default, |folder| {
                folder.children.after(Some(name.as_bytes()), |slot| self.items.name_bytes(slot))
            });
            match (child, level.path.join(name)) {
                (Some(child), Ok(path)) if recursive && self.items.is_folder(child) => {
                    walk.stack.push(Level { folder: child, path, next: Cursor::default() });
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// The next entry of the current folder, or of the folders above it if that has no more.
    fn step(&self, walk: &mut Walk) -> Option<(Slot, SectorPath)> {
        loop {
            let level = walk.stack.last_mut()?;
            let children = self.items.folder(level.folder).map(|folder| &folder.children);
            let Some((children, child)) = children.and_then(|children| Some((children, children.at(level.next)?)))
            else {
                walk.stack.pop();
                continue;
            };
            level.next = children.next(level.next);
            // Every path in the tree was checked when it was made, so this never skips an entry.
            let Ok(path) = level.path.join(self.items.name(child)) else { continue };
            return Some((child, path));
        }
    }

    /// The file at a path; refused for folders and for paths where nothing is.
    pub(crate) fn get_file(&self, path: &SectorPath) -> Result<FileId, Refusal> {
        let id = self.get(path)?;
        if self.is_folder(id) { Err(folder_refusal(path)) } else { Ok(id) }
    }
}

/// The position of a depth-first walk: the folders it is in.
struct Walk {
    stack: Vec<Level>,
}

/// A folder, and which of its entries is next.
struct Level {
    folder: Slot,
    path: SectorPath,
    next: Cursor,
}

/// An upper bound of an entry's length in a message, in bytes.
fn entry_bytes(entry: &Entry) -> usize {
    let user = match &entry.kind {
        EntryKind::Folder => 0,
        EntryKind::File(content) => content.user.iter().map(|(key, value)| key.len() + value.len() + 6).sum(),
    };
    entry.path.as_str().len() + user + ENTRY_FIXED_BYTES
}

/// Bytes that an entry needs besides its path and the user's keys: ids, owner, digest, and the names of the nodes
/// holding it.
const ENTRY_FIXED_BYTES: usize = 200;
/// Entries skipped for one page at most: some milliseconds of the master's time.
const PASSED_OVER_MAX: usize = 10_000;
/// Where a page ends, in bytes: half of what a message may hold, which leaves room for long names of many nodes.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
