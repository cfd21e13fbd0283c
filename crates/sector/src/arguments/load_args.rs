//! Arguments for how busy nodes are or were. This file never asks for it.

use std::time::Duration;

use clap::Args;
use protocol::NodeId;

#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// This node over time, instead of all nodes at one moment
    pub(crate) node: Option<NodeId>,
    /// All nodes at an earlier moment: so long ago, such as 10m; a day is kept
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "node")]
    pub(crate) ago: Option<u32>,
    /// How far back, of a node: such as 1h; at most a day [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = seconds, requires = "node")]
    pub(crate) last: Option<u32>,
}

/// A span of time in whole seconds, at least one.
pub(super) fn seconds(text: &str) -> Result<u32, String> {
    let span: Duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match u32::try_from(span.as_secs()) {
        Ok(0) => Err("give at least a second".into()),
        Ok(seconds) => Ok(seconds),
        Err(_) => Err("a day is kept".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_given_as_people_say_it() {
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds("1h 1s"), Ok(3_601));
        assert!(seconds("10ms").is_err() && seconds("900y").is_err() && seconds("soon").is_err());
    }
}
