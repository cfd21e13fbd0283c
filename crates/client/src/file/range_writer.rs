//! Where fetched bytes go (path *download*): a thread writes behind those that receive, a bounded number of frames.
//! Frames come from several sources in any order; a file takes them where they belong, a stream in order.
//!
//! It never writes a byte that was not verified: what comes here was.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::{
        Notify,
        mpsc::{self, Sender},
    },
    task::JoinHandle,
};

use super::FRAMES_IN_FLIGHT;

/// What takes frames, each with its place in the file. The same bytes may come twice.
pub(crate) trait Destination: Send + 'static {
    /// What remains at the end.
    type Output: Send;

    /// Takes a frame; gives memory back that can be used again.
    fn put(&mut self, at: u64, frame: Vec<u8>) -> io::Result<Option<Vec<u8>>>;

    /// Up to which byte everything is written, for those who must not run ahead.
    fn written(&self) -> u64;

    /// All has come.
    fn end(self) -> io::Result<Self::Output>;
}

/// A thread that writes.
pub(crate) struct RangeWriter<D: Destination> {
    sender: FrameSender,
    writer: JoinHandle<io::Result<D::Output>>,
}

/// The way to the writing thread. When all are dropped it ends.
#[derive(Clone)]
pub(crate) struct FrameSender {
    frames: Sender<(u64, Vec<u8>)>,
    shared: Arc<Shared>,
}

struct Shared {
    /// Memory that can be used again: no more than is in flight.
    spare: Mutex<Vec<Vec<u8>>>,
    written: AtomicU64,
    /// Something was written.
    write_notify: Arc<Notify>,
}

impl<D: Destination> RangeWriter<D> {
    /// Starts writing; whoever waits for room is told through `wrote`.
    pub(crate) fn start(mut to: D, wrote: Arc<Notify>) -> Self {
        let (frames, mut filled) = mpsc::channel::<(u64, Vec<u8>)>(FRAMES_IN_FLIGHT);
        let shared =
            Arc::new(Shared { spare: Mutex::default(), written: AtomicU64::new(to.written()), write_notify: wrote });
        let seen = Arc::clone(&shared);
        let writer = tokio::task::spawn_blocking(move || {
            while let Some((at, frame)) = filled.blocking_recv() {
                if let Some(spare) = to.put(at, frame)? {
                    seen.give_back(spare);
                }
                if seen.written.swap(to.written(), Ordering::AcqRel) != to.written() {
                    seen.write_notify.notify_waiters();
                }
            }
            to.end()
        });
        Self { sender: FrameSender { frames, shared }, writer }
    }

    /// The way to the thread, for those who receive.
    pub(crate) fn sender(&self) -> FrameSender {
        self.sender.clone()
    }

    /// Waits until all that was sent is written. All senders must be gone.
    pub(crate) async fn finish(self) -> io::Result<D::Output> {
        drop(self.sender);
        self.writer.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread ended early")))
    }
}

impl FrameSender {
    /// Hands a frame over; false when writing failed, which [`RangeWriter::finish`] explains.
    pub(crate) async fn send(&self, at: u64, frame: Vec<u8>) -> bool {
        self.frames.send((at, frame)).await.is_ok()
    }

    /// The same from a thread that may wait.
    pub(crate) fn send_blocking(&self, at: u64, frame: Vec<u8>) -> bool {
        self.frames.blocking_send((at, frame)).is_ok()
    }

    /// Whether writing has failed.
    pub(crate) fn is_closed(&self) -> bool {
        self.frames.is_closed()
    }

    /// Memory for the next frame.
    pub(crate) fn spare(&self) -> Vec<u8> {
        self.shared.lock().pop().unwrap_or_default()
    }

    /// Up to which byte everything is written.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }
}

impl Shared {
    fn give_back(&self, frame: Vec<u8>) {
        let mut spare = self.lock();
        if spare.len() < SPARE_FRAMES_MAX {
            spare.push(frame);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream, which takes bytes in order: what comes early waits in memory, as much as the plan's window allows.
pub(crate) struct InOrder<W> {
    to: W,
    at: u64,
    early: BTreeMap<u64, Vec<u8>>,
}

impl<W: Write> InOrder<W> {
    /// Begins with the byte `at`.
    pub(crate) fn new(to: W, at: u64) -> Self {
        Self { to, at, early: BTreeMap::new() }
    }

    /// Writes what is new in a frame that begins at or before the place reached.
    fn write(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        let known = usize::try_from(self.at - at).unwrap_or(usize::MAX).min(frame.len());
        self.to.write_all(&frame[known..])?;
        self.at += (frame.len() - known) as u64;
        Ok(())
    }
}

impl<W: Write + Send + 'static> Destination for InOrder<W> {
    type Output = W;

    fn put(&mut self, at: u64, frame: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        if at > self.at {
            let known = self.early.get(&at).is_some_and(|known| known.len() >= frame.len());
            return Ok(if known { Some(frame) } else { self.early.insert(at, frame) });
        }
        self.write(at, &frame)?;
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= self.at) {
            let (at, frame) = entry.remove_entry();
            self.write(at, &frame)?;
        }
        Ok(Some(frame))
    }

    fn written(&self) -> u64 {
        self.at
    }

    fn end(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Frames of memory kept for reuse: those of a few sources, 16 MiB.
const SPARE_FRAMES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn frames_in_any_order_and_twice_come_out_in_order_and_once() {
        let content: Vec<u8> = (0..100).collect();
        let mut order = InOrder::new(Vec::new(), 10);
        for (from, until) in [(50, 70), (20, 40), (50, 60), (10, 20), (15, 45), (30, 50), (70, 100), (60, 80)] {
            order.put(from, content[from as usize..until as usize].to_vec()).unwrap();
        }
        assert_eq!((order.written(), order.early.len()), (100, 0));
        assert_eq!(order.end().unwrap(), content[10..]);
    }

    /// A destination that takes so many bytes and then is full.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.len() > self.0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_full_destination_is_told_at_the_end_and_no_write_hangs() {
        let sink = RangeWriter::start(InOrder::new(Full(10), 0), Arc::default());
        let sender = sink.sender();
        let mut at = 0;
        while sender.send(at, vec![0; 4]).await {
            at += 4;
        }
        drop(sender);
        assert_eq!(sink.finish().await.err().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
