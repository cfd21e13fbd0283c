//! The command line (`docs/command-line.md` is the contract): names, options and one example each.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};
use protocol::{JobId, NodeId, RecordFormat, SliceId, UserName};

/// A storage cloud for large files over several data centres, and a compute cloud that runs functions where they lie.
#[derive(Debug, Parser)]
#[command(name = "sector", version, disable_help_subcommand = true, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The profile: which cloud, and who you are [default: $SECTOR_PROFILE, else profile.toml in $SECTOR_HOME]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing but results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more on standard error; twice for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a whole cloud on this machine
    #[command(after_help = "Example: sector up --nodes 4 --sites 2 --detach")]
    Up(Up),
    /// Stop the cloud that `sector up` started
    #[command(after_help = "Example: sector down")]
    Down,
    /// The tour: a cloud, real files, an inverted index, a sort, all verified
    #[command(after_help = "Example: sector demo --input ~/texts --records 1000000")]
    Demo(Demo),
    /// Run a security server
    #[command(after_help = "Example: sector security --config security.toml")]
    Security(Role),
    /// Run a master
    #[command(after_help = "Example: sector master --config master.toml")]
    Master(MasterRole),
    /// Run a node, or drain, remove and list nodes
    #[command(after_help = "Example: sector node drain node-3 --wait   (`sector node --config FILE` runs one)")]
    Node(Node),
    /// The nodes and how they are
    #[command(after_help = "Example: sector nodes --json")]
    Nodes,
    /// Move slices from fuller to emptier nodes
    #[command(after_help = "Example: sector rebalance --dry-run")]
    Rebalance(Rebalance),
    /// Who stands where, how far sites are apart, and how much copies may take
    #[command(subcommand, after_help = "Example: sector topology check sites.toml")]
    Topology(TopologyVerb),
    /// Is the cloud well, and what to do if not
    #[command(after_help = "Example: sector health")]
    Health,
    /// What of this machine will hurt a cloud, and how to mend it
    #[command(after_help = "Example: sector doctor /mnt/disk1 /mnt/disk2")]
    Doctor(Doctor),
    /// Upload files, or standard input (`-`)
    #[command(after_help = "Example: sector put -r --records lines logs/ /logs")]
    Put(Put),
    /// Download files
    #[command(after_help = "Example: sector get -r /logs .")]
    Get(Get),
    /// Print a file's bytes
    #[command(after_help = "Example: sector cat --range 0-99 /logs/a.txt   (the first 100 bytes)")]
    Cat(Cat),
    /// List a folder
    #[command(after_help = "Example: sector ls -l '/logs/*.txt'")]
    Ls(Ls),
    /// Show a folder as a tree
    #[command(after_help = "Example: sector tree /logs")]
    Tree(Paths),
    /// Print the paths of all files below a folder, or that match a glob
    #[command(after_help = "Example: sector find '/logs/**/*.gz'")]
    Find(Paths),
    /// Count files and bytes below a path
    #[command(after_help = "Example: sector du /logs")]
    Du(Paths),
    /// Show all that is known of a path
    #[command(after_help = "Example: sector stat --json /logs/a.txt")]
    Stat(Paths),
    /// Read every copy and compare it with its digest
    #[command(after_help = "Example: sector check -r /logs --json")]
    Check(Check),
    /// Make folders
    #[command(after_help = "Example: sector mkdir -p /a/b/c")]
    Mkdir(Mkdir),
    /// Rename, or move into a folder
    #[command(after_help = "Example: sector mv /a/x.dat /b/")]
    Mv(FromTo),
    /// Copy within the cloud
    #[command(after_help = "Example: sector cp -r /a /b")]
    Cp(Cp),
    /// Remove files, or folders with -r: to the trash, or with --now for good
    #[command(after_help = "Example: sector rm -r /tmp")]
    Rm(Rm),
    /// What was removed and can be restored
    #[command(subcommand, after_help = "Example: sector trash restore /a/x.dat")]
    Trash(TrashCommand),
    /// What is wished for a file, or for all below a folder
    #[command(subcommand, after_help = "Example: sector policy set /sdss copies=2 sites=jhu,uic")]
    Policy(PolicyCommand),
    /// How much users and folders keep, and may
    #[command(subcommand, after_help = "Example: sector quota set alice bytes=1TB")]
    Quota(QuotaCommand),
    /// Run a Sphere job: a function over records where they lie
    #[command(after_help = "Example: sector run --udf words --input /text --buckets 8 --then index --output /index")]
    Run(Run),
    /// The jobs, newest first
    #[command(after_help = "Example: sector jobs")]
    Jobs,
    /// One job
    #[command(after_help = "Example: sector job 3f2a77c01b9d4e55 --wait")]
    Job(JobArguments),
    /// Generate, sort and validate 100-byte records with 10-byte keys
    #[command(subcommand, after_help = "Example: sector terasort gen --records 10000000 /gen")]
    Terasort(Terasort),
    /// Measure a disk, or the running cloud
    #[command(subcommand, after_help = "Example: sector bench names --files 10000")]
    Bench(Bench),
    /// Take in files that already lie on a node, in place
    #[command(after_help = "Example: sector import --node node-1 survey /sky/survey")]
    Import(ImportFiles),
    /// The names after the master's journal was lost: how far they are, and what was in doubt
    #[command(subcommand, after_help = "Example: sector rebuild status")]
    Rebuild(Rebuild),
    /// Look at what lies on a disk while nobody uses it: a journal, a sidecar, a node's data folder
    #[command(subcommand, after_help = "Example: sector inspect inventory /srv/node-1")]
    Inspect(Inspect),
    /// The process that runs user functions for a node
    #[command(hide = true)]
    Spe,
}

