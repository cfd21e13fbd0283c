//! Upload (path: `docs/paths/upload.md`): create, send, commit. An upload that breaks off is tried again and continues
//! where it stopped, even in another process. Others see the file only after the commit and complete, never in part.

use std::{
    collections::BTreeMap,
    fs::{File, Metadata},
    io::{self, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use protocol::{
    Digest, LeaseId, Reason, RecordFraming, Refusal, ResumeKey, SectorPath, Status,
    message::{
        client_master::{Condition, CreateRequest, Created, Entry},
        request::{AbandonRequest, CommitRequest, CreateDatedRequest, RenewRequest},
    },
    status::ErrorClass,
};

use tracing::Instrument;

use super::{
    TransferProgress,
    executable::{self, is_executable_here},
    local_time::unix_millis,
    retry::{RetryState, ShownProgress, ends_lease},
    upload_attempt::{Attempt, UploadSource},
};
use crate::{Client, ClientError};

/// How a file is written.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Copies wanted in the whole cloud. `None`: as for the file that is replaced, else its folders, else the cloud.
    pub copies: Option<u8>,
    /// Copies synced to disk before [`put`](Client::put) returns. `None`: as file, folders and cloud say.
    pub sync_copies: Option<u8>,
    /// How the bytes are divided into records, for Sphere.
    pub records: RecordFraming,
    /// What must hold of the path for the write to be published.
    pub condition: Condition,
    /// Make missing parent folders.
    pub parents: bool,
    /// Length in bytes, if known: used to choose a node with room.
    pub bytes_expected: Option<u64>,
    /// Keys and values to keep with the file.
    pub user: BTreeMap<String, String>,
    /// Write at this node instead of the master's choice.
    pub at: Option<protocol::NodeId>,
    /// Counts the bytes that [`put_file`](Client::put_file) did not send because an earlier call had.
    pub kept_bytes: Option<Arc<AtomicU64>>,
}

impl Client {
    /// Writes all bytes of `from` to `path`. Returns once enough copies are synced to disk and the name is durable. On
    /// any error nothing is visible at `path` that was not there before.
    ///
    /// # Errors
    /// `Exists` or `Refused` if the condition, a right or another writer prevents it, `Unavailable` if no node has
    /// room, and errors of `from`.
    pub async fn put(
        &self,
        from: impl Read + Send + 'static,
        path: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let request = create_request(path, options);
        self.attempt_write(UploadSource::Stream(from), request, None, &RetryContext::default(), progress).await
    }

    /// [`put`](Self::put) of a local file, with the date of its last change and its executable bit. It tries again when a connection or a node
    /// fails. Each attempt continues after the bytes that arrived before, as long as their node keeps them (an hour) and
    /// the file is the same one. This includes attempts of a later call with the same file and path.
    ///
    /// # Errors
    /// As `put`. `Refused` also if another call puts the same file to the same path and takes over.
    pub async fn put_file(
        &self,
        file: &Path,
        path: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        self.write_file(file, path, options, false, progress).await
    }

    /// Appends all bytes of `from` to the file at `path`. The new version is the old one followed by the new bytes, and
    /// is published as a whole. If there is no file, one is made. The record format stays that of the old file, and so
    /// does the user metadata if `options` has none.
    ///
    /// # Errors
    /// As `put`. `Refused` also if the file got another version meanwhile, or someone else writes it.
    pub async fn append(
        &self,
        from: impl Read + Send + 'static,
        path: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let request = CreateRequest { append: true, ..create_request(path, options) };
        self.attempt_write(UploadSource::Stream(from), request, None, &RetryContext::default(), progress).await
    }

    /// [`append`](Self::append) of a local file. It tries again, from the file's beginning, as long as it is certain
    /// that nothing was appended.
    ///
    /// # Errors
    /// As `append`. Without an answer to the commit it is unknown whether the bytes were appended.
    pub async fn append_file(
        &self,
        file: &Path,
        path: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        self.write_file(file, path, options, true, progress).await
    }

    pub(crate) async fn create(&self, path: &SectorPath, options: &PutOptions) -> Result<Created, ClientError> {
        self.create_as(create_request(path, options), None).await
    }

    /// Publishes what a node has stored under a lease.
    /// `once`: where a second publication would not be as good as the first.
    pub(crate) async fn commit(
        &self,
        lease: LeaseId,
        bytes: u64,
        digest: Digest,
        once: bool,
    ) -> Result<Entry, ClientError> {
        let mut patience = protocol::limits::LEASE_LIFE;
        loop {
            let request = CommitRequest { lease, bytes, digest };
            let answer = match once {
                true => self.ask_once::<CommitRequest>(request).await,
                false => self.ask(request).await,
            };
            match answer {
                Ok(entry) => {
                    self.own_leases().remove(&lease);
                    return Ok(entry);
                }
                // The commit was not even examined, and all bytes are there: finished work is not given up for that.
                Err(error) if error.retry_after().is_some() && !patience.is_zero() => {
                    let pause = error.retry_after().unwrap_or_default().max(COMMIT_PAUSE_MIN).min(patience);
                    patience -= pause;
                    tokio::time::sleep(pause).await;
                }
                // Had it been published, the master would have answered as the first time.
                Err(ClientError::Refused(gone)) if once && gone.reason == Reason::NotFound => {
                    let message = "the file was not published: its lease ended, or the master was started again; write \
                                   the file again";
                    return Err(Refusal::new(Reason::Unavailable, message).into());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps a lease alive; ends only when the master refuses.
    pub(crate) async fn keep_lease_alive(&self, lease: LeaseId) -> ClientError {
        loop {
            tokio::time::sleep(RENEWAL_PERIOD).await;
            if let Err(error) = self.ask(RenewRequest(lease)).await
                && ends_lease(&error)
            {
                return error;
            }
        }
    }

    /// `modified`: when the file was last changed, in milliseconds since the Unix epoch; `None`: now.
    async fn create_as(&self, request: CreateRequest, modified: Option<u64>) -> Result<Created, ClientError> {
        // The obstacle may be an abandoned write of our own. If the master does not answer, the request below reports
        // that.
        let _ = tokio::time::timeout(LAST_WORD_DEADLINE, self.lease_return_lock().write()).await;
        let created = match modified {
            Some(modified_unix_millis) => {
                self.ask(CreateDatedRequest { create: request, modified_unix_millis }).await?
            }
            None => self.ask(request).await?,
        };
        self.own_leases().insert(created.lease);
        Ok(created)
    }

    async fn write_file(
        &self,
        file: &Path,
        path: &SectorPath,
        options: &PutOptions,
        append: bool,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let (tries, shown, mut attempts) = (RetryContext::default(), ShownProgress::default(), RetryState::default());
        loop {
            let (source, metadata) = open_source(file).await.map_err(ClientError::file("open", file))?;
            let mut request = CreateRequest {
                bytes_expected: Some(metadata.len()),
                resume: resume_key(file, &metadata, path).filter(|_| !append),
                append,
                ..create_request(path, options)
            };
            if !append {
                executable::note(&mut request.user, is_executable_here(&metadata));
            }
            // What a pipe brings, and what is behind an older part, changes now.
            let modified = metadata.modified().ok().filter(|_| metadata.is_file() && !append).and_then(unix_millis);
            let shown_before = shown.bytes();
            let progress = shown.next_attempt(progress);
            let source = UploadSource::File(source);
            let written = self.attempt_write::<io::Empty>(source, request.clone(), modified, &tries, &progress).await;
            let kept = tries.kept_bytes.swap(0, Ordering::Relaxed);
            if let Some(kept_bytes) = &options.kept_bytes {
                kept_bytes.fetch_add(kept.saturating_sub(shown_before), Ordering::Relaxed);
            }
            let error = match written {
                Ok(entry) => return Ok(entry),
                Err(error) => error,
            };
            // What a pipe has given is gone: the rest of it is another file.
            let can_be_read_again = metadata.is_file() || error.retry_after().is_some();
            let may_repeat = || can_be_read_again && tries.may_repeat(&error, &request);
            let Some(pause) = attempts.pause_after(&error, kept, may_repeat) else { return Err(error) };
            tracing::info!(%path, %error, "put tries again");
            self.tell_retry(path, &error, &attempts, pause);
            tokio::time::sleep(pause).await;
        }
    }

    /// One attempt. `modified` as for `create_as`.
    pub(super) async fn attempt_write<R: Read + Send + 'static>(
        &self,
        from: UploadSource<R>,
        request: CreateRequest,
        modified: Option<u64>,
        tries: &RetryContext,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let path = request.path.clone();
        let write = |created| Attempt { client: self, path: &path, created, retry: tries, progress }.run(from);
        self.under_lease(request, modified, tries, write).await
    }

    /// Runs `write` under a lease, to write and publish; gives the lease back if that fails. `modified` as for
    /// `create_as`.
    pub(super) async fn under_lease<F: Future<Output = Result<Entry, ClientError>>>(
        &self,
        request: CreateRequest,
        modified: Option<u64>,
        tries: &RetryContext,
        write: impl FnOnce(Created) -> F,
    ) -> Result<Entry, ClientError> {
        let (path, is_resumable) = (request.path.clone(), request.resume.is_some());
        tries.is_commit_sent.store(false, Ordering::Relaxed);
        // What comes from a pipe cannot be sent again.
        let is_once = request.append || request.condition != Condition::Any || request.resume.is_none();
        tries.is_published_once.store(is_once, Ordering::Relaxed);
        let created = self.create_as(request, modified).await?;
        let lease = created.lease;
        // The same slice stands in the logs of the master and the nodes.
        let span = tracing::info_span!("upload", slice = %created.slice);
        span.in_scope(|| tracing::debug!(%path, node = %created.target.node, "an upload begins"));
        let broken_off = LeaseGuard { client: self, lease };
        let written = write(created).instrument(span).await;
        std::mem::forget(broken_off);
        let error = match written {
            Ok(entry) => return Ok(entry),
            Err(error) => error,
        };
        self.own_leases().remove(&lease);
        // Best effort, and not for long: the lease also expires by itself, and it may be the master that is gone.
        let given_back = tokio::time::timeout(LAST_WORD_DEADLINE, self.ask(AbandonRequest(lease))).await;
        match (error, given_back) {
            // It had ended before. A writer that has lost its lease must not take it from its new holder.
            (ClientError::Net { .. }, Ok(Err(ClientError::Refused(gone))))
                if is_resumable
                    && gone.status() == Status::NotFound
                    && !tries.is_commit_sent.load(Ordering::Relaxed) =>
            {
                let message = format!("the right to write `{path}` has ended: the same file is being put there again");
                Err(Refusal::new(Reason::LeaseEnded, message).into())
            }
            (error, _) => Err(error),
        }
    }
}

/// Gives back the lease of a write whose future is dropped half way. So a new writer need not wait until the lease
/// expires.
struct LeaseGuard<'a> {
    client: &'a Client,
    lease: LeaseId,
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        // Without a runtime it stays among those that a logout gives back.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (client, lease) = (self.client.clone(), self.lease);
        // A create that has already begun to wait is not waiting for this one.
        let under_way = Arc::clone(client.lease_return_lock()).try_read_owned();
        runtime.spawn(async move {
            // Best effort: it expires by itself too.
            let _ = client.ask(AbandonRequest(lease)).await;
            client.own_leases().remove(&lease);
            drop(under_way);
        });
    }
}

/// State shared by the attempts at one upload.
#[derive(Debug, Default)]
pub(super) struct RetryContext {
    /// The commit has been requested: without an answer it is unknown whether it took place.
    pub(super) is_commit_sent: AtomicBool,
    /// Whether the file is published under a number.
    pub(super) is_published_once: AtomicBool,
    /// The bytes that the node kept are not to be trusted.
    pub(super) is_kept_untrusted: AtomicBool,
    /// Bytes that the node already had when the last attempt began.
    pub(super) kept_bytes: AtomicU64,
}

impl RetryContext {
    /// See [`Client::commit`].
    pub(super) fn is_published_once(&self) -> bool {
        self.is_published_once.load(Ordering::Relaxed)
    }

    /// Whether another attempt may bring what this one, which failed with `error`, did not.
    pub(super) fn may_repeat(&self, error: &ClientError, request: &CreateRequest) -> bool {
        if matches!(error, ClientError::Corrupt { .. }) {
            // Once: the file has changed meanwhile, or the node's copy of its beginning.
            return !self.is_kept_untrusted.swap(true, Ordering::Relaxed);
        }
        let may_be_published = self.is_commit_sent.load(Ordering::Relaxed) && matches!(error, ClientError::Net { .. });
        if may_be_published && (request.append || request.condition != Condition::Any) {
            // Done twice, the result would differ.
            return false;
        }
        match error.class() {
            // Nothing was begun.
            _ if error.retry_after().is_some() => true,
            ErrorClass::RetryElsewhere => true,
            ErrorClass::RetryHere => request.resume.is_some(),
            _ => false,
        }
    }
}

/// Opens what is to be written, on a thread of its own: of a pipe this waits for whoever writes to it.
async fn open_source(file: &Path) -> io::Result<(File, Metadata)> {
    let file = file.to_path_buf();
    let open = move || File::open(file).and_then(|opened| opened.metadata().map(|metadata| (opened, metadata)));
    tokio::task::spawn_blocking(open).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

pub(super) fn create_request(path: &SectorPath, options: &PutOptions) -> CreateRequest {
    CreateRequest {
        path: path.clone(),
        bytes_expected: options.bytes_expected,
        copies: options.copies,
        sync_copies: options.sync_copies,
        records: options.records,
        user: options.user.clone(),
        condition: options.condition,
        parents: options.parents,
        at: options.at.clone(),
        resume: None,
        append: false,
    }
}

/// The key of one upload, the same in every process: it identifies the local file in its current state, and the
/// destination. `None` if it is not an ordinary file: that cannot be read again.
fn resume_key(file: &Path, metadata: &Metadata, path: &SectorPath) -> Option<ResumeKey> {
    if !metadata.is_file() {
        return None;
    }
    let absolute = file.canonicalize().ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(resume_key_of(&[
        b"sector upload\0",
        absolute.as_os_str().as_encoded_bytes(),
        path.as_str().as_bytes(),
        &metadata.len().to_be_bytes(),
        &changed.as_nanos().to_be_bytes(),
    ]))
}

/// The key made from exactly these parts.
pub(super) fn resume_key_of(parts: &[&[u8]]) -> ResumeKey {
    let mut hasher = blake3::Hasher::new();
    // Each after its length, so that no other parts give the same bytes.
    for part in parts {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let mut key = [0; 16];
    hasher.finalize_xof().fill(&mut key);
    ResumeKey(u128::from_be_bytes(key))
}

/// How soon a commit that the master put off is requested again.
const COMMIT_PAUSE_MIN: Duration = Duration::from_millis(100);
/// A third of a lease's life, so that two renewals may be lost.
const RENEWAL_PERIOD: Duration = Duration::from_secs(protocol::limits::LEASE_LIFE.as_secs() / 3);
/// How long to wait for the master's last reply after something broke.
const LAST_WORD_DEADLINE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key_of(file: &Path, to: &str) -> Option<ResumeKey> {
        resume_key(file, &file.metadata().unwrap(), &SectorPath::parse(to).unwrap())
    }

    #[test]
    fn an_upload_has_the_same_key_until_file_or_destination_change() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&file, "bytes").unwrap();
        std::fs::copy(&file, &other).unwrap();
        let key = key_of(&file, "/x").unwrap();
        assert_eq!(
            key_of(&folder.path().join("../").join(folder.path().file_name().unwrap()).join("a"), "/x"),
            Some(key)
        );
        assert_ne!(key_of(&file, "/y"), Some(key));
        assert_ne!(key_of(&other, "/x"), Some(key));
        let touched = File::options().write(true).open(&file).unwrap();
        touched.set_modified(UNIX_EPOCH + Duration::from_secs(5)).unwrap();
        assert_ne!(key_of(&file, "/x"), Some(key));
        assert_eq!(key_of(folder.path(), "/x"), None, "a folder is no file");
    }

    #[test]
    fn what_may_have_been_published_is_repeated_only_where_twice_is_as_good_as_once() {
        let put = create_request(&SectorPath::parse("/x").unwrap(), &PutOptions::default());
        let append = CreateRequest { append: true, ..put.clone() };
        let absent = CreateRequest { condition: Condition::Absent, ..put.clone() };
        let lost = || {
            ClientError::net("committing")(net::NetError::Closed {
                peer: ([127, 0, 0, 1], 9).into(),
                operation: "waiting",
            })
        };
        let tries = RetryContext::default();
        assert!([&put, &append, &absent].iter().all(|request| tries.may_repeat(&lost(), request)));
        tries.is_commit_sent.store(true, Ordering::Relaxed);
        assert!(tries.may_repeat(&lost(), &put));
        assert!(!tries.may_repeat(&lost(), &append) && !tries.may_repeat(&lost(), &absent));
        // The master says that it was not published.
        let refused = ClientError::Refused(Refusal::new(Reason::Unavailable, "only 1 of 2"));
        assert!(tries.may_repeat(&refused, &append));
        let corrupt = ClientError::Corrupt { path: put.path.clone() };
        assert!(tries.may_repeat(&corrupt, &put) && !tries.may_repeat(&corrupt, &put), "once, from the beginning");
    }
}
