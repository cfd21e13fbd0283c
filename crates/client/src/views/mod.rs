//! What programs read of a cloud, as JSON: the documents of `--json` and of the web door's interface, which are the same
//! (`docs/command-line.md`). It only shapes what the cloud has answered and never asks it.

// The fields are the JSON, and `docs/command-line.md` says what they mean.
#![allow(missing_docs)]

mod account;
mod entry;
mod event;
mod job;
mod link;
mod load;
mod mark;
mod node;
mod rights;
mod topology;
mod work;

pub use account::{GroupView, QuotaView, TokenView, UserView};
pub use entry::{CopyView, EntryView, StatView, TrashView, UsageView, VersionView};
pub use event::{EventView, GAP};
pub use job::{AttemptView, JobView, LogView, LogsView, StageView};
pub use link::{link_series, links_page};
pub use load::{load_page, load_series};
pub use mark::{MarkView, marked_nodes};
pub use node::{DiskView, HealthView, LinkUseView, MarksView, NodeView, ScrubView};
pub use rights::{AclEntryView, AclView};
pub use topology::{AddressView, PlacedNodeView, TopologyLinkView, TopologyView, links};
pub use work::WorkView;

use std::time::{Duration, SystemTime};

/// A time as RFC 3339 to the millisecond, in UTC. It ends with the year 9999, and so does every later time.
pub fn rfc3339(unix_millis: u64) -> String {
    humantime::format_rfc3339_millis(at(unix_millis)).to_string()
}

/// The same to the second.
pub fn rfc3339_seconds(unix_millis: u64) -> String {
    humantime::format_rfc3339_seconds(at(unix_millis)).to_string()
}

/// Reads what [`rfc3339`] writes, in milliseconds since the Unix epoch.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339(text).ok()?;
    u64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis()).ok()
}

fn at(unix_millis: u64) -> SystemTime {
    // Formatting a later one would panic, and a clock that is wrong may say anything.
    SystemTime::UNIX_EPOCH + Duration::from_millis(unix_millis.min(YEAR_9999_END_UNIX_MILLIS))
}

/// The last millisecond that RFC 3339 can write.
pub const YEAR_9999_END_UNIX_MILLIS: u64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_after_the_year_9999_is_no_panic() {
        for late in [YEAR_9999_END_UNIX_MILLIS, YEAR_9999_END_UNIX_MILLIS + 1, u64::MAX] {
            assert_eq!(rfc3339(late), "9999-12-31T23:59:59.999Z");
            assert_eq!(rfc3339_seconds(late), "9999-12-31T23:59:59Z");
        }
        assert_eq!(parse_rfc3339(&rfc3339(1_768_478_400_999)), Some(1_768_478_400_999));
    }
}
