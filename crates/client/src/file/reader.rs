//! Random reads (path *download*): a file is located once, and then read in small pieces, millions of them. On the
//! file's own machine a read is one system call and a checksum. Elsewhere it is a round trip over a kept connection to
//! a node that has the slice open. It keeps the version it opened, or fails: it never mixes versions, and never gives
//! out a byte that was not verified.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use net::{
    NetError,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    NodeId, SectorPath, SliceId, limits,
    message::{
        byte_runs::ByteRuns,
        client_master::{Entry, FileContent, Located, Source},
        transfer::{TransferReply, TransferRequest},
    },
    ticket::SignedTicket,
    topology::Distance,
};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use super::{
    checksummed_file::UnreadableBytes,
    fetch::STALL_MAX,
    local_slice::LocalSlice,
    source_failover::{LastFailure, PreferredSource, SourceRounds},
    source_list::SourceList,
};
use crate::{Client, ClientError};

/// An open file. Clones share it, and may read at the same time.
#[derive(Clone)]
pub struct FileReader {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    path: SectorPath,
    entry: Entry,
    content: FileContent,
    /// The slice on this machine, as long as that works.
    local: RwLock<Option<LocalSlice>>,
    sources: SourceList,
    preferred: PreferredSource,
    /// Connections on which a node has the slice open.
    idle_connections: Mutex<Vec<(NodeId, TransferStream)>>,
    /// Reads over the network at once.
    permits: Semaphore,
}

impl Client {
    /// Opens a file for random reads: [`FileReader::read_at`] gives bytes of the version at the time of opening.
    ///
    /// ```no_run
    /// # async fn example(cloud: client::Client) -> Result<(), client::ClientError> {
    /// let file = cloud.open(&client::SectorPath::parse("/sky/catalogue.dat")?).await?;
    /// let record = file.read_at(1_000_000 * 64, 64).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no file, `IsFolder` for a folder.
    pub async fn open(&self, path: &SectorPath) -> Result<FileReader, ClientError> {
        let (content, located) = self.locate(path).await?;
        Ok(self.open_located(path, content, located).await)
    }

    /// Opens the path of an open file again. `None` if it still has the content that is open, and this session opened it.
    /// Then `known` is as good as a new one, and has its connections already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn reopen(&self, known: &FileReader) -> Result<Option<FileReader>, ClientError> {
        let path = &known.inner.path;
        let (content, located) = self.locate(path).await?;
        if content.slice == known.inner.content.slice && self.is_same_session(&known.inner.client) {
            known.inner.sources.replace(located.sources);
            return Ok(None);
        }
        Ok(Some(self.open_located(path, content, located).await))
    }

    async fn open_located(&self, path: &SectorPath, content: FileContent, located: Located) -> FileReader {
        let local = match self.local_sockets() {
            Some(doors) => LocalSlice::open(doors, &located.sources, &content).await,
            None => None,
        };
        let inner = Inner {
            client: self.clone(),
            path: path.clone(),
            entry: located.entry,
            sources: SourceList::new(path.clone(), content.slice, located.sources),
            content,
            local: RwLock::new(local),
            preferred: PreferredSource::default(),
            idle_connections: Mutex::default(),
            permits: Semaphore::new(CONNECTIONS_MAX),
        };
        FileReader { inner: Arc::new(inner) }
    }
}

impl FileReader {
    /// The file as it was when it was opened.
    pub fn entry(&self) -> &Entry {
        &self.inner.entry
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.content.bytes
    }

    /// How far away the node is that bytes come from now; `None` where the master does not know this client's place.
    pub fn distance(&self) -> Option<Distance> {
        if self.is_local() {
            return Some(Distance::SameNode);
        }
        let sources = self.inner.sources.known();
        let at = self.inner.preferred.order(sources.len()).next()?;
        sources[at].distance
    }

