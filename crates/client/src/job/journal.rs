//! The journal of a detached job (path of a job, "The driver that survives"): what the job began with and all that it was
//! told, in slices of a hidden folder beside its output. Who reads it can take the job over, since a job that is told the
//! same stands where it stood ([`sphere::Event::DriverReplaced`]).
//!
//! A page is written whole or not at all, and only where none of its number is. So of two drivers that believe the job
//! theirs only one goes on writing, and the other one learns of it before it has done harm.
//!
//! It never decides when something must be written before something may be said: the driver does.

use std::{io::Cursor, time::Duration};

use protocol::{JobId, SectorPath, Status, message::client_master::Condition, wire::codec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sphere::{Event, InputFile, JobPlan, SpeNodePlan};
use tokio::time::Instant;

use super::{JobSpec, output::OutputFolder, side::PinnedFile};
use crate::{Client, ClientError, PutOptions};

/// What a job began with.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    /// What is to be run; without its inputs, which `inputs` describes.
    pub(super) spec: JobSpec,
    pub(super) plan: JobPlan,
    pub(super) inputs: Vec<InputFile>,
    pub(super) nodes: Vec<SpeNodePlan>,
    pub(super) folder: OutputFolder,
    /// The side files of each stage, in the versions that all drivers read.
    pub(super) side: Vec<Vec<PinnedFile>>,
}

/// What a job was told, and when by its clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) at: Duration,
    /// Nothing: only that so much time has passed.
    pub(super) event: Option<Event>,
}

/// See the module.
pub(super) struct Journal {
    folder: SectorPath,
    /// Copies of each page on disk before it counts as written.
    sync_copies: u8,
    /// The number of the next page.
    next: u32,
    /// What is in no page yet.
    waiting: Vec<Told>,
    /// When the last page was begun, by the job's clock.
    last_page: Duration,
}

/// A page on its way.
pub(super) struct Page {
    path: SectorPath,
    bytes: Vec<u8>,
    sync_copies: u8,
}

impl Journal {
    /// Where a job's journal is.
    pub(super) fn folder_of(output: &OutputFolder, job: JobId) -> Result<SectorPath, ClientError> {
        output.beside_hidden(&format!(".sphere-{job}-journal"))
    }

    /// Writes what a job begins with. Where that cannot be done now, whoever asked for the job hears why.
    pub(super) async fn create(client: &Client, folder: &SectorPath, head: &Head) -> Result<(), ClientError> {
        let (path, sync_copies) = (folder.join(HEAD)?, sync_copies(head));
        put(client, &Page { path, bytes: codec::encode(head), sync_copies }).await
    }

    /// Reads a job's journal: what it began with, and what it was told.
    pub(super) async fn read(client: &Client, folder: &SectorPath) -> Result<(Self, Head, Vec<Told>), ClientError> {
        let head: Head = fetch(client, &folder.join(HEAD)?).await?;
        let (mut told, mut next) = (Vec::new(), 0);
        loop {
            match fetch::<Vec<Told>>(client, &page_path(folder, next)?).await {
                Ok(page) => told.extend(page),
                Err(error) if error.status() == Status::NotFound => break,
                Err(error) => return Err(error),
            }
            next += 1;
        }
        let sync_copies = sync_copies(&head);
        let last_page = told.last().map_or(Duration::ZERO, |told: &Told| told.at);
        Ok((Self { folder: folder.clone(), sync_copies, next, waiting: Vec::new(), last_page }, head, told))
    }

    /// Notes what the job is told.
    pub(super) fn note(&mut self, told: Told) {
        self.waiting.push(told);
    }

    /// Whether it is time for a page: at first every second, and the older the job, the more seldom. A takeover then costs a
    /// two-thousandth of what is done, and the pages to be read stay a few thousand also after weeks.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_page) >= PAGE_PERIOD_MIN + self.last_page / PAGES_PER_AGE
    }

    /// What is to be written now; [`write`] must succeed before this is asked again.
    pub(super) fn next_page(&mut self) -> Result<Option<Page>, ClientError> {
        let Some(last) = self.waiting.last() else { return Ok(None) };
        self.last_page = last.at;
        let bytes = codec::encode(&std::mem::take(&mut self.waiting));
        let path = page_path(&self.folder, self.next)?;
        self.next += 1;
        Ok(Some(Page { path, bytes, sync_copies: self.sync_copies }))
    }

    /// Removes it, as far as that is possible now: the job is over.
    pub(super) async fn remove(&self, client: &Client) {
        let folder = &self.folder;
        if let Err(error) = client.remove_now(folder, true).await {
            tracing::warn!(%folder, %error, "could not remove the journal of a job");
        }
    }
}

/// Writes a page, also where the master or nodes are away for some minutes.
///
/// # Errors
/// When another driver has written a page of this number, or nothing may be written any more.
pub(super) async fn write(client: &Client, page: Page) -> Result<(), ClientError> {
    when_available(|| put(client, &page)).await
}

/// Writes a page, or says why that cannot be done now.
async fn put(client: &Client, page: &Page) -> Result<(), ClientError> {
    let Page { path, bytes, sync_copies } = page;
    let options = PutOptions {
        sync_copies: Some(*sync_copies),
        // In memory one copy is what everyone gets who says nothing.
        copies: path.is_in_memory().then_some(*sync_copies),
        condition: Condition::Absent,
        parents: true,
        ..PutOptions::default()
    };
    // Boxed: a put is far larger than all else that waits here, and its frames lie on one stack.
    match Box::pin(client.put(Cursor::new(bytes.clone()), path, &options, &|_| ())).await {
        Ok(_) => Ok(()),
        Err(error) if error.status() == Status::Exists => {
            // The news of an earlier try may have been lost on its way.
            if read(client, path).await? == *bytes { Ok(()) } else { Err(error) }
        }
        Err(error) => Err(error),
    }
}

