//! The output folder of a job: it appears whole or not at all. Each run writes its files into a hidden folder of its own
//! beside the place; the one that ends well is renamed to it, in one step.

use protocol::{
    JobId, Refusal, SectorPath, Status,
    message::client_master::{Entry, EntryKind},
    path::MEMORY_FOLDER,
};
use serde::{Deserialize, Serialize};

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
        Ok(self.hidden(job, run)?.join(&format!("part-{number:05}"))?)
    }

    /// Gives the finished output of `run` its place, and the entries their paths.
    pub(super) async fn reveal(
        &self,
        client: &Client,
        job: JobId,
        run: u32,
        outputs: &mut [Entry],
    ) -> Result<(), ClientError> {
        if self.was_there {
            // It is in the way of the rename. If it was filled meanwhile, it refuses to go; if it is gone, all the better.
            match client.remove_now(&self.target, false).await {
                Err(error) if error.status() != Status::NotFound => return Err(error),
                _ => {}
            }
        }
        client.rename(&self.hidden(job, run)?, &self.target).await?;
        for entry in outputs {
            if let Some(name) = entry.path.name() {
                entry.path = self.target.join(name)?;
            }
        }
        Ok(())
    }

    /// The path of a file beside the parts, once the output has its place.
    pub(super) fn beside(&self, name: &str) -> Result<SectorPath, ClientError> {
        Ok(self.target.join(name)?)
    }

    /// Whether a run's output has got its place already, by a driver that did not live to say so: the hidden folder, which
    /// was filled, is gone, and the place is filled.
    pub(super) async fn is_revealed(&self, client: &Client, job: JobId, run: u32) -> Result<bool, ClientError> {
        if client.find(&self.hidden(job, run)?).await?.is_some() || client.find(&self.target).await?.is_none() {
            return Ok(false);
        }
        Ok(!client.page(&self.target, false, None).await?.entries.is_empty())
    }

    /// The path of something that is hidden beside the place while the job runs.
    pub(super) fn beside_hidden(&self, name: &str) -> Result<SectorPath, ClientError> {
        Ok(self.parent.join(name)?)
    }

    /// Removes what the runs up to `run` left, as far as that is possible now.
    pub(super) async fn clear(&self, client: &Client, job: JobId, run: u32) {
        for run in 0..=run {
            if let Ok(folder) = self.hidden(job, run)
                && let Err(error) = client.remove_now(&folder, true).await
                && error.status() != Status::NotFound
            {
                tracing::warn!(%folder, %error, "could not remove what a job left");
            }
        }
    }

    /// Where the output of a run is gathered.
    pub(super) fn hidden(&self, job: JobId, run: u32) -> Result<SectorPath, ClientError> {
        Ok(self.parent.join(&format!(".sphere-{job}-{run}"))?)
    }
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
