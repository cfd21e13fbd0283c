//! Arguments of `audit`. This file never runs a command.

use std::{path::PathBuf, time::SystemTime};

use clap::{Args, Subcommand};
use protocol::{UserName, message::audit::AuditKind};

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) command: Option<AuditCommand>,
    #[command(flatten)]
    pub(crate) show: AuditShow,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Print lines of the record, oldest first (as `sector audit`)
    #[command(after_help = "Example: sector audit show --user alice --since 2026-01-31T08:00:00Z")]
    Show(AuditShow),
    /// Check that no line was changed, removed or cut off
    #[command(after_help = "Example: sector audit verify --folder /backup/audit")]
    Verify(AuditFolder),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AuditShow {
    /// Only what happened at this time or later: 1h, 7d, or such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<SystemTime>,
    /// Only what happened before this time
    #[arg(long, value_name = "TIME", value_parser = since, conflicts_with = "follow")]
    pub(crate) until: Option<SystemTime>,
    /// Only what this user did
    #[arg(long)]
    pub(crate) user: Option<UserName>,
    /// Only this kind: login, refusal, grant, admin, job, removal, ticket or record; may be given again
    #[arg(long = "kind", value_name = "KIND", value_parser = kind)]
    pub(crate) kinds: Vec<AuditKind>,
    /// Only what was done to this path, or to what lies below it
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Go on with what is recorded from now on, until Ctrl-C; with --json, a document a line
    #[arg(long)]
    pub(crate) follow: bool,
    /// Also each session that a program or a command began with a token
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) folder: AuditFolder,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AuditFolder {
    /// Read the files of this folder instead of asking the cloud
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// A time, or how long ago it was.
fn since(text: &str) -> Result<SystemTime, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        // What is longer ago than the epoch is everything.
        return Ok(SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH));
    }
    let wrong = |_| "give how long ago, such as 1h or 7d, or a time such as 2026-01-31T08:00:00Z".to_owned();
    humantime::parse_rfc3339_weak(text).map_err(wrong)
}

fn kind(text: &str) -> Result<AuditKind, String> {
    let found = AuditKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| format!("give one of {}", AuditKind::ALL.map(AuditKind::as_str).join(", ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_given_as_such_or_as_how_long_ago_it_was() {
        let hour = Duration::from_secs(3_600);
        let (before, at, after) = (SystemTime::now(), since("1h").unwrap(), SystemTime::now());
        assert!((before - hour..=after - hour).contains(&at), "{at:?}");
        assert_eq!(since("1970-01-01T00:00:07Z").unwrap(), SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        assert!(since("yesterday").unwrap_err().contains("7d"));
        assert_eq!(kind("grant"), Ok(AuditKind::Grant));
        assert!(kind("gift").unwrap_err().contains("refusal"));
    }
}
