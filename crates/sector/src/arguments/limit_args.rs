//! Arguments for the rate and the priority of a command's transfers. This file never limits a transfer itself.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use clap::Args;
use client::Priority;
use protocol::rate::{self, RateError};

#[derive(Clone, Debug, Args)]
pub(crate) struct TransferLimitArguments {
    /// Limit all its transfers together to this rate, in bytes or bits per second: `25M`, `100mbit`. `@FILE` is a file
    /// with a rate that may be changed meanwhile
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<LimitArgument>,
    /// Priority over other transfers that wait for the same limit between sites: high, normal or low
    #[arg(long, default_value_t)]
    pub(crate) priority: Priority,
}

/// A rate, or where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimitArgument {
    /// Bytes per second.
    Rate(u64),
    /// A file that holds a rate, or nothing for none.
    File(PathBuf),
}

impl FromStr for LimitArgument {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let Ok(file) = text.strip_prefix('@').ok_or(text).map(PathBuf::from_str) else {
            return rate::parse(text).map(Self::Rate);
        };
        let Ok(file): Result<_, Infallible> = file;
        Ok(Self::File(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_rate_or_the_file_that_holds_one() {
        assert_eq!("100k".parse(), Ok(LimitArgument::Rate(100_000)));
        assert_eq!("100mbit".parse(), Ok(LimitArgument::Rate(12_500_000)));
        assert_eq!("@/tmp/limit".parse(), Ok(LimitArgument::File("/tmp/limit".into())));
        assert!("fast".parse::<LimitArgument>().is_err());
    }
}
