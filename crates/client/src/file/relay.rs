//! A copy between two clouds whose nodes may not or cannot reach each other: the bytes pass through this client (path:
//! `docs/paths/third-party-copy.md`). A few chunks wait in memory, and the slower side makes the other wait. It never
//! keeps a byte on this machine's disk.

use std::{
    io::{self, Write},
    sync::atomic::Ordering,
};

use protocol::{
    SectorPath,
    message::client_master::{CreateRequest, Entry, FileContent, Source},
};
use tokio::sync::{mpsc::Sender, oneshot};

use super::{
    TransferProgress,
    copy::resume_key,
    put::{PutOptions, RetryContext, create_request},
    retry::{RetryState, ShownProgress},
    upload_attempt::{KnownBytes, UploadSource},
    writer::{ChunkReader, UploadChunk, chunk_channel},
};
use crate::{Client, ClientError};

impl Client {
    /// Copies the file `from` of the cloud `there` through this client. It tries again as `put_file` does, and goes on
    /// after the bytes that arrived before. These may be of an earlier call, or of a node that fetched some.
    pub(super) async fn relay(
        &self,
        keeps_date: bool,
        (there, from): (&Self, &SectorPath),
        to: &SectorPath,
        options: &PutOptions,
        (shown, progress): (&ShownProgress, TransferProgress<'_>),
    ) -> Result<Entry, ClientError> {
        let (tries, mut attempts) = (RetryContext::default(), RetryState::default());
        loop {
            let (content, located) = there.locate(from).await.map_err(there.in_cloud(self))?;
            let options = PutOptions {
                records: content.records,
                user: content.user.clone(),
                bytes_expected: Some(content.bytes),
                ..options.clone()
            };
            let request = CreateRequest { resume: Some(resume_key(&content, to)), ..create_request(to, &options) };
            let shown_before = shown.bytes();
            let progress = shown.next_attempt(progress);
            let attempt = RelayAttempt {
                client: self,
                source_client: there,
                from,
                content: &content,
                modified: keeps_date.then_some(located.entry.modified_unix_millis),
                retry: &tries,
            };
            let relayed = attempt.run(located.sources, request.clone(), &progress).await;
            let kept = tries.kept_bytes.swap(0, Ordering::Relaxed);
            if let Some(kept_bytes) = &options.kept_bytes {
                kept_bytes.fetch_add(kept.saturating_sub(shown_before), Ordering::Relaxed);
            }
            let (error, failed) = match relayed {
                Ok(entry) => return Ok(entry),
                Err(RelayError::Read(error)) => (error, there.in_cloud(self)),
                Err(RelayError::Write(error)) => (error, self.in_cloud(there)),
            };
            let may_repeat = || tries.may_repeat(&error, &request);
            let Some(pause) = attempts.pause_after(&error, kept, may_repeat) else { return Err(failed(error)) };
            tracing::info!(%from, %to, %error, "a copy through this client is tried again");
            self.tell_retry(to, &error, &attempts, pause);
            tokio::time::sleep(pause).await;
        }
    }
}

/// One attempt.
struct RelayAttempt<'a> {
    client: &'a Client,
    source_client: &'a Client,
    from: &'a SectorPath,
    content: &'a FileContent,
    modified: Option<u64>,
    retry: &'a RetryContext,
}

/// Which of the two clouds failed.
enum RelayError {
    Read(ClientError),
    Write(ClientError),
}

impl RelayAttempt<'_> {
    /// Reads there what the node here lacks, while it is written here.
    async fn run(
        self,
        sources: Vec<Source>,
        request: CreateRequest,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, RelayError> {
        let Self { client, source_client, from, content, modified, retry } = self;
        let (chunks, reader) = chunk_channel();
        let (start, started) = oneshot::channel();
        let reading = async {
            // Without a start the upload has ended before.
            let Ok(start) = started.await else { return Ok(()) };
            let sink = ChunkSink(chunks);
            let range = start..content.bytes;
            let ChunkSink(chunks) = source_client.read_version((from, content), sources, range, sink, &|_| ()).await?;
            // If nothing receives it any more, the upload says why.
            let _ = chunks.send(UploadChunk::End).await;
            Ok::<(), ClientError>(())
        };
        let source: UploadSource<ChunkReader> = UploadSource::Known(KnownBytes {
            bytes: content.bytes,
            digest: content.digest,
            read_from: Box::new(move |at| begin_at(at, start, reader)),
        });
        let writing = client.attempt_write(source, request, modified, retry, progress);
        match tokio::join!(reading, writing) {
            (_, Ok(entry)) => Ok(entry),
            // A side whose partner is gone fails with an error of its stream: the partner says why.
            (Err(read), Err(_)) if !matches!(read, ClientError::Stream { .. }) => Err(RelayError::Read(read)),
            (_, Err(written)) => Err(RelayError::Write(written)),
        }
    }
}

/// Tells the reading side where to begin.
fn begin_at(at: u64, start: oneshot::Sender<u64>, reader: ChunkReader) -> ChunkReader {
    // Both sides end together: there is somebody who hears it.
    let _ = start.send(at);
    reader
}

/// Takes what was read and verified, and waits while the upload is behind.
struct ChunkSink(Sender<UploadChunk>);

impl Write for ChunkSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(UploadChunk::Bytes(bytes.to_vec()));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
