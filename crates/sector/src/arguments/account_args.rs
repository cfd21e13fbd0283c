//! Arguments of the commands about people: login, users, groups, sessions. This file never runs a command.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use client::{CredentialId, UserName};
use protocol::{AddressRange, HostAddress};

#[derive(Clone, Debug, Args)]
pub(crate) struct Login {
    /// Your user name; with a browser the provider says it
    #[arg(required_unless_present = "oidc", conflicts_with = "oidc")]
    pub(crate) user: Option<UserName>,
    /// Log in with a browser, at an OpenID Connect provider of the cloud
    #[arg(long, conflicts_with = "password_stdin")]
    pub(crate) oidc: bool,
    /// The identity provider to log in at [default: the only one]
    #[arg(long, value_name = "NAME", requires = "oidc")]
    pub(crate) provider: Option<String>,
    /// Read the password from standard input, to the end of its first line
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// Where the master is, where no profile names it yet
    #[arg(long, value_name = "HOST:PORT", requires = "authority")]
    pub(crate) master: Option<HostAddress>,
    /// The certificate of the cloud's authority, a PEM file, where no profile holds it yet
    #[arg(long, value_name = "FILE", requires = "master")]
    pub(crate) authority: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user; asks for the password on a terminal
    #[command(after_help = "Example: sector user add alice --group astro")]
    Add {
        user: UserName,
        /// Read the password from standard input, to the end of its first line
        #[arg(long)]
        password_stdin: bool,
        /// A group that the user belongs to; may be given again
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// An administrator of the cloud
        #[arg(long)]
        admin: bool,
        /// From where the user may come, such as 10.0.0.0/8; may be given again [default: from anywhere]
        #[arg(long = "address", value_name = "RANGE")]
        addresses: Vec<AddressRange>,
        /// A program, not a person: it has tokens, but never a password
        #[arg(long, conflicts_with = "password_stdin")]
        service: bool,
    },
    /// Remove a user; the user's files stay
    #[command(after_help = "Example: sector user remove alice")]
    Remove { user: UserName },
    /// All users
    #[command(after_help = "Example: sector user list --json")]
    List,
    /// Change a password: your own, or as an administrator anyone's
    #[command(after_help = "Example: sector user passwd")]
    Passwd {
        /// Whose [default: yours]
        user: Option<UserName>,
        /// Read from standard input: for your own first the old one and then the new one, a line each
        #[arg(long)]
        password_stdin: bool,
    },
    /// Let a user not come in any more, for now
    #[command(after_help = "Example: sector user disable alice")]
    Disable { user: UserName },
    /// Let a user come in again
    #[command(after_help = "Example: sector user enable alice")]
    Enable { user: UserName },
    /// Change what a user may do
    #[command(after_help = "Example: sector user set alice --admin yes --address 10.0.0.0/8")]
    Set {
        user: UserName,
        /// Whether the user administers the cloud
        #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
        admin: Option<bool>,
        /// From where the user may come; may be given again
        #[arg(long = "address", value_name = "RANGE")]
        addresses: Vec<AddressRange>,
        /// Let the user come from anywhere
        #[arg(long, conflicts_with = "addresses")]
        any_address: bool,
    },
    /// Tokens: what programs log in with
    #[command(subcommand, after_help = "Example: sector user token add alice nightly --life 30d")]
    Token(TokenCommand),
    /// Access keys: what programs that speak S3 sign with
    #[command(subcommand, after_help = "Example: sector user key add")]
    Key(KeyCommand),
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make an access key and print it with its secret, once
    #[command(after_help = "Example: sector user key add --life 30d")]
    Add {
        /// Whose [default: yours]
        user: Option<UserName>,
        /// How long it is good
        #[arg(long, default_value = "90d", value_name = "TIME", value_parser = humantime::parse_duration)]
        life: std::time::Duration,
    },
    /// A user's access keys
    #[command(after_help = "Example: sector user key list")]
    List {
        /// Whose [default: yours]
        user: Option<UserName>,
    },
    /// Make an access key worthless
    #[command(after_help = "Example: sector user key remove SKEXAMPLEEXAMPLEEXAM")]
    Remove {
        /// Its id
        key: String,
        /// Whose [default: yours]
        user: Option<UserName>,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, once
    #[command(after_help = "Example: sector user token add alice nightly --life 30d")]
    Add {
        user: UserName,
        /// What you call it
        name: String,
        /// How long it is good
        #[arg(long, default_value = "90d", value_name = "TIME", value_parser = humantime::parse_duration)]
        life: std::time::Duration,
        /// Write a profile with it to this file instead of printing it
        #[arg(long, value_name = "FILE")]
        write_profile: Option<PathBuf>,
    },
    /// A user's tokens
    #[command(after_help = "Example: sector user token list alice")]
    List { user: UserName },
    /// Make a token worthless
    #[command(after_help = "Example: sector user token revoke alice nightly")]
    Revoke { user: UserName, name: String },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Add a group
    #[command(after_help = "Example: sector group add astro")]
    Add { group: String },
    /// Remove a group
    #[command(after_help = "Example: sector group remove astro")]
    Remove { group: String },
    /// All groups, with those in them
    #[command(after_help = "Example: sector group list --json")]
    List,
    /// Take users into a group
    #[command(after_help = "Example: sector group join astro alice bob")]
    Join {
        group: String,
        #[arg(required = true)]
        users: Vec<UserName>,
    },
    /// Take users out of a group
    #[command(after_help = "Example: sector group leave astro bob")]
    Leave {
        group: String,
        #[arg(required = true)]
        users: Vec<UserName>,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Login sessions: yours, or as an administrator all
    #[command(after_help = "Example: sector session list --json")]
    List,
    /// End a login session, or all of a user, everywhere within ten seconds
    #[command(after_help = "Example: sector session revoke --user alice")]
    Revoke {
        /// The id of the session, as `sector session list` shows it
        #[arg(required_unless_present = "user", conflicts_with = "user")]
        session: Option<CredentialId>,
        /// All of this user
        #[arg(long)]
        user: Option<UserName>,
    },
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write `yes` or `no`".into()),
    }
}
