//! The files that a command line names: of this machine, or of the cloud with `sector://` and globs. It never opens one.

use std::{num::NonZeroUsize, path::PathBuf};

use client::{Client, EntryKind, Reason, SectorPath, names::location::Location};
use terminal::{Failure, cloud_path};

use crate::{engine::EngineSettings, slices::SourceFile};

/// All files that are meant, in their order.
///
/// # Errors
/// A pattern without any file, or a folder.
pub(super) async fn expand(cloud: &Client, texts: &[String]) -> Result<Vec<SourceFile>, Failure> {
    let mut files = Vec::new();
    for text in texts {
        if Location::parse_url(text)?.is_none() {
            files.push(SourceFile::Local(PathBuf::from(text)));
            continue;
        }
        let pattern = cloud_path(text).map_err(Failure::usage)?;
        let mut count = 0;
        for entry in cloud.matching_entries(&pattern).await? {
            match &entry.kind {
                EntryKind::File(content) => {
                    files.push(SourceFile::Cloud(entry.path.clone(), content.bytes));
                    count += 1;
                }
                EntryKind::Folder => {
                    let message = format!("`{}` is a folder: write `sector:/{}/*`", entry.path, entry.path);
                    return Err(Failure::usage(message));
                }
            }
        }
        if count == 0 {
            return Err(Failure::new(Reason::NotFound, format!("there is no file `{pattern}`")).about(&pattern));
        }
    }
    Ok(files)
}

/// An engine that only reads descriptions and the ends of files.
pub(super) fn plain_settings() -> Result<EngineSettings, Failure> {
    Ok(EngineSettings {
        memory_bytes: 256 << 20,
        spill_bytes: 0,
        spill_folder: None,
        at_once: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        base: SectorPath::root(),
    })
}
