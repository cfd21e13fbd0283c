//! The journal of a detached job (path of a job, "The driver that survives"). It holds what the job began with and all
//! its events ([`sphere::JournalEntry`]), in slices of a hidden folder beside its output. A job that is given the same
//! events reaches the same state ([`sphere::Replay`]), so any reader can take it over. It never decides what must be
//! written first ([`sphere::DriverCore`]), or what a refused page means ([`sphere::PageWrite`]).

use std::io::Cursor;

use net::clock::Clock;
use protocol::{Refusal, SectorPath, Status, message::client_master::Condition, wire::codec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sphere::{InputFile, JobPlan, JournalEntry, OutputFolder, PageWrite, PageWriteStep, Replay, SpeNodePlan};

use super::{JobSpec, refusals::refusal, side_files::PinnedFile};
use crate::{Client, ClientError, PutOptions};

/// What a job began with.
#[derive(Serialize, Deserialize)]
pub(super) struct JournalHead {
    /// What is to be run, without its inputs, which `inputs` describes.
    pub(super) spec: JobSpec,
    pub(super) plan: JobPlan,
    pub(super) inputs: Vec<InputFile>,
    pub(super) nodes: Vec<SpeNodePlan>,
    pub(super) folder: OutputFolder,
    /// The side files of each stage, in the versions that all drivers read.
    pub(super) side_files: Vec<Vec<PinnedFile>>,
}

/// See the module.
pub(super) struct Journal {
    folder: SectorPath,
    /// Copies of each page on disk before it counts as written.
    sync_copies: u8,
}

/// The content of a journal.
pub(super) struct ReadJournal {
    pub(super) journal: Journal,
    pub(super) spec: JobSpec,
    pub(super) side_files: Vec<Vec<PinnedFile>>,
    pub(super) folder: OutputFolder,
    /// The job, in its last known state.
    pub(super) replay: Replay,
    /// How many pages there are.
    pub(super) pages: u32,
}

/// A page to be written.
pub(super) struct PageUpload {
    path: SectorPath,
    bytes: Vec<u8>,
    sync_copies: u8,
}

impl Journal {
    /// Writes what a job begins with. If that is impossible now, the caller gets the reason.
    pub(super) async fn create(client: &Client, folder: &SectorPath, head: &JournalHead) -> Result<(), ClientError> {
        let (path, sync_copies) = (folder.join(HEAD)?, sync_copies(head));
        let page = PageUpload { path, bytes: codec::encode(head), sync_copies };
        let Err(error) = put(client, &page).await else { return Ok(()) };
        // The answer to an earlier try may have been lost on its way.
        if error.status() == Status::Exists && read(client, &page.path).await? == page.bytes {
            return Ok(());
        }
        Err(error)
    }

    /// Reads a job's journal, and gives all its events to the job. It yields to other tasks meanwhile, however long it
    /// is.
    pub(super) async fn read(client: &Client, folder: &SectorPath) -> Result<ReadJournal, ClientError> {
        let head: JournalHead = fetch_head(client, folder).await?;
        let sync_copies = sync_copies(&head);
        let JournalHead { spec, plan, inputs, nodes, folder: output, side_files: side } = head;
        let mut replay = Replay::new(plan, inputs, &nodes).map_err(|error| error.refusal())?;
        let (mut pages, mut number) = (0, 0);
        while let Some(page) = fetch_page(client, folder, pages).await? {
            for told in page {
                if number % TOLD_A_TURN == 0 {
                    tokio::task::yield_now().await;
                }
                number += 1;
                replay.apply(told);
            }
            pages += 1;
        }
        let journal = Self { folder: folder.clone(), sync_copies };
        Ok(ReadJournal { journal, spec, side_files: side, folder: output, replay, pages })
    }

    /// A page in its written form.
    pub(super) fn page(&self, page: &sphere::JournalPage) -> Result<PageUpload, ClientError> {
        let path = page_path(&self.folder, page.number)?;
        Ok(PageUpload { path, bytes: codec::encode(&page.entries), sync_copies: self.sync_copies })
    }

    /// Removes it, as far as possible now: the job is over.
    pub(super) async fn remove(&self, client: &Client) {
        let folder = &self.folder;
        if let Err(error) = client.remove_now(folder, true).await {
            tracing::warn!(%folder, %error, "could not remove the journal of a job");
        }
    }
}

/// Writes a page, even if the master or nodes are away for some minutes.
///
/// # Errors
/// When another driver has written a page of this number, or nothing may be written any more.
pub(super) async fn write(client: &Client, page: PageUpload) -> Result<(), ClientError> {
    let clock = Clock::start();
    let rules = PageWrite::new(clock.now());
    loop {
        let mut turn = rules.tried(clock.now(), put(client, &page).await.map_err(refusal));
        if let PageWriteStep::Compare(refused) = turn {
            let is_same = read(client, &page.path).await.map(|found| found == page.bytes);
            turn = rules.found(clock.now(), refused, is_same.map_err(refusal));
        }
        if let Some(ended) = wait_or_end(turn).await {
            return ended;
        }
    }
}

/// Waits if the page is to be tried again; otherwise gives how it ended.
async fn wait_or_end(turn: PageWriteStep) -> Option<Result<(), ClientError>> {
    match turn {
        PageWriteStep::Retry(pause) => {
            tracing::warn!("a page of a job's journal cannot be reached now");
            tokio::time::sleep(pause).await;
            None
        }
        PageWriteStep::Compare(refusal) => Some(Err(refusal.into())),
        PageWriteStep::Ended(result) => Some(result.map_err(Into::into)),
    }
}

/// Writes a page, or says why that is impossible now.
async fn put(client: &Client, page: &PageUpload) -> Result<(), ClientError> {
    let PageUpload { path, bytes, sync_copies } = page;
    let options = PutOptions {
        sync_copies: Some(*sync_copies),
        // In memory, one copy is the default.
        copies: path.is_in_memory().then_some(*sync_copies),
        condition: Condition::Absent,
        parents: true,
        ..PutOptions::default()
    };
    // Boxed: a put is far larger than all else that waits here, and its frames are on one stack.
    Box::pin(client.put(Cursor::new(bytes.clone()), path, &options, &|_| ())).await?;
    Ok(())
}

async fn read(client: &Client, path: &SectorPath) -> Result<Vec<u8>, ClientError> {
    let (_, bytes) = Box::pin(client.read(path, None, Vec::new(), &|_| ())).await?;
    Ok(bytes)
}

/// What the job began with.
async fn fetch_head(client: &Client, folder: &SectorPath) -> Result<JournalHead, ClientError> {
    let path = folder.join(HEAD)?;
    let rules = ReadRetry::begin();
    loop {
        match read(client, &path).await {
            Ok(bytes) => return decode(&path, &bytes),
            Err(error) => rules.wait(PageWrite::must_be_there(refusal(error))).await?,
        }
    }
}

/// A page, or `None` if the journal ends before it.
async fn fetch_page(
    client: &Client,
    folder: &SectorPath,
    number: u32,
) -> Result<Option<Vec<JournalEntry>>, ClientError> {
    let path = page_path(folder, number)?;
    let rules = ReadRetry::begin();
    loop {
        let refused = match read(client, &path).await {
            Ok(bytes) => return Ok(Some(decode(&path, &bytes)?)),
            Err(missing) if missing.status() == Status::NotFound => match client.list(folder).await {
                Ok(files) if PageWrite::is_end(number, files.iter().filter_map(|file| file.path.name())) => {
                    return Ok(None);
                }
                Ok(_) => missing,
                Err(error) => error,
            },
            Err(error) => error,
        };
        rules.wait(PageWrite::must_be_there(refusal(refused))).await?;
    }
}

/// For how long a file of a journal is read again, if the master or nodes are away.
struct ReadRetry {
    clock: Clock,
    rules: PageWrite,
}

impl ReadRetry {
    fn begin() -> Self {
        let clock = Clock::start();
        Self { rules: PageWrite::new(clock.now()), clock }
    }

    /// Waits until it is to be read again.
    ///
    /// # Errors
    /// Why it is not to be read again.
    async fn wait(&self, refused: Refusal) -> Result<(), ClientError> {
        wait_or_end(self.rules.judge(self.clock.now(), Err(refused))).await.unwrap_or(Ok(()))
    }
}

fn decode<T: DeserializeOwned>(path: &SectorPath, bytes: &[u8]) -> Result<T, ClientError> {
    let strange =
        |error| ClientError::Usage(format!("`{path}` is no page of a job's journal of this version: {error}"));
    codec::decode(bytes).map_err(strange)
}

fn page_path(folder: &SectorPath, number: u32) -> Result<SectorPath, ClientError> {
    Ok(folder.join(&format!("{number:08}"))?)
}

/// A page outlives the node that wrote it, if there is another node.
fn sync_copies(head: &JournalHead) -> u8 {
    if head.nodes.len() > 1 { 2 } else { 1 }
}

/// The first slice of a journal.
const HEAD: &str = "head";
/// Events replayed before yielding: some microseconds each.
const TOLD_A_TURN: usize = 1_024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use protocol::{
        Counters, JobId, Reason, Refusal, SliceId,
        message::spe::{AttemptId, BucketId, FunctionFailure, PieceResult, TaskResult},
    };
    use sphere::{Event, SpeId};

    use super::*;

    /// Each kind of event comes out as it went in: a journal that loses a part of one would reach another state.
    #[test]
    fn what_a_job_is_told_is_read_as_it_was_written() {
        let attempt = AttemptId { job: JobId(1), stage: 2, epoch: 3, task: 4, attempt: 65_540 };
        let bucket = BucketId { job: JobId(1), stage: 0, epoch: 0, bucket: 7, generation: 2 };
        let refusal = Refusal::new(Reason::Unavailable, "gone");
        let error = FunctionFailure {
            function: "f".into(),
            path: "/x".parse().unwrap(),
            segment: 3,
            record: Some(4),
            message: "bad".into(),
            record_start: vec![0, 255],
        };
        let pieces = vec![PieceResult { bucket: 1, bytes: 2, checksum: 3, is_delivered: true }];
        let mut counters = Counters::new();
        counters.add("lines", 4).unwrap();
        let result = TaskResult { records_in: 1, bytes_in: 2, records_out: 3, pieces, counters };
        let events = [
            Event::SpeReady(SpeId(9)),
            Event::SpeLost { spe: SpeId(9), refusal: refusal.clone() },
            Event::Progress { attempt, bytes: 5 },
            Event::TaskFinished { attempt, result },
            Event::TaskFailed { attempt, refusal: refusal.clone() },
            Event::FunctionFailed { attempt, error: error.clone() },
            Event::Delivered(attempt),
            Event::DeliveryRefused { attempt, refusal: refusal.clone() },
            Event::Sealed { bucket, bytes: 1, order: vec![3, 1] },
            Event::Published(bucket),
            Event::Fetched(bucket),
            Event::BucketRefused { bucket, refusal: refusal.clone() },
            Event::NodeLost("node-1".parse().unwrap()),
            Event::DriverReplaced,
            Event::JobRefused(refusal.clone()),
            Event::Cancelled(refusal.clone()),
            Event::InputUnavailable { attempt, refusal },
            Event::PublishedAs { bucket, slice: SliceId(u128::MAX - 1) },
            Event::OutOfMemory { attempt, error },
        ];
        let told: Vec<JournalEntry> = events
            .into_iter()
            .map(Some)
            .chain([None])
            .enumerate()
            .map(|(at, event)| JournalEntry { at: Duration::from_micros(at as u64), event })
            .collect();
        assert_eq!(codec::decode::<Vec<JournalEntry>>(&codec::encode(&told)).unwrap(), told);
    }
}
