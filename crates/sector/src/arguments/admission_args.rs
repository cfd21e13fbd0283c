//! Arguments of the commands that admit machines to a cloud. This file never runs a command.

use std::{
    io::{self, BufRead, Read},
    net::SocketAddr,
    path::PathBuf,
};

use clap::{Args, Subcommand};
use protocol::{AddressRange, HostAddress, JoinTicket, KeyDigest, NodeId, UserName};

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SecurityRole {
    #[command(subcommand)]
    pub(crate) command: Option<SecurityCommand>,
    /// Run a security server with these settings (docs/settings.md)
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SecurityCommand {
    /// Make a cloud: its authority, its first administrator, and settings for its security server
    #[command(after_help = "Example: sector security init --folder /srv/security --listen 10.0.0.1:7401")]
    Init(SecurityInit),
    /// Make a ticket with which one master comes into the cloud
    #[command(subcommand, after_help = "Example: sector security ticket master --folder /srv/security")]
    Ticket(SecurityTicket),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SecurityInit {
    /// Where accounts, authority and settings are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The cloud's name, for people
    #[arg(long, default_value = "sector")]
    pub(crate) name: String,
    /// Where masters reach it
    #[arg(long, default_value = "127.0.0.1:7401", value_name = "IP:PORT")]
    pub(crate) listen: SocketAddr,
    /// Where the master will be, for the administrator's profile [default: port 7400 of the security server's address]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) master: Option<HostAddress>,
    /// The first administrator's name
    #[arg(long, default_value = "admin", value_name = "NAME")]
    pub(crate) admin: UserName,
    /// How long certificates live [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) certificate_life: Option<std::time::Duration>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SecurityTicket {
    /// For a master
    #[command(after_help = "Example: sector security ticket master --folder /srv/security --name master-2")]
    Master {
        /// The security server's folder
        #[arg(long, value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// The only name it is good for [default: the first that is free]
        #[arg(long)]
        name: Option<NodeId>,
        /// For how long it is good
        #[arg(long, default_value = "1h", value_name = "TIME", value_parser = humantime::parse_duration)]
        life: std::time::Duration,
        /// Where the master will reach the security server [default: where it listens]
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<HostAddress>,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct MasterJoin {
    /// What `sector security ticket master` printed; `-`: read it from standard input
    #[arg(value_parser = ticket)]
    pub(crate) ticket: JoinTicket,
    /// Where its names, settings and credentials are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Where clients and nodes reach it
    #[arg(long, default_value = "0.0.0.0:7400", value_name = "IP:PORT")]
    pub(crate) listen: SocketAddr,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct NodeTicket {
    /// The only node it is good for; also one that is known and has lost its key [default: any new one]
    #[arg(long = "for", value_name = "ID")]
    pub(crate) name: Option<NodeId>,
    /// For how long it is good
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) life: std::time::Duration,
    /// Where the node will reach the master [default: as in the profile]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) master: Option<HostAddress>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct NodeJoin {
    /// What `sector node ticket` printed; `-`: read it from standard input. Without one, an administrator must approve
    /// the node
    #[arg(value_parser = ticket, conflicts_with_all = ["master", "authority", "trust_on_first_use"])]
    pub(crate) ticket: Option<JoinTicket>,
    /// Where its slices, settings and credentials are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Its name [default: as the ticket says, or the first `node-N` that is free]
    #[arg(long)]
    pub(crate) id: Option<NodeId>,
    /// The site where it stands
    #[arg(long, default_value = "site-1")]
    pub(crate) site: String,
    /// The rack where it stands
    #[arg(long, default_value = "rack-1")]
    pub(crate) rack: String,
    /// Where others reach it [default: port 7410 of the address from which it reaches the master]
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Without a ticket: where the master is
    #[arg(long, value_name = "HOST:PORT", requires = "id")]
    pub(crate) master: Option<HostAddress>,
    /// Without a ticket: the certificate of the cloud's authority
    #[arg(long, value_name = "FILE", requires = "master", conflicts_with = "trust_on_first_use")]
    pub(crate) authority: Option<PathBuf>,
    /// Without a ticket: take whoever answers there for the cloud, and hold on to that
    #[arg(long, requires = "master")]
    pub(crate) trust_on_first_use: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Approve {
    /// The name it wants
    pub(crate) id: NodeId,
    /// The digest of its key, as `sector node join` shows it
    #[arg(long, value_name = "HEX")]
    pub(crate) fingerprint: Option<KeyDigest>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Allow {
    /// The name of the node
    pub(crate) id: NodeId,
    /// From where it may join, separated by commas; `any` is from anywhere
    #[arg(value_parser = ranges)]
    pub(crate) addresses: Ranges,
}

/// A list of ranges of addresses; empty is any.
#[derive(Clone, Debug)]
pub(crate) struct Ranges(pub(crate) Vec<AddressRange>);

fn ranges(text: &str) -> Result<Ranges, String> {
    if text == "any" {
        return Ok(Ranges(Vec::new()));
    }
    let parsed = text.split(',').map(|range| range.trim().parse::<AddressRange>().map_err(|error| error.to_string()));
    parsed.collect::<Result<_, _>>().map(Ranges)
}

/// A ticket, or with `-` the first line of standard input: what others on this machine cannot see in the list of
/// processes.
fn ticket(text: &str) -> Result<JoinTicket, String> {
    if text != "-" {
        return text.parse::<JoinTicket>().map_err(|error| error.to_string());
    }
    let mut line = String::new();
    // Some bytes more than a ticket has, so that one that is too long is told from a whole one.
    let read = BufRead::read_line(&mut io::stdin().lock().take(TICKET_LINE_BYTES_MAX), &mut line);
    read.map_err(|error| format!("cannot read standard input: {error}"))?;
    line.parse::<JoinTicket>().map_err(|error| error.to_string())
}

/// Most bytes that are read of standard input for a ticket.
const TICKET_LINE_BYTES_MAX: u64 = 1_024;
