//! Arguments for what happened in the cloud. This file never asks for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use protocol::message::{events::EventKind, request::EventsFrom};

#[derive(Clone, Debug, Args)]
pub(crate) struct Events {
    /// From how long ago (10m), a time (2026-01-31T08:00:00Z), or the number of the last event seen [default: all; with
    /// --follow, now]
    #[arg(long, value_name = "WHEN", value_parser = since)]
    pub(crate) since: Option<EventsFrom>,
    /// Only these kinds, such as file_published,file_replaced; may be given again
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    pub(crate) kinds: Vec<EventKind>,
    /// Only what happened to this path or glob, or below it
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Go on with what happens from now on, until Ctrl-C; with --json, a document a line
    #[arg(long)]
    pub(crate) follow: bool,
}

/// A number, a time, or how long ago it was.
fn since(text: &str) -> Result<EventsFrom, String> {
    if let Ok(number) = text.parse() {
        return Ok(EventsFrom::After(number));
    }
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let at = |time: SystemTime| EventsFrom::Since(time.duration_since(UNIX_EPOCH).map_or(0, millis));
    if let Ok(ago) = humantime::parse_duration(text) {
        // What is longer ago than the epoch is everything.
        return Ok(at(SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH)));
    }
    let wrong = |_| {
        "give how long ago, such as 10m, a time such as 2026-01-31T08:00:00Z, or the number of the last event that you \
         have seen"
            .to_owned()
    };
    humantime::parse_rfc3339_weak(text).map(at).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_number_a_time_or_how_long_ago_it_was() {
        assert_eq!(since("1700000000000001"), Ok(EventsFrom::After(1_700_000_000_000_001)));
        assert_eq!(since("1970-01-01T00:00:07Z"), Ok(EventsFrom::Since(7_000)));
        assert!(matches!(since("10m"), Ok(EventsFrom::Since(millis)) if millis > 0));
        assert!(since("yesterday").is_err_and(|why| why.contains("number")));
    }
}