impl Command {
    /// Whether the command runs a role, whose log people read later.
    pub(crate) fn is_server(&self) -> bool {
        matches!(
            self,
            Self::Up(_)
                | Self::Security(_)
                | Self::Master(MasterRole { command: None, .. })
                | Self::Node(Node { verb: None, .. })
        )
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Up {
    /// Nodes to start
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) nodes: u32,
    /// Sites to spread them over
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) sites: u32,
    /// Where everything is kept [default: data in $SECTOR_HOME]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The master's port; 0 takes a free one
    #[arg(long, default_value_t = 7011)]
    pub(crate) port: u16,
    /// Run in the background; stop it with `sector down`
    #[arg(long)]
    pub(crate) detach: bool,
    /// One process a role, as on a real cluster
    #[arg(long)]
    pub(crate) processes: bool,
    /// Data folders of each node, as if each were a disk
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) disks_per_node: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Doctor {
    /// Folders whose disks to look at [default: data in $SECTOR_HOME]
    #[arg(value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BenchIo {
    /// A folder on the disk
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// How much to write and read
    #[arg(long, default_value = "1GiB", value_name = "N")]
    pub(crate) bytes: ByteSize,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Demo {
    /// A folder of text files [default: the sources of the crates this was built from]
    #[arg(long, value_name = "DIR")]
    pub(crate) input: Option<PathBuf>,
    /// Records to sort, of 100 bytes
    #[arg(long, default_value_t = 10_000_000)]
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
    /// Empty a node: it gets no new slices, and what it holds is copied elsewhere before it is removed there
    #[command(after_help = "Example: sector node drain node-3 --wait")]
    Drain(Drain),
    /// Forget a node that was drained or is lost
    #[command(after_help = "Example: sector node remove node-3")]
    Remove(RemoveNode),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Drain {
    /// Which
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
    /// Which
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
    /// How the bytes fall into records: fixed:BYTES, lines or file
    #[arg(long, default_value_t, value_name = "FORMAT")]
    pub(crate) records: RecordFormat,
    /// The folder on the node: absolute, or within `import` in its data folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: String,
    /// The folder in Sector
    #[arg(value_name = "DST")]
    pub(crate) to: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Put {
    /// Folders too, with all that they hold
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Copies wanted in the whole cloud [default: as the folder's policy says, else the cloud's, 3]
    #[arg(long, value_name = "N")]
    pub(crate) copies: Option<u8>,
    /// Copies on disk before the command returns [default: the cloud's, 2]
    #[arg(long, value_name = "N")]
    pub(crate) sync_copies: Option<u8>,
    /// How the bytes fall into records: fixed:BYTES, lines or file
    #[arg(long, default_value_t, value_name = "FORMAT")]
    pub(crate) records: RecordFormat,
    /// Write behind what the file has; where there is none, make it
    #[arg(long, conflicts_with_all = ["recursive", "records"])]
    pub(crate) append: bool,
    /// Only where nothing is at the path; else exit with 7
    #[arg(long, conflicts_with_all = ["append", "if_version"])]
    pub(crate) if_absent: bool,
    /// Only where the file has this version (`sector stat` shows it); else exit with 4, or with 3 where there is none
    #[arg(long, value_name = "VERSION", conflicts_with = "recursive")]
    pub(crate) if_version: Option<u64>,
    /// Local files, or `-`, and at last the path in Sector
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Get {
    /// Folders too, with all that they hold
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Replace local files of the same name
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Paths or globs in Sector, and at last a local file or folder, or `-`
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cat {
    /// First and last byte: `0-99`, `100-`, or `-100` for the last 100
    #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
    pub(crate) range: Option<String>,
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Ls {
    /// With size, owner, time
    #[arg(short)]
    pub(crate) long: bool,
    /// Also what lies below
    #[arg(short = 'R')]
    pub(crate) recursive: bool,
    /// Folders, files or globs
    #[arg(default_value = "/")]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Paths {
    #[arg(default_value = "/")]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Check {
    /// Folders too, with all that they hold
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Files, folders or globs
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Mkdir {
    /// Missing parents too; an existing folder is fine
    #[arg(short)]
    pub(crate) parents: bool,
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct FromTo {
    /// Paths, and at last where to
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cp {
    /// Folders too, with all that they hold
    #[arg(short)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) from_to: FromTo,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Rm {
    /// Folders too, with all that they hold
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Do not mind what is not there
    #[arg(short)]
    pub(crate) force: bool,
    /// For good: nothing goes to the trash
    #[arg(long)]
    pub(crate) now: bool,
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,
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
        #[arg(required = true)]
        paths: Vec<String>,
        /// Where to put it instead
        #[arg(long, value_name = "DST")]
        to: Option<String>,
    },
    /// Remove for good what could be restored
    #[command(after_help = "Example: sector trash empty")]
    Empty {
        /// Of all users (administrators)
        #[arg(long)]
        all_users: bool,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// What an entry says itself, and what holds for it with all its folders' say
    #[command(after_help = "Example: sector policy get /sdss --json")]
    Get { path: String },
    /// Set some of it: copies, sync-copies, sites, forbidden-sites, lifetime, together, quota, quota-files
    #[command(after_help = "Example: sector policy set /sdss copies=3 sites=jhu,uic lifetime=30d quota=10TB")]
    Set {
        path: String,
        /// `copies=3`; `copies=` inherits again
        #[arg(required = true, value_name = "KEY=VALUE")]
        wishes: Vec<String>,
    },
    /// Inherit again: these keys, or all
    #[command(after_help = "Example: sector policy clear /sdss copies sites")]
    Clear {
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
    },
    /// Let a user keep any number
    #[command(after_help = "Example: sector quota clear alice")]
    Clear { user: UserName },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Run {
    /// The function: a built-in name, or LIB.so:SYMBOL
    #[arg(long, required = true, value_name = "UDF")]
    pub(crate) udf: String,
    /// A parameter of every stage's function
    #[arg(long, value_name = "K=V")]
    pub(crate) param: Vec<String>,
    /// Files, folders or globs in Sector
    #[arg(long, required = true, num_args = 1.., value_name = "GLOB")]
    pub(crate) input: Vec<String>,
    /// The folder for the results; it must not hold any yet
    #[arg(long, required = true, value_name = "DIR")]
    pub(crate) output: String,
    /// Send the results of each stage but the last to so many buckets; of a single stage too [default: two a node]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) buckets: Option<u32>,
    /// A further stage over the results of the one before
    #[arg(long, value_name = "UDF")]
    pub(crate) then: Vec<String>,
    /// Smallest and largest segment
    #[arg(long, value_name = "MIN:MAX", value_parser = segment_bytes)]
    pub(crate) segment_bytes: Option<(u64, u64)>,
    /// Treat the input's bytes as these records, whatever the files say
    #[arg(long, value_name = "FORMAT")]
    pub(crate) records: Option<RecordFormat>,
    /// Print the job's id and leave it running in the background
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct JobArguments {
    pub(crate) job: JobId,
    /// Wait until it has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Ask it to stop
    #[arg(long, conflicts_with = "wait")]
    pub(crate) cancel: bool,
    /// Print the errors of its functions
    #[arg(long)]
    pub(crate) errors: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Terasort {
    /// Generate records on the nodes
    #[command(after_help = "Example: sector terasort gen --records 10000000 /gen")]
    Gen {
        /// How many
        #[arg(long)]
        records: u64,
        /// In how many files [default: two a node]
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        files: Option<u32>,
        /// Seed of the keys
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folder for them
        folder: String,
    },
    /// Sort them in two stages (paper, Figure 3)
    #[command(after_help = "Example: sector terasort sort /gen /sorted")]
    Sort {
        /// The records' folder
        input: String,
        /// The folder for the sorted ones
        output: String,
        /// Buckets [default: by the size of the data]
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        buckets: Option<u32>,
    },
    /// Count, sum and check the order, over the borders of files too
    #[command(after_help = "Example: sector terasort validate /sorted --json")]
    Validate {
        /// The records' folder
        folder: String,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Bench {
    /// Names made, found, listed, renamed and removed in a second
    #[command(after_help = "Example: sector bench names --files 10000 --json")]
    Names(BenchNames),
    /// What a disk gives: writing, reading, small reads, small syncs
    #[command(after_help = "Example: sector bench io /mnt/disk1 --bytes 4GiB")]
    Io(BenchIo),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BenchNames {
    /// Names to make, rename and remove
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) files: u32,
    /// Tasks that ask at once; sixteen times as many change names
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) tasks: u32,
}

/// Reads `MIN:MAX` with sizes like `8MiB:128MB`.
fn segment_bytes(text: &str) -> Result<(u64, u64), String> {
    let size = |text: &str| text.parse::<ByteSize>().map(|size| size.as_u64());
    let (min, max) = text.split_once(':').ok_or("write MIN:MAX, for example 8MiB:128MiB")?;
    let (min, max) = (size(min)?, size(max)?);
    if min == 0 || min > max {
        return Err("the smallest segment must be more than nothing and no more than the largest".into());
    }
    Ok((min, max))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound_and_every_command_has_an_example() {
        let command = Arguments::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let after = sub.get_after_help().unwrap_or_else(|| panic!("{} has no example", sub.get_name()));
            let example = after.to_string();
            let words = example.strip_prefix("Example: ").unwrap().split("   (").next().unwrap();
            let words: Vec<_> = words.split(' ').map(|word| word.trim_matches('\'')).collect();
            assert!(Arguments::try_parse_from(&words).is_ok(), "the example of {} does not parse", sub.get_name());
        }
    }

    #[test]
    fn segment_sizes_take_units_and_refuse_nonsense() {
        assert_eq!(segment_bytes("8MiB:1GB"), Ok((8 << 20, 1_000_000_000)));
        for text in ["8MiB", "0:1", "2:1", "x:y", ":"] {
            assert!(segment_bytes(text).is_err(), "{text}");
        }
    }
}
