//! Which cloud of this home runs: a note in `$SECTOR_HOME` that `sector down` reads.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};

use super::layout::write_private;
use crate::failure::Failure;

/// A cloud that was started here.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The process of `sector up`.
    pub(crate) pid: i32,
    /// When that process started, in the system's ticks: process ids are used again.
    started: u64,
    /// The master's address.
    pub(crate) address: SocketAddr,
    /// The data folder.
    pub(crate) data: PathBuf,
}

impl Running {
    /// The cloud of this process; it leaves the terminal's session if it was started in the background.
    pub(crate) fn here(address: SocketAddr, data: &Path) -> Self {
        if std::env::var_os(DETACHED).is_some() {
            // Fails only for a leader of a group, which has no terminal to lose.
            let _ = rustix::process::setsid();
        }
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { pid, started: start_ticks(pid).unwrap_or_default(), address, data: data.into() }
    }

    /// What the note says; `None` where there is none.
    pub(crate) fn load(home: &Path) -> Result<Option<Self>, Failure> {
        let file = home.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(toml::from_str(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::local("read", &file, &error)),
        }
    }

    /// Writes the note.
    pub(crate) fn save(&self, home: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(|error| Failure::failed(error.to_string()))?;
        write_private(&home.join(FILE), text.as_bytes())
    }

    /// Removes the note.
    pub(crate) fn forget(home: &Path) {
        // Where it stays, the process it names is gone, and `is_alive` says so.
        let _ = fs::remove_file(home.join(FILE));
    }

    /// Whether that very process still runs.
    pub(crate) fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.started)
    }

    /// Asks it to stop and waits until it has.
    pub(crate) async fn stop(&self) -> Result<(), Failure> {
        let pid = self.pid;
        let stopped = tokio::task::spawn_blocking(move || stop_process(pid)).await;
        match stopped {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => {
                Err(Failure::failed(format!("process {pid} has not stopped after a minute; look at its log")))
            }
            Ok(Err(error)) => Err(Failure::failed(format!("cannot stop process {pid}: {error}"))),
            Err(error) => Err(Failure::failed(error.to_string())),
        }
    }
}

/// Sends SIGTERM and waits for the end; false when it takes too long.
fn stop_process(pid: i32) -> io::Result<bool> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(true) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    pidfd_send_signal(&process, Signal::TERM)?;
    let deadline = Timespec { tv_sec: STOP_DEADLINE.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: 0 };
    // The descriptor becomes readable when the process has ended.
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&deadline))?;
    Ok(ended > 0)
}

/// When a process was started, by `/proc/PID/stat`; `None` where there is no such process, or only its remains.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold blanks and parentheses; fields are counted behind its last parenthesis.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

const FILE: &str = "running.toml";
/// Set for a cloud that `sector up --detach` started.
pub(super) const DETACHED: &str = "SECTOR_DETACHED";
const STOP_DEADLINE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_of_its_number_is_not() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let here = Running::here(address, Path::new("/data"));
        assert!(here.is_alive());
        assert!(!Running { started: here.started + 1, ..here }.is_alive());
    }

    #[test]
    fn the_note_is_read_back_and_can_be_missing() {
        let home = tempfile::tempdir().expect("a folder");
        assert!(Running::load(home.path()).expect("readable").is_none());
        let here = Running::here(SocketAddr::from(([127, 0, 0, 1], 1)), Path::new("/data"));
        here.save(home.path()).expect("written");
        assert!(Running::load(home.path()).expect("readable").is_some_and(|note| note.is_alive()));
        Running::forget(home.path());
        assert!(Running::load(home.path()).expect("readable").is_none());
    }
}
