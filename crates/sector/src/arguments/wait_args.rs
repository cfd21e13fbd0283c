//! Arguments for waiting until another's write has ended. This file never waits itself.

use std::time::Duration;

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WaitArguments {
    /// Wait while someone else is writing the file: as long as it takes, or at most so long for a file. Without it, exit
    /// with 8
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Option<Duration>>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        wait: WaitArguments,
        paths: Vec<String>,
    }

    #[test]
    fn a_wait_is_without_end_or_as_long_as_it_says_and_takes_no_path_for_that() {
        let read = |line: &str| {
            let program = Program::try_parse_from(line.split(' ')).map_err(|error| error.kind());
            program.map(|program| (program.wait.wait, program.paths.len()))
        };
        assert_eq!(read("put a b"), Ok((None, 2)));
        assert_eq!(read("put --wait a b"), Ok((Some(None), 2)));
        assert_eq!(read("put a --wait=1m30s b"), Ok((Some(Some(Duration::from_secs(90))), 2)));
        assert!(read("put --wait=long a b").is_err());
    }
}
