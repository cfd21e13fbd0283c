//! Where jobs keep their files: a folder on each disk of the node. It only names folders, and never touches the files
//! in them: those belong to [`BucketStore`](super::BucketStore).

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use store::DiskSet;

use crate::NodeError;

/// The folders for jobs, one a disk.
pub trait JobFolders: fmt::Debug + Send + Sync {
    /// Where a new file should be.
    fn emptiest(&self) -> Result<PathBuf, NodeError>;

    /// All of them, on the disks that work.
    fn all(&self) -> Vec<PathBuf>;

    /// The folder that contains a file: a rename to there costs nothing.
    fn of_file(&self, file: &Path) -> Option<PathBuf> {
        self.all().into_iter().find(|folder| file.starts_with(folder))
    }
}

impl JobFolders for PathBuf {
    fn emptiest(&self) -> Result<PathBuf, NodeError> {
        Ok(self.clone())
    }

    fn all(&self) -> Vec<PathBuf> {
        vec![self.clone()]
    }
}

impl JobFolders for Arc<DiskSet> {
    fn emptiest(&self) -> Result<PathBuf, NodeError> {
        Ok(self.emptiest_jobs_folder()?)
    }

    fn all(&self) -> Vec<PathBuf> {
        self.jobs_folders()
    }
}
