//! Fetches bytes of a slice over the network (path *download*), from one node or from several at once. Each reader
//! takes another range when it has brought one. A far node gets several requests at once, each on its own connection,
//! to hide its round trips. A node that dies, falls silent or sends bad bytes is replaced without the caller noticing.
//! It never gives out a frame that was not verified, and never bytes of another version.

use std::{
    collections::BTreeMap,
    ops::Range,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use net::{
    NetError,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    NodeId, SectorPath, SliceId,
    message::{
        client_master::{FileContent, Source},
        transfer::{TransferReply, TransferRequest},
    },
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{
    TransferProgress,
    fetch_plan::{ClaimId, FetchPlan, NextRead, RangePolicy, RangeSet, SourceNumber},
    range_writer::FrameSender,
    reader_pool::{ReaderPool, ReaderSlot},
    source_failover::{LastFailure, SourceRounds},
    source_list::SourceList,
};
use crate::{Client, ClientError};

/// What is fetched, and how.
pub(crate) struct Fetch<'a> {
    pub(crate) client: &'a Client,
    pub(crate) path: &'a SectorPath,
    pub(crate) content: &'a FileContent,
    /// How long a source may bring nothing before it is given up.
    pub(crate) stall: Duration,
    pub(crate) progress: TransferProgress<'a>,
}

/// Where fetched frames go.
pub(crate) struct FetchOutput {
    pub(crate) sender: FrameSender,
    /// The same one that the sink has.
    pub(crate) write_notify: Arc<Notify>,
    /// Whether frames that come early must wait in memory.
    pub(crate) in_order: bool,
}

impl Fetch<'_> {
    /// Fetches `missing` from these sources. If the sink takes no more, this ends without an error: the sink has one.
    ///
    /// # Errors
    /// `NoCopy` when no source has the bytes that are still missing.
    pub(crate) async fn run(
        &self,
        sources: Vec<Source>,
        missing: RangeSet,
        outlet: FetchOutput,
    ) -> Result<(), ClientError> {
        let throttle = self.client.throttle();
        let mut pool = ReaderPool::new(self.client, &sources, missing.bytes(), outlet.in_order);
        let shape = pool.range_policy();
        let shape = RangePolicy { piece_bytes: throttle.range_bytes(shape.piece_bytes, pool.concurrency(0)), ..shape };
        let (wanted, mut told_bytes) = (missing.bytes(), 0);
        let shared = Arc::new(FetchState {
            client: self.client.clone(),
            slice: self.content.slice,
            plan: Mutex::new(FetchPlan::new(missing, shape)),
            changed: outlet.write_notify,
            sources: SourceList::new(self.path.clone(), self.content.slice, sources),
            sender: outlet.sender,
            stall: self.stall,
            last_received: Mutex::default(),
            readers: AtomicUsize::new(0),
        });
        let (tell, mut told) = mpsc::channel(TOLD_MAX);
        let mut workers = JoinSet::new();
        let mut failures = LastFailure::new(self.path);
        let mut rounds = SourceRounds::WhileBytesCome { missing_when_asked: wanted };
        while !shared.plan().is_finished() && !shared.sender.is_closed() {
            // This is set before the first of them requests anything.
            shared.readers.store(pool.concurrency(workers.len()), Ordering::Relaxed);
            while let Some(slot) = pool.next_slot(workers.len()) {
                let (shared, tell) = (Arc::clone(&shared), tell.clone());
                workers.spawn(async move {
                    let node = slot.source.node.clone();
                    (node, shared.read_from(slot, tell).await)
                });
            }
            if workers.is_empty() {
                // All have failed: others are asked for, and further tickets of the same.
                let is_worth_it = rounds.begin_another(shared.plan().missing_bytes());
                match shared.sources.ask(self.client).await? {
                    Some(sources) if is_worth_it => pool.add_sources(&sources),
                    _ => return Err(failures.into_error()),
                }
                continue;
            }
            tokio::select! {
                Some(bytes) = told.recv() => {
                    (self.progress)(bytes);
                    told_bytes += bytes;
                    // The sources that brought them have been reached: only now may it be known that one is far.
                    pool.recheck_distances(self.client);
                }
                Some(ended) = workers.join_next() => match ended {
                    Ok((_, Ok(Ended::Finished))) => {}
                    Ok((_, Ok(Ended::WriterClosed))) => return Ok(()),
                    Ok((node, Err(error))) => {
                        pool.exclude_node(&node);
                        failures.note(&node, &error);
                    }
                    Err(_) => failures.note_lost_reader(),
                },
            }
        }
        // A reader that was overtaken is cut off; progress that the others did not report yet is reported here.
        workers.shutdown().await;
        (self.progress)(wanted - shared.plan().missing_bytes() - told_bytes);
        Ok(())
    }
}

/// What the readers of one fetch share.
struct FetchState {
    client: Client,
    slice: SliceId,
    plan: Mutex<FetchPlan>,
    /// Bytes were written or a range was given up: a waiting reader may have something to do.
    changed: Arc<Notify>,
    sources: SourceList,
    sender: FrameSender,
    stall: Duration,
    last_received: Mutex<BTreeMap<NodeId, Instant>>,
    /// How many read at once when that last changed: they share a limit.
    readers: AtomicUsize,
}

/// Why a reader ended that did not fail.
enum Ended {
    Finished,
    WriterClosed,
}

