//! Moves frames between a connection and a disk, so that both work at the same time. While a blocking thread writes,
//! hashes, verifies or copies one frame, the next is on the wire. It serves every path that moves bytes. It never holds
//! more than two frames for a transfer, and never waits for ever for a peer that has stopped.

use std::{mem, time::Duration};

use net::{
    rate_limiter::LimiterChain,
    transfer::{StreamFrame, TransferStream},
};
use protocol::limits;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::NodeError;

/// Where received frames go. Called on blocking threads, one call at a time.
pub(crate) trait FrameSink: Send + 'static {
    /// Takes the next frame.
    fn write_frame(&mut self, frame: &StreamFrame) -> Result<(), NodeError>;
}

/// Where the bytes of sent frames come from. Called on blocking threads, one call at a time.
pub(crate) trait FrameSource: Send + 'static {
    /// Replaces the content of `frame` by the next bytes, at most [`FRAME_BYTES`]; leaves it empty at the end.
    /// Checksums are filled in if they are known already (from a sidecar), otherwise left empty.
    fn fill(&mut self, frame: &mut StreamFrame) -> Result<(), NodeError>;

    /// As [`fill`](Self::fill), but only if no disk must be waited for; otherwise returns false and does nothing. For
    /// callers that must not wait.
    fn try_fill(&mut self, frame: &mut StreamFrame) -> Result<bool, NodeError> {
        let _ = frame;
        Ok(false)
    }
}

/// Receives frames into `sink` until the end of the data, as fast as `limiter` lets them pass; returns the sink.
pub(crate) async fn receive_frames<S: FrameSink>(
    stream: &mut TransferStream,
    sink: S,
    limiter: &LimiterChain,
    stall: Duration,
) -> Result<S, ReceiveError> {
    let mut frame = StreamFrame::default();
    let mut work = SinkState::Idle(sink, StreamFrame::default());
    loop {
        let more = match timeout(stall, stream.receive_frame(&mut frame)).await {
            Ok(received) => received.map_err(|error| ReceiveError::Stream(error.into()))?,
            Err(_) => return Err(ReceiveError::Stream(stalled("waiting for bytes", stall))),
        };
        if more && frame.payload.is_empty() {
            // The sender waits for a rate limit.
            continue;
        }
        limiter.acquire(frame.payload.len() as u64).await;
        let (sink, spare) = work.finish().await.map_err(ReceiveError::Sink)?;
        if !more {
            return Ok(sink);
        }
        work = SinkState::start(sink, mem::replace(&mut frame, spare));
    }
}

/// Why not all frames were received.
#[derive(Debug)]
pub(crate) enum ReceiveError {
    /// The peer went away, stalled or sent damaged bytes; the connection is no longer usable.
    Stream(NodeError),
    /// The frames could not be taken here. The peer may still be sending.
    Sink(NodeError),
}

impl From<ReceiveError> for NodeError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Stream(error) | ReceiveError::Sink(error) => error,
        }
    }
}

