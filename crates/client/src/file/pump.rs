//! Between blocking files and the network: a thread that reads ahead, and one that writes behind, each a bounded number
//! of frames. Buffers go round, so that a transfer allocates a few frames and no more.

use std::io::{self, Read, Write};

use protocol::limits;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
};

use super::FRAMES_IN_FLIGHT;

/// Reads frames ahead of their sender.
pub(crate) struct ReadAhead {
    filled: Receiver<io::Result<Vec<u8>>>,
    spent: Sender<Vec<u8>>,
}

impl ReadAhead {
    /// Starts reading.
    pub(crate) fn start(mut from: impl Read + Send + 'static) -> Self {
        let (fill, filled) = mpsc::channel(FRAMES_IN_FLIGHT);
        let (spent, mut reuse) = mpsc::channel::<Vec<u8>>(FRAMES_IN_FLIGHT);
        tokio::task::spawn_blocking(move || {
            loop {
                let mut frame = reuse.try_recv().unwrap_or_default();
                let result = fill_frame(&mut from, &mut frame);
                let last = !matches!(result, Ok(limits::FRAME_BYTES_MAX));
                let sent = match result {
                    Ok(0) => break,
                    Ok(_) => fill.blocking_send(Ok(frame)),
                    Err(error) => fill.blocking_send(Err(error)),
                };
                if last || sent.is_err() {
                    break;
                }
            }
        });
        Self { filled, spent }
    }

    /// The next frame; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        self.filled.recv().await
    }

    /// Gives a frame's memory back.
    pub(crate) fn recycle(&self, frame: Vec<u8>) {
        // Where the ring is full the memory is freed instead.
        let _ = self.spent.try_send(frame);
    }
}

/// Fills a frame as far as the source goes; less than a whole frame means its end.
fn fill_frame(from: &mut impl Read, frame: &mut Vec<u8>) -> io::Result<usize> {
    frame.resize(limits::FRAME_BYTES_MAX, 0);
    let mut filled = 0;
    while filled < frame.len() {
        match from.read(&mut frame[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    frame.truncate(filled);
    Ok(filled)
}

/// Writes frames behind their receiver.
pub(crate) struct WriteBehind<W> {
    frames: Sender<Vec<u8>>,
    spent: Receiver<Vec<u8>>,
    writer: JoinHandle<io::Result<W>>,
}

impl<W: Write + Send + 'static> WriteBehind<W> {
    /// Starts writing to `to`.
    pub(crate) fn start(mut to: W) -> Self {
        let (frames, mut filled) = mpsc::channel::<Vec<u8>>(FRAMES_IN_FLIGHT);
        let (reuse, spent) = mpsc::channel(FRAMES_IN_FLIGHT);
        let writer = tokio::task::spawn_blocking(move || {
            while let Some(frame) = filled.blocking_recv() {
                to.write_all(&frame)?;
                let _ = reuse.try_send(frame);
            }
            to.flush()?;
            Ok(to)
        });
        Self { frames, spent, writer }
    }

    /// Hands a frame over; false when writing failed and [`finish`](Self::finish) will say why.
    pub(crate) async fn write(&mut self, frame: Vec<u8>) -> bool {
        self.frames.send(frame).await.is_ok()
    }

    /// Memory for the next frame.
    pub(crate) fn spare(&mut self) -> Vec<u8> {
        self.spent.try_recv().unwrap_or_default()
    }

    /// Waits until all is written and gives the destination back.
    pub(crate) async fn finish(self) -> io::Result<W> {
        drop(self.frames);
        drop(self.spent);
        self.writer.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread ended early")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A source that gives its bytes in odd portions and can fail at the end.
    struct Odd {
        left: usize,
        fail: bool,
    }

    impl Read for Odd {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 && self.fail {
                return Err(io::Error::other("the tape is torn"));
            }
            let bytes = self.left.min(buffer.len()).min(70_001);
            buffer[..bytes].fill(7);
            self.left -= bytes;
            Ok(bytes)
        }
    }

    #[tokio::test]
    async fn every_byte_comes_in_whole_frames_but_the_last() {
        for bytes in [0, 1, limits::FRAME_BYTES_MAX, 3 * limits::FRAME_BYTES_MAX + 5] {
            let mut pump = ReadAhead::start(Odd { left: bytes, fail: false });
            let mut lengths = Vec::new();
            while let Some(frame) = pump.next().await {
                let frame = frame.unwrap();
                lengths.push(frame.len());
                pump.recycle(frame);
            }
            assert_eq!(lengths.iter().sum::<usize>(), bytes);
            assert!(lengths.iter().rev().skip(1).all(|length| *length == limits::FRAME_BYTES_MAX));
        }
    }

    #[tokio::test]
    async fn an_error_of_the_source_arrives_after_the_frames_before_it() {
        let mut pump = ReadAhead::start(Odd { left: limits::FRAME_BYTES_MAX, fail: true });
        assert_eq!(pump.next().await.unwrap().unwrap().len(), limits::FRAME_BYTES_MAX);
        assert!(pump.next().await.unwrap().is_err());
        assert!(pump.next().await.is_none());
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
        let mut pump = WriteBehind::start(Full(10));
        while pump.write(vec![0; 4]).await {}
        assert_eq!(pump.finish().await.err().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
