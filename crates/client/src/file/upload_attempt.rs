//! One attempt at an upload, from the lease to the commit (path: `docs/paths/upload.md`). It first checks what an
//! earlier attempt brought, then sends the rest. It never tries again: `put` does.

use std::{
    fs::File,
    io::{self, Read, Seek},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use net::{rate_limiter::LimiterChain, transfer::TransferStream};
use protocol::{
    Digest, SectorPath,
    message::{
        client_master::{Created, Entry},
        transfer::{ResumeFrom, TransferReply, TransferRequest},
    },
};

use super::{
    TransferProgress,
    descriptor_passing::{self, PassOutcome},
    put::RetryContext,
    read_ahead::ReadAhead,
};
use crate::{Client, ClientError};

/// The source of the bytes.
pub(super) enum UploadSource<R> {
    /// Anything that can be read once.
    Stream(R),
    /// A local file, which can be read again.
    File(File),
    /// Bytes that are known by their digest.
    Known(KnownBytes<R>),
}

/// Bytes that another cloud has.
pub(super) struct KnownBytes<R> {
    pub(super) bytes: u64,
    pub(super) digest: Digest,
    /// Begins to read at this byte.
    pub(super) read_from: Box<dyn FnOnce(u64) -> R + Send>,
}

/// An upload whose lease has been given.
pub(super) struct Attempt<'a> {
    pub(super) client: &'a Client,
    pub(super) path: &'a SectorPath,
    pub(super) created: Created,
    pub(super) retry: &'a RetryContext,
    pub(super) progress: TransferProgress<'a>,
}

impl Attempt<'_> {
    /// Sends all bytes and publishes them. The lease is kept alive meanwhile, even while a node copies the beginning of
    /// an append, or other nodes sync their copies.
    pub(super) async fn run<R: Read + Send + 'static>(self, from: UploadSource<R>) -> Result<Entry, ClientError> {
        let (client, lease) = (self.client, self.created.lease);
        tokio::select! {
            entry = self.write_and_commit(from) => entry,
            error = client.keep_lease_alive(lease) => Err(error),
        }
    }

    async fn write_and_commit<R: Read + Send + 'static>(self, from: UploadSource<R>) -> Result<Entry, ClientError> {
        let Self { client, path, created, retry: tries, progress } = self;
        let what = format!("cannot write `{path}` to node {}", created.target.node);
        let from = match from {
            UploadSource::File(file) if created.base_bytes == 0 => {
                match descriptor_passing::pass_descriptor(client, &created, file, &what, tries, progress).await? {
                    PassOutcome::Stored(bytes, digest) => {
                        tries.is_commit_sent.store(true, Ordering::Relaxed);
                        return client.commit(created.lease, bytes, digest, tries.is_published_once()).await;
                    }
                    PassOutcome::NotPassed(file) => UploadSource::File(file),
                }
            }
            other => other,
        };
        let request = TransferRequest::Write { ticket: created.target.ticket.clone(), chain: created.chain };
        let pace = client.throttle().qos_per_sender(1);
        let opened = client.connections().open_reusing(None, &created.target, pace, &request).await;
        let (mut stream, reply) = opened.map_err(ClientError::net(what.clone()))?;
        let known = match &from {
            UploadSource::Known(known) => Some((known.bytes, known.digest)),
            UploadSource::Stream(_) | UploadSource::File(_) => None,
        };
        let (from, kept) = match reply {
            TransferReply::Ready => (from, None),
            TransferReply::Partial { bytes, digest } => {
                resume(&mut stream, from, (bytes, digest), &what, tries).await?
            }
            TransferReply::Refused(refusal) => {
                client.connections().release(&created.target.node, stream);
                return Err(refusal.into());
            }
            _ => return Err(ClientError::Unexpected { who: "node", request: "write" }),
        };
        let kept_bytes = kept.as_ref().map_or(0, |kept| kept.bytes);
        if kept_bytes > 0 {
            tracing::info!(%path, bytes = kept_bytes, "an earlier upload is gone on with");
            tries.kept_bytes.store(kept_bytes, Ordering::Relaxed);
            progress(kept_bytes);
        }
        let hasher = kept.and_then(|kept| kept.hasher).map(|hasher| Arc::new(Mutex::new(hasher)));
        let from = HashingReader { from: from.into_reader(kept_bytes), hasher: hasher.clone() };
        let (bytes, digest) = send(
            &mut stream,
            &client.throttle().send_limiter(),
            from,
            created.base_bytes + kept_bytes,
            &what,
            progress,
        )
        .await?;
        // Only here are all bytes known to someone who took part in both attempts.
        let is_other = |hasher: Arc<Mutex<blake3::Hasher>>| Digest(*lock(&hasher).finalize().as_bytes()) != digest;
        if hasher.is_some_and(is_other) || known.is_some_and(|known| known != (bytes, digest)) {
            return Err(ClientError::Corrupt { path: path.clone() });
        }
        tries.is_commit_sent.store(true, Ordering::Relaxed);
        let entry = client.commit(created.lease, bytes, digest, tries.is_published_once()).await?;
        client.connections().release(&created.target.node, stream);
        Ok(entry)
    }
}

