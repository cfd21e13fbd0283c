//! How long connections of the transfer port and of the local socket may wait, and the node for them. It never counts
//! connections.

use std::time::Duration;

/// How long a connection may wait for its next request.
pub(crate) const REQUEST_IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// Pause after a connection could not be accepted, instead of retrying in a loop.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long conversations may go on once the node stops.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(3);
