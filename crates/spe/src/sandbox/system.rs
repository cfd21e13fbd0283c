//! System calls that have no safe form in our libraries. Each is one function that says why its use here is sound. It
//! serves the [sandbox](super) and never decides anything.
#![allow(unsafe_code)]

use std::{
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
};

use rustix::{process::Pid, thread::UnshareFlags};

/// Closes all descriptors but the standard three and `kept`.
pub(super) fn close_all_but(kept: RawFd) -> io::Result<()> {
    let kept = kept.cast_unsigned();
    let ranges = [(FIRST_DESCRIPTOR, kept.saturating_sub(1)), (kept.saturating_add(1).max(FIRST_DESCRIPTOR), u32::MAX)];
    for (first, last) in ranges.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: called at the start of a process that has opened nothing but `kept`, so nobody holds one of these.
        let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Gives this process a namespace of its own.
pub(super) fn unshare(space: UnshareFlags) -> io::Result<()> {
    // SAFETY: called with namespaces only, never with the descriptor table, and in a process of one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(space) }?)
}

/// `fork`: the child's number, and `None` in the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread: that was checked first, and none was started since. So the child finds no
    // lock held by a thread that does not exist there.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Pid::from_raw(child))
}

/// Makes a detached tree of mounts, and all below it, read-only, without set-user-id programs.
pub(super) fn make_read_only(tree: BorrowedFd<'_>, devices: bool) -> io::Result<()> {
    let no_devices = if devices { 0 } else { libc::MOUNT_ATTR_NODEV };
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | no_devices,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path is an empty C string; the structure lives through the call and has the stated length.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a write beyond the limit of a file's length fail instead of ending the process.
pub(super) fn ignore_sigxfsz() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Calls `prepare` in the process that becomes the program, before it does.
pub(super) fn before_exec(command: &mut Command, prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static) {
    // SAFETY: this process has one thread, so the new one finds no lock held by a thread that does not exist there.
    unsafe { command.pre_exec(prepare) };
}

/// Ends every process of this process namespace but its first and this one. Must be called only if the namespace is not
/// the machine's.
pub(super) fn kill_all_others() {
    // SAFETY: touches no memory; the namespace bounds which processes it reaches.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Has the kernel reap children that have ended, without anybody waiting for them.
pub(super) fn ignore_sigchld() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Ends this process by a signal, whatever handler the runtime has set for it.
pub(super) fn exit_by_signal(signal: i32) -> ! {
    // SAFETY: the default action runs no code of ours, and nothing is to follow.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        // The signal was one that does not end a process.
        libc::_exit(128 + signal)
    }
}

/// Ends this process without running exit handlers, which belong to the process it was forked from.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// The first descriptor after the standard ones.
const FIRST_DESCRIPTOR: u32 = 3;