/// What a node has of an earlier attempt.
struct ResumedPrefix {
    bytes: u64,
    /// Its hash; `None` where the digest of the whole is known.
    hasher: Option<blake3::Hasher>,
}

/// Compares what the node has with the file, and says from where on bytes will come.
async fn resume<R: Read + Send + 'static>(
    stream: &mut TransferStream,
    from: UploadSource<R>,
    (bytes, digest): (u64, Digest),
    what: &str,
    tries: &RetryContext,
) -> Result<(UploadSource<R>, Option<ResumedPrefix>), ClientError> {
    let (from, kept) = match from {
        UploadSource::File(file) if !tries.is_kept_untrusted.load(Ordering::Relaxed) => {
            let compared = tokio::task::spawn_blocking(move || compare(file, bytes, digest)).await;
            let compared = compared.unwrap_or_else(|_| Err(io::Error::other("the reading thread ended early")));
            let (file, hasher) = compared.map_err(|source| ClientError::Stream { what: READ, source })?;
            let kept = hasher.map(|hasher| ResumedPrefix { bytes, hasher: Some(hasher) });
            (UploadSource::File(file), kept)
        }
        // Its bytes are not read here once more: the digest of the whole shows whether they are right.
        UploadSource::Known(known) if !tries.is_kept_untrusted.load(Ordering::Relaxed) && bytes <= known.bytes => {
            (UploadSource::Known(known), Some(ResumedPrefix { bytes, hasher: None }))
        }
        other => (other, None),
    };
    let resume_from = ResumeFrom(kept.as_ref().map_or(0, |kept| kept.bytes));
    let answered = async {
        stream.send(&resume_from).await?;
        stream.receive().await
    };
    match answered.await.map_err(ClientError::net(what))? {
        TransferReply::Ready => Ok((from, kept)),
        TransferReply::Refused(refusal) => Err(refusal.into()),
        _ => Err(ClientError::Unexpected { who: "node", request: "write" }),
    }
}

/// Reads the first `bytes` of a file. The file is then positioned after them if they have this digest, and at its
/// beginning if they have another.
fn compare(mut file: File, bytes: u64, digest: Digest) -> io::Result<(File, Option<blake3::Hasher>)> {
    let mut hasher = blake3::Hasher::new();
    let read = io::copy(&mut (&mut file).take(bytes), &mut hasher)?;
    if read == bytes && Digest(*hasher.finalize().as_bytes()) == digest {
        return Ok((file, Some(hasher)));
    }
    file.rewind()?;
    Ok((file, None))
}

