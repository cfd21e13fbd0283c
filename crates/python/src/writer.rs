//! A file that is being written (path *upload*): what `cloud.open(…, "wb")` builds on. It lets one call at a time use
//! the client's writer, and refuses a child's use of its parent's file. It never decides when bytes are sent: the
//! client library does.

use std::{
    mem, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use client::{FileWriter, SectorPath};
use pyo3::{Bound, PyAny, PyResult, Python, buffer::PyBuffer, pyclass, pymethods};

use crate::{entry::Entry, failure::Failure, runtime::carry_out};

/// A file that is being written.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct Writer {
    path: SectorPath,
    process: u32,
    state: Arc<Mutex<State>>,
}

#[pymethods]
impl Writer {
    /// Takes all bytes of `buffer`.
    fn write<'py>(&self, py: Python<'py>, buffer: PyBuffer<u8>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut turn = self.turn()?;
        let bytes = match buffer.to_vec(py) {
            Ok(bytes) => bytes,
            Err(error) => {
                turn.end();
                return Err(error);
            }
        };
        if !turn.file()?.gather(bytes) {
            turn.end();
            return carry_out(py, awaited, async { Ok(()) });
        }
        carry_out(py, awaited, async move {
            turn.file()?.send().await?;
            turn.end();
            Ok(())
        })
    }

    /// Publishes the file and gives what it is now.
    fn finish<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut turn = self.turn()?;
        carry_out(py, awaited, async move {
            match turn.file.take() {
                Some(file) => Ok(Entry::from(file.finish().await?)),
                None => Err(Failure::Closed("there is nothing to publish".into())),
            }
        })
    }

    /// Gives the file up: nothing of it appears. Does nothing where it has ended.
    fn discard<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        // A child leaves its parent's file alone.
        let file = self.turn().ok().and_then(|mut turn| turn.file.take());
        carry_out(py, awaited, async move {
            if let Some(file) = file {
                file.discard().await;
            }
            Ok(())
        })
    }
}

impl Writer {
    pub(crate) fn new(file: FileWriter) -> Self {
        let (path, state) = (file.path().clone(), State::Open(file));
        Self { path, process: process::id(), state: Arc::new(Mutex::new(state)) }
    }

    /// Takes the file for one call.
    fn turn(&self) -> Result<WriterGuard, Failure> {
        let path = &self.path;
        if self.process != process::id() {
            let message = format!("`{path}` was opened before the process forked; open it again in the child");
            return Err(Failure::Closed(message));
        }
        match mem::replace(&mut *lock(&self.state), State::Busy) {
            State::Open(file) => Ok(WriterGuard { state: Arc::clone(&self.state), file: Some(file) }),
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

/// The state of a file.
enum State {
    /// It takes bytes.
    Open(FileWriter),
    /// A call is under way.
    Busy,
    /// Published, given up, or failed.
    Ended,
}

/// One call's hold on a file. Dropping it, because the call failed or was cancelled, ends the file.
struct WriterGuard {
    state: Arc<Mutex<State>>,
    file: Option<FileWriter>,
}

impl WriterGuard {
    fn file(&mut self) -> Result<&mut FileWriter, Failure> {
        self.file.as_mut().ok_or_else(|| Failure::Closed("the file is closed".into()))
    }

    /// Ends the turn; the file stays open.
    fn end(mut self) {
        if let Some(file) = self.file.take() {
            *lock(&self.state) = State::Open(file);
        }
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

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
