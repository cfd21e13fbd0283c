//! Arguments of the command about rights. This file never runs a command.

use clap::Subcommand;
use protocol::{Acl, Principal, UserName};
use terminal::cloud_path;

/// `sector acl`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AclCommand {
    /// Whose it is, and who may do what with it
    #[command(after_help = "Example: sector acl get /sdss")]
    Get {
        /// File or folder
        #[arg(value_parser = cloud_path)]
        path: String,
    },
    /// Let a file or folder say this, and nothing else
    #[command(after_help = "Example: sector acl set /sdss user:alice:rw,group:astro:rx\n\n\
                            Rights: r read and list, w change, remove and make, x run jobs on (with r), a administer.\n\
                            `none`: only the owner and administrators. A folder's rights hold for all below it that\n\
                            says nothing itself.")]
    Set {
        /// File or folder
        #[arg(value_parser = cloud_path)]
        path: String,
        /// WHO:RIGHTS, with commas between; WHO is user:NAME, group:NAME or everyone
        acl: Acl,
        /// Take users and groups that the cloud does not know
        #[arg(long)]
        unknown: bool,
    },
    /// Grant these rights too; all that it grants already stays
    #[command(after_help = "Example: sector acl add /sdss user:bob:r\n\n\
                            Who may read and is given `w` may then do both; `set` and `remove` take rights away. A file\n\
                            or folder that says nothing itself begins with what holds for it now.")]
    Add {
        /// File or folder
        #[arg(value_parser = cloud_path)]
        path: String,
        /// WHO:RIGHTS, with commas between; WHO is user:NAME, group:NAME or everyone
        acl: Acl,
        /// Take users and groups that the cloud does not know
        #[arg(long)]
        unknown: bool,
    },
    /// Take away what it says of some
    #[command(after_help = "Example: sector acl remove /sdss user:alice")]
    Remove {
        /// File or folder
        #[arg(value_parser = cloud_path)]
        path: String,
        /// user:NAME, group:NAME or everyone
        #[arg(required = true)]
        whom: Vec<Principal>,
    },
    /// Let it say nothing: what the folders above say holds again
    #[command(after_help = "Example: sector acl clear /sdss/dr7")]
    Clear {
        /// File or folder
        #[arg(value_parser = cloud_path)]
        path: String,
    },
    /// Give it to another user (administrators)
    #[command(after_help = "Example: sector acl owner /sdss alice")]
    Owner {
        /// File or folder
        #[arg(value_parser = cloud_path)]
        path: String,
        /// Whose it is from now on
        user: UserName,
        /// Take users and groups that the cloud does not know
        #[arg(long)]
        unknown: bool,
    },
}
