//! What is kept in the memory of nodes: the files below `/memory`, for as long as their node runs, a day at most unless
//! a policy says otherwise (path of a job, "Results in memory"). For the master they are files as all others, but for
//! what this page says. It serves jobs that read again and again what a job before has made.

use std::sync::LazyLock;

use protocol::{FileId, Policy, Refusal, SectorPath, Status, path::MEMORY_FOLDER};

use crate::Master;

impl Master {
    /// The folder of what is kept in memory, where there is one.
    pub(crate) fn memory_folder(&self) -> Option<FileId> {
        self.names.find(FOLDER.as_ref()?).filter(|entry| self.names.is_folder(*entry))
    }

    /// Whether a file in memory belongs to a job's output that is not complete yet, or to its journal. Its life begins
    /// when the output gets its place.
    pub(crate) fn is_unfinished_job_output(&self, file: FileId) -> bool {
        let path = self.names.path(file).filter(SectorPath::is_in_memory);
        path.is_some_and(|path| path.components().any(|name| name.starts_with(JOB_FOLDER_PREFIX)))
    }

    /// What holds for files in memory that nobody says anything else about: one copy, since a second would cost memory
    /// twice.
    pub(crate) fn memory_policy(&self) -> Policy {
        Policy {
            copies: Some(1),
            sync_copies: Some(1),
            lifetime_seconds: Some(self.config.memory_lifetime.as_secs()),
            ..Policy::default()
        }
    }
}

/// Whether a path is that of the folder itself or lies below it.
pub(crate) fn is_memory_path(path: &SectorPath) -> bool {
    path.components().next() == Some(MEMORY_FOLDER)
}

/// Refuses a file that would stand in the place of the folder.
pub(crate) fn check_memory_name(path: &SectorPath) -> Result<(), Refusal> {
    if is_memory_path(path) && !path.is_in_memory() {
        let message = format!("`{path}` is the folder of what is kept in memory; give the file a name below it");
        return Err(Refusal::new(Status::Usage, message));
    }
    Ok(())
}

/// A rename moves a name and no bytes: what is in memory stays there.
pub(crate) fn check_memory_border(from: &SectorPath, to: &SectorPath) -> Result<(), Refusal> {
    let is_whole = |path: &SectorPath| is_memory_path(path) && !path.is_in_memory();
    if is_whole(from) || is_whole(to) || from.is_in_memory() != to.is_in_memory() {
        let message = format!(
            "`{from}` cannot become `{to}`: what is below `/memory` is kept in memory, and the rest on disks; copy it with \
             `sector cp`"
        );
        return Err(Refusal::new(Status::Usage, message));
    }
    Ok(())
}

/// How the names of the folders begin in which drivers of jobs keep what is not complete.
const JOB_FOLDER_PREFIX: &str = ".sphere-";
static FOLDER: LazyLock<Option<SectorPath>> = LazyLock::new(|| SectorPath::root().join(MEMORY_FOLDER).ok());
