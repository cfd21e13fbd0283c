//! Where jobs are kept: a folder of the cloud with a folder for each job, with `job.json`, its results, and files that
//! it was sent. It belongs to the program's own user, so that a job and its results outlive the program and its
//! machine. It never shows a result to anybody: that is decided before.

use std::{io::Cursor, sync::Arc};

use bytes::Bytes;
use client::{Acl, Client, EntryKind, FileReader, FileWriter, PutOptions, SectorPath};
use futures_util::{Stream, StreamExt, stream};
use terminal::{Failure, say};
use tokio::task::JoinSet;
use vo::{Fault, uws::UwsJob};

use crate::answers::of_client;

/// The folder of jobs. Clones are the same.
#[derive(Clone)]
pub struct JobFolder {
    cloud: Client,
    folder: SectorPath,
}

impl JobFolder {
    /// Makes the folder where there is none, and closes it to all others: results have what their own users may read. If
    /// others may read one that is there, it is said.
    ///
    /// # Errors
    /// What the cloud refuses.
    pub async fn open(cloud: Client, folder: SectorPath) -> Result<Self, Failure> {
        let found = cloud.find(&folder).await?;
        if found.as_ref().is_some_and(|entry| matches!(entry.kind, EntryKind::File(_))) {
            return Err(Failure::usage(format!("`{folder}` is a file: jobs are kept in a folder")));
        }
        if found.is_none() {
            cloud.make_folder(&folder, true).await?;
            cloud.set_acl(&folder, Acl::default()).await?;
        } else if !cloud.acl(&folder).await?.effective.is_empty() {
            say!(
                "others have rights on `{folder}`, where jobs and results lie: `sector acl set {folder} none` takes them"
            );
        }
        Ok(Self { cloud, folder })
    }

    /// The jobs that are kept. One that cannot be read is left where it is, and said.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub async fn load(&self) -> Result<Vec<UwsJob>, Failure> {
        let mut folders = self.cloud.list(&self.folder).await?.into_iter();
        let (mut reading, mut jobs) = (JoinSet::new(), Vec::new());
        loop {
            while reading.len() < READ_AT_ONCE
                && let Some(entry) = folders.next()
            {
                let cloud = self.cloud.clone();
                reading.spawn(async move {
                    let path = entry.path.join(RECORD)?;
                    let (_, bytes) = cloud.read(&path, None, Vec::new(), &|_| ()).await?;
                    let job: UwsJob = serde_json::from_slice(&bytes)
                        .map_err(|error| Failure::failed(format!("`{path}` is no job: {error}")))?;
                    Ok::<_, Failure>(job)
                });
            }
            let Some(read) = reading.join_next().await else { break };
            match read.map_err(|error| Failure::failed(error.to_string()))? {
                Ok(job) => jobs.push(job),
                Err(failure) => tracing::warn!(reason = failure.message, "a job is left out"),
            }
        }
        Ok(jobs)
    }

    /// Keeps a job as it is now.
    ///
    /// # Errors
    /// What the cloud refuses.
    pub async fn save(&self, job: &UwsJob) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(job).map_err(|error| Fault::Failed(error.to_string()))?;
        self.put(&self.path(&job.id, &[RECORD])?, bytes).await
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// What the cloud refuses, and `NotFound` for what can be no name.
    pub async fn put_result(&self, job: &str, id: &str, bytes: Vec<u8>) -> Result<(), Fault> {
        self.put(&self.path(job, &[RESULTS, id])?, bytes).await
    }

    /// A result that is written bit by bit.
    ///
    /// # Errors
    /// As [`put_result`](Self::put_result).
    pub async fn create_result(&self, job: &str, id: &str) -> Result<FileWriter, Fault> {
        let options = PutOptions { parents: true, ..PutOptions::default() };
        let path = self.path(job, &[RESULTS, id])?;
        self.cloud.open_writer(&path, options, false).await.map_err(|error| of_client(&error))
    }

    /// The length of a result, and its bytes in order.
    ///
    /// # Errors
    /// If there is none, or it cannot be opened.
    pub async fn open_result(
        &self,
        job: &str,
        id: &str,
    ) -> Result<(u64, impl Stream<Item = Result<Vec<u8>, client::ClientError>> + Send + 'static), Fault> {
        let file = self.cloud.open(&self.path(job, &[RESULTS, id])?).await.map_err(|error| of_client(&error))?;
        let bytes = file.bytes();
        Ok((bytes, pieces(file)))
    }

    /// Keeps a file that a job was sent.
    ///
    /// # Errors
    /// What the cloud refuses, and `Usage` for what can be no name.
    pub async fn put_upload(&self, job: &str, name: &str, bytes: Bytes) -> Result<(), Fault> {
        self.put(&self.upload_path(job, name)?, bytes).await
    }

    /// All bytes of a file that a job was sent.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn read_upload(&self, job: &str, name: &str) -> Result<Vec<u8>, Fault> {
        let read = self.cloud.read(&self.upload_path(job, name)?, None, Vec::new(), &|_| ()).await;
        read.map_err(|error| of_client(&error)).map(|(_, bytes)| bytes)
    }

    /// Removes a job with all it has, for good.
    ///
    /// # Errors
    /// What the cloud refuses.
    pub async fn remove(&self, job: &str) -> Result<(), Fault> {
        match self.cloud.remove_now(&self.path(job, &[])?, true).await {
            Err(error) if error.reason() != client::Reason::NotFound => Err(of_client(&error)),
            _ => Ok(()),
        }
    }

    async fn put(&self, path: &SectorPath, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<(), Fault> {
        let bytes_expected = Some(bytes.as_ref().len() as u64);
        let options = PutOptions { parents: true, bytes_expected, ..PutOptions::default() };
        self.cloud.put(Cursor::new(bytes), path, &options, &|_| ()).await.map_err(|error| of_client(&error)).map(drop)
    }

    fn path(&self, job: &str, below: &[&str]) -> Result<SectorPath, Fault> {
        path_of(&self.folder, job, below)
    }

    fn upload_path(&self, job: &str, name: &str) -> Result<SectorPath, Fault> {
        upload_path_of(&self.folder, job, name)
    }
}

