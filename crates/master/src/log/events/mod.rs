//! What happened in the cloud: the record of numbered events, and those who wait for the next. An event is a row of the
//! journal, saved together with the change that it tells of. It never decides what is an event: the flows do.

pub(crate) mod audience;
pub(crate) mod event_loader;
pub(crate) mod event_log;
pub(crate) mod followers;

use std::{collections::BTreeSet, time::Duration};

use event_log::EventLog;
use followers::Followers;
use protocol::{Now, SliceId, UserName};

/// The events, and what is known of those that were told.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) log: EventLog,
    pub(crate) followers: Followers,
    /// Answers since the start that told of a gap.
    pub(crate) gaps: u64,
    /// Users who were told to be over their quota and have written nothing since.
    pub(crate) over_quota: BTreeSet<UserName>,
    /// Slices of which a lost copy was told, and not yet that all are there again.
    pub(crate) short_of_copies: BTreeSet<SliceId>,
    /// Whether a node or a disk was lost since all files had their copies.
    pub(crate) owes_all_restored: bool,
    /// Whether the cloud was last told to be healthy.
    pub(crate) is_healthy: bool,
    pub(crate) next_health_check: Duration,
}

impl Events {
    /// Nobody waits yet. Nodes get time to come before it is looked whether the cloud is healthy.
    pub(crate) fn new(now: Now, log: EventLog, is_healthy: bool) -> Self {
        Self {
            log,
            followers: Followers::default(),
            gaps: 0,
            over_quota: BTreeSet::new(),
            short_of_copies: BTreeSet::new(),
            owes_all_restored: false,
            is_healthy,
            next_health_check: now.monotonic + HEALTH_FIRST,
        }
    }
}

/// After the start of a master.
const HEALTH_FIRST: Duration = Duration::from_secs(15);
