//! The output of user code: read so that it never blocks, logged line by line, and kept by segment within bounds. The
//! last line is kept too, since it often gives the reason of a crash ("double free detected"). Serves the path *job*.
//! It never keeps more than the bounds of a job's log.

use std::{
    io::PipeReader,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::message::spe::PrintedOutput;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::unix::pipe::Receiver,
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use super::printed_log::PrintedLog;
use crate::{child::is_report, segment_mark};

/// The reader of a process's standard output and standard error.
pub(super) struct CapturedOutput {
    captured: Arc<Mutex<Captured>>,
    /// How many marks were read; closed when the reader has ended.
    marks: watch::Receiver<u64>,
    task: JoinHandle<()>,
    /// A function has closed the pipe, or a mark is missing for another reason: no further one is waited for.
    lacks_marks: bool,
}

#[derive(Default)]
struct Captured {
    last: Option<String>,
    log: PrintedLog,
}

impl CapturedOutput {
    /// Begins to read. Ends when the last process holding the other end has ended, or when this is dropped.
    pub(super) fn read(pipe: PipeReader) -> std::io::Result<Self> {
        let pipe = Receiver::from_owned_fd(OwnedFd::from(pipe))?;
        let captured = Arc::new(Mutex::default());
        let (sender, marks) = watch::channel(0);
        let task = tokio::spawn(read_lines(pipe, Arc::clone(&captured), sender));
        Ok(Self { captured, marks, task, lacks_marks: false })
    }

    /// The last line of a process that has ended.
    pub(super) async fn last_line(&mut self) -> Option<String> {
        self.await_end().await;
        lock(&self.captured).last.clone()
    }

    /// What was printed up to this many marks. What follows the last mark belongs to the segment `rest`.
    pub(super) async fn take_printed(&mut self, marks: u64, rest: Option<u64>) -> PrintedOutput {
        if !self.lacks_marks {
            // They are in the pipe before the message that made the caller ask. An error is the end of the process.
            let read = timeout(LAST_WAIT, self.marks.wait_for(|read| *read >= marks)).await;
            self.lacks_marks = read.is_err();
        }
        lock(&self.captured).log.take(rest)
    }

    /// Waits for the end of a process that has ended: what it printed is in the pipe. A grandchild that holds the pipe
    /// open is not waited for.
    async fn await_end(&mut self) {
        if !self.task.is_finished() {
            let _ = timeout(LAST_WAIT, &mut self.task).await;
        }
    }
}

impl Drop for CapturedOutput {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_lines(pipe: Receiver, captured: Arc<Mutex<Captured>>, marks: watch::Sender<u64>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut pipe).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if let Some(segment) = segment_mark::parse(&line) {
            lock(&captured).log.end(segment);
            marks.send_modify(|read| *read += 1);
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        if is_report(&text) {
            continue;
        }
        let text: String = text.trim().chars().filter(|character| !character.is_control()).collect();
        let mut captured = lock(&captured);
        captured.log.add(&line);
        if !text.is_empty() {
            tracing::debug!(target: "spe", "{text}");
            captured.last = Some(text);
        }
    }
}

fn lock(captured: &Mutex<Captured>) -> MutexGuard<'_, Captured> {
    captured.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longest line in bytes; a longer one is split into several.
const LINE_BYTES_MAX: u64 = 400;
/// How long the end of the pipe is waited for once the process has ended.
const LAST_WAIT: Duration = Duration::from_millis(500);