async fn read(client: &Client, path: &SectorPath) -> Result<Vec<u8>, ClientError> {
    let (_, bytes) = Box::pin(client.read(path, None, Vec::new(), &|_| ())).await?;
    Ok(bytes)
}

/// Does something again until master and nodes are there for it, for some minutes.
async fn when_available<T, F: Future<Output = Result<T, ClientError>>>(
    mut attempt: impl FnMut() -> F,
) -> Result<T, ClientError> {
    let begun = Instant::now();
    loop {
        match attempt().await {
            Err(error) if error.status() == Status::Unavailable && begun.elapsed() < PATIENCE => {
                tracing::warn!(%error, "a page of a job's journal cannot be reached now");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

async fn fetch<T: DeserializeOwned>(client: &Client, path: &SectorPath) -> Result<T, ClientError> {
    let bytes = when_available(|| read(client, path)).await?;
    let strange =
        |error| ClientError::Usage(format!("`{path}` is no page of a job's journal of this version: {error}"));
    codec::decode(&bytes).map_err(strange)
}

fn page_path(folder: &SectorPath, number: u32) -> Result<SectorPath, ClientError> {
    Ok(folder.join(&format!("{number:08}"))?)
}

/// A page outlives the node that wrote it, where there is another.
fn sync_copies(head: &Head) -> u8 {
    if head.nodes.len() > 1 { 2 } else { 1 }
}

/// The first slice of a journal.
const HEAD: &str = "head";
/// Time between two pages of a young job.
const PAGE_PERIOD_MIN: Duration = Duration::from_millis(900);
/// Into how many parts the age of a job is divided for the time between two pages.
const PAGES_PER_AGE: u32 = 2_000;
/// How long a page is tried again: a machine is started again in less. What lay in memory is gone for good.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Pause before a page is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{
        Counters, Refusal,
        message::spe::{AttemptId, BucketId, FunctionError, PieceResult, TaskResult},
    };
    use sphere::SpeId;

    use super::*;

    #[test]
    fn pages_are_written_every_second_and_of_an_old_job_more_seldom() {
        let mut journal = Journal {
            folder: "/j".parse().unwrap(),
            sync_copies: 1,
            next: 0,
            waiting: Vec::new(),
            last_page: Duration::ZERO,
        };
        let mut pages = |until: u64| {
            let seconds = journal.last_page.as_secs() + 1..=until;
            let due = |second: &u64| {
                let at = Duration::from_secs(*second);
                journal.note(Told { at, event: None });
                journal.is_due(at) && journal.next_page().unwrap().is_some()
            };
            seconds.filter(due).count()
        };
        assert_eq!(pages(60), 60);
        let of_a_day = pages(86_400);
        assert!((3_000..8_000).contains(&of_a_day), "{of_a_day}");
        let of_a_month = pages(2_592_000);
        assert!((2_000..8_000).contains(&of_a_month), "{of_a_month}");
    }

    /// The time is the runtime's own: it stands until all wait, and then goes on at once.
    #[tokio::test(start_paused = true)]
    async fn a_page_is_tried_again_for_ten_minutes_and_then_given_up() {
        // Longer than any of it: who tries for ever is found out.
        async fn ended<T>(trying: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
            tokio::time::timeout(2 * PATIENCE, trying).await.expect("it is given up")
        }
        let away = || ClientError::from(Refusal::new(Status::Unavailable, "no copy can be read now"));
        let back = Instant::now() + PATIENCE - RETRY_PAUSE;
        let page = ended(when_available(|| async { if Instant::now() < back { Err(away()) } else { Ok("page") } }));
        assert_eq!(page.await.unwrap(), "page");
        let (begun, mut tries) = (Instant::now(), 0);
        let gone = ended(when_available(|| {
            tries += 1;
            async { Err::<(), _>(away()) }
        }));
        assert_eq!(gone.await.unwrap_err().status(), Status::Unavailable);
        assert_eq!((begun.elapsed(), tries), (PATIENCE, 601), "once a second");
    }

    #[tokio::test(start_paused = true)]
    async fn that_another_driver_has_written_a_page_is_told_at_once() {
        let begun = Instant::now();
        let taken = || async { Err::<(), _>(ClientError::from(Refusal::new(Status::Exists, "it is there"))) };
        assert_eq!(when_available(taken).await.unwrap_err().status(), Status::Exists);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    /// Each kind of news comes out as it went in: a journal that loses a word of it stands somewhere else.
    #[test]
    fn what_a_job_is_told_is_read_as_it_was_written() {
        let attempt = AttemptId { job: JobId(1), stage: 2, run: 3, task: 4, attempt: 65_540 };
        let bucket = BucketId { job: JobId(1), stage: 0, run: 0, bucket: 7, making: 2 };
        let refusal = Refusal::new(Status::Unavailable, "gone");
        let error = FunctionError {
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
            Event::InputAway { attempt, refusal },
            Event::OutOfMemory { attempt, error },
        ];
        let told: Vec<Told> = events
            .into_iter()
            .map(Some)
            .chain([None])
            .enumerate()
            .map(|(at, event)| Told { at: Duration::from_micros(at as u64), event })
            .collect();
        assert_eq!(codec::decode::<Vec<Told>>(&codec::encode(&told)).unwrap(), told);
    }
}
