//! Files of `unfinished/`, which are never visible. One that is dropped is removed. It never
//! keeps what must last: that is renamed first.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::Disk;

/// A file of `unfinished/` that is removed when this is dropped, unless it was renamed.
pub(crate) struct UnfinishedFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl UnfinishedFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { disk, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn rename(self, to: &Path) -> io::Result<()> {
        self.disk.rename(&self.path, to)
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        // The file is gone after a rename. If it cannot be removed, the next opening of the folder does it.
        let _ = self.disk.remove_file(&self.path);
    }
}