impl FetchState {
    /// One reader's part: range after range, until everything has arrived.
    async fn read_from(self: Arc<Self>, slot: ReaderSlot, tell: mpsc::Sender<u64>) -> Result<Ended, ClientError> {
        let (ReaderSlot { number, source }, mut line) = (slot, None);
        while let Some(claim) = self.next(number).await {
            if !self.read(&source, &mut line, &claim, &tell).await? {
                return Ok(Ended::WriterClosed);
            }
        }
        if let Some(stream) = line {
            self.client.connections().release(&source.node, stream);
        }
        Ok(Ended::Finished)
    }

    /// The next range to read, once there is one; `None` when everything has arrived.
    async fn next(&self, source: SourceNumber) -> Option<ClaimGuard<'_>> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let next = self.plan().claim(source, self.sender.written());
            match next {
                NextRead::Read(id, range) => return Some(ClaimGuard { shared: self, id, range }),
                NextRead::Finished => return None,
                NextRead::Wait => changed.await,
            }
        }
    }

    /// Reads one range; false when the sink takes no more.
    async fn read(
        &self,
        source: &Source,
        line: &mut Option<TransferStream>,
        claim: &ClaimGuard<'_>,
        tell: &mpsc::Sender<u64>,
    ) -> Result<bool, ClientError> {
        let failed = || ClientError::net(format!("cannot read from node {}", source.node));
        let range = claim.range.clone();
        let mut stream = self.within_stall(source, self.begin(source, line.take(), range.clone())).await?;
        let mut at = range.start;
        while at < range.end {
            let mut frame = StreamFrame { payload: self.sender.spare(), ..StreamFrame::default() };
            let received = async { stream.receive_frame(&mut frame).await.map_err(failed()) };
            let more = self.within_stall(source, received).await?;
            let bytes = frame.payload.len() as u64;
            self.last_received().insert(source.node.clone(), Instant::now());
            if !more {
                return Err(failed()(NetError::Closed { peer: source.address, operation: "reading a file" }));
            }
            if bytes == 0 {
                // The node waits for a limit.
                continue;
            }
            if bytes > range.end - at {
                return Err(ClientError::Unexpected { who: "node", request: "read" });
            }
            // Into the sink first: once the plan says that everything has arrived, this task may be cut off.
            if !self.sender.send(at, frame.payload).await {
                return Ok(false);
            }
            at += bytes;
            self.client.throttle().acquire(bytes).await;
            let (fresh, go_on) = self.plan().arrived(claim.id, bytes);
            if tell.send(fresh).await.is_err() || !go_on {
                // Others brought the rest: what is still on its way here is useless, and so is the connection.
                return Ok(true);
            }
        }
        let ended = async { stream.receive_frame(&mut StreamFrame::default()).await.map_err(failed()) };
        // Everything has arrived; if the end marker does not, only the connection is bad.
        if matches!(self.within_stall(source, ended).await, Ok(false)) {
            *line = Some(stream);
        }
        Ok(true)
    }

    /// Asks for a range, over the connection used before where there is one.
    async fn begin(
        &self,
        source: &Source,
        line: Option<TransferStream>,
        range: Range<u64>,
    ) -> Result<TransferStream, ClientError> {
        let sources = self.sources.current(&self.client).await;
        let source = sources.iter().find(|known| known.node == source.node).unwrap_or(source);
        let ticket = source.ticket.clone();
        let request = TransferRequest::Read { ticket, slice: self.slice, from: range.start, until: range.end };
        let pace = self.client.throttle().qos_per_sender(self.readers.load(Ordering::Relaxed));
        let opened = self.client.connections().open_reusing(line, source, pace, &request).await;
        let failed = ClientError::net(format!("cannot read from node {}", source.node));
        match opened.map_err(failed)? {
            (stream, TransferReply::Reading { bytes }) if bytes == range.end - range.start => Ok(stream),
            (_, TransferReply::Refused(refusal)) => Err(refusal.into()),
            _ => Err(ClientError::Unexpected { who: "node", request: "read" }),
        }
    }

    async fn within_stall<T>(
        &self,
        source: &Source,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let mut work = pin!(work);
        let mut until = Instant::now() + self.stall;
        loop {
            if let Ok(done) = timeout_at(until, &mut work).await {
                return done;
            }
            // Of several connections with one node, one may take all the capacity of the path: the node is not silent
            // then.
            match self.last_received().get(&source.node).map(|heard| *heard + self.stall) {
                Some(later) if later > until => until = later,
                _ => break,
            }
        }
        let operation = format!("waiting for bytes from {}", source.address);
        Err(ClientError::net("a node keeps still")(NetError::Deadline { operation, after: self.stall }))
    }

    /// When something last came from each node.
    fn last_received(&self) -> MutexGuard<'_, BTreeMap<NodeId, Instant>> {
        // Each change under this lock is complete in itself.
        self.last_received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self) -> MutexGuard<'_, FetchPlan> {
        // Each change under this lock is complete in itself.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A range that one reader has claimed; given back when this is dropped.
struct ClaimGuard<'a> {
    shared: &'a FetchState,
    id: ClaimId,
    range: Range<u64>,
}

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        self.shared.plan().release(self.id);
        self.shared.changed.notify_waiters();
    }
}

/// How long a source may bring nothing before another takes its place: far longer than any short interruption, and far
/// shorter than a person's patience.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(10);
/// How far sources may read ahead of a stream that is written in order, in bytes; all of it may be in memory.
pub(super) const WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// Reports on the way from readers to the counter.
const TOLD_MAX: usize = 64;
