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
pub use node::{DiskView, HealthView, LinkUseView, MarksView, NodeView, ScrubView};
pub use rights::{AclEntryView, AclView};
pub use topology::{AddressView, PlacedNodeView, TopologyLinkView, TopologyView, links};
pub use work::WorkView;

use std::time::{Duration, SystemTime};

/// A time as RFC 3339 to the millisecond, in UTC.
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
    SystemTime::UNIX_EPOCH + Duration::from_millis(unix_millis)
}
