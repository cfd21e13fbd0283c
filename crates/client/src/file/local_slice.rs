//! Reads a slice that is on this machine (path *download*). Its node passes the open file and the block checksums.
//! Every byte is read and verified here, without work for the node and without a second copy. If anything fails, the
//! caller uses the network. Only a bad block is reported to the node, which checks and quarantines a bad copy. It never
//! gives out a block that does not have its checksum.

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64, atomic::Ordering},
    time::Duration,
};

use net::{clock::Clock, identity::HolderKeyPair, local::LocalStream};
use protocol::{
    limits,
    message::{
        client_master::{FileContent, Source},
        local::{LocalReply, LocalRequest},
    },
    slice::block_count,
};
use tokio::{
    sync::mpsc,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};

use super::{
    TransferProgress,
    checksummed_file::{ChecksummedFile, UnreadableBytes},
    fetch_plan::RangeSet,
    partial_download::PartialDownload,
    range_writer::FrameSender,
};
use crate::ClientError;

/// An open slice of this machine. Cheap to clone; several threads may read it at once.
#[derive(Clone)]
pub(crate) struct LocalSlice {
    inner: Arc<Inner>,
}

struct Inner {
    file: ChecksummedFile,
    bytes: u64,
    source: Source,
    content: FileContent,
    holder: Arc<HolderKeyPair>,
}

impl LocalSlice {
    /// Opens the slice by the first source that can pass it; `None` if none is on this machine or none answers.
    pub(crate) async fn open(doors: &LocalSockets, sources: &[Source], content: &FileContent) -> Option<Self> {
        for source in sources {
            let Some(name) = source.local.as_deref().filter(|name| doors.is_usable(name)) else { continue };
            match timeout(ANSWER_WAIT_MAX, ask_for(doors, name, source, content)).await {
                Ok(Ok(slice)) => return Some(slice),
                Ok(Err(error)) => tracing::debug!(node = %source.node, %error, "not read on this machine"),
                // A client that connects and gets no answer would otherwise wait again with every file.
                Err(_) => doors.mark_unresponsive(name),
            }
        }
        None
    }

    /// The source that passed it.
    pub(crate) fn source(&self) -> &Source {
        &self.inner.source
    }

    /// Reads and verifies a range into `buffer`. Waits for the disk.
    pub(crate) fn read(&self, range: &Range<u64>, buffer: &mut Vec<u8>) -> Result<(), UnreadableBytes> {
        self.inner.file.read(range, buffer)
    }

    /// The same, but only if the bytes are in memory; false if they are not.
    pub(crate) fn read_cached(&self, range: &Range<u64>, buffer: &mut Vec<u8>) -> Result<bool, UnreadableBytes> {
        self.inner.file.read_cached(range, buffer)
    }

    /// Writes all that is missing to a part, with two threads for a large one. While one reads and verifies, the other
    /// writes data that is still in its processor's cache. Removes what was written from `missing`; the rest must then
    /// come from elsewhere.
    pub(crate) async fn copy_to(
        &self,
        part: &PartialDownload,
        missing: &mut RangeSet,
        progress: TransferProgress<'_>,
    ) -> Result<(), UnreadableBytes> {
        // Without a ledger a part is written from front to back.
        let threads = if self.inner.bytes < super::SPLIT_FROM_BYTES { 1 } else { COPY_THREADS };
        let work = Arc::new(Work { pieces: pieces(missing), next: AtomicU64::new(0) });
        let (tell, mut told) = mpsc::channel(PIECES_TOLD_MAX);
        let mut copiers = JoinSet::new();
        for _ in 0..threads {
            let (slice, part, work, tell) = (self.clone(), part.clone(), Arc::clone(&work), tell.clone());
            copiers.spawn_blocking(move || slice.copy_pieces(&part, &work, &tell));
        }
        drop(tell);
        while let Some(range) = told.recv().await {
            progress(missing.remove(range));
        }
        let mut result = Ok(());
        while let Some(ended) = copiers.join_next().await {
            let ended =
                ended.unwrap_or_else(|_| Err(UnreadableBytes::Io(io::Error::other("a copying thread ended early"))));
            result = result.and(ended);
        }
        result
    }

