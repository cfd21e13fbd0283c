//! Arguments of the commands that back up the master and the security server. This file never runs a command.

use std::path::PathBuf;

use clap::Args;

use crate::backup::manifest::Role;

#[derive(Clone, Debug, Args)]
pub(crate) struct Backup {
    /// Where backups are kept: each gets a folder of its own in it
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// A role's folder, or one with the folders `security` and `master`, which may be given twice [default: the cloud
    /// that runs here]
    #[arg(long = "folder", value_name = "FOLDER", conflicts_with = "check")]
    pub(crate) folders: Vec<PathBuf>,
    /// Take none, but read all of the one in DIR, or of the newest there, and say whether it is whole
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Restore {
    /// A backup, or a folder of them: then the newest
    #[arg(value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// Only this role
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// The role's folder [default: where it was when the backup was taken]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Change nothing, but say whether it could be put back
    #[arg(long)]
    pub(crate) check: bool,
}
