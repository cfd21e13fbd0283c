//! The bytes of an open file in order, as gateways send them: some pieces are read ahead of whoever takes them. All streams
//! of a process share a bound on what they read ahead, and each has one piece whatever others have. So slow readers hold
//! nobody up. It never reads on when nobody takes the bytes any more.

use std::{
    collections::VecDeque,
    ops::Range,
    task::{Context, Poll},
};

use tokio::{
    sync::{Semaphore, SemaphorePermit, mpsc},
    task::JoinHandle,
};

use crate::{ClientError, FileReader};

/// Bytes of a file in order.
#[derive(Debug)]
pub struct FileStream {
    pieces: mpsc::Receiver<Result<Vec<u8>, ClientError>>,
}

/// A piece that is being read, with its part of what may be read ahead.
struct Ahead {
    reading: JoinHandle<Result<Vec<u8>, ClientError>>,
    _permit: Option<SemaphorePermit<'static>>,
}

impl FileReader {
    /// The bytes of a range in order. Must be called within the runtime.
    pub fn stream(&self, range: Range<u64>) -> FileStream {
        let (sender, pieces) = mpsc::channel(1);
        tokio::spawn(send_pieces(self.clone(), range, sender));
        FileStream { pieces }
    }
}

impl FileStream {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// As [`FileReader::read_at`]. Nothing comes after an error.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, ClientError>> {
        self.pieces.recv().await
    }

    /// The same for streams of other libraries.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, ClientError>>> {
        self.pieces.poll_recv(context)
    }
}

async fn send_pieces(file: FileReader, range: Range<u64>, sender: mpsc::Sender<Result<Vec<u8>, ClientError>>) {
    let (mut next, mut ahead) = (range.start, VecDeque::new());
    loop {
        while next < range.end && ahead.len() < PIECES_AHEAD {
            // The first needs no permit: without it, nothing would ever go on.
            let permit = if ahead.is_empty() { None } else { READ_AHEAD.try_acquire().ok() };
            if permit.is_none() && !ahead.is_empty() {
                break;
            }
            let (file, from, bytes) = (file.clone(), next, (range.end - next).min(PIECE_BYTES));
            let reading = tokio::spawn(async move { file.read_at(from, bytes as usize).await });
            ahead.push_back(Ahead { reading, _permit: permit });
            next += bytes;
        }
        let Some(first) = ahead.pop_front() else { return };
        let piece =
            first.reading.await.unwrap_or_else(|_| Err(ClientError::Usage("the reading task ended early".into())));
        let is_over = piece.is_err();
        if sender.send(piece).await.is_err() || is_over {
            return;
        }
    }
}

/// Read at once: what a reader on this machine gives without another thread.
const PIECE_BYTES: u64 = 256 << 10;
/// Of one stream: 4 MiB, which hide a round trip.
const PIECES_AHEAD: usize = 16;
/// Of all streams of this process together, beside one of each: 256 MiB.
static READ_AHEAD: Semaphore = Semaphore::const_new(1_024);