/// Receives and drops what a peer still sends, so that the peer gets to read our refusal; returns whether its data
/// ended. Gives up after a bounded number of bytes.
pub(crate) async fn drain(stream: &mut TransferStream) -> bool {
    let mut frame = StreamFrame::default();
    let mut bytes = 0;
    let draining = async {
        while bytes < DRAIN_BYTES_MAX {
            match stream.receive_frame(&mut frame).await {
                Ok(true) => bytes += frame.payload.len(),
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
        false
    };
    timeout(DRAIN_TIME_MAX, draining).await.unwrap_or(false)
}

/// Outgoing bytes; the first of them are in memory already.
pub(crate) struct FrameWriter<S> {
    first: StreamFrame,
    source: S,
}

impl<S: FrameSource> FrameWriter<S> {
    /// Reads the first frame, so that an error can still be reported instead of cutting the connection.
    pub(crate) async fn begin(source: S) -> Result<Self, NodeError> {
        let (source, first) = filled(fill(source, StreamFrame::default())).await?;
        Ok(Self { first, source })
    }

    /// Starts with a first frame that was read elsewhere.
    pub(crate) fn resume(first: StreamFrame, source: S) -> Self {
        Self { first, source }
    }

    /// Sends all frames and the end of the data. Waiting for `limiter` does not count as a stall.
    pub(crate) async fn send(
        self,
        stream: &mut TransferStream,
        limiter: &LimiterChain,
        stall: Duration,
    ) -> Result<(), NodeError> {
        let Self { first: mut frame, mut source } = self;
        // The thread that seals a frame in memory also reads it. The bytes are then still in its processor's cache, and
        // no other thread must be woken.
        while !frame.payload.is_empty() {
            limiter.send(stream, &frame, stall).await?;
            frame.checksums.clear();
            if !source.try_fill(&mut frame)? {
                (source, frame) = filled(fill(source, frame)).await?;
                break;
            }
        }
        // If the disk must be waited for, the next frame is read while one is sent.
        let mut spare = StreamFrame::default();
        while !frame.payload.is_empty() {
            let next = fill(source, spare);
            limiter.send(stream, &frame, stall).await?;
            spare = frame;
            (source, frame) = filled(next).await?;
        }
        match timeout(stall, stream.end_frames()).await {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(stalled("sending bytes", stall)),
        }
    }
}

/// A sink that is idle between frames, or taking a frame on a blocking thread.
enum SinkState<S> {
    Idle(S, StreamFrame),
    Busy(JoinHandle<(S, StreamFrame, Result<(), NodeError>)>),
}

impl<S: FrameSink> SinkState<S> {
    fn start(mut sink: S, frame: StreamFrame) -> Self {
        Self::Busy(spawn_blocking(move || {
            let taken = sink.write_frame(&frame);
            (sink, frame, taken)
        }))
    }

    /// The sink, and a frame whose buffers can be reused.
    async fn finish(self) -> Result<(S, StreamFrame), NodeError> {
        match self {
            Self::Idle(sink, frame) => Ok((sink, frame)),
            Self::Busy(work) => match work.await {
                Ok((sink, frame, taken)) => taken.map(|()| (sink, frame)),
                Err(_) => Err(NodeError::Panicked { operation: "storing received bytes" }),
            },
        }
    }
}

type FillTask<S> = JoinHandle<(S, StreamFrame, Result<(), NodeError>)>;

fn fill<S: FrameSource>(mut source: S, mut frame: StreamFrame) -> FillTask<S> {
    spawn_blocking(move || {
        frame.checksums.clear();
        let filled = source.fill(&mut frame);
        (source, frame, filled)
    })
}

async fn filled<S>(filling: FillTask<S>) -> Result<(S, StreamFrame), NodeError> {
    match filling.await {
        Ok((source, frame, filled)) => filled.map(|()| (source, frame)),
        Err(_) => Err(NodeError::Panicked { operation: "reading bytes to send" }),
    }
}

fn stalled(operation: &'static str, after: Duration) -> NodeError {
    NodeError::Stalled { operation, after }
}

/// Bytes of a frame we send: the largest allowed, since each frame costs a thread wake-up.
pub(crate) const FRAME_BYTES: usize = limits::FRAME_BYTES_MAX;
/// How long a peer that we send to, or a node that sends to us, may be silent.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(60);
/// How long an uploader may be silent: its source may be a pipe that gives nothing for a while.
pub(crate) const UPLOAD_STALL_MAX: Duration = Duration::from_secs(15 * 60);
/// Bytes read from a peer after it was refused: what two full socket buffers may hold.
const DRAIN_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time for the same.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{Reason, Status};

    use super::*;

    /// Two ends of one connection in memory.
    pub(crate) fn pair() -> (TransferStream, TransferStream) {
        let (a, b) = tokio::io::duplex(64 * 1024);
        let address = ([127, 0, 0, 1], 9).into();
        let end = |stream| TransferStream::in_memory(Box::new(stream), address, None, [1; 32]);
        (end(a), end(b))
    }

    /// Takes bytes up to a limit.
    struct Bounded(Vec<u8>, usize);

    impl FrameSink for Bounded {
        fn write_frame(&mut self, frame: &StreamFrame) -> Result<(), NodeError> {
            self.0.extend(&frame.payload);
            if self.0.len() > self.1 { Err(NodeError::refused(Reason::Unavailable, "full")) } else { Ok(()) }
        }
    }

    /// Gives these bytes in steps of a frame, and then perhaps an error.
    struct Bytes(Vec<u8>, Option<NodeError>);

    impl FrameSource for Bytes {
        fn fill(&mut self, frame: &mut StreamFrame) -> Result<(), NodeError> {
            frame.payload.clear();
            let rest = self.0.split_off(self.0.len().min(FRAME_BYTES));
            frame.payload.append(&mut mem::replace(&mut self.0, rest));
            match self.1.take_if(|_| frame.payload.is_empty()) {
                Some(error) => Err(error),
                None => Ok(()),
            }
        }
    }

    fn content() -> Vec<u8> {
        (0..2 * FRAME_BYTES + 12_345).map(|at| ((at * 7) >> 4) as u8).collect()
    }

    #[tokio::test]
    async fn bytes_arrive_whole_and_in_order() {
        let (mut here, mut there) = pair();
        let sending = async {
            FrameWriter::begin(Bytes(content(), None))
                .await
                .unwrap()
                .send(&mut here, &LimiterChain::unlimited(), STALL_MAX)
                .await
                .unwrap();
        };
        let free = LimiterChain::unlimited();
        let receiving = receive_frames(&mut there, Bounded(Vec::new(), usize::MAX), &free, STALL_MAX);
        let ((), received) = tokio::join!(sending, receiving);
        assert!(received.unwrap().0 == content());
    }

    #[tokio::test]
    async fn an_error_before_the_first_byte_is_told_before_anything_is_sent() {
        let error = NodeError::refused(Reason::Corrupt, "bad block");
        let begun = FrameWriter::begin(Bytes(Vec::new(), Some(error))).await;
        assert_eq!(begun.err().unwrap().refusal().status(), Status::Corrupt);
    }

    #[tokio::test]
    async fn a_peer_that_closes_halfway_is_an_error_of_the_stream() {
        let (mut here, mut there) = pair();
        let sending = async {
            let error = NodeError::refused(Reason::Corrupt, "bad block");
            let flow = FrameWriter::begin(Bytes(content(), Some(error))).await.unwrap();
            assert!(flow.send(&mut here, &LimiterChain::unlimited(), STALL_MAX).await.is_err());
            drop(here);
        };
        let free = LimiterChain::unlimited();
        let receiving = receive_frames(&mut there, Bounded(Vec::new(), usize::MAX), &free, STALL_MAX);
        let ((), received) = tokio::join!(sending, receiving);
        assert!(matches!(received, Err(ReceiveError::Stream(NodeError::Net(_)))));
    }

    #[tokio::test]
    async fn after_a_full_disk_the_peer_is_drained_and_reads_the_refusal() {
        let (mut here, mut there) = pair();
        let sending = async {
            FrameWriter::begin(Bytes(content(), None))
                .await
                .unwrap()
                .send(&mut here, &LimiterChain::unlimited(), STALL_MAX)
                .await
                .unwrap();
            here.receive::<String>().await.unwrap()
        };
        let receiving = async {
            let refused =
                receive_frames(&mut there, Bounded(Vec::new(), 10), &LimiterChain::unlimited(), STALL_MAX).await;
            assert!(matches!(refused, Err(ReceiveError::Sink(_))));
            there.send(&"full".to_owned()).await.unwrap();
            assert!(drain(&mut there).await);
        };
        let (answer, ()) = tokio::join!(sending, receiving);
        assert_eq!(answer, "full");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_nothing_is_given_up() {
        let (_here, mut there) = pair();
        let received = receive_frames(&mut there, Bounded(Vec::new(), 10), &LimiterChain::unlimited(), STALL_MAX).await;
        assert!(matches!(received, Err(ReceiveError::Stream(NodeError::Stalled { .. }))));
    }
}
