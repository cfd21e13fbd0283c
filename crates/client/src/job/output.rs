//! The output folder of a job: it appears whole or not at all. Each run writes its files into a hidden folder of its own
//! beside the place; of the one that ends well exactly the outcome is renamed to it, in one step. What is done for that, and
//! what where an answer is lost, [`sphere::Reveal`] says.

use protocol::{
    JobId, Refusal, SectorPath, Status,
    message::client_master::{Entry, EntryKind},
    path::MEMORY_FOLDER,
};
use serde::{Deserialize, Serialize};
use sphere::{RevealAction, Seen, SeenFile, part_name};

use crate::{Client, ClientError};

/// Where a job's output will be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OutputFolder {
    target: SectorPath,
    /// The folder that holds the target.
    parent: SectorPath,
    /// Whether an empty folder was there when the job began. Nothing else is ever removed to make room.
    was_there: bool,
}

impl OutputFolder {
    /// Makes sure, before any work is done, that the output can have this place.
    pub(super) async fn claim(client: &Client, target: &SectorPath) -> Result<Self, ClientError> {
        let folder = Self::at(target)?;
        match client.find(target).await? {
            None => Ok(folder),
            Some(Entry { kind: EntryKind::File(_), .. }) => Err(exists(target, "is a file")),
            Some(_) if client.page(target, false, None).await?.entries.is_empty() => {
                Ok(Self { was_there: true, ..folder })
            }
            Some(_) => Err(exists(target, "is not empty")),
        }
    }

    fn at(target: &SectorPath) -> Result<Self, ClientError> {
        let own = || {
            ClientError::Usage(format!(
                "the output of a job cannot be `{target}`; give it a folder of its own below that"
            ))
        };
        let parent = target.parent().ok_or_else(own)?;
        if parent.is_root() && target.name() == Some(MEMORY_FOLDER) {
            return Err(own());
        }
        Ok(Self { parent, target: target.clone(), was_there: false })
    }

    /// The path of an output file while the job runs.
    pub(super) fn part(&self, job: JobId, run: u32, number: u32) -> Result<SectorPath, ClientError> {
        Ok(self.hidden(job, run)?.join(&part_name(number))?)
    }

    /// The entry of a part, once the output has its place.
    pub(super) fn in_place(&self, mut entry: Entry) -> Result<Entry, ClientError> {
        if let Some(name) = entry.path.name() {
            entry.path = self.target.join(name)?;
        }
        Ok(entry)
    }

    /// The path of a file beside the parts, once the output has its place.
    pub(super) fn beside(&self, name: &str) -> Result<SectorPath, ClientError> {
        Ok(self.target.join(name)?)
    }

    /// What lies in the folders of a run.
    pub(super) async fn look(&self, client: &Client, job: JobId, run: u32) -> Result<Seen, ClientError> {
        // In the order in which the output moves.
        let hidden = seen_in(client, &self.hidden(job, run)?).await?;
        let gathered = seen_in(client, &self.gathered(job, run)?).await?;
        Ok(Seen { hidden, gathered, place: seen_in(client, &self.target).await? })
    }

    /// Takes a step of the output to its place, which is neither the look nor the error slice.
    pub(super) async fn carry_out(
        &self,
        client: &Client,
        job: JobId,
        run: u32,
        action: &RevealAction,
    ) -> Result<(), ClientError> {
        let (hidden, gathered) = (self.hidden(job, run)?, self.gathered(job, run)?);
        match action {
            RevealAction::Gather => client.rename(&hidden, &gathered).await,
            RevealAction::Remove(name) => client.remove_now(&gathered.join(name)?, true).await,
            RevealAction::MakeRoom => client.remove_now(&self.target, false).await,
            RevealAction::Rename => client.rename(&gathered, &self.target).await,
            RevealAction::Look | RevealAction::WriteErrors | RevealAction::Finished(_) => Ok(()),
        }
    }

    /// Whether an empty folder was in the place when the job began: nothing else is ever removed to make room.
    pub(super) fn may_make_room(&self) -> bool {
        self.was_there
    }

    /// The path of something that is hidden beside the place while the job runs.
    pub(super) fn beside_hidden(&self, name: &str) -> Result<SectorPath, ClientError> {
        Ok(self.parent.join(name)?)
    }

    /// Removes what the runs up to `run` left, as far as that is possible now.
    pub(super) async fn clear(&self, client: &Client, job: JobId, run: u32) {
        for run in 0..=run {
            for folder in [self.hidden(job, run), self.gathered(job, run)].into_iter().flatten() {
                if let Err(error) = client.remove_now(&folder, true).await
                    && error.status() != Status::NotFound
                {
                    tracing::warn!(%folder, %error, "could not remove what a job left");
                }
            }
        }
    }

    /// Where the output of a run is once all of it is there: no commit that comes late knows of this folder.
    pub(super) fn gathered(&self, job: JobId, run: u32) -> Result<SectorPath, ClientError> {
        Ok(self.parent.join(&format!(".sphere-{job}-{run}-gathered"))?)
    }

    /// Where the parts of a run are published.
    pub(super) fn hidden(&self, job: JobId, run: u32) -> Result<SectorPath, ClientError> {
        Ok(self.parent.join(&format!(".sphere-{job}-{run}"))?)
    }
}

/// What lies in a folder; `None` where nothing is. What is no folder gives itself.
async fn seen_in(client: &Client, folder: &SectorPath) -> Result<Option<Vec<SeenFile>>, ClientError> {
    if client.find(folder).await?.is_none() {
        return Ok(None);
    }
    match client.list(folder).await {
        Ok(entries) => Ok(Some(entries.into_iter().map(seen_file).collect())),
        // It went in between.
        Err(error) if error.status() == Status::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn seen_file(entry: Entry) -> SeenFile {
    let (bytes, slice) = match &entry.kind {
        EntryKind::File(content) => (content.bytes, Some(content.slice)),
        EntryKind::Folder => (0, None),
    };
    SeenFile { name: entry.path.name().unwrap_or_default().to_owned(), bytes, slice }
}

fn exists(target: &SectorPath, why: &str) -> ClientError {
    let sentence =
        format!("the output `{target}` {why}; remove it with `sector rm -r {target}` or choose another folder");
    Refusal::new(Status::Exists, sentence).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_run_has_a_hidden_folder_beside_the_place() {
        let folder = OutputFolder::at(&"/a/out".parse().unwrap()).unwrap();
        assert_eq!(folder.part(JobId(0xab), 2, 17).unwrap().as_str(), "/a/.sphere-00000000000000ab-2/part-00017");
        let folder = OutputFolder::at(&"/out".parse().unwrap()).unwrap();
        assert_eq!(folder.part(JobId(1), 0, 123_456).unwrap().as_str(), "/.sphere-0000000000000001-0/part-123456");
    }

    #[test]
    fn the_root_cannot_be_an_output() {
        assert_eq!(OutputFolder::at(&SectorPath::root()).unwrap_err().status(), Status::Usage);
    }
}
