//! What the end of an SPE process means: the user function's fault, which is reported and not retried, or a mishap, after
//! which the task is tried again (paper, 3.5.2). Serves the path *job*; it only reads exit statuses.

use std::{fs, os::unix::process::ExitStatusExt, process::ExitStatus};

/// Whose fault an end is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// The function's, with a sentence about it.
    OfFunction(String),
    /// Nobody's: killed from outside.
    OfProcess(String),
    /// Probably the function's: killed from outside while the machine ended processes for want of memory.
    Starved(String),
}

/// What is known of memory at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// The kernel ended it because it took more than its own.
    OwnRanOut,
    /// The machine, or the container that the node is in, has ended some process meanwhile because there was no more.
    MachineRanOut,
    /// Nothing.
    Unknown,
}

impl Death {
    /// Reads an exit status. `said` is the last that `who` printed.
    pub(super) fn read(status: ExitStatus, who: Who<'_>, memory: Memory, said: Option<&str>) -> Self {
        let (ended, was_ended) = match who {
            Who::Spe => ("the function ended its process".into(), "the SPE was ended".into()),
            Who::Program(name) => (format!("the program `{name}` ended"), format!("the program `{name}` was ended")),
        };
        let said = said.map(|line| format!(" after saying: {line}")).unwrap_or_default();
        match (status.signal(), status.code()) {
            (Some(KILL), _) if memory == Memory::OwnRanOut => Self::OfFunction(format!("{ended}: {OWN_RAN_OUT}{said}")),
            (Some(KILL), _) if memory == Memory::MachineRanOut => {
                Self::Starved(format!("{was_ended} while {MACHINE_RAN_OUT}"))
            }
            (Some(signal), _) => match SIGNALS.iter().find(|(number, ..)| *number == signal) {
                Some((_, name, Fault::Outside(why))) => Self::OfProcess(format!("{was_ended} by {name} ({why})")),
                Some((_, name, Fault::Function(why))) => Self::OfFunction(format!("{ended} with {name} ({why}){said}")),
                None => Self::OfFunction(format!("{ended} with signal {signal}{said}")),
            },
            (None, Some(code)) => Self::OfFunction(format!("{ended} with exit code {code}{said}")),
            (None, None) => Self::OfProcess(format!("{was_ended} without a status")),
        }
    }
}

/// Whose end it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who<'a> {
    /// An SPE with a function in it.
    Spe,
    /// A program that an SPE ran.
    Program(&'a str),
}

/// How often this machine has ended a process for want of memory, its own or a control group's; 0 where it does not say.
pub(super) fn memory_kills() -> u64 {
    let counts = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    kills_of(&counts)
}

fn kills_of(counts: &str) -> u64 {
    counts.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}

/// What is said where an SPE took more than its own memory.
const OWN_RAN_OUT: &str =
    "all that it and its processes keep in memory is more than they may have (`spe_memory_bytes` of the node)";
/// What is said where the machine ran out of memory.
pub(super) const MACHINE_RAN_OUT: &str =
    "the machine had no more memory (let functions have less: `spe_memory_bytes` and `spe_slots` of the node)";
/// SIGKILL.
const KILL: i32 = 9;

enum Fault {
    Function(&'static str),
    Outside(&'static str),
}

/// Numbers and meanings are the same on x86-64 and aarch64 Linux.
const SIGNALS: &[(i32, &str, Fault)] = &[
    (1, "SIGHUP", Fault::Outside("its terminal closed")),
    (2, "SIGINT", Fault::Outside("interrupted by hand")),
    (3, "SIGQUIT", Fault::Outside("ended by hand")),
    (4, "SIGILL", Fault::Function("an instruction this processor does not have")),
    (5, "SIGTRAP", Fault::Function("a trap")),
    (6, "SIGABRT", Fault::Function("it aborted")),
    (7, "SIGBUS", Fault::Function("a bad memory access")),
    (8, "SIGFPE", Fault::Function("an arithmetic error such as a division by zero")),
    (9, "SIGKILL", Fault::Outside("by hand, or because memory ran out")),
    (11, "SIGSEGV", Fault::Function("a bad memory access")),
    (15, "SIGTERM", Fault::Outside("by hand or at shutdown")),
    (25, "SIGXFSZ", Fault::Function("a file grew beyond `spe_file_bytes` of this node")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_own_ends_are_told_from_those_that_came_from_outside() {
        for signal in [4, 5, 6, 7, 8, 11, 25, 31] {
            assert!(
                matches!(
                    Death::read(ExitStatus::from_raw(signal), Who::Spe, Memory::Unknown, None),
                    Death::OfFunction(_)
                ),
                "{signal}"
            );
        }
        for signal in [1, 2, 3, 9, 15] {
            assert!(
                matches!(
                    Death::read(ExitStatus::from_raw(signal), Who::Spe, Memory::Unknown, None),
                    Death::OfProcess(_)
                ),
                "{signal}"
            );
        }
        let exit = Death::read(ExitStatus::from_raw(3 << 8), Who::Spe, Memory::Unknown, Some("out of cheese"));
        let sentence = "the function ended its process with exit code 3 after saying: out of cheese";
        assert_eq!(exit, Death::OfFunction(sentence.into()));
        let killed = Death::read(ExitStatus::from_raw(9), Who::Program("tr"), Memory::Unknown, None);
        let sentence = "the program `tr` was ended by SIGKILL (by hand, or because memory ran out)";
        assert_eq!(killed, Death::OfProcess(sentence.into()));
    }
    #[test]
    fn an_end_for_want_of_memory_is_told_as_such_and_whose_it_was() {
        let end = |signal, memory| Death::read(ExitStatus::from_raw(signal), Who::Spe, memory, None);
        let own = end(9, Memory::OwnRanOut);
        assert!(matches!(&own, Death::OfFunction(why) if why.contains("spe_memory_bytes")), "{own:?}");
        let machine = end(9, Memory::MachineRanOut);
        assert!(matches!(&machine, Death::Starved(why) if why.contains("no more memory")), "{machine:?}");
        // Memory ends nobody in another way.
        assert!(matches!(end(15, Memory::MachineRanOut), Death::OfProcess(_)));
        assert!(matches!(end(11, Memory::OwnRanOut), Death::OfFunction(why) if why.contains("SIGSEGV")));
        assert_eq!(kills_of("pgfault 1\noom_kill 7\noom_kill_x 9\n"), 7);
        assert_eq!(kills_of("pgfault 1\n"), 0);
    }
}
