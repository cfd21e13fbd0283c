//! The processes of a sandbox. The one that the node started becomes the **supervisor**: it stays outside, waits for
//! the **worker** in which user code runs, ends whatever that left behind, and then ends as the worker ended, so that
//! the node reads its end as the worker's. It serves the [sandbox](super).
//!
//! Where process numbers are apart, a third process that does nothing is number 1 in there: when it ends, the kernel
//! ends every process of that space, however it hid. User code is not number 1 itself, since the kernel spares number 1
//! the signals that end others, and `abort()` would not.

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
        // The node is gone, or nothing is known: nobody reads this.
        None => system::exit_now(1),
    }
}

/// Number 1 of the space of processes.
fn start_first() -> io::Result<Pid> {
    if let Some(first) = system::fork()? {
        return Ok(first);
    }
    // It holds no descriptor that anybody waits for.
    let _ = system::close_all_but(0);
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It inherits what programs leave behind, and each counts against the limit of threads until it is forgotten.
    system::ignore_sigchld();
    loop {
        let _ = poll(&mut [], None);
    }
}

/// Waits for the worker to end, or ends it when the node is gone: then `None`.
fn watch(socket: &UnixStream, worker: Pid) -> io::Result<Option<WaitStatus>> {
    let process: OwnedFd = pidfd_open(worker, PidfdFlags::empty())?;
    loop {
        // On the socket no event is asked for: a closed other end is told all the same.
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

/// Kills a child and waits until it is gone; with number 1, until its whole space is.
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
