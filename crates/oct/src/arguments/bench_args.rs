//! Arguments of the commands that measure. This file never runs a command.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Subcommand};
use terminal::count_within;
use testbed::{Rate, Share};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Bench {
    /// Names made, found, listed, renamed and removed in a second
    #[command(after_help = "Example: sector oct bench names --files 10000 --json")]
    Names(BenchNames),
    /// Small pieces read anywhere in one open file, beside the same reads of a local file
    #[command(after_help = "Example: sector oct bench reads --read-bytes 64KiB --tasks 8")]
    Reads(BenchReads),
    /// Messages in a second beside raw UDP, TCP, gRPC and ZeroMQ, on this machine alone
    #[command(after_help = "Example: sector oct bench messages --json")]
    Messages(BenchMessages),
    /// Bulk bytes over a way, by each carrier and controller, beside iperf3 where it is installed
    #[command(after_help = "Example: sector oct bench transfer --rate 200mbit --rtt 100ms --loss 0.1%\n\n\
        Without --rate: over the loopback. With it: over an emulated way, which needs root.\n\
        --carrier quic|tcp and --controller udt|bbr|cubic: only these.")]
    Transfer(BenchTransfer),
    /// What a disk gives: writing, reading, small reads, small syncs
    #[command(after_help = "Example: sector oct bench io /mnt/disk1 --bytes 4GiB")]
    Io(BenchIo),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BenchNames {
    /// Names to make, rename and remove
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = count_within(1_u32..=10_000_000))]
    pub(crate) files: u32,
    /// Tasks that ask at once; sixteen times as many change names
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = count_within(1_u32..=512))]
    pub(crate) tasks: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BenchMessages {
    /// Rounds; each system has its turn in each, and the medians are shown
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = count_within(1_u32..=1_000))]
    pub(crate) rounds: u32,
    /// Threads of each of the two ends; half of the machine's cores where nothing is said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) threads: Option<u16>,
    /// Measure over an emulated way of 20 ms too, that loses nothing, 1 % and 10 %
    #[arg(long)]
    pub(crate) far: bool,
    /// Be the answering end of one system
    #[arg(long, hide = true)]
    pub(crate) answer: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BenchTransfer {
    /// What the emulated way carries, such as 1gbit
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,
    /// There and back
    #[arg(long, default_value = "100ms", value_name = "TIME", requires = "rate")]
    pub(crate) rtt: humantime::Duration,
    /// Packets that the way loses by chance
    #[arg(long, default_value = "0%", value_name = "SHARE", requires = "rate")]
    pub(crate) loss: Share,
    /// Flows at once, which share the bytes
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count_within(1_u32..=256))]
    pub(crate) flows: u32,
    /// Bytes in all
    #[arg(long, default_value = "1GB", value_name = "N")]
    pub(crate) bytes: ByteSize,
    /// Turns of each system; the median is shown
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count_within(1_u32..=100))]
    pub(crate) rounds: u32,
    /// What chance is drawn from
    #[arg(long, default_value_t = 1, value_name = "N", requires = "rate")]
    pub(crate) seed: u64,
    /// Instead: how two flows share the way, for this long
    #[arg(long, value_name = "TIME", requires = "rate")]
    pub(crate) sharing: Option<humantime::Duration>,
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
pub(crate) struct BenchReads {
    /// Length of the file
    #[arg(long, default_value = "1GiB", value_name = "N")]
    pub(crate) bytes: ByteSize,
    /// Length of each read
    #[arg(long, default_value = "64KiB", value_name = "N")]
    pub(crate) read_bytes: ByteSize,
    /// Reads of each measurement
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = count_within(1_u32..=10_000_000))]
    pub(crate) reads: u32,
    /// Reads at once, in the second measurement; in the first it is one
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = count_within(1_u32..=512))]
    pub(crate) tasks: u32,
}
