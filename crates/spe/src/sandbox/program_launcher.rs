//! Programs that a confined process starts. Each is locked in before its first instruction, as far as the process
//! itself and one step further. It serves the [sandbox](super). A program inherits files, network, user, limits and
//! namespaces, and gets in addition the list of system calls for hostile code. It is never less confined than its
//! starter.

use std::{
    io,
    process::{Child, Command},
};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::{
    seccomp::{self, SpawnPolicy},
    system,
};

/// How programs are started in this sandbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramLauncher {
    /// Whether they may start further processes.
    pub(super) fork: bool,
    /// Whether process numbers are separate: leftovers of a program can then be ended without inspecting them.
    pub(super) apart: bool,
    /// Whether the kernel has lists of calls: then no program is started without one.
    pub(super) system_calls: bool,
}

impl ProgramLauncher {
    /// Starts a program, locked in. The caller sets everything else.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let started = *self;
        system::before_exec(command, move || started.lock());
        command.spawn()
    }

    /// Whether programs may start further processes.
    pub(crate) fn allows_fork(&self) -> bool {
        self.fork
    }

    /// Ends whatever programs left behind, if they may have left anything.
    pub(crate) fn kill_leftovers(&self) {
        if self.fork && self.apart {
            system::kill_all_others();
        }
    }

    /// Runs in the new process, before the program.
    fn lock(self) -> io::Result<()> {
        // Without separate process numbers, this is what ends it with its SPE.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let starts = if self.fork { SpawnPolicy::Processes } else { SpawnPolicy::Programs };
        if seccomp::restrict_further(starts)? || !self.system_calls {
            return Ok(());
        }
        Err(io::Error::other("it could not be locked in"))
    }
}
