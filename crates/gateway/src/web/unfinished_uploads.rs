//! The unfinished uploads of a session. A task of its own writes each file, so a request that breaks off half way loses
//! nothing. One that nobody continues for an hour is given up. It never shows a file before it is finished.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use client::{ClientError, Entry, FileWriter, Reason, Refusal, SectorPath};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{answer::ApiError, secret::new_secret};

/// The unfinished uploads of a session.
#[derive(Default)]
pub(super) struct Uploads {
    table: Mutex<HashMap<String, Arc<Upload>>>,
}

/// One of them, as requests see it.
pub(super) struct Upload {
    pub(super) path: SectorPath,
    pub(super) bytes: u64,
    steps: mpsc::Sender<Step>,
}

/// What its task does.
enum Step {
    /// Write these bytes, if as many as `at` have arrived.
    Write { at: u64, piece: Bytes },
    /// Say how many bytes have arrived, after all that was asked before.
    Arrived(oneshot::Sender<Result<u64, ApiError>>),
    /// Publish the file.
    Finish(oneshot::Sender<Result<Entry, ApiError>>),
    /// Give it up.
    Discard,
}

impl Uploads {
    pub(super) fn is_empty(&self) -> bool {
        self.lock().values().all(|upload| upload.steps.is_closed())
    }

    /// Begins one, of so many bytes, and gives its id.
    pub(super) fn begin(&self, writer: FileWriter, bytes: u64) -> Result<String, ApiError> {
        let path = writer.path().clone();
        let mut table = self.lock();
        table.retain(|_, upload| !upload.steps.is_closed());
        if table.len() >= UPLOADS_MAX {
            let message = format!("{UPLOADS_MAX} uploads are under way already; finish one first");
            return Err(Refusal::new(Reason::LimitReached, message).into());
        }
        let id = new_secret();
        let (steps, asked) = mpsc::channel(STEPS_WAITING_MAX);
        tokio::spawn(write(writer, path.clone(), asked));
        table.insert(id.clone(), Arc::new(Upload { path, bytes, steps }));
        Ok(id)
    }

    pub(super) fn get(&self, id: &str) -> Result<Arc<Upload>, ApiError> {
        let gone = || Refusal::new(Reason::NotFound, "there is no such upload (any more); begin it anew");
        Ok(self.lock().get(id).cloned().ok_or_else(gone)?)
    }

    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Upload>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    async fn step(&self, step: Step) -> Result<(), ApiError> {
        self.steps.send(step).await.map_err(|_| ended(&self.path))
    }

    /// Writes these bytes, if as many as `at` have arrived.
    pub(super) async fn write(&self, at: u64, piece: Bytes) -> Result<(), ApiError> {
        self.step(Step::Write { at, piece }).await
    }

    /// Publishes the file.
    pub(super) async fn finish(&self) -> Result<Entry, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.step(Step::Finish(reply)).await?;
        answer.await.map_err(|_| ended(&self.path))?
    }

    /// Gives it up. One that has ended by itself needs no end.
    pub(super) async fn discard(&self) {
        let _ = self.step(Step::Discard).await;
    }

    /// How many bytes have arrived, after all that was asked before.
    pub(super) async fn arrived(&self) -> Result<u64, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.step(Step::Arrived(reply)).await?;
        answer.await.map_err(|_| ended(&self.path))?
    }
}

/// Writes one file, step by step, until it is finished, given up or forgotten.
async fn write(mut writer: FileWriter, path: SectorPath, mut steps: mpsc::Receiver<Step>) {
    let (mut arrived, mut failure): (u64, Option<ClientError>) = (0, None);
    loop {
        match timeout(IDLE_MAX, steps.recv()).await {
            Ok(Some(Step::Write { at, piece })) if at == arrived && failure.is_none() => {
                let bytes = piece.len() as u64;
                match writer.write(piece).await {
                    Ok(()) => arrived += bytes,
                    Err(error) => failure = Some(error),
                }
            }
            // Of a request that another one has overtaken, or after the file has failed.
            Ok(Some(Step::Write { .. })) => {}
            Ok(Some(Step::Arrived(reply))) => {
                let answer = match failure.take() {
                    None => Ok(arrived),
                    Some(error) => {
                        // Told once, and then the upload is gone.
                        let _ = reply.send(Err(ApiError::from(error).about(&path)));
                        break;
                    }
                };
                // A request that was cut waits for no answer.
                let _ = reply.send(answer);
            }
            Ok(Some(Step::Finish(reply))) => {
                let entry = writer.finish().await.map_err(|error| ApiError::from(error).about(&path));
                let _ = reply.send(entry);
                return;
            }
            Ok(Some(Step::Discard) | None) | Err(_) => break,
        }
    }
    writer.discard().await;
}

fn ended(path: &SectorPath) -> ApiError {
    let message = format!("the upload of `{path}` has ended; begin it anew");
    ApiError::from(Refusal::new(Reason::NotFound, message)).about(path)
}

/// Uploads of one session at once.
const UPLOADS_MAX: usize = 32;
/// Pieces that wait for the cloud; a faster browser waits. The network's buffers bound a piece to some hundred kilobytes.
const STEPS_WAITING_MAX: usize = 8;
/// How long an upload waits for its browser.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
