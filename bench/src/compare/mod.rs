//! Side by side with other systems: `cargo xtask compare WHAT` runs ours and those peers that package registries give.
//! All have the same data in one run, and every answer is checked. It writes a page of `docs/performance/`. A peer that
//! cannot be had, or that fails, is named with the reason.

mod engines;
mod hadoop;
mod install;
mod malstone;
mod network;
mod plot;
mod report;
mod service;
mod sorted_check;
mod storage;
mod stores;
mod terasort;
mod turns;

use std::{fs, path::PathBuf, process::Command};

use clap::ValueEnum;
use install::{Tools, says};
use report::Conditions;

use crate::{figures::machine, input::fill_cache};

/// What is compared.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Beside Hadoop, Spark, Ray, Dask, DuckDB and Polars
    Terasort,
    /// Beside Hadoop, Spark, Dask, DuckDB and Polars
    Malstone,
    /// Beside HDFS, SeaweedFS, MinIO and XRootD
    Storage,
    /// GMP beside UDP, TCP, gRPC and ZeroMQ
    Messages,
    /// Beside the bare QUIC library and iperf3
    Transfer,
}

/// The arguments.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    /// What to compare
    what: What,
    /// Only these peers, such as DuckDB,Ray [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Where peers are installed, and where they work
    #[arg(long, default_value = "target/compare", value_name = "DIR")]
    install: PathBuf,
    /// Where the page and its picture go
    #[arg(long, default_value = "docs/performance", value_name = "DIR")]
    report: PathBuf,
}

/// How a comparison runs.
struct Plan {
    folder: PathBuf,
    megabytes: u64,
    rounds: usize,
    fills_cache: bool,
    only: Vec<String>,
}

impl Plan {
    /// Whether this peer shall take part.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    }

    /// Comes before each turn, and is not measured.
    fn prepare(&self) -> Result<(), String> {
        if self.fills_cache { fill_cache(&self.folder) } else { Ok(()) }
    }
}

impl Compare {
    /// Runs the comparison and writes its page.
    pub(crate) fn run(&self, megabytes: u64, rounds: usize, fills_cache: bool) -> Result<(), String> {
        let tools = Tools::new(&self.install)?;
        let folder = self.install.join("work");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        let plan = Plan { folder, megabytes, rounds, fills_cache, only: self.only.clone() };
        println!("{}", machine());
        let before = load();
        let (mut report, name) = match self.what {
            What::Terasort => (terasort::compare(&plan, &tools)?, "terasort"),
            What::Malstone => (malstone::compare(&plan, &tools)?, "malstone"),
            What::Storage => (storage::compare(&plan, &tools)?, "storage"),
            What::Messages => (network::messages(&plan, &tools)?, "messages"),
            What::Transfer => (network::transfer(&plan, &tools)?, "transfer"),
        };
        let mut command = format!("cargo xtask compare {name}");
        if matches!(self.what, What::Terasort | What::Malstone | What::Storage) {
            command = format!("{command} --megabytes {megabytes}");
        }
        if !self.only.is_empty() {
            command = format!("{command} --only {}", self.only.join(","));
        }
        report.conditions = Conditions {
            date: says(Command::new("date").arg("+%F")),
            machine: whole_machine(),
            load: (before, load()),
            command: format!("{command} --rounds {rounds}{}", if fills_cache { " --fill-cache" } else { "" }),
            rounds,
        };
        report.write(&self.report)
    }
}

/// The machine with its memory and kernel.
fn whole_machine() -> String {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = memory.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: Vec<_> = kernel.trim().split(['.', '-', '+']).take(2).collect();
    format!("{}, {:.0} GB, Linux {}", machine(), kilobytes * 1_024.0 / 1e9, kernel.join("."))
}

/// Programs that wanted a processor in the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
