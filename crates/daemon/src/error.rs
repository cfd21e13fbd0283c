//! What can go wrong before a role serves and when it stops. Every message names the file, line and key, or the
//! operation, and says what to do. None of these errors is sent to a peer unless the operator caused it. This file
//! never handles an error: callers do.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use protocol::{
    Reason, Refusal,
    status::{ErrorClass, ErrorClass::Refuse},
};
use thiserror::Error;

/// Why a process does not start, or did not stop in order.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// A settings file could not be read.
    #[error("cannot read the settings file {}: {source}; check the path given with --config", file.display())]
    SettingsUnreadable {
        /// Which file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A settings file is not TOML.
    #[error("{}, line {line}: {why}", file.display())]
    SettingsSyntax {
        /// Which file.
        file: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// A key is unknown, has a value of the wrong type, or one that does not fit the others.
    #[error("{}, line {line}, key `{key}`: {why}", file.display())]
    SettingsKey {
        /// Which file.
        file: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// Which key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key without a default is missing from the file, or the default of a missing key does not fit the others.
    #[error("{}: key `{key}`: {why}", file.display())]
    SettingsMissing {
        /// Which file.
        file: PathBuf,
        /// Which key.
        key: &'static str,
        /// Why it is needed.
        why: String,
    },
    /// Settings that a program put together do not fit together.
    #[error("the settings of the {role} do not fit, key `{key}`: {why}")]
    SettingsRefused {
        /// Whose settings.
        role: &'static str,
        /// Which key.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A topology's file could not be read.
    #[error("cannot read the topology {}: {source}; check `topology` in the master's settings", file.display())]
    TopologyUnreadable {
        /// Which file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A topology's file is invalid; none of it is used.
    #[error("{}, line {line}: {why}; nothing of this topology is used", file.display())]
    Topology {
        /// Which file.
        file: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// A certificate or key file could not be read.
    #[error("cannot read the {what} {}: {source}; `sector up` and the security server issue these files", file.display())]
    CredentialUnreadable {
        /// Which of the three files.
        what: &'static str,
        /// Where it should be.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The address for metrics cannot be listened on.
    #[error("cannot listen at {address} for those who read metrics: {source}; see `metrics_listen` in the settings")]
    MetricsPort {
        /// The address of the settings.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The filter for the log could not be understood.
    #[error("cannot understand `{filter}` in SECTOR_LOG: {why}; write for example SECTOR_LOG=info,sector_net=debug")]
    LogFilter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        why: String,
    },
    /// The variables of OpenTelemetry cannot be followed.
    #[error("cannot send traces: {why}; see the variables OTEL_… in docs/howto/traces.md")]
    Traces {
        /// What is wrong.
        why: String,
    },
    /// Signals cannot be listened for.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    /// Standard output was closed before the ready line was written.
    #[error("cannot write the ready line to standard output: {0}")]
    ReadyLine(io::Error),
    /// Some tasks were cut off because they did not end in time.
    #[error("stopped, but after {waited:?} these were still at work and were cut off: {}", tasks.join(", "))]
    StopOverdue {
        /// The tasks' names.
        tasks: Vec<String>,
        /// How long they were waited for.
        waited: Duration,
    },
    /// Tasks ended by a panic.
    #[error("stopped, but these had failed by a bug: {}; please report it with the log", tasks.join(", "))]
    TaskPanicked {
        /// The tasks' names.
        tasks: Vec<String>,
    },
}

impl DaemonError {
    /// What a caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TaskPanicked { .. } => ErrorClass::Bug,
            Self::StopOverdue { .. } => ErrorClass::RetryHere,
            _ => Refuse,
        }
    }

    /// The error as one sentence with its exit code.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::SettingsUnreadable { source, .. }
            | Self::CredentialUnreadable { source, .. }
            | Self::TopologyUnreadable { source, .. }
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Reason::NotFound
            }
            Self::SettingsSyntax { .. }
            | Self::SettingsKey { .. }
            | Self::SettingsMissing { .. }
            | Self::SettingsRefused { .. }
            | Self::Topology { .. }
            | Self::LogFilter { .. }
            | Self::Traces { .. } => Reason::Invalid,
            _ => Reason::Failed,
        };
        Refusal::new(reason, self.to_string())
    }
}
