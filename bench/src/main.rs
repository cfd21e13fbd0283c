//! Side-by-side measurements: what the cloud does beside what the machine can do, in turn, in one run, so that a ratio
//! means something although the machine's speed drifts. `cargo xtask bench` builds and runs it; the figures go into
//! `docs/performance.md`.

mod cloud;
mod figures;
mod reference;
mod sort;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Side-by-side measurements of Sector/Sphere.
#[derive(Parser)]
struct Arguments {
    /// Where to work; needs about eight times the size of the data.
    #[arg(long, default_value = "target/bench")]
    folder: PathBuf,
    /// Rounds; medians are printed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Millions of bytes to put, get and sort.
    #[arg(long, default_value_t = 1000)]
    megabytes: u64,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Clone, Copy, PartialEq, Eq)]
enum What {
    /// put beside `dd conv=fsync`, get beside `cat`
    Storage,
    /// terasort beside a two-thread radix sort of the same file
    Terasort,
    /// many small files
    Small,
    /// Only the reference sort: `sort --folder DIR` sorts DIR/input to DIR/sorted
    Sort,
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.folder).map_err(|error| format!("{}: {error}", arguments.folder.display()))?;
    if arguments.what == Some(What::Sort) {
        return sort::sort_file(&arguments.folder.join("input"), &arguments.folder.join("sorted"));
    }
    println!("{}", figures::machine());
    let cloud = cloud::Cloud::start(&arguments.folder)?;
    let wanted = |what| arguments.what.is_none_or(|wanted| wanted == what);
    if wanted(What::Storage) {
        reference::storage(&cloud, &arguments.folder, arguments.megabytes, arguments.rounds)?;
    }
    if wanted(What::Small) {
        reference::small(&cloud, &arguments.folder, arguments.rounds)?;
    }
    if wanted(What::Terasort) {
        reference::terasort(&cloud, &arguments.folder, arguments.megabytes, arguments.rounds)?;
    }
    cloud.print_peak_memory();
    Ok(())
}
