//! Where the output of a job is, during the job and afterwards: it appears whole or not at all. Each run writes its
//! files into its own hidden folder beside the place. Of the run that ends well, exactly the outcome is renamed to the
//! place, in one step. [`OutputCommit`](crate::OutputCommit) decides the steps, and this file puts them into requests
//! to the master. It never sends any.

use protocol::{
    Digest, JobId, SectorPath,
    message::{
        client_master::{ClientRequest, Entry, EntryKind},
        request::{RemoveRequest, RenameRequest},
    },
    path::{JOB_NAME_PREFIX, MEMORY_FOLDER, PathError},
};
use serde::{Deserialize, Serialize};

use crate::{CommitAction, OutputEntry, part_name};

/// The paths of one job's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFolder {
    target: SectorPath,
    /// The folder that holds the target.
    parent: SectorPath,
    /// Whether an empty folder was there when the job began. Nothing else is ever removed to make room.
    was_there: bool,
}

/// A step of the output commit that the master takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// The output moves on.
    Rename(RenameRequest),
    /// Something is in its way.
    Remove(RemoveRequest),
}

impl From<NameChange> for ClientRequest {
    fn from(change: NameChange) -> Self {
        match change {
            NameChange::Rename(rename) => rename.into(),
            NameChange::Remove(remove) => remove.into(),
        }
    }
}

impl OutputFolder {
    /// The output at `target`, where there is an empty folder or nothing. `None` for a folder that is not for jobs
    /// alone.
    pub fn at(target: &SectorPath, was_there: bool) -> Option<Self> {
        let parent = target.parent()?;
        if parent.is_root() && target.name() == Some(MEMORY_FOLDER) {
            return None;
        }
        Some(Self { parent, target: target.clone(), was_there })
    }

    /// The output's place.
    pub fn target(&self) -> &SectorPath {
        &self.target
    }

    /// Whether an empty folder was in the place when the job began: nothing else is ever removed to make room.
    pub fn may_remove_target(&self) -> bool {
        self.was_there
    }

    /// Where the parts of a run are published.
    ///
    /// # Errors
    /// A path that is too long. The same holds for the other functions here.
    pub fn staging(&self, job: JobId, run: u32) -> Result<SectorPath, PathError> {
        self.sibling(&format!("{JOB_NAME_PREFIX}{job}-{run}"))
    }

    /// Where the complete output of a run is: no late commit knows of this folder.
    ///
    /// # Errors
    /// See above.
    pub fn gathered(&self, job: JobId, run: u32) -> Result<SectorPath, PathError> {
        self.sibling(&format!("{JOB_NAME_PREFIX}{job}-{run}-gathered"))
    }

    /// Where the job's journal is.
    ///
    /// # Errors
    /// See above.
    pub fn journal(&self, job: JobId) -> Result<SectorPath, PathError> {
        self.sibling(&format!("{JOB_NAME_PREFIX}{job}-journal"))
    }

    /// Where the wheels with this digest are, for all jobs that write beside here.
    ///
    /// # Errors
    /// See above.
    pub fn wheels(&self, digest: Digest) -> Result<SectorPath, PathError> {
        self.sibling(&format!("{JOB_NAME_PREFIX}wheels-{digest}"))
    }

    /// The path of an output file while the job runs.
    ///
    /// # Errors
    /// See above.
    pub fn part(&self, job: JobId, run: u32, number: u32) -> Result<SectorPath, PathError> {
        self.staging(job, run)?.join(&part_name(number))
    }

    /// The path of a file of the output, once that has its place.
    ///
    /// # Errors
    /// See above.
    pub fn file(&self, name: &str) -> Result<SectorPath, PathError> {
        self.target.join(name)
    }

    /// The request to the master for a step of the output commit; `None` for inspecting, the error slice and the end.
    ///
    /// # Errors
    /// See above.
    pub fn request(&self, job: JobId, run: u32, action: &CommitAction) -> Result<Option<NameChange>, PathError> {
        let (hidden, gathered) = (self.staging(job, run)?, self.gathered(job, run)?);
        let remove = |path, recursive| NameChange::Remove(RemoveRequest { path, recursive, now: true });
        Ok(match action {
            CommitAction::Gather => Some(NameChange::Rename(RenameRequest { from: hidden, to: gathered })),
            CommitAction::Remove(name) => Some(remove(gathered.join(name)?, true)),
            CommitAction::RemoveEmptyTarget => Some(remove(self.target.clone(), false)),
            CommitAction::Rename => Some(NameChange::Rename(RenameRequest { from: gathered, to: self.target.clone() })),
            CommitAction::Inspect | CommitAction::WriteErrors | CommitAction::Finished(_) => None,
        })
    }

    /// The folders to inspect, in the order in which the output moves: where the parts are published, where they are
    /// gathered, and the output's place.
    ///
    /// # Errors
    /// See above.
    pub fn inspected_folders(&self, job: JobId, run: u32) -> Result<[SectorPath; 3], PathError> {
        Ok([self.staging(job, run)?, self.gathered(job, run)?, self.target.clone()])
    }

    /// What the runs up to `run` may have left, to be removed when the job is over.
    ///
    /// # Errors
    /// See above.
    pub fn leftovers(&self, job: JobId, run: u32) -> Result<Vec<SectorPath>, PathError> {
        (0..=run).flat_map(|run| [self.staging(job, run), self.gathered(job, run)]).collect()
    }

    fn sibling(&self, name: &str) -> Result<SectorPath, PathError> {
        self.parent.join(name)
    }
}

impl OutputEntry {
    /// An entry of a folder, in the form that the output commit needs.
    pub fn of(entry: &Entry) -> Self {
        let (bytes, slice) = match &entry.kind {
            EntryKind::File(content) => (content.bytes, Some(content.slice)),
            EntryKind::Folder => (0, None),
        };
        Self { name: entry.path.name().unwrap_or_default().to_owned(), bytes, slice }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_run_has_a_hidden_folder_beside_the_place() {
        let folder = OutputFolder::at(&"/a/out".parse().unwrap(), false).unwrap();
        assert_eq!(folder.part(JobId(0xab), 2, 17).unwrap().as_str(), "/a/.sphere-00000000000000ab-2/part-00017");
        let folder = OutputFolder::at(&"/out".parse().unwrap(), false).unwrap();
        assert_eq!(folder.part(JobId(1), 0, 123_456).unwrap().as_str(), "/.sphere-0000000000000001-0/part-123456");
        let left = folder.leftovers(JobId(1), 1).unwrap();
        assert_eq!(left.len(), 4, "each run, hidden and gathered");
    }

    #[test]
    fn the_root_and_the_folder_of_memory_cannot_be_an_output() {
        assert_eq!(OutputFolder::at(&SectorPath::root(), false), None);
        let memory = SectorPath::root().join(MEMORY_FOLDER).unwrap();
        assert_eq!(OutputFolder::at(&memory, false), None);
        assert!(OutputFolder::at(&memory.join("out").unwrap(), false).is_some());
    }
}
