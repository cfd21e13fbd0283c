//! Rules for files below `/memory`, which nodes keep in memory (path of a job, "Results in memory"). They live as long
//! as their node runs, and a day at most unless a policy says otherwise. Apart from these rules the master treats them
//! as other files. They serve jobs that read an earlier job's output again and again. This file never moves bytes.

use std::sync::LazyLock;

use protocol::{FileId, Policy, Reason, Refusal, SectorPath, path::MEMORY_FOLDER};

use super::Catalog;

impl Catalog {
    /// The folder of files kept in memory, if it exists.
    pub(crate) fn memory_folder(&self) -> Option<FileId> {
        self.names.find(FOLDER.as_ref()?).filter(|entry| self.names.is_folder(*entry))
    }

    /// Whether a file in memory belongs to a job's unfinished output, or to its journal. Its life begins when the
    /// output is put in place.
    pub(crate) fn is_unfinished_job_output(&self, file: FileId) -> bool {
        self.names.path(file).is_some_and(|path| path.is_in_memory() && is_in_job_folder(&path))
    }

    /// The policy for files in memory that have no other: one copy, since a second would cost twice the memory.
    pub(crate) fn memory_policy(&self) -> Policy {
        Policy {
            copies: Some(1),
            sync_copies: Some(1),
            lifetime_seconds: Some(self.config.memory_lifetime.as_secs()),
            ..Policy::default()
        }
    }
}

/// Whether a path is the folder itself or lies below it.
pub(crate) fn is_memory_path(path: &SectorPath) -> bool {
    path.components().next() == Some(MEMORY_FOLDER)
}

/// Whether a path lies in a folder in which the driver of a job keeps unfinished output.
pub(crate) fn is_in_job_folder(path: &SectorPath) -> bool {
    path.components().any(|name| name.starts_with(JOB_FOLDER_PREFIX))
}

/// Refuses a file that would take the place of the folder.
pub(crate) fn check_memory_name(path: &SectorPath) -> Result<(), Refusal> {
    if is_memory_path(path) && !path.is_in_memory() {
        let message = format!("`{path}` is the folder of what is kept in memory; give the file a name below it");
        return Err(Refusal::new(Reason::Invalid, message));
    }
    Ok(())
}

/// A rename moves a name but no bytes: files in memory stay there.
pub(crate) fn check_memory_border(from: &SectorPath, to: &SectorPath) -> Result<(), Refusal> {
    let is_whole = |path: &SectorPath| is_memory_path(path) && !path.is_in_memory();
    if is_whole(from) || is_whole(to) || from.is_in_memory() != to.is_in_memory() {
        let message = format!(
            "`{from}` cannot become `{to}`: what is below `/memory` is kept in memory, and the rest on disks; copy it with \
             `sector cp`"
        );
        return Err(Refusal::new(Reason::Invalid, message));
    }
    Ok(())
}

/// Prefix of the folders in which drivers of jobs keep unfinished output.
const JOB_FOLDER_PREFIX: &str = ".sphere-";
static FOLDER: LazyLock<Option<SectorPath>> = LazyLock::new(|| SectorPath::root().join(MEMORY_FOLDER).ok());
