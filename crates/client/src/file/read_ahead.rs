//! Between a blocking source and the network (path *upload*): a thread that reads ahead a bounded number of frames. Its
//! counterpart is [`range_writer`](crate::file::range_writer). Buffers are reused, so a transfer never allocates more
//! than a few frames.

use std::io::{self, Read};

use protocol::limits;
use tokio::sync::mpsc::{self, Receiver, Sender};

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
        // If the ring is full, the memory is freed instead.
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
}
