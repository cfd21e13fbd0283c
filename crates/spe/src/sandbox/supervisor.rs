//! The processes of a sandbox. The process that the node started becomes the **supervisor**. It stays outside, waits
//! for the **worker** in which user code runs, and ends whatever that left behind. Then it ends as the worker ended, so
//! that the node reads its exit status as the worker's. It serves the [sandbox](super). The supervisor itself never
//! runs user code.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, retry_on_intr},
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, set_parent_process_death_signal,
        waitpid,
    },
};

use super::system;

/// Returns in the worker only.
///
/// With separate process numbers, an idle third process is number 1 in there. When it ends, the kernel ends every
/// process of that namespace, however it hid. User code is not number 1 itself: the kernel spares number 1 the signals
/// that end others, so `abort()` would not work.
pub(super) fn fork_worker(socket: &UnixStream, apart: bool) -> io::Result<()> {
    let first = if apart { Some(start_first()?) } else { None };
    let Some(worker) = system::fork()? else {
        // Without number 1, this is what ends the worker with its supervisor.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        return Ok(());
    };
    let status = match watch(socket, worker) {
        Ok(status) => status,
        Err(_) => {
            end(worker);
            None
        }
    };
    if let Some(first) = first {
        end(first);
    }
    match status {
        Some(status) => follow(status),
        // The node is gone, or the cause is unknown: nobody reads this.
        None => system::exit_now(1),
    }
}

/// Number 1 of the process namespace.
fn start_first() -> io::Result<Pid> {
    if let Some(first) = system::fork()? {
        return Ok(first);
    }
    // It holds no descriptor that anybody waits for.
    let _ = system::close_all_but(0);
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It inherits what programs leave behind; each counts against the limit of threads until it is reaped.
    system::ignore_sigchld();
    loop {
        let _ = poll(&mut [], None);
    }
}

/// Waits for the worker to end, or ends it when the node is gone, which gives `None`.
fn watch(socket: &UnixStream, worker: Pid) -> io::Result<Option<WaitStatus>> {
    let process: OwnedFd = pidfd_open(worker, PidfdFlags::empty())?;
    loop {
        // No event is requested on the socket: a closed other end is reported all the same.
        let mut watched = [PollFd::new(&process, PollFlags::IN), PollFd::new(socket, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !watched[0].revents().is_empty() {
            return Ok(retry_on_intr(|| waitpid(Some(worker), WaitOptions::empty()))?.map(|(_, status)| status));
        }
        if !watched[1].revents().is_empty() {
            end(worker);
            return Ok(None);
        }
    }
}

/// Kills a child and waits until it is gone; for number 1, until its whole namespace is.
fn end(process: Pid) {
    let _ = kill_process(process, Signal::KILL);
    let _ = retry_on_intr(|| waitpid(Some(process), WaitOptions::empty()));
}

/// Ends as the worker ended.
fn follow(status: WaitStatus) -> ! {
    exit_like(status.terminating_signal(), status.exit_status())
}

/// Ends this process as another one ended.
pub(super) fn exit_like(signal: Option<i32>, code: Option<i32>) -> ! {
    match signal {
        Some(signal) => system::exit_by_signal(signal),
        None => system::exit_now(code.unwrap_or(1)),
    }
}
