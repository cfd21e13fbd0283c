//! Arguments of the commands over jobs. This file never runs a command.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use client::{
    JobState,
    job::{Parameter, SideFileSpec, segment_bytes},
};
use protocol::{JobId, RecordFraming, UserName, limits};
use terminal::{cloud_path, count_of, count_within};

#[derive(Clone, Debug, Args)]
pub(crate) struct Run {
    /// The function: a built-in name, LIB.so:SYMBOL, FILE.py:FUNCTION, or cmd:'PROGRAM ARGUMENTS'
    #[arg(long, required = true, value_name = "UDF")]
    pub(crate) udf: String,
    /// A parameter of every stage's function that may know it, or of one stage's, counted from 0
    #[arg(long, value_name = "[STAGE:]NAME=VALUE")]
    pub(crate) param: Vec<Parameter>,
    /// A file in Sector that every call of every stage's function may read; sent once to a node
    #[arg(long, value_name = "NAME=PATH", value_parser = side_file)]
    pub(crate) side: Vec<SideFileSpec>,
    /// A module, a package or a folder of modules here that functions in Python may import; sent with the job
    #[arg(long, value_name = "FILE.py|DIR")]
    pub(crate) py_modules: Vec<PathBuf>,
    /// Python packages that functions in Python may import: a file of requirements, as for pip. Each node installs them
    /// once, from --wheels alone
    #[arg(long, value_name = "FILE")]
    pub(crate) requirements: Option<PathBuf>,
    /// A folder here with the wheels of --requirements, and of all that these need; sent with the job
    #[arg(long, value_name = "DIR", requires = "requirements")]
    pub(crate) wheels: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// The folder for the results; it must not hold any yet
    #[arg(long, required = true, value_name = "DIR", value_parser = cloud_path)]
    pub(crate) output: String,
    /// Send the results of each stage but the last to so many buckets [default: two a node]. A single stage has buckets
    /// only where this is given
    #[arg(long, value_name = "N", value_parser = count_within(1_u32..))]
    pub(crate) buckets: Option<u32>,
    /// A further stage over the results of the one before
    #[arg(long, value_name = "UDF")]
    pub(crate) then: Vec<String>,
    /// Smallest and largest segment
    #[arg(long, value_name = "MIN:MAX", value_parser = segment_bytes)]
    pub(crate) segment_bytes: Option<(u64, u64)>,
    /// Treat the input's bytes as these records, whatever the files say
    #[arg(long, value_name = "FORMAT")]
    pub(crate) records: Option<RecordFraming>,
    /// What a stage's results are: so the next stage gets them, or who reads the output. Once for all stages, or once
    /// for each
    #[arg(long, value_name = "FORMAT", default_value = "file")]
    pub(crate) result_records: Vec<RecordFraming>,
    /// Go on although the function fails on up to N segments; errors.jsonl beside the results says what went wrong
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count_within(..=limits::FUNCTION_ERRORS_MAX))]
    pub(crate) max_errors: u32,
    /// Print the job's id and leave it running in the background
    #[arg(long)]
    pub(crate) detach: bool,
}

/// The input streams, one for each `--input`. Written by hand, since what is derived forgets which value stood where.
#[derive(Clone, Debug)]
pub(crate) struct Inputs(pub(crate) Vec<Vec<String>>);

impl Args for Inputs {
    fn augment_args(command: Command) -> Command {
        let help = "Files, folders or globs in Sector. Given again, a further stream that is read together with the first: \
                    record by record (fixed:BYTES, index) or file by file (file)";
        let input =
            Arg::new(INPUT).long(INPUT).required(true).num_args(1..).value_name("GLOB").value_parser(cloud_path);
        command.arg(input.action(ArgAction::Append).help(help))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Inputs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let streams = matches.get_occurrences::<String>(INPUT);
        Ok(Self(streams.into_iter().flatten().map(|globs| globs.cloned().collect()).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

const INPUT: &str = "input";

#[derive(Clone, Debug, Args)]
pub(crate) struct Index {
    /// Files, folders or globs in Sector
    #[arg(required = true, value_name = "GLOB", value_parser = cloud_path)]
    pub(crate) files: Vec<String>,
    /// How records are found: lines, or fixed:BYTES
    #[arg(long, value_name = "FORMAT", default_value = "lines", value_parser = found_records)]
    pub(crate) records: RecordFraming,
    /// A record begins with each line that begins with TEXT, and goes to the next such line
    #[arg(long, value_name = "TEXT", conflicts_with = "records", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) begins: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct JobsArguments {
    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<UserName>,
    /// Only those in this state: running, done, failed, cancelled or lost
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<JobState>,
    /// Only the newest N of them
    #[arg(long, value_name = "N", value_parser = count_of::<u64>)]
    pub(crate) limit: Option<u64>,
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
    /// Print what became of its segments, when it has ended: where, from when, how long
    #[arg(long, conflicts_with = "errors")]
    pub(crate) segments: bool,
    /// Print what its functions have printed, by stage and segment: standard output and standard error
    #[arg(long, conflicts_with_all = ["errors", "segments"])]
    pub(crate) logs: bool,
}

/// Reads how records are found in a file that has no index yet.
fn found_records(text: &str) -> Result<RecordFraming, String> {
    match text.parse()? {
        found @ (RecordFraming::Lines | RecordFraming::Fixed(_)) => Ok(found),
        other => Err(format!("records cannot be found as `{other}`: use lines, fixed:BYTES, or --begins TEXT")),
    }
}

/// Reads `NAME=PATH`.
fn side_file(text: &str) -> Result<SideFileSpec, String> {
    match text.split_once('=') {
        Some((name, path)) => format!("{name}={}", cloud_path(path)?).parse(),
        None => text.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_input_is_a_stream_of_all_that_stands_behind_it() {
        let command = Inputs::augment_args(Command::new("run"));
        let streams = |line: &str| {
            let matches = command.clone().try_get_matches_from(line.split(' ')).map_err(|error| error.kind());
            matches.map(|matches| Inputs::from_arg_matches(&matches).map(|inputs| inputs.0).unwrap_or_default())
        };
        assert_eq!(streams("run --input /a /b"), Ok(vec![vec!["/a".into(), "/b".into()]]));
        assert_eq!(
            streams("run --input /a /b --input /c"),
            Ok(vec![vec!["/a".into(), "/b".into()], vec!["/c".into()]])
        );
        assert!(streams("run").is_err());
    }

    #[test]
    fn an_index_is_made_of_what_can_be_found() {
        assert_eq!(found_records("fixed:8"), Ok(RecordFraming::Fixed(8)));
        assert!(found_records("index").is_err() && found_records("file").is_err());
    }

    #[test]
    fn a_state_is_read_by_the_name_that_is_shown() {
        assert_eq!("lost".parse(), Ok(JobState::Lost));
        assert!(
            "finished".parse::<JobState>().is_err_and(|said| said.contains("running, done, failed, cancelled, lost"))
        );
    }

    #[test]
    fn a_side_file_has_a_name_and_a_path() {
        let found = side_file("words=/text/a=b").map(|file| (file.name.to_string(), file.path.to_string()));
        assert_eq!(found, Ok(("words".into(), "/text/a=b".into())));
        for text in ["words", "=/a", "my-words=/a", "words=a/../b"] {
            assert!(side_file(text).is_err(), "{text}");
        }
    }
}
