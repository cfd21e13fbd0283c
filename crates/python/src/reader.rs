//! Reading an open file at any place (path *download*, random reads): what `cloud.open(…, "rb")` builds on. The
//! client verifies every byte before it comes here. A long range is requested in pieces, several at once. Sequential
//! reads are read ahead, so that round trips to a far node are not waited for one by one. Never more than
//! [`PIECES_AT_ONCE`] pieces are in flight for one read, and as many ahead of it.

use std::{
    collections::VecDeque,
    ops::Range,
    process,
    sync::{Mutex, PoisonError},
};

use client::{ClientError, FileReader};
use pyo3::{Bound, IntoPyObject, PyAny, PyResult, Python, buffer::PyBuffer, pyclass, pymethods, types::PyBytes};
use tokio::task::JoinHandle;

use crate::{
    entry::Entry,
    failure::Failure,
    runtime::{carry_out, runtime, wait},
};

/// A file that is open for reading, at the version it had when it was opened.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct Reader {
    file: FileReader,
    process: u32,
    ahead: Mutex<ReadAhead>,
}

#[pymethods]
impl Reader {
    /// Length in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.file.bytes()
    }

    /// The file as it was when it was opened.
    #[getter]
    fn entry(&self) -> Entry {
        self.file.entry().clone().into()
    }

    /// `length` bytes from `offset` on; fewer where the file ends.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: u64, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let read = self.begin(py, offset, length)?;
        carry_out(py, awaited, async move { Ok(Bytes(read.finish().await?)) })
    }

    /// Fills `buffer` from `offset` on, all of it.
    ///
    /// # Errors
    /// `ValueError` where the file ends before.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: PyBuffer<u8>) -> PyResult<()> {
        let read = self.begin(py, offset, buffer.len_bytes() as u64)?;
        let content = wait(py, read.finish())?.map_err(Failure::from)?;
        buffer.copy_from_slice(py, &content)
    }
}

impl Reader {
    pub(crate) fn new(file: FileReader) -> Self {
        Self { file, process: process::id(), ahead: Mutex::default() }
    }

    /// Begins to read a range, starting with pieces of it that are already in flight. The lock is held for a moment
    /// only, and while the caller holds the interpreter: see `runtime.rs`.
    fn begin(&self, _: Python<'_>, offset: u64, length: u64) -> PyResult<Read> {
        if self.process != process::id() {
            let message = "this file was opened before the process forked; open it again in the child";
            return Err(Failure::Closed(message.into()).into());
        }
        let end = offset.saturating_add(length).min(self.file.bytes());
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = ahead.take(offset, end);
        let reads_on = offset > 0 && ahead.next == offset;
        ahead.next = end;
        if reads_on && length <= PIECE_BYTES {
            let _entered = runtime()?.enter();
            ahead.fill(&self.file, length);
        }
        let rest = begun.back().map_or(offset, |piece| piece.range.end)..end;
        Ok(Read { file: self.file.clone(), begun, rest })
    }
}

/// What is read ahead of sequential reads.
#[derive(Default)]
struct ReadAhead {
    /// Where the last read ended.
    next: u64,
    /// Pieces from there on, without gaps.
    pieces: VecDeque<Piece>,
}

impl ReadAhead {
    /// The pieces that a read of `offset..end` begins with. Pieces that do not fit are dropped, since the reads
    /// continue elsewhere.
    fn take(&mut self, offset: u64, end: u64) -> VecDeque<Piece> {
        let mut taken = VecDeque::new();
        let mut at = offset;
        while let Some(piece) = self.pieces.front()
            && piece.range.start == at
            && piece.range.end <= end
        {
            at = piece.range.end;
            taken.extend(self.pieces.pop_front());
        }
        if at != end {
            self.pieces.clear();
        }
        taken
    }

    /// Requests further pieces of `length` bytes.
    fn fill(&mut self, file: &FileReader, length: u64) {
        let mut at = self.pieces.back().map_or(self.next, |last| last.range.end);
        while at < file.bytes() && self.pieces.len() < PIECES_AT_ONCE {
            let piece = Piece::begin(file, at..(at + length).min(file.bytes()));
            at = piece.range.end;
            self.pieces.push_back(piece);
        }
    }
}

/// One range that is being read.
struct Read {
    file: FileReader,
    begun: VecDeque<Piece>,
    rest: Range<u64>,
}

impl Read {
    async fn finish(mut self) -> Result<Vec<u8>, ClientError> {
        if self.begun.is_empty() && self.rest.end.saturating_sub(self.rest.start) <= PIECE_BYTES {
            // Mostly the bytes are in memory on this machine: read them here and now, without another thread.
            return self.file.read_at(self.rest.start, length_of(&self.rest)).await;
        }
        let mut content = Vec::new();
        loop {
            while !self.rest.is_empty() && self.begun.len() < PIECES_AT_ONCE {
                let end = self.rest.end.min(self.rest.start + PIECE_BYTES);
                self.begun.push_back(Piece::begin(&self.file, self.rest.start..end));
                self.rest.start = end;
            }
            let Some(piece) = self.begun.pop_front() else { return Ok(content) };
            let bytes = piece.bytes().await?;
            if content.is_empty() && self.begun.is_empty() && self.rest.is_empty() {
                return Ok(bytes);
            }
            content.reserve(bytes.len() + length_of(&self.rest));
            content.extend_from_slice(&bytes);
        }
    }
}

/// A part of the file that is in flight. Dropping it cancels the read.
struct Piece {
    range: Range<u64>,
    coming: JoinHandle<Result<Vec<u8>, ClientError>>,
}

impl Piece {
    /// Requests a range. Call it within the runtime.
    fn begin(file: &FileReader, range: Range<u64>) -> Self {
        let (file, begin, bytes) = (file.clone(), range.start, length_of(&range));
        let coming = tokio::spawn(async move { file.read_at(begin, bytes).await });
        Self { range, coming }
    }

    async fn bytes(mut self) -> Result<Vec<u8>, ClientError> {
        let ended_early = |_| ClientError::Usage("the reading ended early: the process is ending".into());
        (&mut self.coming).await.map_err(ended_early)?
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.coming.abort();
    }
}

/// Bytes that Python gets as `bytes`.
struct Bytes(Vec<u8>);

impl<'py> IntoPyObject<'py> for Bytes {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(PyBytes::new(py, &self.0))
    }
}

/// The length of a range in memory. A range longer than memory can be fails when memory is reserved.
fn length_of(range: &Range<u64>) -> usize {
    usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX)
}

/// Longest piece of a range, in bytes: long compared to a request, short enough that several keep the path evenly
/// busy.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;
/// Pieces of one read in flight at once, and pieces read ahead: 16 MiB each at most.
const PIECES_AT_ONCE: usize = 4;