    /// Sends a range to a sink in order. Gives how far it came.
    pub(crate) async fn send_to(
        &self,
        sender: FrameSender,
        range: Range<u64>,
        progress: TransferProgress<'_>,
    ) -> (u64, Result<(), UnreadableBytes>) {
        let slice = self.clone();
        let (tell, mut told) = mpsc::channel(PIECES_TOLD_MAX);
        let mut reached = range.start;
        let reading = spawn_blocking(move || {
            let mut at = range.start;
            while at < range.end {
                let until = frame_end(at).min(range.end);
                let mut frame = sender.spare();
                slice.read(&(at..until), &mut frame)?;
                // If the sink or the listener is gone, the reason is reported elsewhere.
                if !sender.send_blocking(at, frame) || tell.blocking_send(until - at).is_err() {
                    break;
                }
                at = until;
            }
            Ok(())
        });
        while let Some(bytes) = told.recv().await {
            progress(bytes);
            reached += bytes;
        }
        let ended = reading.await;
        (
            reached,
            ended.unwrap_or_else(|_| Err(UnreadableBytes::Io(io::Error::other("the reading thread ended early")))),
        )
    }

    /// Tells the node of a bad block. The node checks the block itself, and quarantines the copy if it finds the same.
    /// The caller does not wait for that, but the message has been sent when this returns, since the caller's process
    /// may end soon.
    pub(crate) async fn report_bad(&self, at: u64) {
        let Source { node, local, ticket, .. } = &self.inner.source;
        let Some(name) = local else { return };
        let slice = self.inner.content.slice;
        tracing::warn!(%node, %slice, at, "a block read on this machine is bad; another source takes over");
        let until = at + limits::BLOCK_BYTES;
        let telling = async {
            let request = LocalRequest::Suspect { ticket: ticket.clone(), slice, from: at, until };
            connect_and_prove(&self.inner.holder, name).await?.send(&request).await
        };
        match timeout(REPORT_WAIT_MAX, telling).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%node, %error, "the bad block could not be told"),
            Err(_) => tracing::warn!(%node, "the bad block could not be told in time"),
        }
    }

    fn copy_pieces(
        &self,
        part: &PartialDownload,
        work: &Work,
        tell: &mpsc::Sender<Range<u64>>,
    ) -> Result<(), UnreadableBytes> {
        let mut buffer = Vec::new();
        while let Some(piece) = work.next() {
            let mut at = piece.start;
            while at < piece.end {
                let until = (at + COPY_BYTES).min(piece.end);
                let read = self.read(&(at..until), &mut buffer).and_then(|()| {
                    // Nothing is written that was not verified, whatever the file's pages hold a moment later.
                    part.write_at(&buffer, at).map_err(UnreadableBytes::Io)
                });
                if let Err(error) = read {
                    work.stop();
                    return Err(error);
                }
                at = until;
            }
            part.note(piece.clone()).map_err(UnreadableBytes::Io)?;
            if tell.blocking_send(piece).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Names of local sockets that accept connections but do not answer. Each is new with a node's start, so none is ever
/// tried again.
pub(crate) struct LocalSockets {
    /// Whether no local socket is tried.
    over_network: bool,
    /// The holder of the tickets that are shown there.
    holder: Arc<HolderKeyPair>,
    unresponsive: Mutex<BTreeSet<String>>,
}

impl LocalSockets {
    pub(crate) fn new(holder: Arc<HolderKeyPair>, over_network: bool) -> Self {
        Self { over_network, holder, unresponsive: Mutex::default() }
    }

    /// A connection to the socket of this name, on which our tickets are proved to be ours.
    pub(super) async fn connect(&self, name: &str) -> Result<LocalStream, net::NetError> {
        connect_and_prove(&self.holder, name).await
    }

    pub(super) fn is_usable(&self, name: &str) -> bool {
        !self.over_network && !self.unresponsive.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    pub(super) fn mark_unresponsive(&self, name: &str) {
        let mut silent = self.unresponsive.lock().unwrap_or_else(PoisonError::into_inner);
        if silent.len() >= UNRESPONSIVE_MAX {
            silent.clear();
        }
        silent.insert(name.to_owned());
    }
}

/// The pieces of one copy, which its threads take one after another.
struct Work {
    pieces: Vec<Range<u64>>,
    next: AtomicU64,
}

impl Work {
    fn next(&self) -> Option<Range<u64>> {
        self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed) as usize).cloned()
    }

    /// One thread failed: the others need not go on.
    fn stop(&self) {
        self.next.store(self.pieces.len() as u64, Ordering::Relaxed);
    }
}

/// See [`LocalSockets::retry_on_hang_up`].
async fn connect_and_prove(holder: &HolderKeyPair, name: &str) -> Result<LocalStream, net::NetError> {
    let mut stream = LocalStream::connect(name).await?;
    let unix_millis = Clock::start().now().unix_millis;
    let proof = holder.prove_locally(name, unix_millis);
    stream.send(&LocalRequest::ProveKey { key: holder.public(), unix_millis, proof }).await?;
    Ok(stream)
}

/// Asks at one socket for a slice.
async fn ask_for(
    doors: &LocalSockets,
    name: &str,
    source: &Source,
    content: &FileContent,
) -> Result<LocalSlice, ClientError> {
    let failed = || ClientError::net("cannot read through a local socket");
    let unexpected = || ClientError::Unexpected { who: "node", request: "open" };
    if content.bytes > LOCAL_SLICE_BYTES_MAX {
        return Err(ClientError::Usage(format!("a slice of {} bytes is read over the network", content.bytes)));
    }
    let mut stream = doors.connect(name).await.map_err(failed())?;
    let request = LocalRequest::Open { ticket: source.ticket.clone(), slice: content.slice };
    stream.send(&request).await.map_err(failed())?;
    let (reply, file) = stream.receive::<LocalReply>().await.map_err(failed())?.ok_or_else(unexpected)?;
    let file = match (reply, file) {
        (LocalReply::Opened { bytes, digest }, Some(file)) if (bytes, digest) == (content.bytes, content.digest) => {
            File::from(file)
        }
        (LocalReply::Refused(refusal), _) => return Err(refusal.into()),
        _ => return Err(unexpected()),
    };
    let blocks = block_count(content.bytes) as usize;
    let mut checksums = Vec::new();
    while checksums.len() < blocks {
        match stream.receive::<LocalReply>().await.map_err(failed())? {
            Some((LocalReply::Checksums(more), _)) if !more.is_empty() => checksums.extend(more),
            _ => return Err(unexpected()),
        }
    }
    let (source, content) = (source.clone(), content.clone());
    Ok(LocalSlice {
        inner: Arc::new(Inner {
            file: ChecksummedFile::new(file, content.bytes, checksums),
            bytes: content.bytes,
            source,
            content,
            holder: Arc::clone(&doors.holder),
        }),
    })
}

/// The pieces in which missing bytes are copied: they end where frames end.
fn pieces(missing: &RangeSet) -> Vec<Range<u64>> {
    let mut pieces = Vec::new();
    for range in missing.iter() {
        let mut at = range.start;
        while at < range.end {
            let until = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(range.end);
            pieces.push(at..until);
            at = until;
        }
    }
    pieces
}

fn frame_end(at: u64) -> u64 {
    let frame = limits::FRAME_BYTES_MAX as u64;
    (at / frame + 1) * frame
}

/// Largest slice read this way, in bytes: its checksums take 64 MiB of this process.
const LOCAL_SLICE_BYTES_MAX: u64 = 1 << 40;
/// How long a node of this machine may take to pass a file; behind a long queue the network is no slower.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a report of a bad block may take: no more than to connect and to send a message.
const REPORT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Names kept of sockets that do not answer.
const UNRESPONSIVE_MAX: usize = 1_024;
/// Threads that copy one large file. The system writes a file for one thread at a time, so a third would only wait.
const COPY_THREADS: usize = 2;
/// Bytes that one thread copies before the other may have the next, and for which the ledger has a line.
const PIECE_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes read, verified and written in one step: they stay in the processor's second-level cache.
const COPY_BYTES: u64 = 256 * 1024;
/// Reports on the way from a copying thread to the counter.
const PIECES_TOLD_MAX: usize = 64;
