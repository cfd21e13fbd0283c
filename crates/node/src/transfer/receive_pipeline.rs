//! Passes the incoming frames of a slice to all consumers at once: the file, the digest, and the next node of the
//! chain. Receiving, writing, hashing and forwarding each run at their own pace, a few frames apart. Serves upload. It
//! never keeps more than a few frames, and never occupies more threads than have a frame to work on.

use std::{collections::VecDeque, future::Future, sync::Arc, time::Duration};

use net::{
    rate_limiter::LimiterChain,
    transfer::{StreamFrame, TransferStream},
};
use protocol::Reason;
use store::{Checkpoint, SliceDigest, SliceFile, SliceWriter};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::{
    NodeError,
    tickets::active_writes::ActiveWrite,
    transfer::{forward::Forward, frame_pipe::FrameSink},
};

/// How the data of a slice ended.
#[derive(Debug)]
pub(crate) enum ReceiveEnd {
    /// In order.
    Complete,
    /// The sender went away, stalled, sent damaged bytes, or was told to stop; the connection is no longer usable.
    Interrupted(NodeError),
}

/// Where frames come from.
pub(crate) trait AsyncFrameSource: Send {
    /// Replaces the content of `frame` by the next bytes and their checksums; false at the end.
    fn next(&mut self, frame: &mut StreamFrame) -> impl Future<Output = Result<bool, NodeError>> + Send;
}

/// Frames of a connection; a peer that is silent for `stall` is given up.
pub(crate) struct ConnectionSource<'a> {
    pub(crate) stream: &'a mut TransferStream,
    /// The rate limit of the received bytes. While they wait, no more are read, so the sender slows down too.
    pub(crate) limiter: &'a LimiterChain,
    pub(crate) stall: Duration,
}

impl AsyncFrameSource for ConnectionSource<'_> {
    async fn next(&mut self, frame: &mut StreamFrame) -> Result<bool, NodeError> {
        loop {
            let more = match timeout(self.stall, self.stream.receive_frame(frame)).await {
                Ok(received) => received?,
                Err(_) => return Err(NodeError::Stalled { operation: "waiting for bytes", after: self.stall }),
            };
            if more && frame.payload.is_empty() {
                // The sender waits for a rate limit.
                continue;
            }
            self.limiter.acquire(frame.payload.len() as u64).await;
            return Ok(more);
        }
    }
}

/// Receives frames into `writer`, and forwards them, until the end of the data or until `stop` ends. Returns the writer
/// with all that arrived. An error is one of writing here; the sender may still be sending.
pub(crate) async fn receive_slice(
    arrival: &mut impl AsyncFrameSource,
    writer: SliceWriter,
    forward: &mut Option<Forward>,
    arriving: Option<&ActiveWrite>,
    stop: impl Future<Output = ()>,
) -> Result<(SliceWriter, ReceiveEnd), NodeError> {
    let (file, digest) = writer.split();
    let file = SinkWorker::start(FileSink { file, checkpoint: None });
    let digest = SinkWorker::start(digest);
    let mut ring = FramePool::default();
    let mut stop = std::pin::pin!(stop);
    let ended = loop {
        let mut frame = ring.spare();
        arriving.inspect(|arriving| arriving.mark_waiting());
        let received = tokio::select! {
            received = arrival.next(&mut frame) => received,
            () = &mut stop => break ReceiveEnd::Interrupted(stopped()),
        };
        match received {
            Ok(true) => {}
            Ok(false) => {
                // The sender is done; the rest of the work is ours.
                arriving.inspect(|arriving| arriving.add_bytes(0));
                break ReceiveEnd::Complete;
            }
            Err(error) => break ReceiveEnd::Interrupted(error),
        }
        arriving.inspect(|arriving| arriving.add_bytes(frame.payload.len() as u64));
        let frame = ring.share(frame);
        if let Some(next) = forward
            && !next.send_frame(&frame).await
        {
            *forward = None;
        }
        if !file.give(&frame).await || !digest.give(&frame).await {
            // It failed; finishing it returns the reason.
            break ReceiveEnd::Complete;
        }
    };
    let FileSink { file, checkpoint } = file.finish().await?;
    let digest = digest.finish().await?;
    if let Some(checkpoint) = checkpoint {
        // Its own errors were reported; a panic leaves what was safe before.
        let _ = checkpoint.await;
    }
    Ok((SliceWriter::join(file, digest), ended))
}

