//! When a local file was last changed, in the unit of the cloud (paths: upload, download). It never says which of two
//! files is newer.

use std::{
    fs::File,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Milliseconds since the Unix epoch; `None` before it.
pub(crate) fn unix_millis(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
}

/// Gives an open file this time of change. A file system that knows no times keeps its own.
pub(crate) fn set_modified(file: &File, unix_millis: u64) {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(unix_millis));
    if let Some(error) = time.and_then(|time| file.set_modified(time).err()) {
        tracing::info!(%error, "the time of change of a local file is not set");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_time_that_was_set_is_the_one_that_is_read_whatever_it_is() {
        let file = tempfile::tempfile().unwrap();
        for millis in [0, 1, 999, 1_600_000_000_123, 4_102_444_800_001] {
            set_modified(&file, millis);
            assert_eq!(unix_millis(file.metadata().unwrap().modified().unwrap()), Some(millis));
        }
        set_modified(&file, u64::MAX);
        let finer = UNIX_EPOCH + Duration::from_nanos(1_999_999);
        assert_eq!((unix_millis(finer), unix_millis(UNIX_EPOCH - Duration::from_nanos(1))), (Some(1), None));
    }
}
