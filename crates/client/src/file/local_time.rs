//! When a local file was last changed, in the unit of the cloud (paths: upload, download). It never says which of two
//! files is newer.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch; `None` before it.
pub(crate) fn unix_millis(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
}