/// A sink that takes frames on blocking threads, one call at a time, and holds a thread only while there are frames.
struct SinkWorker<S> {
    frames: mpsc::Sender<Arc<StreamFrame>>,
    work: JoinHandle<Result<S, NodeError>>,
}

impl<S: FrameSink> SinkWorker<S> {
    fn start(sink: S) -> Self {
        let (frames, received) = mpsc::channel(FRAMES_AHEAD);
        Self { frames, work: tokio::spawn(take_all(sink, received)) }
    }

    /// Waits while the sink is behind; false when it has failed.
    async fn give(&self, frame: &Arc<StreamFrame>) -> bool {
        self.frames.send(Arc::clone(frame)).await.is_ok()
    }

    /// Waits until all frames are taken.
    async fn finish(self) -> Result<S, NodeError> {
        drop(self.frames);
        self.work.await.unwrap_or(Err(NodeError::Panicked { operation: STORING }))
    }
}

async fn take_all<S: FrameSink>(mut sink: S, mut frames: mpsc::Receiver<Arc<StreamFrame>>) -> Result<S, NodeError> {
    while let Some(first) = frames.recv().await {
        let work = spawn_blocking(move || {
            sink.write_frame(&first)?;
            drop(first);
            // Frames that arrived meanwhile are taken without waking another thread.
            while let Ok(next) = frames.try_recv() {
                sink.write_frame(&next)?;
            }
            Ok((sink, frames))
        });
        (sink, frames) = work.await.unwrap_or(Err(NodeError::Panicked { operation: STORING }))?;
    }
    Ok(sink)
}

/// Frames that are still in use, the oldest first: their memory is reused.
#[derive(Default)]
struct FramePool {
    shared: VecDeque<Arc<StreamFrame>>,
}

impl FramePool {
    fn spare(&mut self) -> StreamFrame {
        if self.shared.front().is_none_or(|frame| Arc::strong_count(frame) > 1) {
            return StreamFrame::default();
        }
        self.shared.pop_front().and_then(|frame| Arc::try_unwrap(frame).ok()).unwrap_or_default()
    }

    fn share(&mut self, frame: StreamFrame) -> Arc<StreamFrame> {
        let frame = Arc::new(frame);
        self.shared.push_back(Arc::clone(&frame));
        frame
    }
}

/// The file, with the checkpoint of it that another thread is making.
struct FileSink {
    file: SliceFile,
    checkpoint: Option<JoinHandle<()>>,
}

impl FrameSink for FileSink {
    fn write_frame(&mut self, frame: &StreamFrame) -> Result<(), NodeError> {
        self.file.write_checked(&frame.payload, &frame.checksums)?;
        if self.file.is_checkpoint_due() {
            if let Some(running) = self.checkpoint.take() {
                // The disk is a whole checkpoint behind: the unsafe part must not grow further.
                let _ = Handle::current().block_on(running);
            }
            self.checkpoint = self.file.checkpoint_due().map(|checkpoint| spawn_blocking(move || run(checkpoint)));
        }
        Ok(())
    }
}

impl FrameSink for SliceDigest {
    fn write_frame(&mut self, frame: &StreamFrame) -> Result<(), NodeError> {
        self.update(&frame.payload);
        Ok(())
    }
}

fn stopped() -> NodeError {
    NodeError::refused(Reason::Unavailable, "this connection was broken off; another one may go on with the upload")
}

fn run(checkpoint: Checkpoint) {
    if let Err(error) = checkpoint.run() {
        tracing::warn!(%error, "the bytes of an upload could not be made safe before its end");
    }
}

const STORING: &str = "storing received bytes";
/// Frames by which a sink may lag: 4 MiB, so that a pause of the disk does not stop the network.
const FRAMES_AHEAD: usize = 4;