    /// `bytes` bytes from `offset` on: fewer at the file's end, none after it.
    ///
    /// # Errors
    /// `NoCopy` (exit code 5) when no node has them any more, possibly because the file was replaced.
    pub async fn read_at(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, ClientError> {
        let range = offset..offset.saturating_add(bytes as u64).min(self.inner.content.bytes);
        if range.start >= range.end {
            return Ok(Vec::new());
        }
        let local = self.inner.local.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(slice) = local {
            match read_here(&slice, &range).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => self.disable_local(&slice, error).await,
            }
        }
        self.inner.read_remote(Wanted::Range(range)).await
    }

    /// The bytes of runs, one after the other, all of which must lie within the file. Over the network they are one round
    /// trip, and nothing between them is sent.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); `Usage` for runs that are not in the file, or more than one request may ask for
    /// ([`ByteRuns::range`]).
    pub async fn read_runs(&self, runs: &ByteRuns) -> Result<Vec<u8>, ClientError> {
        let range = runs.range().map_err(|why| ClientError::Usage(why.into()))?;
        if range.end > self.inner.content.bytes {
            let message = format!("`{}` has {} bytes", self.inner.path, self.inner.content.bytes);
            return Err(ClientError::Usage(message));
        }
        if !self.is_local() {
            return self.inner.read_remote(Wanted::Runs(*runs)).await;
        }
        let (mut bytes, mut rest) = (Vec::new(), Some(*runs));
        while let Some(left) = rest {
            let (first, others) = left.split_first();
            let span_bytes = (first.runs - 1) * first.stride_bytes + first.run_bytes;
            first.pick(&self.read_at(first.from, span_bytes as usize).await?, &mut bytes);
            rest = others;
        }
        Ok(bytes)
    }

    fn is_local(&self) -> bool {
        self.inner.local.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Uses the network from now on.
    async fn disable_local(&self, slice: &LocalSlice, error: UnreadableBytes) {
        // Only the first of several readers that see the same reports it.
        if self.inner.local.write().unwrap_or_else(PoisonError::into_inner).take().is_none() {
            return;
        }
        match error {
            UnreadableBytes::BadBlock(at) => slice.report_bad(at).await,
            UnreadableBytes::Io(error) => {
                tracing::info!(path = %self.inner.path, %error, "no longer read on this machine")
            }
        }
    }
}

/// Bytes of the file.
#[derive(Clone)]
enum Wanted {
    Range(Range<u64>),
    Runs(ByteRuns),
}

impl Wanted {
    fn bytes(&self) -> u64 {
        match self {
            Self::Range(range) => range.end - range.start,
            Self::Runs(runs) => runs.bytes(),
        }
    }

    fn request(&self, ticket: SignedTicket, slice: SliceId) -> TransferRequest {
        match self {
            Self::Range(range) => TransferRequest::Read { ticket, slice, from: range.start, until: range.end },
            Self::Runs(runs) => TransferRequest::ReadRuns { ticket, slice, runs: *runs },
        }
    }
}

impl Inner {
    /// Reads from the source that worked last, else from the others, and then once more from those that the master
    /// names then.
    async fn read_remote(&self, wanted: Wanted) -> Result<Vec<u8>, ClientError> {
        let Ok(_turn) = self.permits.acquire().await else {
            return Err(ClientError::NoCopy { path: self.path.clone(), last: "the file was closed".into() });
        };
        let (mut failures, mut rounds) = (LastFailure::new(&self.path), SourceRounds::Left(FURTHER_ROUNDS_MAX));
        let mut sources = self.sources.current(&self.client).await;
        loop {
            for at in self.preferred.order(sources.len()) {
                let node = &sources[at].node;
                match timeout(STALL_MAX, self.read_from(&sources[at], &wanted)).await {
                    Ok(Ok(bytes)) => {
                        self.client.throttle().acquire(bytes.len() as u64).await;
                        self.preferred.note_success(at);
                        return Ok(bytes);
                    }
                    Ok(Err(error)) => failures.note(node, &error),
                    Err(_) => failures.note(node, &format_args!("node {node} keeps still")),
                }
            }
            if !rounds.begin_another(wanted.bytes()) {
                break;
            }
            match self.sources.ask(&self.client).await? {
                Some(now) => sources = now,
                None => break,
            }
        }
        Err(failures.into_error())
    }

