//! What a query read of each slice: how often, how many bytes, how long it waited, and how near the copy was. It never
//! decides where to read.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use client::{Distance, SectorPath};

/// What was read of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SliceReads {
    /// Reads, each of which is one range of bytes.
    pub(crate) reads: u64,
    /// Bytes that came.
    pub(crate) bytes: u64,
    /// How long reads took, all of them together: those at the same time count each.
    pub(crate) waited: Duration,
    /// How near the copy was that was read last; `None` where the cloud does not know.
    pub(crate) distance: Option<Distance>,
}

/// How near a copy was, for people.
pub(crate) fn level_words(distance: Option<Distance>) -> &'static str {
    match distance {
        Some(Distance::SameNode) => "this machine",
        Some(Distance::SameRack) => "this rack",
        Some(Distance::SameSite) => "this site",
        Some(Distance::OtherSite) => "another site",
        None => "-",
    }
}

/// What was read of each file of a query.
#[derive(Debug, Default)]
pub(crate) struct ReadCounts {
    files: Mutex<BTreeMap<SectorPath, SliceReads>>,
}

impl ReadCounts {
    /// Notes a read that has ended.
    pub(super) fn note(&self, path: &SectorPath, bytes: u64, waited: Duration, distance: Option<Distance>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files.entry(path.clone()).or_default();
        file.reads += 1;
        file.bytes += bytes;
        file.waited += waited;
        file.distance = distance;
    }

    /// All files of which something was read, in the order of their names.
    pub(crate) fn files(&self) -> Vec<(SectorPath, SliceReads)> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|(path, reads)| (path.clone(), *reads)).collect()
    }
}
