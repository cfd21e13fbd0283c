//! The audit record on a thread of its own: appended to and synced there, read and checked there. Serves door 3. It
//! never lets a question about the record hold up what is to be recorded.

use std::{path::PathBuf, sync::Arc};

use protocol::{
    Reason, Refusal,
    message::{
        audit::{AuditHead, AuditReply, AuditRequest},
        master_security::SecurityReply,
    },
};
use rustix::fs::statvfs;
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, spawn_blocking},
};

use crate::{
    SecurityError,
    audit::{AuditLog, check_folder, read_page},
    rules::{AuditSpace, AuditWrite, AuditWriteId, SecurityCompletion},
};

/// The record, and what is being written to it.
pub(crate) struct AuditWriter {
    folder: PathBuf,
    /// `None` while it is being written to.
    log: Option<AuditLog>,
    head: AuditHead,
    writing: Option<(AuditWriteId, JoinHandle<WrittenLog>)>,
    readers: Arc<Semaphore>,
    space: AuditSpace,
}

impl AuditWriter {
    pub(crate) fn new(log: AuditLog) -> Self {
        Self {
            space: room(&log),
            folder: log.folder().to_owned(),
            head: log.head(),
            log: Some(log),
            writing: None,
            readers: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// Begins to write. The rules give one thing at a time.
    ///
    /// # Errors
    /// Where something is being written already.
    pub(crate) fn begin(&mut self, record: AuditWriteId, records: Vec<AuditWrite>) -> Result<(), SecurityError> {
        let mut log = self.log.take().ok_or(SecurityError::Panicked("wrote two things to its audit record"))?;
        let write = move || {
            let mark = log.mark();
            let written = records.into_iter().try_for_each(|record| match record {
                AuditWrite::Own(events) => log.append(events).map(drop),
                AuditWrite::Batch(batch) => log.append_batch(batch).map(drop),
            });
            let is_written = match written {
                Ok(()) => true,
                Err(error) if error.is_full() => {
                    tracing::error!(%error, "the audit record waits for room on its disk");
                    log.roll_back(mark)?;
                    false
                }
                Err(error) => return Err(error),
            };
            let room = room(&log);
            Ok((log, room, is_written))
        };
        self.writing = Some((record, spawn_blocking(write)));
        Ok(())
    }

    /// What was written, once it is; never, where nothing is. Can be cancelled without loss. On a full disk nothing was.
    ///
    /// # Errors
    /// When the disk has failed.
    pub(crate) async fn written(&mut self) -> Result<SecurityCompletion, SecurityError> {
        let Some((record, writing)) = &mut self.writing else { return std::future::pending().await };
        let (record, outcome) = (*record, writing.await);
        self.writing = None;
        let (log, room, is_written) = outcome.map_err(|_| SecurityError::Panicked("wrote its audit record"))??;
        (self.head, self.space) = (log.head(), room);
        self.log = Some(log);
        Ok(match is_written {
            true => SecurityCompletion::Recorded { record, head: self.head },
            false => SecurityCompletion::Unrecorded { record },
        })
    }

    /// How much room there was when something was last written.
    pub(crate) fn space(&self) -> AuditSpace {
        self.space
    }

    /// Whether nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_none()
    }

    /// Reads the record for an administrator.
    pub(crate) fn inspect(&self, request: AuditRequest) -> impl Future<Output = SecurityReply> + use<> {
        let (folder, own, readers) = (self.folder.clone(), self.head, Arc::clone(&self.readers));
        async move {
            let Ok(_reader) = readers.try_acquire() else {
                let message = "the audit record is being read for others; try again in a few seconds";
                return SecurityReply::Refused(Refusal::new(Reason::Busy, message));
            };
            let work = move || match request {
                AuditRequest::Show { query, .. } => read_page(&folder, &query, own.number).map(AuditReply::Page),
                AuditRequest::Verify { head, .. } => {
                    let heads: Vec<_> = head.into_iter().chain([own]).filter(|head| head.number > 0).collect();
                    check_folder(&folder, &heads, own.number).map(AuditReply::Checked)
                }
                AuditRequest::Record(_) => Err(SecurityError::Panicked("was asked to read what is to be written")),
            };
            match spawn_blocking(work).await {
                Ok(Ok(reply)) => SecurityReply::Audit(reply),
                Ok(Err(error)) => SecurityReply::Refused(Refusal::new(Reason::Failed, error.to_string())),
                Err(_) => SecurityReply::Refused(Refusal::new(Reason::Failed, "reading the audit record panicked")),
            }
        }
    }
}

/// How much room there is for the record; blocks.
fn room(log: &AuditLog) -> AuditSpace {
    let record_bytes = log.bytes();
    // A disk that does not say is taken for large enough: it says it when it is full.
    statvfs(log.folder()).map_or(AuditSpace { record_bytes, ..AuditSpace::default() }, |found| AuditSpace {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        disk_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        record_bytes,
    })
}

/// The record after something was written to it, the room that is left, and whether there was enough to write it.
type WrittenLog = Result<(AuditLog, AuditSpace, bool), SecurityError>;

/// Who reads the record at once: each may read gigabytes.
const READERS_MAX: usize = 2;