fn path_of(folder: &SectorPath, job: &str, below: &[&str]) -> Result<SectorPath, Fault> {
    let joined = std::iter::once(&job).chain(below).try_fold(folder.clone(), |path, name| path.join(name));
    joined.map_err(|error| Fault::NotFound(error.to_string()))
}

/// A client names its files, so that a name with a slash would lie in a folder of its choice.
fn upload_path_of(folder: &SectorPath, job: &str, name: &str) -> Result<SectorPath, Fault> {
    let refused = || Fault::Usage("a file that is sent has a name without a slash, which is no dot".into());
    if name.is_empty() || name.contains('/') {
        return Err(refused());
    }
    path_of(folder, job, &[UPLOADS, name]).map_err(|_| refused())
}

fn pieces(file: FileReader) -> impl Stream<Item = Result<Vec<u8>, client::ClientError>> + Send + 'static {
    let file = Arc::new(file);
    let starts = (0..file.bytes()).step_by(PIECE_BYTES);
    stream::iter(starts).then(move |start| {
        let file = Arc::clone(&file);
        async move { file.read_at(start, PIECE_BYTES).await }
    })
}

const RECORD: &str = "job.json";
const RESULTS: &str = "results";
const UPLOADS: &str = "uploads";
/// Records that are read at once.
const READ_AT_ONCE: usize = 32;
/// Bytes of a result that are read at once.
const PIECE_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_upload_lies_in_its_job_whatever_its_name() {
        let folder = SectorPath::parse("/jobs").unwrap();
        let path = |name: &str| upload_path_of(&folder, "a", name);
        assert_eq!(path("mine").unwrap().to_string(), "/jobs/a/uploads/mine");
        assert_eq!(path("job.json").unwrap().to_string(), "/jobs/a/uploads/job.json");
        for name in ["", ".", "..", "../job.json", "a/b", "/a", "a\0b"] {
            assert!(matches!(path(name), Err(Fault::Usage(_))), "{name:?}");
        }
    }
}
