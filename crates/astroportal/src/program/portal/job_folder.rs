//! Where jobs are kept: a folder of the cloud with a folder for each job, which has `job.json` and its results. It belongs
//! to the portal's own user, so that a job and its results outlive the portal and the machine it runs on. It never shows a
//! result to anybody: that is decided before.

use std::{io::Cursor, sync::Arc};

use client::{Client, FileReader, FileWriter, PutOptions, SectorPath};
use futures_util::{Stream, StreamExt, stream};
use terminal::Failure;
use tokio::task::JoinSet;
use vo::{Fault, uws::UwsJob};

use super::answers::of_client;

/// The folder of jobs. Clones are the same.
#[derive(Clone)]
pub(super) struct JobFolder {
    cloud: Client,
    folder: SectorPath,
}

impl JobFolder {
    /// Makes the folder where there is none.
    pub(super) async fn open(cloud: Client, folder: SectorPath) -> Result<Self, Failure> {
        cloud.make_folder(&folder, true).await?;
        Ok(Self { cloud, folder })
    }

    /// The jobs that are kept. One that cannot be read is left where it is, and said.
    pub(super) async fn load(&self) -> Result<Vec<UwsJob>, Failure> {
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

    pub(super) async fn save(&self, job: &UwsJob) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(job).map_err(|error| Fault::Failed(error.to_string()))?;
        self.put(&self.path(&job.id, &[RECORD])?, bytes).await
    }

    pub(super) async fn put_result(&self, job: &str, id: &str, bytes: Vec<u8>) -> Result<(), Fault> {
        self.put(&self.path(job, &[RESULTS, id])?, bytes).await
    }

    /// A result that is written bit by bit.
    pub(super) async fn create_result(&self, job: &str, id: &str) -> Result<FileWriter, Fault> {
        let options = PutOptions { parents: true, ..PutOptions::default() };
        let path = self.path(job, &[RESULTS, id])?;
        self.cloud.open_writer(&path, options, false).await.map_err(|error| of_client(&error))
    }

    /// The length of a result, and its bytes in order.
    pub(super) async fn open_result(
        &self,
        job: &str,
        id: &str,
    ) -> Result<(u64, impl Stream<Item = Result<Vec<u8>, client::ClientError>> + Send + 'static), Fault> {
        let file = self.cloud.open(&self.path(job, &[RESULTS, id])?).await.map_err(|error| of_client(&error))?;
        let bytes = file.bytes();
        Ok((bytes, pieces(file)))
    }

    /// Removes a job with all it has, for good.
    pub(super) async fn remove(&self, job: &str) -> Result<(), Fault> {
        match self.cloud.remove_now(&self.path(job, &[])?, true).await {
            Err(error) if error.reason() != client::Reason::NotFound => Err(of_client(&error)),
            _ => Ok(()),
        }
    }

    async fn put(&self, path: &SectorPath, bytes: Vec<u8>) -> Result<(), Fault> {
        let options = PutOptions { parents: true, bytes_expected: Some(bytes.len() as u64), ..PutOptions::default() };
        self.cloud.put(Cursor::new(bytes), path, &options, &|_| ()).await.map_err(|error| of_client(&error)).map(drop)
    }

    fn path(&self, job: &str, below: &[&str]) -> Result<SectorPath, Fault> {
        let joined = std::iter::once(&job).chain(below).try_fold(self.folder.clone(), |path, name| path.join(name));
        joined.map_err(|error| Fault::NotFound(error.to_string()))
    }
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
/// Records that are read at once.
const READ_AT_ONCE: usize = 32;
/// Bytes of a result that are read at once.
const PIECE_BYTES: usize = 1 << 20;
