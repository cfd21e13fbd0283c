//! Commands over jobs.

use bytesize::ByteSize;
use clap::{Args, Subcommand};
use protocol::{JobId, RecordFormat, limits};

#[derive(Clone, Debug, Args)]
pub(crate) struct Run {
    /// The function: a built-in name, LIB.so:SYMBOL, FILE.py:FUNCTION, or cmd:'PROGRAM ARGUMENTS'
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
    /// Go on although the function fails on up to N segments; errors.jsonl beside the results says what went wrong
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(limits::FUNCTION_ERRORS_MAX)))]
    pub(crate) max_errors: u32,
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
    /// Print the errors of its functions; with --json, all that is known of each
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
    use super::*;

    #[test]
    fn segment_sizes_take_units_and_refuse_nonsense() {
        assert_eq!(segment_bytes("8MiB:1GB"), Ok((8 << 20, 1_000_000_000)));
        for text in ["8MiB", "0:1", "2:1", "x:y", ":"] {
            assert!(segment_bytes(text).is_err(), "{text}");
        }
    }
}
