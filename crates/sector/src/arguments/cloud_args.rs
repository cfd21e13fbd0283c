//! Arguments of the commands that make, change and watch a cloud. This file never runs a command.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use protocol::{NodeId, RecordFraming, SliceId};
use terminal::{cloud_path, count_of};

use super::{Allow, Approve, MasterJoin, NodeJoin, NodeTicket};

#[derive(Clone, Debug, Args)]
pub(crate) struct Up {
    /// Nodes to start; more than the data folder has are added [default: those it has, 4 of a new cloud]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) nodes: Option<u32>,
    /// Sites to spread them over [default: those it has, 2 of a new cloud]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) sites: Option<u32>,
    /// Where everything is kept [default: data in $SECTOR_HOME]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The master's port; 0 takes a free one [default: the one it has, 7011 of a new cloud]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// The port of the web page; 0 takes a free one [default: the one it has, 7080 of a new cloud]
    #[arg(long)]
    pub(crate) web_port: Option<u16>,
    /// Run in the background; stop it with `sector down`
    #[arg(long)]
    pub(crate) detach: bool,
    /// Stop also when standard input is at its end: when the program that started this one is gone
    #[arg(long, conflicts_with = "detach")]
    pub(crate) until_stdin_ends: bool,
    /// One process a role, as on a real cluster
    #[arg(long)]
    pub(crate) processes: bool,
    /// Data folders of each node, as if each were a disk [default: those it has, 1 of a new cloud]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) disks_per_node: Option<u32>,
    /// Do not encrypt the bytes of files within a site: anyone on its network can read them
    #[arg(long)]
    pub(crate) insecure_data: bool,
    /// Start each role in its place: FILE has their sites, addresses and the commands that lead there
    #[arg(long, value_name = "FILE", requires = "processes", hide = true,
          conflicts_with_all = ["nodes", "sites", "port", "detach", "disks_per_node", "insecure_data"])]
    pub(crate) placement: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Web {
    /// The page's address [default: that of the cloud that `sector up` started]
    #[arg(long, value_name = "URL")]
    pub(crate) at: Option<String>,
    /// Open it in this machine's browser too
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Doctor {
    /// Folders whose disks to look at [default: data in $SECTOR_HOME]
    #[arg(value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Demo {
    /// A folder of text files [default: the sources of the crates this was built from, else its own manual]
    #[arg(long, value_name = "DIR")]
    pub(crate) input: Option<PathBuf>,
    /// Records to sort, of 100 bytes each, such as 1M
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = count_of::<u64>)]
    pub(crate) records: u64,
    /// Leave the cloud's data when done
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Role {
    /// The role's settings (docs/settings.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Node {
    /// Run a node with these settings (docs/settings.md)
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: Option<NodeVerb>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum NodeVerb {
    /// The nodes and how they are (as `sector nodes`)
    #[command(after_help = "Example: sector node list --json")]
    List,
    /// Make a ticket with which one machine comes into the cloud as a node
    #[command(after_help = "Example: sector node ticket --life 1h")]
    Ticket(NodeTicket),
    /// Make this machine a node of a cloud: with a ticket at once, without one when an administrator approves it
    #[command(
        after_help = "Example: sector node join --master 10.0.0.1:7400 --trust-on-first-use --id node-3 --folder /srv/node"
    )]
    Join(Box<NodeJoin>),
    /// Machines that wait to be approved
    #[command(after_help = "Example: sector node requests")]
    Requests,
    /// Let a machine in that waits
    #[command(after_help = "Example: sector node approve node-3")]
    Approve(Approve),
    /// Turn a machine away that waits
    #[command(after_help = "Example: sector node reject node-3")]
    Reject {
        /// The name it wants
        id: NodeId,
    },
    /// Say from which addresses a node may join
    #[command(after_help = "Example: sector node allow node-3 10.0.0.0/8,192.0.2.7")]
    Allow(Allow),
    /// Empty a node: it gets no new slices, and what it holds is copied elsewhere before it is removed there
    #[command(after_help = "Example: sector node drain node-3 --wait")]
    Drain(Drain),
    /// Forget a node that was drained or is lost
    #[command(after_help = "Example: sector node remove node-3")]
    Remove(RemoveNode),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Drain {
    /// The name of the node, as `sector nodes` shows it
    pub(crate) id: NodeId,
    /// Show how far it is until it is empty
    #[arg(long)]
    pub(crate) wait: bool,
    /// Only show what would move, and whether it is possible
    #[arg(long, conflicts_with = "wait")]
    pub(crate) dry_run: bool,
    /// Take it into use again
    #[arg(long, conflicts_with_all = ["wait", "dry_run"])]
    pub(crate) undo: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RemoveNode {
    /// The name of the node, as `sector nodes` shows it
    pub(crate) id: NodeId,
    /// Also where it is in use, or has the only copies of files: those are lost then
    #[arg(long)]
    pub(crate) force: bool,
    /// Only list the files of which it has the only copy
    #[arg(long, conflicts_with = "force")]
    pub(crate) dry_run: bool,
    /// Let a removed node that still runs join again
    #[arg(long, conflicts_with_all = ["force", "dry_run"])]
    pub(crate) undo: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Metrics {
    /// `master`, `security`, or a node
    #[arg(value_name = "ROLE|NODE", default_value = "master")]
    pub(crate) of: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Rebalance {
    /// Only show what would move
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show how far it is until it is done
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// Move nothing further
    #[arg(long, conflicts_with_all = ["dry_run", "wait"])]
    pub(crate) stop: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TopologyVerb {
    /// The topology in use
    #[command(after_help = "Example: sector topology show --json")]
    Show,
    /// Have the master read its file again
    #[command(after_help = "Example: sector topology reload")]
    Reload,
    /// Check a file, without a cloud
    #[command(after_help = "Example: sector topology check sites.toml")]
    Check {
        /// The file
        file: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct MasterRole {
    #[command(subcommand)]
    pub(crate) command: Option<MasterCommand>,
    /// The role's settings (docs/settings.md)
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum MasterCommand {
    /// Make this machine a master of a cloud
    #[command(after_help = "Example: sector master join TICKET --folder /srv/master")]
    Join(MasterJoin),
    /// Set a damaged journal aside, so that the next start puts the names together from the nodes
    #[command(after_help = "Example: sector master rebuild --config master.toml")]
    Rebuild(Role),
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Rebuild {
    /// How far it is, and what was decided by rule
    #[command(after_help = "Example: sector rebuild status --json")]
    Status,
    /// Wait for no further node
    #[command(after_help = "Example: sector rebuild finish")]
    Finish,
    /// Say that a node will never come back: nothing waits for it any longer
    #[command(after_help = "Example: sector rebuild forget node-7")]
    Forget {
        /// The node
        node: NodeId,
    },
    /// Give a slice that was set aside a name
    #[command(after_help = "Example: sector rebuild recover 3f2a77c01b9d4e553f2a77c01b9d4e55 /found/a.dat")]
    Recover {
        /// The slice, as `status` shows it
        slice: SliceId,
        /// A free path
        #[arg(value_parser = cloud_path)]
        path: String,
    },
    /// Take conflicts off the list; slices that were set aside are removed
    #[command(after_help = "Example: sector rebuild dismiss 3f2a77c01b9d4e553f2a77c01b9d4e55")]
    Dismiss {
        /// The slice, as `status` shows it
        #[arg(required_unless_present = "all")]
        slice: Option<SliceId>,
        /// All of them
        #[arg(long, conflicts_with = "slice")]
        all: bool,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Inspect {
    /// A master's journal: what is in it, and whether a master can start from it
    #[command(after_help = "Example: sector inspect journal /srv/master")]
    Journal(Inspected),
    /// A slice's sidecar
    #[command(after_help = "Example: sector inspect sidecar --check /srv/node-1/slices/a/.b.dat.sector")]
    Sidecar(Inspected),
    /// A node's data folder
    #[command(after_help = "Example: sector inspect inventory --check /srv/node-1")]
    Inventory(Inspected),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Inspected {
    /// Read all bytes too and compare them with their checksums
    #[arg(long)]
    pub(crate) check: bool,
    /// Repair what can be repaired; nothing is deleted
    #[arg(long)]
    pub(crate) repair: bool,
    /// The file or folder
    #[arg(value_name = "FILE")]
    pub(crate) at: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ImportFiles {
    /// The node on which the files lie
    #[arg(long, value_name = "ID")]
    pub(crate) node: NodeId,
    /// Replace files that are there already
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Copy the bytes and leave the files where they are
    #[arg(long)]
    pub(crate) keep: bool,
    /// Copies wanted in the whole cloud [default: the cloud's, 3]
    #[arg(long, value_name = "N")]
    pub(crate) copies: Option<u8>,
    /// Copies on disk before the command returns [default: the cloud's, 2]
    #[arg(long, value_name = "N")]
    pub(crate) sync_copies: Option<u8>,
    /// How the bytes fall into records: fixed:BYTES, lines, index, parquet or file
    #[arg(long, default_value_t, value_name = "FORMAT")]
    pub(crate) records: RecordFraming,
    /// The folder on the node: absolute, or within `import` in its data folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: String,
    /// The folder in Sector
    #[arg(value_name = "DST", value_parser = cloud_path)]
    pub(crate) to: String,
}
