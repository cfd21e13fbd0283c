//! Arguments of `profile`. This file never runs a command.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// The profiles by name; the one in use is marked
    #[command(after_help = "Example: sector profile list")]
    List,
    /// Have commands use this profile
    #[command(after_help = "Example: sector profile use chicago   (`default` is the one that `sector up` writes)")]
    Use {
        /// Its name
        name: String,
    },
    /// Give a profile a name
    #[command(after_help = "Example: sector profile add chicago profile.toml")]
    Add {
        /// The new name
        name: String,
        /// The profile's file; `-`: read it from standard input [default: the profile in use]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Replace the profile that has this name
        #[arg(short, long)]
        force: bool,
    },
    /// Remove a profile, and with it the token that it holds
    #[command(after_help = "Example: sector profile remove chicago")]
    Remove {
        /// Its name
        name: String,
    },
    /// What a profile says, but for its token
    #[command(after_help = "Example: sector profile show chicago --json")]
    Show {
        /// Its name [default: the profile that commands use]
        name: Option<String>,
    },
}
