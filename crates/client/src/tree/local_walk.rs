//! What lies below a local folder, for uploads and comparisons (path: `docs/paths/tree.md`). A folder comes before what
//! it holds, and names are in order. It never opens a file.

use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use walkdir::{DirEntry, WalkDir};

use super::upload::LocalLinks;
use crate::file::executable::is_executable_here;

/// Something below a local folder, or the folder itself.
#[derive(Debug)]
pub(super) struct LocalItem {
    /// The local path.
    pub(super) path: PathBuf,
    /// The path below the folder; empty for the folder itself.
    pub(super) relative: PathBuf,
    pub(super) kind: LocalKind,
}

/// What something is.
#[derive(Debug)]
pub(super) enum LocalKind {
    Folder,
    File {
        bytes: u64,
        modified: Option<SystemTime>,
        is_executable: bool,
    },
    /// A link, a pipe, a socket.
    Other,
    UnreadableBytes(io::Error),
}

/// All below `folder`, after `folder` itself.
pub(super) fn walk(folder: &Path, links: LocalLinks) -> impl Iterator<Item = LocalItem> {
    let walk = WalkDir::new(folder).follow_links(links == LocalLinks::Follow).sort_by_file_name();
    let folder = folder.to_path_buf();
    walk.into_iter().map(move |item| match item {
        Ok(item) => local_item(&item, &folder),
        Err(error) => {
            let path = error.path().unwrap_or(&folder).to_path_buf();
            LocalItem { relative: below(&folder, &path), path, kind: LocalKind::UnreadableBytes(error.into()) }
        }
    })
}

fn local_item(item: &DirEntry, folder: &Path) -> LocalItem {
    // The folder itself may be a link, which was typed.
    let kind = match item.file_type() {
        _ if item.depth() == 0 => LocalKind::Folder,
        kind if kind.is_dir() => LocalKind::Folder,
        kind if kind.is_file() => {
            let metadata = item.metadata().ok();
            LocalKind::File {
                bytes: metadata.as_ref().map(std::fs::Metadata::len).unwrap_or_default(),
                is_executable: metadata.as_ref().is_some_and(is_executable_here),
                modified: metadata.and_then(|metadata| metadata.modified().ok()),
            }
        }
        _ => LocalKind::Other,
    };
    LocalItem { relative: below(folder, item.path()), path: item.path().into(), kind }
}

fn below(folder: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(folder).unwrap_or(path).into()
}
