//! Which source of a slice is read next when one has failed, and when the master is asked for further ones (path
//! *download*). Random reads try one source after another; a fetch leaves out those that failed. It never reads, and
//! never asks the master itself.

use std::{
    fmt::Display,
    sync::atomic::{AtomicUsize, Ordering},
};

use protocol::{NodeId, SectorPath};

use crate::ClientError;

/// The source that brought bytes last, by its place in the list: random reads ask it first.
#[derive(Debug, Default)]
pub(super) struct PreferredSource(AtomicUsize);

impl PreferredSource {
    /// The places of so many sources in the order in which they are tried.
    pub(super) fn order(&self, sources: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.0.load(Ordering::Relaxed);
        (0..sources).map(move |turn| (first + turn) % sources)
    }

    /// This one has brought bytes.
    pub(super) fn note_success(&self, at: usize) {
        self.0.store(at, Ordering::Relaxed);
    }
}

/// Whether the master is asked again once all sources of a read have failed.
#[derive(Debug)]
pub(super) enum SourceRounds {
    /// A random read: so many more times.
    Left(u32),
    /// A fetch: as long as its sources bring bytes. So many were missing when the master was asked last.
    WhileBytesCome { missing_when_asked: u64 },
}

impl SourceRounds {
    /// All sources have failed, and so many bytes are missing. Whether those that the master names now are tried.
    pub(super) fn begin_another(&mut self, missing_bytes: u64) -> bool {
        match self {
            Self::Left(left) => {
                let has_left = *left > 0;
                *left = left.saturating_sub(1);
                has_left
            }
            Self::WhileBytesCome { missing_when_asked } => {
                let has_come = missing_bytes < *missing_when_asked;
                *missing_when_asked = missing_bytes;
                has_come
            }
        }
    }
}

/// The last failure of a source: it is what the caller hears if no other source does better.
#[derive(Debug)]
pub(super) struct LastFailure<'a> {
    path: &'a SectorPath,
    last: String,
}

impl<'a> LastFailure<'a> {
    /// None yet.
    pub(super) fn new(path: &'a SectorPath) -> Self {
        Self { path, last: String::from("no node that holds it is up") }
    }

    /// A source has failed, and others are read.
    pub(super) fn note(&mut self, node: &NodeId, error: &dyn Display) {
        tracing::info!(path = %self.path, %node, %error, "reading broke off and goes on from another source");
        self.last = error.to_string();
    }

    /// The task of a reader ended early.
    pub(super) fn note_lost_reader(&mut self) {
        self.last = "a reading task ended early".into();
    }

    /// No source is left.
    pub(super) fn into_error(self) -> ClientError {
        ClientError::NoCopy { path: self.path.clone(), last: self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_that_brought_bytes_last_is_tried_first_and_then_the_others_in_turn() {
        let preferred = PreferredSource::default();
        assert_eq!(preferred.order(3).collect::<Vec<_>>(), [0, 1, 2]);
        preferred.note_success(2);
        assert_eq!(preferred.order(3).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(preferred.order(2).collect::<Vec<_>>(), [0, 1], "the master named fewer meanwhile");
        assert_eq!(preferred.order(0).count(), 0);
    }

    #[test]
    fn a_random_read_asks_once_more_and_a_fetch_as_long_as_bytes_come() {
        let mut read = SourceRounds::Left(1);
        assert_eq!([read.begin_another(9), read.begin_another(9), read.begin_another(9)], [true, false, false]);
        let mut fetch = SourceRounds::WhileBytesCome { missing_when_asked: 9 };
        let missing = [7, 6, 6, 5];
        assert_eq!(missing.map(|bytes| fetch.begin_another(bytes)), [true, true, false, true]);
    }
}
