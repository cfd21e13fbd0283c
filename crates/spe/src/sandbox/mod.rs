//! The sandbox around user code (Sector/Sphere paper, 2.3; door 7). It serves the path *job*. The SPE process starts
//! trusted, gets its [`Confinement`] from the node, locks itself in for good, and only then loads user code. A layer
//! that the kernel lacks is recorded as missing and reported by the node; a step that fails halfway ends the process. A
//! right that was given up never comes back.

pub(super) mod confinement;
mod landlock_rules;
mod namespaces;
mod privileges;
mod process_limits;
mod program_launcher;
mod root;
mod seccomp;
mod supervisor;
mod system;

use std::{
    fs, io,
    os::{
        fd::AsRawFd,
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    path::PathBuf,
    process::ExitStatus,
};

use protocol::sandbox::SandboxLayer;
use rustix::process::setsid;

use confinement::Confinement;
use namespaces::Namespaces;
use seccomp::{SharedMemory, SpawnPolicy};

pub(super) use program_launcher::ProgramLauncher;
pub(super) use root::LIBRARIES;

/// The result, in the process that goes on.
#[derive(Debug)]
pub(super) struct Confined {
    /// Layers that are missing.
    pub(super) missing: Vec<SandboxLayer>,
    /// The path of its scratch folder, as seen in here.
    pub(super) scratch: PathBuf,
    /// How programs are started in here.
    pub(super) launcher: ProgramLauncher,
}

/// Ends this process as a program that it started has ended, so that its parent sees the program's exit status.
pub(super) fn exit_as(status: ExitStatus) -> ! {
    supervisor::exit_like(status.signal(), status.code())
}

/// Locks this process in for good. Returns in a child of it, in which everything goes on. The process itself stays
/// behind as the child's supervisor and ends with it. `socket` is the connection to the node, the only descriptor
/// besides the standard ones that stays open.
///
/// The order is forced: namespaces and mounts need privileges, and the change of user ends them. Each later step takes
/// away what the earlier steps used. The steps are in these modules:
/// - [`root`]: the folder tree;
/// - [`namespaces`]: the namespaces and the user;
/// - [`supervisor`]: the processes;
/// - [`privileges`]: the capabilities;
/// - [`process_limits`]: the limits;
/// - [`landlock_rules`]: the Landlock rules;
/// - [`seccomp`]: the list of system calls;
/// - [`program_launcher`]: the programs that are started in here;
/// - [`system`]: the few calls that have no safe form.
pub(super) fn enter(confinement: &Confinement, socket: &UnixStream) -> io::Result<Confined> {
    // Namespaces and `fork` require it, and the following steps do not apply to any other thread.
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("it has more than one thread"));
    }
    // Its own session: there is no terminal to inject input into, and the node can end the group as one.
    setsid()?;
    system::close_all_but(socket.as_raw_fd())?;
    let mut missing = Vec::new();
    let mut note = |layer, there: bool| {
        if !there {
            missing.push(layer);
        }
    };
    let spaces = Namespaces::enter(confinement.user)?;
    note(SandboxLayer::Network, spaces.network);
    note(SandboxLayer::Processes, spaces.processes);
    note(SandboxLayer::Ipc, spaces.ipc);
    let scratch = if spaces.mounts { root::change(confinement, spaces.owner)? } else { None };
    note(SandboxLayer::Files, scratch.is_some());
    privileges::empty_bounding_set();
    let spaces = spaces.become_user(confinement.user)?;
    note(SandboxLayer::Identity, spaces.is_apart());
    note(SandboxLayer::Privileges, privileges::drop_privileges());
    supervisor::fork_worker(socket, spaces.processes)?;
    note(SandboxLayer::Limits, process_limits::set_limits(confinement, spaces.counts_threads()));
    let folder = scratch.clone().unwrap_or_else(|| ".".into());
    let file_rules = landlock_rules::restrict(confinement, &folder);
    note(SandboxLayer::FileRules, file_rules);
    let starts = match (confinement.starts_programs, confinement.fork) {
        (true, _) => SpawnPolicy::Own,
        (false, true) => SpawnPolicy::Processes,
        (false, false) => SpawnPolicy::Nothing,
    };
    // Only the Landlock rules say for certain which files may be opened for writing.
    let sharing = if file_rules { SharedMemory::Files } else { SharedMemory::Nothing };
    let system_calls = seccomp::restrict(starts, sharing)?;
    note(SandboxLayer::SystemCalls, system_calls);
    missing.sort_unstable();
    let started = ProgramLauncher { fork: confinement.fork, apart: spaces.processes, system_calls };
    Ok(Confined { missing, scratch: folder, launcher: started })
}
