//! Arguments of `sector oct testbed`: sites and links on this machine. This file never runs a command.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};
use testbed::{Blocked, PathChange, PathRules, Rate, Share};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Testbed {
    /// Make sites and links, and a cloud over them
    #[command(
        after_help = "Example: sector oct testbed up --sites 4 --nodes-per-site 2 --rate 1gbit --rtt 60ms --detach"
    )]
    Up(Box<TestbedUp>),
    /// Run any program at a site
    #[command(after_help = "Example: sector oct testbed run site2 sector ls /")]
    Run(TestbedRun),
    /// Change links while they are in use
    #[command(after_help = "Example: sector oct testbed set site1 site2 --loss 0.1%")]
    Set(TestbedSet),
    /// The links, how they behave and what they did
    #[command(after_help = "Example: sector oct testbed status --json")]
    Status,
    /// Stop the cloud in order, and take sites and links away
    #[command(after_help = "Example: sector oct testbed down")]
    Down,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TestbedUp {
    /// Sites
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=testbed::SITES_MAX as i64))]
    pub(crate) sites: u32,
    /// Nodes of the cloud at each site; 0 for the network alone
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(testbed::NODES_PER_SITE_MAX)))]
    pub(crate) nodes_per_site: u32,
    #[command(flatten)]
    pub(crate) link: LinkOptions,
    /// Round trips between sites, as a table of milliseconds with the sites' names (docs/command-line.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sites", "rtt"])]
    pub(crate) rtt_matrix: Option<PathBuf>,
    /// What chance is drawn from: the same seed loses the same packets
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Where the cloud keeps everything [default: data in the testbed's folder of $SECTOR_HOME, emptied first]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Run in the background; stop it with `sector oct testbed down`
    #[arg(long)]
    pub(crate) detach: bool,
    /// Let each packet pass by itself: exact to the packet, and about ten times the work
    #[arg(long)]
    pub(crate) no_offload: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TestbedRun {
    /// Its name, or its number from 1
    pub(crate) site: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TestbedSet {
    /// One end [default: all links]
    #[arg(value_name = "SITE")]
    pub(crate) one: Option<String>,
    /// The other end [default: all links of the first]
    #[arg(value_name = "SITE")]
    pub(crate) other: Option<String>,
    /// Let nothing pass
    #[arg(long, conflicts_with = "restore")]
    pub(crate) cut: bool,
    /// Let packets pass again
    #[arg(long)]
    pub(crate) restore: bool,
    #[command(flatten)]
    pub(crate) link: LinkOptions,
    /// Let a protocol not pass
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) block: Option<Block>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Block {
    /// UDP, as many firewalls do
    Udp,
    /// TCP
    Tcp,
    /// Let all pass
    None,
}

/// How a link behaves, in both directions alike.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LinkOptions {
    /// What a link carries, such as 200mbit [default of `up`: 1gbit]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// There and back, such as 100ms [default of `up`: 60ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    rtt: Option<Duration>,
    /// Packets lost by chance, such as 0.1%
    #[arg(long, value_name = "SHARE")]
    loss: Option<Share>,
    /// Lose so many in a row on average, as often as makes the same share
    #[arg(long, value_name = "PACKETS")]
    burst: Option<f64>,
    /// Room before a link, such as 4MB [default: what the link carries in one round trip]
    #[arg(long, value_name = "BYTES")]
    queue: Option<ByteSize>,
    /// Packets held back, so that later ones overtake them, such as 0.1%
    #[arg(long, value_name = "SHARE")]
    reorder: Option<Share>,
    /// For how long [default: an eighth of the round trip]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    reorder_by: Option<Duration>,
    /// Packets that arrive twice, such as 0.1%
    #[arg(long, value_name = "SHARE")]
    duplicate: Option<Share>,
    /// Let no longer packets pass, without a word to their sender; `set --mtu 0` takes the limit away
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    /// Tell senders of longer packets (ICMP)
    #[arg(long, value_name = "YES", num_args = 0..=1, default_missing_value = "true")]
    icmp: Option<bool>,
}

impl LinkOptions {
    /// What they say.
    pub(crate) fn change(&self) -> PathChange {
        PathChange {
            rate: self.rate,
            rtt: self.rtt,
            queue_bytes: self.queue.map(|queue| queue.as_u64()),
            loss: self.loss,
            burst_packets: self.burst,
            reorder: self.reorder,
            reorder_by: self.reorder_by,
            duplicate: self.duplicate,
            mtu_bytes: self.mtu,
            tells_mtu: self.icmp,
            ..PathChange::default()
        }
    }

    /// The rules of a new link.
    pub(crate) fn rules(&self) -> PathRules {
        self.change().apply(&PathRules::new(RATE, RTT))
    }
}

impl TestbedSet {
    /// What it says.
    pub(crate) fn change(&self) -> PathChange {
        let blocks = self.block.map(|block| match block {
            Block::Udp => Blocked::Udp,
            Block::Tcp => Blocked::Tcp,
            Block::None => Blocked::Nothing,
        });
        let is_cut = (self.cut || self.restore).then_some(self.cut);
        PathChange { blocks, is_cut, ..self.link.change() }
    }
}

/// A link of which nothing was said: between two continents' coasts, as the papers had it with ten times the rate.
const RATE: Rate = Rate(1_000_000_000);
const RTT: Duration = Duration::from_millis(60);
