//! Pages of a folder, ordered by path, depth first, resumable after any path although names change in between. Serves
//! `ls`, `find`, job inputs. Holds no cursor between two pages: the last path of a page is all that is needed.

use protocol::{
    FileId, Refusal, SectorPath, Status, limits,
    message::client_master::{Entry, EntryKind},
};

use super::{Namespace, change::is_a_folder, children::Cursor, nothing_at};
use crate::dense::Slot;

impl Namespace {
    /// The entries below `folder` that come after `after`, and whether more follow. A folder comes before what it
    /// holds; siblings come by name. A file gives itself.
    pub(crate) fn list(
        &self,
        folder: &SectorPath,
        recursive: bool,
        after: Option<&SectorPath>,
    ) -> Result<(Vec<Entry>, bool), Refusal> {
        let slot = self.find_slot(folder).ok_or_else(|| nothing_at(folder))?;
        if !self.items.is_folder(slot) {
            // As `ls` has it: a file is the listing of itself.
            let file = if after.is_none() { self.entry_at(slot, folder.clone()) } else { None };
            return Ok((file.into_iter().collect(), false));
        }
        let mut walk = Walk { stack: vec![Level { folder: slot, path: folder.clone(), next: Cursor::default() }] };
        if let Some(after) = after {
            self.skip(&mut walk, folder, after, recursive)?;
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(entry) = self.step(&mut walk, recursive) {
            bytes += entry_bytes(&entry);
            if entries.len() == limits::LISTING_PAGE_ENTRIES_MAX || (bytes > PAGE_BYTES_MAX && !entries.is_empty()) {
                return Ok((entries, true));
            }
            entries.push(entry);
        }
        Ok((entries, false))
    }

    /// Puts the walk where it was after `after`, whether or not that still exists.
    fn skip(&self, walk: &mut Walk, folder: &SectorPath, after: &SectorPath, recursive: bool) -> Result<(), Refusal> {
        if !after.is_within(folder) {
            return Err(Refusal::new(Status::Usage, format!("a listing of `{folder}` cannot go on after `{after}`")));
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

    fn step(&self, walk: &mut Walk, recursive: bool) -> Option<Entry> {
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
            if recursive && self.items.is_folder(child) {
                walk.stack.push(Level { folder: child, path: path.clone(), next: Cursor::default() });
            }
            return self.entry_at(child, path);
        }
    }

    /// The file at a path; refused for folders and where nothing is.
    pub(crate) fn get_file(&self, path: &SectorPath) -> Result<FileId, Refusal> {
        let id = self.get(path)?;
        if self.is_folder(id) { Err(is_a_folder(path)) } else { Ok(id) }
    }
}

/// Where a depth-first walk stands: the folders it is in.
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

/// What an entry needs beside its path and the user's keys, in bytes: ids, owner, digest, and the names of the nodes
/// that hold it.
const ENTRY_FIXED_BYTES: usize = 200;
/// Where a page ends, in bytes: half of what a message may hold, which leaves room for long names of many nodes.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
