//! Arguments of `audit`. This file never runs a command.

use std::{path::PathBuf, time::SystemTime};

use clap::{Args, Subcommand};
use protocol::UserName;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Print lines of the record, oldest first
    #[command(after_help = "Example: sector audit show --user alice --since 2026-01-31T08:00:00Z")]
    Show(AuditShow),
    /// Check that no line was changed, removed or cut off
    #[command(after_help = "Example: sector audit verify --folder /backup/audit")]
    Verify(AuditFolder),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AuditShow {
    /// Only what happened at this time or later
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_rfc3339_weak)]
    pub(crate) since: Option<SystemTime>,
    /// Only what this user did
    #[arg(long)]
    pub(crate) user: Option<UserName>,
    #[command(flatten)]
    pub(crate) folder: AuditFolder,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AuditFolder {
    /// Read the files of this folder instead of asking the cloud
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
