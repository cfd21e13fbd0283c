//! Queries that take longer than a connection lasts (TAP 1.1, 2.1; UWS 1.1). The result of one is a file, `result`. It never
//! holds a result in memory.

use std::{collections::HashMap, sync::Arc};

use client::{Client, FileWriter};
use dali::{JobFolder, of_client};
use tokio::task::JoinSet;
use vo::{
    DaliParameters, Fault,
    uws::{JobResult, ResultSink, Service, UwsJob},
};

use super::{
    answering::threads,
    limits::UPLOAD_BYTES_MAX,
    query::{TapQuery, UploadedFrom},
    running::{Queries, Running, Uploads},
};

/// Does queries.
pub(super) struct Querying {
    pub(super) queries: Arc<Queries>,
    pub(super) folder: JobFolder,
}

impl Service for Querying {
    type Caller = Client;

    fn check(&self, _: &DaliParameters) -> Result<(), Fault> {
        // A job may get its parameters later, one by one. What makes no sense is its error when it runs (TAP 1.1, 3.3).
        Ok(())
    }

    async fn run(&self, caller: Client, job: UwsJob, results: ResultSink<Self>) -> Result<(), Fault> {
        if !job.results.is_empty() {
            return Ok(());
        }
        let parameters: DaliParameters = job.parameters.into_iter().collect();
        let query = TapQuery::read(&parameters)?;
        let media_type = query.format.media_type;
        let mut uploads: Uploads = HashMap::new();
        for upload in &query.uploads {
            let document = match &upload.from {
                UploadedFrom::Part(part) => self.folder.read_upload(&job.id, part).await?.into(),
                UploadedFrom::Url(url) => self.queries.fetcher.fetch(url, UPLOAD_BYTES_MAX).await?.into(),
            };
            uploads.insert(upload.table.clone(), document);
        }
        let (queries, folder, id, owner) = (Arc::clone(&self.queries), self.folder.clone(), job.id, job.owner);
        let mut task = JoinSet::new();
        // It ends with this, as the set does when it is dropped.
        task.spawn_on(
            async move {
                let running = queries.start((&caller, owner.as_deref()), &query, &uploads).await?;
                write(running, folder.create_result(&id, RESULT).await?).await
            },
            threads()?,
        );
        let ended = task.join_next().await;
        let bytes = ended.unwrap_or(Ok(Ok(0))).map_err(|error| Fault::Failed(error.to_string()))??;
        results.add(JobResult { id: RESULT.into(), media_type: media_type.into(), bytes }).await
    }

    async fn save(&self, job: &UwsJob) -> Result<(), Fault> {
        self.folder.save(job).await
    }

    async fn remove(&self, id: &str) -> Result<(), Fault> {
        self.folder.remove(id).await
    }
}

/// Writes an answer, and returns its length.
async fn write(mut running: Running, mut file: FileWriter) -> Result<u64, Fault> {
    let mut written = 0;
    while let Some(bytes) = running.next().await? {
        written += bytes.len() as u64;
        file.write(bytes).await.map_err(|error| of_client(&error))?;
    }
    file.finish().await.map_err(|error| of_client(&error))?;
    Ok(written)
}

/// What TAP calls the result of a query.
const RESULT: &str = "result";
