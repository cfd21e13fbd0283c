//! Limits of a command's transfers: `--limit` and `--priority`, and the file in which the limit may be changed while
//! the command runs. A wrong or missing file never changes the limit.

use std::{path::Path, time::Duration};

use client::{Client, Throttle};
use protocol::rate;
use terminal::failure::Failure;

use crate::arguments::{LimitArgument, TransferLimitArguments};

/// The client with the requested limits on its transfers.
pub(crate) fn throttled(cloud: &Client, pace: &TransferLimitArguments) -> Result<Client, Failure> {
    let throttle = match &pace.limit {
        None => Throttle::new(None, pace.priority),
        Some(LimitArgument::Rate(rate)) => Throttle::new(Some(*rate), pace.priority),
        Some(LimitArgument::File(file)) => {
            let throttle = Throttle::new(read(file)?, pace.priority);
            // It ends with the command.
            tokio::spawn(follow_limit_file(file.clone(), throttle.clone()));
            throttle
        }
    };
    Ok(cloud.throttled(throttle))
}

/// Applies what the file says. A file that is wrong, or gone, changes nothing.
async fn follow_limit_file(file: std::path::PathBuf, throttle: Throttle) {
    loop {
        tokio::time::sleep(RELOAD_PERIOD).await;
        reload_limit(&file, &throttle);
    }
}

fn reload_limit(file: &Path, throttle: &Throttle) {
    match read(file) {
        Ok(rate) => throttle.set_rate(rate),
        Err(error) => tracing::warn!(%error, "the limit stays as it was"),
    }
}

/// The rate that a file holds; `None` if it is empty.
fn read(file: &Path) -> Result<Option<u64>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::local("read the limit in", file, &error))?;
    match text.trim() {
        "" => Ok(None),
        text => rate::parse(text).map(Some).map_err(|error| Failure::usage(format!("`{}`: {error}", file.display()))),
    }
}

/// How often the limit's file is read: as soon as a person expects to see an effect.
const RELOAD_PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    // Promise 47.
    #[tokio::test]
    async fn a_limit_in_a_file_is_followed_and_a_wrong_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("limit");
        std::fs::write(&file, "8mbit\n").unwrap();
        let throttle = Throttle::new(read(&file).unwrap(), client::Priority::Normal);
        let after = |text: &str| {
            std::fs::write(&file, text).unwrap();
            reload_limit(&file, &throttle);
            throttle.rate_bytes_per_second()
        };
        assert_eq!(after("16mbit"), Some(2_000_000));
        assert_eq!(after("quick"), Some(2_000_000));
        assert_eq!(after(""), None);
    }
}
