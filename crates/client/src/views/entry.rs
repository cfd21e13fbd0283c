//! Files and folders as JSON: entries, copies, what was removed, and what was replaced. They never hold bytes of a
//! file.

use serde::Serialize;

use super::rfc3339;
use crate::file::executable::is_executable;
use crate::{CopyState, CopyStatus, Entry, EntryKind, EntryStatus, FileVersion, SectorPath, TrashItem, Usage};

/// An entry as JSON (contract: `stat`).
#[derive(Serialize)]
pub struct EntryView {
    pub path: String,
    pub kind: &'static str,
    pub size_bytes: Option<u64>,
    pub version: Option<u64>,
    pub digest: Option<String>,
    pub modified: String,
    pub owner: String,
    /// Whether it has its own access list (`sector acl get`).
    pub acl: bool,
    pub records: Option<String>,
    pub copies_wanted: Option<u8>,
    /// Whether it is a program: it may be run where it comes to a disk.
    pub executable: Option<bool>,
}

impl From<&Entry> for EntryView {
    fn from(entry: &Entry) -> Self {
        let content = match &entry.kind {
            EntryKind::File(content) => Some(content),
            EntryKind::Folder => None,
        };
        Self {
            path: entry.path.to_string(),
            kind: if content.is_some() { "file" } else { "folder" },
            size_bytes: content.map(|content| content.bytes),
            version: content.map(|content| content.version.0),
            digest: content.map(|content| content.digest.to_string()),
            modified: rfc3339(entry.modified_unix_millis),
            owner: entry.owner.to_string(),
            acl: entry.has_acl,
            records: content.map(|content| content.records.to_string()),
            copies_wanted: content.map(|content| content.copies),
            executable: content.map(is_executable),
        }
    }
}

/// An entry with its copies.
#[derive(Serialize)]
pub struct StatView {
    #[serde(flatten)]
    pub entry: EntryView,
    pub copies: Vec<CopyView>,
}

/// A copy of a file.
#[derive(Serialize)]
pub struct CopyView {
    pub node: String,
    pub site: String,
    pub rack: String,
    pub state: &'static str,
}

impl From<&CopyStatus> for CopyView {
    fn from(copy: &CopyStatus) -> Self {
        let state = match copy.state {
            CopyState::Ok => "ok",
            CopyState::Writing => "writing",
            CopyState::Stale => "stale",
            CopyState::Corrupt => "corrupt",
        };
        Self { node: copy.node.to_string(), site: copy.place.site.clone(), rack: copy.place.rack.clone(), state }
    }
}

/// What lies below a folder.
#[derive(Serialize)]
pub struct UsageView {
    pub path: String,
    pub files: u64,
    pub folders: u64,
    pub bytes: u64,
}

/// Something removed, as JSON.
#[derive(Serialize)]
pub struct TrashView {
    pub path: String,
    pub trash_path: String,
    pub kind: &'static str,
    pub size_bytes: Option<u64>,
    pub user: String,
    pub removed: String,
    pub until: String,
}

/// Content that was replaced, as JSON.
#[derive(Serialize)]
pub struct VersionView {
    pub trash_path: String,
    pub version: u64,
    pub size_bytes: u64,
    pub user: String,
    pub replaced: String,
    pub replaced_by: String,
    pub until: String,
}

impl From<&EntryStatus> for StatView {
    fn from(status: &EntryStatus) -> Self {
        Self { entry: EntryView::from(&status.entry), copies: status.copies.iter().map(CopyView::from).collect() }
    }
}

impl UsageView {
    /// Of what lies at `path`.
    pub fn of(path: &SectorPath, usage: Usage) -> Self {
        let Usage { files, folders, bytes } = usage;
        Self { path: path.to_string(), files, folders, bytes }
    }
}

impl From<&TrashItem> for TrashView {
    fn from(item: &TrashItem) -> Self {
        Self {
            path: item.from.to_string(),
            trash_path: item.at.to_string(),
            kind: if item.bytes.is_some() { "file" } else { "folder" },
            size_bytes: item.bytes,
            user: item.user.to_string(),
            removed: rfc3339(item.key.removed_unix_millis),
            until: rfc3339(item.until_unix_millis),
        }
    }
}

impl From<&FileVersion> for VersionView {
    fn from(version: &FileVersion) -> Self {
        Self {
            trash_path: version.at.to_string(),
            version: version.version.0,
            size_bytes: version.bytes,
            user: version.user.to_string(),
            replaced: rfc3339(version.replaced_unix_millis),
            replaced_by: version.replaced_by.to_string(),
            until: rfc3339(version.until_unix_millis),
        }
    }
}
