//! Arguments of `sector oct terasort`. This file never runs a command.

use clap::Subcommand;
use terminal::{cloud_path, count_of, count_within};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Terasort {
    /// Generate records on the nodes
    #[command(after_help = "Example: sector oct terasort gen --records 10000000 /gen")]
    Gen {
        /// Records to make, of 100 bytes each, such as 10M
        #[arg(long, value_name = "N", value_parser = count_of::<u64>)]
        records: u64,
        /// Files to spread them over [default: two a node]
        #[arg(long, value_parser = count_within(1_u32..))]
        files: Option<u32>,
        /// Seed of the keys
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folder for them
        #[arg(value_parser = cloud_path)]
        folder: String,
    },
    /// Sort them in two stages (paper, Figure 3)
    #[command(after_help = "Example: sector oct terasort sort /gen /sorted")]
    Sort {
        /// The records' folder
        #[arg(value_parser = cloud_path)]
        input: String,
        /// The folder for the sorted ones
        #[arg(value_parser = cloud_path)]
        output: String,
        /// Buckets [default: by the size of the data]
        #[arg(long, value_parser = count_within(1_u32..))]
        buckets: Option<u32>,
    },
    /// Count, sum and check the order, over the borders of files too
    #[command(after_help = "Example: sector oct terasort validate /sorted --json")]
    Validate {
        /// The records' folder
        #[arg(value_parser = cloud_path)]
        folder: String,
    },
}
