//! Arguments of the commands over files and folders. This file never runs a command.

use std::path::PathBuf;

use super::{TransferLimitArguments, WaitArguments};
use clap::{ArgAction, Args, Subcommand};
use protocol::{RecordFraming, UserName};
use terminal::cloud_path;

#[derive(Clone, Debug, Args)]
pub(crate) struct Put {
    /// Folders too: what they hold goes to DST
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Follow symbolic links in folders; else they are left out, and named
    #[arg(short = 'L', long)]
    pub(crate) follow: bool,
    /// Copies wanted in the whole cloud [default: as the folder's policy says, else the cloud's, 3]
    #[arg(long, value_name = "N")]
    pub(crate) copies: Option<u8>,
    /// Copies on disk before the command returns [default: the cloud's, 2]
    #[arg(long, value_name = "N")]
    pub(crate) sync_copies: Option<u8>,
    /// How the bytes fall into records: fixed:BYTES, lines, index, parquet or file
    #[arg(long, default_value_t, value_name = "FORMAT")]
    pub(crate) records: RecordFraming,
    /// Write behind what the file has; where there is none, make it
    #[arg(long, conflicts_with_all = ["recursive", "records"])]
    pub(crate) append: bool,
    /// Only where nothing is at the path; else exit with 7
    #[arg(long, conflicts_with_all = ["append", "if_version"])]
    pub(crate) if_absent: bool,
    /// Only where the file has this version (`sector stat` shows it); else exit with 4, or with 3 where there is none
    #[arg(long, value_name = "VERSION", conflicts_with = "recursive")]
    pub(crate) if_version: Option<u64>,
    #[command(flatten)]
    pub(crate) wait: WaitArguments,
    #[command(flatten)]
    pub(crate) transfer_limit: TransferLimitArguments,
    /// Local files, or `-`, and at last the path in Sector
    #[arg(required = true, value_name = "SRC... DST")]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Get {
    /// Folders too: what they hold goes to DST
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Replace local files of the same name
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) transfer_limit: TransferLimitArguments,
    /// Paths or globs in Sector, and at last a local file or folder, or `-`
    #[arg(required = true, value_name = "SRC... DST")]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cat {
    /// Folders too: all files below them, one after the other
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// First and last byte: `0-99`, `100-`, or `-100` for the last 100
    #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
    pub(crate) range: Option<String>,
    #[arg(required = true, value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ls {
    // Whose fingers type `ls -lh` want sizes for people, and get no other.
    #[arg(short = 'h', long = "human-readable", hide = true)]
    _human: bool,
    /// Print help
    #[arg(long = "help", action = ArgAction::Help)]
    _help: Option<bool>,
    /// With size, owner and time of change, in your zone
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Show times in UTC, as JSON has them
    #[arg(long)]
    pub(crate) utc: bool,
    /// Also what lies below
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// The newest first
    #[arg(short = 't', long = "by-time", conflicts_with = "by_size")]
    pub(crate) by_time: bool,
    /// The largest first
    #[arg(short = 'S', long = "by-size")]
    pub(crate) by_size: bool,
    /// In the opposite order
    #[arg(short, long)]
    pub(crate) reverse: bool,
    /// Also what jobs keep beside their output (`.sphere-…`)
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Folders, files or globs
    #[arg(default_value = "/", value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Du {
    // Whose fingers type `du -h` want sizes for people, and get no other.
    #[arg(short = 'h', long = "human-readable", hide = true)]
    _human: bool,
    /// Print help
    #[arg(long = "help", action = ArgAction::Help)]
    _help: Option<bool>,
    #[arg(default_value = "/", value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Paths {
    #[arg(default_value = "/", value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Check {
    /// Folders too, with all that they hold
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Files, folders or globs
    #[arg(required = true, value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Mkdir {
    /// Missing parents too; an existing folder is fine
    #[arg(short, long)]
    pub(crate) parents: bool,
    #[arg(required = true, value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct FromTo {
    /// Paths or globs, and at last where to
    #[arg(required = true, value_name = "SRC... DST", value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Mv {
    /// Leave what is at a destination as it is, and move the others
    #[arg(short, long)]
    pub(crate) no_clobber: bool,
    #[command(flatten)]
    pub(crate) from_to: FromTo,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cp {
    /// Folders too: what they hold goes to DST
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Leave what is at a destination as it is, and copy the others
    #[arg(short, long)]
    pub(crate) no_clobber: bool,
    /// Profile of another cloud, which SRC lies in
    #[arg(long, value_name = "FILE", conflicts_with = "to_profile")]
    pub(crate) from_profile: Option<PathBuf>,
    /// Profile of another cloud, which DST lies in
    #[arg(long, value_name = "FILE")]
    pub(crate) to_profile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) wait: WaitArguments,
    #[command(flatten)]
    pub(crate) transfer_limit: TransferLimitArguments,
    /// Paths or globs, and at last where to; `sector://@NAME/PATH` in the cloud of a profile
    #[arg(required = true, value_name = "SRC... DST")]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SyncFolders {
    /// Remove from DST what SRC lacks, once all else went well; in the cloud it goes to the trash
    #[arg(long)]
    pub(crate) delete: bool,
    /// Only print what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Only what a glob like this matches, relative to SRC
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Nothing that a glob like this matches: it neither goes nor is removed
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Compare digests also where length and time are alike
    #[arg(long)]
    pub(crate) checksum: bool,
    /// Remove also where SRC has no file, or is not there
    #[arg(long, requires = "delete")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) transfer_limit: TransferLimitArguments,
    /// The folder that is read; `sector://PATH` in the cloud, `sector://@NAME/PATH` in that of a profile
    #[arg(value_name = "SRC")]
    pub(crate) from: String,
    /// The folder that becomes equal; `sector://PATH` in the cloud, `sector://@NAME/PATH` in that of a profile
    #[arg(value_name = "DST")]
    pub(crate) to: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Rm {
    /// Folders too, with all that they hold
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Do not mind what is not there
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Only print what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// For good: nothing goes to the trash
    #[arg(long)]
    pub(crate) now: bool,
    #[arg(required = true, value_parser = cloud_path)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Versions {
    /// The file
    #[arg(value_parser = cloud_path)]
    pub(crate) path: String,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TrashCommand {
    /// What can be restored, oldest first
    #[command(after_help = "Example: sector trash list")]
    List {
        /// Of all users (administrators)
        #[arg(long)]
        all_users: bool,
    },
    /// Put things back where they were
    #[command(after_help = "Example: sector trash restore /a/x.dat --to /b/x.dat")]
    Restore {
        /// Where they were (of several removed there, the newest is meant), or where they are in the trash
        #[arg(required = true, value_parser = cloud_path)]
        paths: Vec<String>,
        /// Where to put it instead
        #[arg(long, value_name = "DST", value_parser = cloud_path)]
        to: Option<String>,
    },
    /// Remove for good what could be restored
    #[command(after_help = "Example: sector trash empty")]
    Empty {
        /// Of all users (administrators)
        #[arg(long)]
        all_users: bool,
    },
    /// The master's clock is right although it jumped: trash and lifetimes end by time again (administrators)
    #[command(after_help = "Example: sector trash confirm-clock")]
    ConfirmClock,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// The writes that are under way, by path
    #[command(after_help = "Example: sector lease list --all-users")]
    List {
        /// Of all users (administrators)
        #[arg(long)]
        all_users: bool,
    },
    /// End the write of a path, so that someone else may write there; what was written is removed
    #[command(after_help = "Example: sector lease break /logs/today.log")]
    Break {
        /// What is being written
        #[arg(value_parser = cloud_path)]
        path: String,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// What an entry says itself, and what holds for it with all its folders' say
    #[command(after_help = "Example: sector policy get /sdss --json")]
    Get {
        #[arg(value_parser = cloud_path)]
        path: String,
    },
    /// Set some of it: copies, sync-copies, sites, forbidden-sites, lifetime, versions, together, quota, quota-files
    #[command(after_help = "Example: sector policy set /sdss copies=3 sites=jhu,uic lifetime=30d quota=10TB")]
    Set {
        #[arg(value_parser = cloud_path)]
        path: String,
        /// `copies=3`; `copies=` inherits again
        #[arg(required = true, value_name = "KEY=VALUE")]
        assignments: Vec<String>,
    },
    /// Inherit again: these keys, or all
    #[command(after_help = "Example: sector policy clear /sdss copies sites")]
    Clear {
        #[arg(value_parser = cloud_path)]
        path: String,
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// How much is kept, and may be: all for administrators, else one's own
    #[command(after_help = "Example: sector quota list")]
    List,
    /// How much a user may keep, the trash included; of folders see `sector policy`
    #[command(after_help = "Example: sector quota set alice bytes=1TB files=1000000")]
    Set {
        user: UserName,
        /// `bytes=1TB`, `files=1000000`; without a value: any number
        #[arg(required = true, value_name = "KEY=VALUE")]
        limits: Vec<String>,
        /// Take a user that the cloud does not know
        #[arg(long)]
        unknown: bool,
    },
    /// Let a user keep any number
    #[command(after_help = "Example: sector quota clear alice")]
    Clear { user: UserName },
}