/// Sends all of `from` after the `before` bytes that the node has, and gives what it stored in all.
async fn send(
    stream: &mut TransferStream,
    limiter: &LimiterChain,
    from: impl Read + Send + 'static,
    before: u64,
    what: &str,
    progress: TransferProgress<'_>,
) -> Result<(u64, Digest), ClientError> {
    let mut source = ReadAhead::start(from);
    let mut sent: u64 = 0;
    while let Some(frame) = source.next().await {
        let frame = frame.map_err(|source| ClientError::Stream { what: READ, source })?;
        if let Err(error) = limiter.send_parts(stream, &frame, &[], SEND_STALL_MAX).await {
            return Err(refusal_or_error(stream, what, error).await);
        }
        sent += frame.len() as u64;
        progress(frame.len() as u64);
        source.recycle(frame);
    }
    if let Err(error) = stream.end_frames().await {
        return Err(refusal_or_error(stream, what, error).await);
    }
    match stream.receive().await.map_err(ClientError::net(what))? {
        TransferReply::Stored { bytes, digest } if bytes == before + sent => Ok((bytes, digest)),
        TransferReply::Refused(refusal) => Err(refusal.into()),
        _ => Err(ClientError::Unexpected { who: "node", request: "write" }),
    }
}

/// A node that cannot go on (its disk is full) says so and closes, but the sender sees the broken connection first.
async fn refusal_or_error(stream: &mut TransferStream, what: &str, error: net::NetError) -> ClientError {
    match tokio::time::timeout(LAST_WORD_DEADLINE, stream.receive()).await {
        Ok(Ok(TransferReply::Refused(refusal))) => refusal.into(),
        _ => ClientError::net(what)(error),
    }
}

impl<R: Read + Send + 'static> UploadSource<R> {
    /// The bytes from `at` on. A stream and a file are there already.
    fn into_reader(self, at: u64) -> Box<dyn Read + Send> {
        match self {
            Self::Stream(stream) => Box::new(stream),
            Self::File(file) => Box::new(file),
            Self::Known(known) => Box::new((known.read_from)(at)),
        }
    }
}

/// Hashes what is read, on the thread that reads it.
struct HashingReader {
    from: Box<dyn Read + Send>,
    hasher: Option<Arc<Mutex<blake3::Hasher>>>,
}

impl Read for HashingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(buffer)?;
        if let Some(hasher) = &self.hasher {
            lock(hasher).update(&buffer[..bytes]);
        }
        Ok(bytes)
    }
}

fn lock(hasher: &Mutex<blake3::Hasher>) -> std::sync::MutexGuard<'_, blake3::Hasher> {
    hasher.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The operation that is reported if a source fails.
const READ: &str = "read what is to be written";
/// How long to wait for a node's last message after something broke.
const LAST_WORD_DEADLINE: Duration = Duration::from_secs(2);
/// How long a node may accept nothing: it may wait for the next node of its chain, a disk or a limit between sites.
const SEND_STALL_MAX: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_is_gone_on_with_only_where_it_begins_as_what_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        let open = || File::open(&path).unwrap();
        let digest = |bytes: &[u8]| Digest(*blake3::hash(bytes).as_bytes());
        let rest = |mut file: File| {
            let mut rest = String::new();
            file.read_to_string(&mut rest).unwrap();
            rest
        };
        let (file, hasher) = compare(open(), 4, digest(b"0123")).unwrap();
        assert_eq!(rest(file), "456789");
        assert_eq!(hasher.unwrap().finalize(), blake3::hash(b"0123"));
        for (bytes, kept) in [(4, &b"9123"[..]), (12, b"0123456789ab"), (12, b"0123456789")] {
            let (file, hasher) = compare(open(), bytes, digest(kept)).unwrap();
            assert!(hasher.is_none(), "{kept:?}");
            assert_eq!(rest(file), "0123456789", "from its beginning");
        }
    }
}
