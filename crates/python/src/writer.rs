//! Writing a file piece by piece (path *upload*): what `cloud.open(…, "wb")` builds on. At most [`CHUNKS_MAX`] chunks
//! wait for the network; a faster writer waits. The file appears whole when it is finished. A file that is discarded,
//! or merely dropped, never appears.

use std::{
    io::{self, Cursor, Read},
    mem, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use client::{Client, ClientError, PutOptions, SectorPath};
use pyo3::{Bound, PyAny, PyResult, Python, buffer::PyBuffer, pyclass, pymethods};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
};

use crate::{entry::Entry, failure::Failure, runtime::carry_out};

/// A file that is being written.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct Writer {
    target: Arc<Target>,
    process: u32,
    state: Arc<Mutex<State>>,
}

#[pymethods]
impl Writer {
    /// Takes all bytes of `buffer`.
    fn write<'py>(&self, py: Python<'py>, buffer: PyBuffer<u8>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut turn = self.turn()?;
        let before = turn.gathered.len();
        turn.gathered.resize(before + buffer.len_bytes(), 0);
        if let Err(error) = buffer.copy_to_slice(py, &mut turn.gathered[before..]) {
            turn.gathered.truncate(before);
            turn.end();
            return Err(error);
        }
        if turn.gathered.len() < CHUNK_BYTES {
            turn.end();
            return carry_out(py, awaited, async { Ok(()) });
        }
        let target = Arc::clone(&self.target);
        carry_out(py, awaited, async move {
            turn.send(&target).await?;
            turn.end();
            Ok(())
        })
    }

    /// Publishes the file and gives what it is now.
    fn finish<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let (mut turn, target) = (self.turn()?, Arc::clone(&self.target));
        carry_out(py, awaited, async move {
            if turn.upload.is_none() && !target.append {
                return target.put_whole(mem::take(&mut turn.gathered)).await;
            }
            turn.send(&target).await?;
            match turn.upload.take() {
                Some(upload) => Ok(upload.finish().await?.into()),
                None => Err(Failure::Closed("there is nothing to publish".into())),
            }
        })
    }

    /// Gives the file up: nothing of it appears. Does nothing where it has ended.
    fn discard<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        // A child leaves its parent's file alone.
        let upload = self.turn().ok().and_then(|mut turn| turn.upload.take());
        carry_out(py, awaited, async move {
            if let Some(upload) = upload {
                upload.give_up().await;
            }
            Ok(())
        })
    }
}

impl Writer {
    pub(crate) fn new(cloud: Client, path: SectorPath, options: PutOptions, append: bool) -> Self {
        let target = Arc::new(Target { cloud, path, options, append });
        let state = State::Open { gathered: Vec::new(), upload: None };
        Self { target, process: process::id(), state: Arc::new(Mutex::new(state)) }
    }

    /// Takes the file for one call.
    fn turn(&self) -> Result<WriterGuard, Failure> {
        let path = &self.target.path;
        if self.process != process::id() {
            let message = format!("`{path}` was opened before the process forked; open it again in the child");
            return Err(Failure::Closed(message));
        }
        match mem::replace(&mut *lock(&self.state), State::Busy) {
            State::Open { gathered, upload } => Ok(WriterGuard { state: Arc::clone(&self.state), gathered, upload }),
            State::Busy => {
                Err(Failure::Closed(format!("`{path}` is being written by another call; wait for it first")))
            }
            State::Ended => {
                *lock(&self.state) = State::Ended;
                Err(Failure::Closed(format!("`{path}` is closed; open it again to write it")))
            }
        }
    }
}

/// What is written, and how.
struct Target {
    cloud: Client,
    path: SectorPath,
    options: PutOptions,
    append: bool,
}

impl Target {
    /// Publishes a file of which nothing was sent yet.
    async fn put_whole(&self, content: Vec<u8>) -> Result<Entry, Failure> {
        let options = PutOptions { bytes_expected: Some(content.len() as u64), ..self.options.clone() };
        Ok(self.cloud.put(Cursor::new(content), &self.path, &options, &|_| ()).await?.into())
    }

