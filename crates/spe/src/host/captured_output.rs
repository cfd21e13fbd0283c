//! The output of user code: read so that it never blocks, and logged line by line. The last line is kept, since it
//! often gives the reason of a crash ("double free detected"). Serves the path *job*. It never keeps more than one
//! line.

use std::{
    io::PipeReader,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::unix::pipe::Receiver,
    task::JoinHandle,
    time::timeout,
};

/// The reader of a process's standard output and standard error.
pub(super) struct CapturedOutput {
    last: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl CapturedOutput {
    /// Begins to read. Ends when the last process holding the other end has ended, or when this is dropped.
    pub(super) fn read(pipe: PipeReader) -> std::io::Result<Self> {
        let pipe = Receiver::from_owned_fd(OwnedFd::from(pipe))?;
        let last = Arc::new(Mutex::new(None));
        let task = tokio::spawn(read_lines(pipe, Arc::clone(&last)));
        Ok(Self { last, task })
    }

    /// The last line of a process that has ended.
    pub(super) async fn last_line(&mut self) -> Option<String> {
        // What it printed is in the pipe; a grandchild that holds the pipe open is not waited for.
        let _ = timeout(LAST_WAIT, &mut self.task).await;
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for CapturedOutput {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_lines(pipe: Receiver, last: Arc<Mutex<Option<String>>>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut pipe).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text: String = text.trim().chars().filter(|character| !character.is_control()).collect();
        if !text.is_empty() {
            tracing::debug!(target: "spe", "{text}");
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }
}

/// Longest line in bytes; a longer one is split into several.
const LINE_BYTES_MAX: u64 = 400;
/// How long the end of the pipe is waited for once the process has ended.
const LAST_WAIT: Duration = Duration::from_millis(500);
