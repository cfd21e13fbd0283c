//! How many files a transfer of many processes at once. There are enough to hide the round trips between small files,
//! and few enough to bound memory and the transfers of the nodes. It is a rule: it never starts anything itself.

use std::time::Duration;

/// Files in flight.
#[derive(Debug, Default)]
pub(super) struct InFlightWindow {
    files: usize,
    /// What they may hold in memory together.
    bytes: u64,
}

impl InFlightWindow {
    /// Whether a file of this many bytes may begin, if `files_max` may be in flight. The first never waits, so no file
    /// waits for ever.
    pub(super) fn has_room(&self, file_bytes: u64, files_max: usize) -> bool {
        self.files == 0 || (self.files < files_max && self.bytes + held_bytes(file_bytes) <= BYTES_AT_ONCE_MAX)
    }

    /// A file of this many bytes has begun.
    pub(super) fn begin(&mut self, file_bytes: u64) {
        self.files += 1;
        self.bytes += held_bytes(file_bytes);
    }

    /// A file of this many bytes has ended.
    pub(super) fn end(&mut self, file_bytes: u64) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(held_bytes(file_bytes));
    }
}

/// How many files may be in flight with this round trip. It is the longest one to the servers involved, as far as it is
/// known by now.
pub(super) fn files_at_once(round_trip: Option<Duration>) -> usize {
    let trips = round_trip.unwrap_or_default().as_secs_f64() / ROUND_TRIP_OF_MORE.as_secs_f64();
    let files = (FILES_AT_ONCE_MIN as f64 * (1.0 + trips)) as usize;
    files.clamp(FILES_AT_ONCE_MIN, FILES_AT_ONCE_MAX)
}

/// What a file of this many bytes may hold in memory.
fn held_bytes(file_bytes: u64) -> u64 {
    file_bytes.min(FILE_BYTES_HELD_MAX)
}

/// Files in flight when the servers are near: this hides the syncs of small files.
const FILES_AT_ONCE_MIN: usize = 32;
/// Files in flight when they are far: half of the transfers that a node serves at once with its usual settings.
const FILES_AT_ONCE_MAX: usize = 128;
/// The round trip that allows as many files again as a near one. A file takes some six round trips, and a megabyte's
/// share of a gigabit a second is 8 ms.
const ROUND_TRIP_OF_MORE: Duration = Duration::from_millis(25);
/// Bytes of a file that are in memory between its disk and the network, at most.
const FILE_BYTES_HELD_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of all files in flight that may be in memory.
const BYTES_AT_ONCE_MAX: u64 = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// How many files of this many bytes begin before one has to wait.
    fn fit(bytes: u64, round_trip: Option<Duration>) -> usize {
        let mut window = InFlightWindow::default();
        let mut begun = 0;
        while window.has_room(bytes, files_at_once(round_trip)) {
            window.begin(bytes);
            begun += 1;
        }
        window.end(bytes);
        assert!(window.has_room(bytes, files_at_once(round_trip)), "one more for each that ends");
        begun
    }

    #[test]
    fn the_farther_the_servers_the_more_files_are_under_way() {
        assert_eq!(fit(1_000, None), 32);
        assert_eq!(fit(1_000, Some(Duration::from_micros(500))), 32);
        assert_eq!(fit(1_000, Some(Duration::from_millis(25))), 64);
        assert_eq!(fit(1_000, Some(Duration::from_secs(10))), 128);
    }

    #[test]
    fn large_files_are_as_many_as_memory_allows_and_the_first_never_waits() {
        assert_eq!(fit(1 << 30, Some(Duration::from_millis(300))), 32);
        assert!(InFlightWindow::default().has_room(u64::MAX, 0));
    }
}
