//! Names in `corrupt/`, where damaged files and those of nobody wait for the operator. It never moves a file there.

use std::{io, path::PathBuf};

use crate::{Disk, disk::is_folder, slice_store::layout::Layout};

/// A free name in `corrupt/` for a quarantined file, which keeps enough of its own name to be recognised.
pub(crate) fn quarantine_path(disk: &dyn Disk, layout: &Layout, name: &str) -> io::Result<PathBuf> {
    // The first characters only, so that every name fits the file system's limit.
    let name: String = name.trim_start_matches('.').chars().take(50).collect();
    let mut number = disk.list(&layout.corrupt)?.len();
    loop {
        let path = layout.corrupt.join(format!("{number}-{name}"));
        if disk.bytes(&path)?.is_none() && !is_folder(disk, &path) {
            return Ok(path);
        }
        number += 1;
    }
}
