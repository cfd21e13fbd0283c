//! A process that was started here and may still run. It is known by its number and its start time, since numbers are
//! reused. Notes in `$SECTOR_HOME` name such processes. A reused number never counts as the same process.

use std::{fs, io, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};

use crate::Failure;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it started, in the system's ticks.
    started: u64,
}

impl Process {
    /// This process.
    pub fn here() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { pid, started: start_ticks(pid).unwrap_or_default() }
    }

    /// Whether exactly that process still runs.
    pub fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.started)
    }

    /// Asks it to stop and waits until it has.
    pub async fn stop(&self) -> Result<(), Failure> {
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

/// Sends SIGTERM and waits for the end; false if that takes too long.
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

/// When a process was started, from `/proc/PID/stat`; `None` if there is no such process, or only a zombie.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold blanks and parentheses, so fields are counted from its last parenthesis.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

const STOP_DEADLINE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_of_its_number_is_not() {
        let here = Process::here();
        assert!(here.is_alive());
        assert!(!Process { started: here.started + 1, ..here }.is_alive());
    }
}
