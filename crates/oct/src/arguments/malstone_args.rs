//! Arguments of `sector oct malgen` and `malstone`. This file never runs a command.

use clap::{Args, Subcommand};
use terminal::{cloud_path, count_of, count_within};

#[derive(Clone, Debug, Args)]
pub(crate) struct Malgen {
    /// Records to make, of 100 bytes each and a newline, such as 10M
    #[arg(long, value_name = "N", value_parser = count_within(1_u64..=1_000_000_000_000_000))]
    pub(crate) records: u64,
    /// Sites, with the marked ones [default: 20 for each marked one, or one for 10,000 records if that is more]
    #[arg(long, value_name = "N", value_parser = count_of::<u64>)]
    pub(crate) sites: Option<u64>,
    /// Sites that compromise the entities that visit them
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = count_of::<u64>)]
    pub(crate) marked: u64,
    /// Entities [default: one for 100 records, at least 1,000]
    #[arg(long, value_name = "N", value_parser = count_of::<u64>)]
    pub(crate) entities: Option<u64>,
    /// Visits fall with this power of a site's rank
    #[arg(long, default_value_t = 0.8, value_name = "X")]
    pub(crate) site_exponent: f64,
    /// Visits fall with this power of an entity's rank
    #[arg(long, default_value_t = 0.5, value_name = "X")]
    pub(crate) entity_exponent: f64,
    /// Days of the period, from 2009-01-01
    #[arg(long, default_value_t = 365, value_name = "N")]
    pub(crate) days: u64,
    /// How probably a visit to a marked site after its date compromises the entity
    #[arg(long, default_value_t = 0.7, value_name = "P")]
    pub(crate) probability: f64,
    /// What everything is drawn from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Slices to make [default: one for 1.25 million records, at least 8]
    #[arg(long, value_name = "N", value_parser = count_within(1_u64..=4_096))]
    pub(crate) slices: Option<u64>,
    /// The folder for them
    #[arg(value_parser = cloud_path)]
    pub(crate) folder: String,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Malstone {
    /// One ratio for each site, over the whole period
    #[command(after_help = "Example: sector oct malstone a /log /ratios")]
    A(MalstoneRun),
    /// A ratio for each site and week, of all that was until the week's end
    #[command(after_help = "Example: sector oct malstone b /log /weeks --days 365")]
    B(MalstoneRun),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct MalstoneRun {
    /// The records' folder
    #[arg(value_parser = cloud_path)]
    pub(crate) input: String,
    /// The folder for the results
    #[arg(value_parser = cloud_path)]
    pub(crate) output: String,
    /// The period's first day, where weeks begin
    #[arg(long, default_value = functions::malstone::START, value_name = "DATE")]
    pub(crate) start: String,
    /// Its days; what is outside does not count
    #[arg(long, default_value_t = 365, value_name = "N", value_parser = count_within(1_u64..=functions::malstone::DAYS_MAX))]
    pub(crate) days: u64,
    /// Count records and flagged records instead of visitors
    #[arg(long)]
    pub(crate) per_event: bool,
    /// Buckets of entities [default: by the size of the data]
    #[arg(long, value_name = "N", value_parser = count_within(1_u32..=protocol::limits::BUCKETS_MAX))]
    pub(crate) buckets: Option<u32>,
    /// Slices of the results, at most [default: by the size of the data]
    #[arg(long, value_name = "N", value_parser = count_within(1_u32..=protocol::limits::BUCKETS_MAX))]
    pub(crate) slices: Option<u32>,
}
