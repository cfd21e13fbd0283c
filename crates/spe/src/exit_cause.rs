//! Interprets the end of an SPE process (paper, 3.5.2). The user function's fault is reported and not retried; after a
//! mishap the task is tried again. Serves the path *job*. It reads exit statuses and the kernel's counts of OOM kills,
//! and never ends a process.

use std::{fs, os::unix::process::ExitStatusExt, process::ExitStatus};

/// Whose fault an end is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExitCause {
    /// The function's, with a sentence about it.
    Function(String),
    /// Nobody's: killed from outside.
    Process(String),
    /// Probably the function's: killed from outside while the machine killed processes for lack of memory.
    OutOfMemory(String),
}

/// What is known about memory at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OomEvidence {
    /// The kernel ended it because it exceeded its own memory limit.
    OwnRanOut,
    /// The machine, or the container of the node, has meanwhile ended some process for lack of memory.
    MachineRanOut,
    /// Nothing.
    Unknown,
}

impl ExitCause {
    /// Interprets an exit status. `said` is the last line that `who` printed.
    pub(super) fn from_status(
        status: ExitStatus,
        who: ProcessKind<'_>,
        memory: OomEvidence,
        said: Option<&str>,
    ) -> Self {
        let (ended, was_ended) = match who {
            ProcessKind::Spe => ("the function ended its process".into(), "the SPE was ended".into()),
            ProcessKind::Program(name) => {
                (format!("the program `{name}` ended"), format!("the program `{name}` was ended"))
            }
        };
        let said = said.map(|line| format!(" after saying: {line}")).unwrap_or_default();
        match (status.signal(), status.code()) {
            (Some(KILL), _) if memory == OomEvidence::OwnRanOut => {
                Self::Function(format!("{ended}: {OWN_RAN_OUT}{said}"))
            }
            (Some(KILL), _) if memory == OomEvidence::MachineRanOut => {
                Self::OutOfMemory(format!("{was_ended} while {MACHINE_RAN_OUT}"))
            }
            (Some(signal), _) => match SIGNALS.iter().find(|(number, ..)| *number == signal) {
                Some((_, name, SignalCause::Outside(why))) => Self::Process(format!("{was_ended} by {name} ({why})")),
                Some((_, name, SignalCause::Function(why))) => {
                    Self::Function(format!("{ended} with {name} ({why}){said}"))
                }
                None => Self::Function(format!("{ended} with signal {signal}{said}")),
            },
            (None, Some(code)) => Self::Function(format!("{ended} with exit code {code}{said}")),
            (None, None) => Self::Process(format!("{was_ended} without a status")),
        }
    }
}

/// The kind of process that ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProcessKind<'a> {
    /// An SPE with a function in it.
    Spe,
    /// A program that an SPE ran.
    Program(&'a str),
}

/// How often this machine has ended a process for lack of memory, its own or a control group's; 0 if unknown.
pub(super) fn oom_kills() -> u64 {
    let counts = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    kills_of(&counts)
}

fn kills_of(counts: &str) -> u64 {
    counts.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}

/// The message about an SPE that exceeded its own memory.
const OWN_RAN_OUT: &str =
    "all that it and its processes keep in memory is more than they may have (`spe_memory_bytes` of the node)";
/// The message after the machine ran out of memory.
pub(super) const MACHINE_RAN_OUT: &str =
    "the machine had no more memory (let functions have less: `spe_memory_bytes` and `spe_slots` of the node)";
/// SIGKILL.
const KILL: i32 = 9;

enum SignalCause {
    Function(&'static str),
    Outside(&'static str),
}

/// Numbers and meanings are the same on x86-64 and aarch64 Linux.
const SIGNALS: &[(i32, &str, SignalCause)] = &[
    (1, "SIGHUP", SignalCause::Outside("its terminal closed")),
    (2, "SIGINT", SignalCause::Outside("interrupted by hand")),
    (3, "SIGQUIT", SignalCause::Outside("ended by hand")),
    (4, "SIGILL", SignalCause::Function("an instruction this processor does not have")),
    (5, "SIGTRAP", SignalCause::Function("a trap")),
    (6, "SIGABRT", SignalCause::Function("it aborted")),
    (7, "SIGBUS", SignalCause::Function("a bad memory access")),
    (8, "SIGFPE", SignalCause::Function("an arithmetic error such as a division by zero")),
    (9, "SIGKILL", SignalCause::Outside("by hand, or because memory ran out")),
    (11, "SIGSEGV", SignalCause::Function("a bad memory access")),
    (15, "SIGTERM", SignalCause::Outside("by hand or at shutdown")),
    (25, "SIGXFSZ", SignalCause::Function("a file grew beyond `spe_file_bytes` of this node")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_own_ends_are_told_from_those_that_came_from_outside() {
        for signal in [4, 5, 6, 7, 8, 11, 25, 31] {
            assert!(
                matches!(
                    ExitCause::from_status(ExitStatus::from_raw(signal), ProcessKind::Spe, OomEvidence::Unknown, None),
                    ExitCause::Function(_)
                ),
                "{signal}"
            );
        }
        for signal in [1, 2, 3, 9, 15] {
            assert!(
                matches!(
                    ExitCause::from_status(ExitStatus::from_raw(signal), ProcessKind::Spe, OomEvidence::Unknown, None),
                    ExitCause::Process(_)
                ),
                "{signal}"
            );
        }
        let exit = ExitCause::from_status(
            ExitStatus::from_raw(3 << 8),
            ProcessKind::Spe,
            OomEvidence::Unknown,
            Some("out of cheese"),
        );
        let message = "the function ended its process with exit code 3 after saying: out of cheese";
        assert_eq!(exit, ExitCause::Function(message.into()));
        let killed =
            ExitCause::from_status(ExitStatus::from_raw(9), ProcessKind::Program("tr"), OomEvidence::Unknown, None);
        let message = "the program `tr` was ended by SIGKILL (by hand, or because memory ran out)";
        assert_eq!(killed, ExitCause::Process(message.into()));
    }
    #[test]
    fn an_end_for_want_of_memory_is_told_as_such_and_whose_it_was() {
        let end = |signal, memory| ExitCause::from_status(ExitStatus::from_raw(signal), ProcessKind::Spe, memory, None);
        let own = end(9, OomEvidence::OwnRanOut);
        assert!(matches!(&own, ExitCause::Function(why) if why.contains("spe_memory_bytes")), "{own:?}");
        let machine = end(9, OomEvidence::MachineRanOut);
        assert!(matches!(&machine, ExitCause::OutOfMemory(why) if why.contains("no more memory")), "{machine:?}");
        // Lack of memory ends no process in another way.
        assert!(matches!(end(15, OomEvidence::MachineRanOut), ExitCause::Process(_)));
        assert!(matches!(end(11, OomEvidence::OwnRanOut), ExitCause::Function(why) if why.contains("SIGSEGV")));
        assert_eq!(kills_of("pgfault 1\noom_kill 7\noom_kill_x 9\n"), 7);
        assert_eq!(kills_of("pgfault 1\n"), 0);
    }
}
