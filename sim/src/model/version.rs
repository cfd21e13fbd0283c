//! The versions that clients were told. A new one is larger than all that were told before its write was begun. The
//! promise is made per path but holds for all paths together, since the master has one counter. This file only records
//! versions and never predicts one.

use std::time::Duration;

use protocol::Version;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The times, and the largest version up to then.
    told: Vec<(Duration, Version)>,
}

impl Versions {
    /// The largest version told up to a moment.
    pub(crate) fn largest_before(&self, moment: Duration) -> Option<Version> {
        let count = self.told.partition_point(|(at, _)| *at <= moment);
        self.told[..count].last().map(|(_, version)| *version)
    }

    /// The journal was lost, or an older one restored: versions larger than this one may be unknown to everyone.
    pub(crate) fn lose(&mut self, now: Duration, known: Option<Version>) {
        if let Some(largest) = self.largest_before(now) {
            self.told.push((now, known.unwrap_or_default().min(largest)));
        }
    }

    /// A version was told.
    pub(crate) fn note(&mut self, now: Duration, version: Version) {
        let largest = self.told.last().map_or(version, |(_, before)| version.max(*before));
        self.told.push((now, largest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_later_does_not_count() {
        let mut versions = Versions::default();
        let at = Duration::from_secs;
        for (seconds, version) in [(1, 10), (2, 7), (3, 20)] {
            versions.note(at(seconds), Version(version));
        }
        let largest: Vec<_> = (0..4).map(|second| versions.largest_before(at(second))).collect();
        assert_eq!(largest, [None, Some(Version(10)), Some(Version(10)), Some(Version(20))]);
    }

    #[test]
    fn what_nobody_has_any_more_is_forgotten_with_the_journal() {
        let (mut versions, at) = (Versions::default(), Duration::from_secs);
        versions.lose(at(0), None);
        versions.note(at(1), Version(20));
        for (found, left) in [(30, 20), (10, 10)] {
            versions.lose(at(2), Some(Version(found)));
            assert_eq!(versions.largest_before(at(2)), Some(Version(left)));
        }
        versions.note(at(3), Version(11));
        assert_eq!(versions.largest_before(at(3)), Some(Version(11)));
    }
}
