//! Side-by-side measurements: the cloud and the bare machine take turns in one run. Their ratio stays meaningful even
//! when the machine's speed drifts. `cargo xtask bench` builds and runs it; the figures go into
//! `docs/performance.md`.

mod cloud;
mod compare;
mod figures;
mod files;
mod healing;
mod input;
mod malstone;
mod messages;
mod ratios;
mod schedule;
mod sort;
mod strangers;
mod terasort;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use cloud::Cloud;
use compare::Compare;

/// Side-by-side measurements of Sector/Sphere.
#[derive(Parser)]
struct Arguments {
    /// Where to work; needs about eight times the size of the data.
    #[arg(long, default_value = "target/bench")]
    folder: PathBuf,
    /// Rounds; medians are printed.
    #[arg(long, default_value_t = 5, global = true)]
    rounds: usize,
    /// Millions of bytes to put, get and sort.
    #[arg(long, default_value_t = 1000, global = true)]
    megabytes: u64,
    /// Fill the system's memory with cached pages before each sort, as it is on a machine that has been at work for a
    /// while
    #[arg(long, global = true)]
    fill_cache: bool,
    #[command(subcommand)]
    what: Option<What>,
}

/// Messages.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
struct Messages {
    /// GMP over an emulated way of 20 ms too, that loses nothing, 1 % and 10 %
    #[arg(long)]
    far: bool,
    /// Threads of each end's runtime
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Be the answering end of this system
    #[arg(long, hide = true)]
    answer: Option<String>,
}

#[derive(Subcommand, Clone, PartialEq, Eq)]
enum What {
    /// put beside `dd conv=fsync`, get beside `cat`
    Storage,
    /// terasort beside a two-thread radix sort of the same file
    Terasort,
    /// MalStone-A and -B beside two threads over the same records in one file
    Malstone,
    /// Many small files beside copying and syncing each
    Small,
    /// Small files on a disk in memory: what is left where nothing is synced
    Unsynced,
    /// Copies made again after a node's death beside `dd conv=fsync`
    Healing,
    /// The scheduler alone: a million segments on a thousand nodes
    Schedule(schedule::Schedule),
    /// Messages: GMP beside raw UDP, TCP, gRPC and ZeroMQ, without a cloud
    Messages(Messages),
    /// get, put and login with and without thousands of strangers at the doors
    Strangers,
    /// Ours beside other systems on the same data, into a page of `docs/performance/`
    Compare(Compare),
    /// Only the reference sort: `sort --folder DIR` sorts DIR/input to DIR/sorted
    Sort,
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if let Some(What::Messages(messages)) = &arguments.what {
        return messages::messages(messages, arguments.rounds);
    }
    if let Some(What::Compare(compare)) = &arguments.what {
        return compare.run(arguments.megabytes, arguments.rounds, arguments.fill_cache);
    }
    if let Some(What::Schedule(wanted)) = &arguments.what {
        println!("{}", figures::machine());
        return schedule::schedule(wanted);
    }
    std::fs::create_dir_all(&arguments.folder).map_err(|error| format!("{}: {error}", arguments.folder.display()))?;
    if arguments.what == Some(What::Sort) {
        return sort::sort_file(&arguments.folder.join("input"), &arguments.folder.join("sorted"));
    }
    println!("{}", figures::machine());
    let wanted = |what| arguments.what.as_ref().is_none_or(|wanted| *wanted == what);
    let (folder, megabytes, rounds) = (&arguments.folder, arguments.megabytes, arguments.rounds);
    if wanted(What::Storage) || wanted(What::Small) || wanted(What::Terasort) || wanted(What::Malstone) {
        let cloud = Cloud::start(folder)?;
        if wanted(What::Storage) {
            files::storage(&cloud, folder, megabytes, rounds)?;
        }
        if wanted(What::Small) {
            for bytes in SMALL_BYTES {
                files::small(&cloud, folder, bytes, rounds)?;
            }
        }
        if wanted(What::Terasort) {
            terasort::terasort(&cloud, folder, megabytes, rounds, arguments.fill_cache)?;
        }
        if wanted(What::Malstone) {
            malstone::malstone(&cloud, folder, megabytes, rounds, arguments.fill_cache)?;
        }
        cloud.print_peak_memory();
    }
    if wanted(What::Unsynced) {
        // A name of our own: other runs have theirs.
        let folder = Path::new(MEMORY_DISK).join(format!("sector-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        println!("in memory ({MEMORY_DISK}), where a sync costs nothing:");
        let measured = Cloud::start(&folder)
            .and_then(|cloud| SMALL_BYTES.iter().try_for_each(|bytes| files::small(&cloud, &folder, *bytes, rounds)));
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        measured?;
    }
    if arguments.what == Some(What::Strangers) {
        strangers::strangers(&Cloud::start(folder)?, folder, rounds)?;
    }
    if wanted(What::Healing) {
        healing::healing(&Cloud::start(folder)?, folder, megabytes)?;
    }
    Ok(())
}

/// Lengths of small files.
const SMALL_BYTES: [u64; 2] = [64_000, 1 << 20];
/// Where files lie in memory.
const MEMORY_DISK: &str = "/dev/shm";