    async fn read_from(&self, source: &Source, wanted: &Wanted) -> Result<Vec<u8>, ClientError> {
        let failed = || ClientError::net(format!("cannot read from node {}", source.node));
        let bytes = wanted.bytes();
        let request = wanted.request(source.ticket.clone(), self.content.slice);
        let line = self.take_connection(&source.node);
        let pace = self.client.throttle().qos_per_sender(1);
        let opened = self.client.connections().open_reusing(line, source, pace, &request).await.map_err(failed())?;
        let mut stream = match opened {
            (stream, TransferReply::Reading { bytes: announced }) if announced == bytes => stream,
            (stream, TransferReply::Refused(refusal)) => {
                // Useful for other files: only connections whose node has this slice open are kept here.
                self.client.connections().release(&source.node, stream);
                return Err(refusal.into());
            }
            _ => return Err(ClientError::Unexpected { who: "node", request: "read" }),
        };
        let mut content = Vec::new();
        let mut frame = StreamFrame::default();
        while stream.receive_frame(&mut frame).await.map_err(failed())? {
            if content.is_empty() {
                // Most reads are one frame: its memory is the answer.
                std::mem::swap(&mut content, &mut frame.payload);
            } else {
                content.extend_from_slice(&frame.payload);
            }
            if content.len() as u64 > bytes {
                return Err(ClientError::Unexpected { who: "node", request: "read" });
            }
        }
        if (content.len() as u64) < bytes {
            return Err(failed()(NetError::Closed { peer: source.address, operation: "reading a file" }));
        }
        self.return_connection(&source.node, stream);
        Ok(content)
    }

    fn take_connection(&self, node: &NodeId) -> Option<TransferStream> {
        let mut lines = self.idle_connections.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lines.iter().rposition(|(of, _)| of == node)?;
        Some(lines.swap_remove(at).1)
    }

    fn return_connection(&self, node: &NodeId, stream: TransferStream) {
        let mut lines = self.idle_connections.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < CONNECTIONS_MAX {
            lines.push((node.clone(), stream));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Other files may be read over them.
        for (node, stream) in std::mem::take(&mut *self.idle_connections.lock().unwrap_or_else(PoisonError::into_inner))
        {
            self.client.connections().release(&node, stream);
        }
    }
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").field("entry", &self.inner.entry).finish_non_exhaustive()
    }
}

/// A read on this machine: at once if the bytes are in memory, else by a thread that may wait for the disk.
async fn read_here(slice: &LocalSlice, range: &Range<u64>) -> Result<Vec<u8>, UnreadableBytes> {
    let mut buffer = Vec::new();
    if range.end - range.start <= AT_ONCE_BYTES_MAX && slice.read_cached(range, &mut buffer)? {
        return Ok(buffer);
    }
    let (slice, range) = (slice.clone(), range.clone());
    let reading = spawn_blocking(move || {
        slice.read(&range, &mut buffer)?;
        Ok(buffer)
    });
    reading.await.unwrap_or_else(|_| Err(UnreadableBytes::Io(std::io::Error::other("the reading thread ended early"))))
}

/// Reads over the network at once, and connections kept, for one open file. The number is large enough to hide the
/// round trips of many small reads, and leaves turns of a node to other files.
const CONNECTIONS_MAX: usize = 16;
/// How often all sources are tried again: with those that the master names then.
const FURTHER_ROUNDS_MAX: u32 = 1;
/// Longest read, in bytes, that is copied and verified without leaving the caller's thread: some tens of microseconds.
const AT_ONCE_BYTES_MAX: u64 = 4 * limits::BLOCK_BYTES;
