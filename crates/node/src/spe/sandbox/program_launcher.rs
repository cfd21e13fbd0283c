//! Programs that a confined process starts: each is locked in before its first instruction, as far as the process
//! itself and one step further. It serves the [sandbox](super). Files, network, user, limits and namespaces are
//! inherited; what is added is the list of calls that hostile code gets.

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
pub(in crate::spe) struct ProgramLauncher {
    /// Whether they may start further processes.
    pub(super) fork: bool,
    /// Whether process numbers are apart: what a program left behind can then be ended without a look at it.
    pub(super) apart: bool,
    /// Whether the kernel has lists of calls: then a program without one is not started.
    pub(super) system_calls: bool,
}

impl ProgramLauncher {
    /// Starts a program, locked in. Everything else about it is the caller's.
    pub(in crate::spe) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let started = *self;
        system::before_exec(command, move || started.lock());
        command.spawn()
    }

    /// Ends whatever programs left behind, where they may have.
    pub(in crate::spe) fn kill_leftovers(&self) {
        if self.fork && self.apart {
            system::kill_all_others();
        }
    }

    /// In the new process, before the program.
    fn lock(self) -> io::Result<()> {
        // Without process numbers apart, this is what ends it with its SPE.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let starts = if self.fork { SpawnPolicy::Processes } else { SpawnPolicy::Programs };
        if seccomp::restrict_further(starts)? || !self.system_calls {
            return Ok(());
        }
        Err(io::Error::other("it could not be locked in"))
    }
}