    /// Begins to send.
    fn begin(self: &Arc<Self>) -> Upload {
        let (sender, words) = mpsc::channel(CHUNKS_MAX);
        let source = ChunkReader { chunks: words, chunk: Cursor::default(), is_whole: false };
        let target = Arc::clone(self);
        let task = tokio::spawn(async move {
            let Target { cloud, path, options, append } = &*target;
            match append {
                true => cloud.append(source, path, options, &|_| ()).await,
                false => cloud.put(source, path, options, &|_| ()).await,
            }
        });
        Upload { chunks: sender, task }
    }
}

/// The state of a file.
enum State {
    /// Bytes are gathered until they fill a chunk; the upload begins with the first chunk.
    Open { gathered: Vec<u8>, upload: Option<Upload> },
    /// A call is under way.
    Busy,
    /// Published, given up, or failed.
    Ended,
}

/// One call's hold on a file. Dropping it, because the call failed or was cancelled, ends the file.
struct WriterGuard {
    state: Arc<Mutex<State>>,
    gathered: Vec<u8>,
    upload: Option<Upload>,
}

impl WriterGuard {
    /// Sends what has gathered.
    async fn send(&mut self, target: &Arc<Target>) -> Result<(), Failure> {
        let mut upload = self.upload.take().unwrap_or_else(|| target.begin());
        let chunk = mem::take(&mut self.gathered);
        if upload.chunks.send(UploadChunk::Bytes(chunk)).await.is_ok() {
            self.upload = Some(upload);
            return Ok(());
        }
        // Nothing receives the chunks: the upload has ended with an error.
        match upload.outcome().await {
            Err(error) => Err(error.into()),
            Ok(_) => Err(Failure::Closed(format!("the upload of `{}` ended early", target.path))),
        }
    }

    /// Ends the turn; the file stays open.
    fn end(mut self) {
        let (gathered, upload) = (mem::take(&mut self.gathered), self.upload.take());
        *lock(&self.state) = State::Open { gathered, upload };
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Busy) {
            *state = State::Ended;
        }
    }
}

/// An upload that is under way. When dropped, it ends by itself and returns its lease.
struct Upload {
    chunks: Sender<UploadChunk>,
    task: JoinHandle<Result<client::Entry, ClientError>>,
}

impl Upload {
    async fn finish(mut self) -> Result<client::Entry, ClientError> {
        // If nothing receives it any more, the outcome says why.
        let _ = self.chunks.send(UploadChunk::End).await;
        self.outcome().await
    }

    async fn give_up(mut self) {
        drop(mem::replace(&mut self.chunks, mpsc::channel(1).0));
        let _ = self.outcome().await;
    }

    async fn outcome(&mut self) -> Result<client::Entry, ClientError> {
        (&mut self.task).await.unwrap_or_else(|_| Err(ClientError::Usage("the upload was ended from outside".into())))
    }
}

/// What goes to an upload.
enum UploadChunk {
    Bytes(Vec<u8>),
    /// The end. The file is complete only with this message.
    End,
}

/// The bytes of an upload as they come.
struct ChunkReader {
    chunks: Receiver<UploadChunk>,
    chunk: Cursor<Vec<u8>>,
    is_whole: bool,
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.chunk.read(buffer)?;
            if bytes > 0 || buffer.is_empty() || self.is_whole {
                return Ok(bytes);
            }
            match self.chunks.blocking_recv() {
                Some(UploadChunk::Bytes(chunk)) => self.chunk = Cursor::new(chunk),
                Some(UploadChunk::End) => self.is_whole = true,
                None => return Err(io::Error::other("it was given up before it was whole")),
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gathered bytes that make a chunk: a frame's length.
const CHUNK_BYTES: usize = 1024 * 1024;
/// Chunks that wait for the network. A long write by Python is cut into such chunks.
const CHUNKS_MAX: usize = 4;
