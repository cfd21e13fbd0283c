//! Names of events and metrics, in one list, so that a dashboard and the code cannot drift apart. A name here is
//! stable: it is never removed except with a major version.

/// Datagrams that were dropped: foreign, incomplete, or with a wrong seal.
pub const METRIC_DATAGRAMS_DROPPED: &str = "gmp_datagrams_dropped_total";
/// Datagrams sent again because no acknowledgement came.
pub const METRIC_DATAGRAMS_RETRANSMITTED: &str = "gmp_datagrams_retransmitted_total";
/// Tickets refused by a node.
pub const METRIC_TICKETS_REFUSED: &str = "node_tickets_refused_total";
/// A slice was found whose bytes do not match its checksums.
pub const EVENT_SLICE_CORRUPT: &str = "slice_corrupt";
/// A disk of a node has failed, or was not there when the node started.
pub const EVENT_DISK_FAILED: &str = "disk_failed";
/// A node joined the cloud.
pub const EVENT_NODE_JOINED: &str = "node_joined";
/// A node has not been heard of for too long.
pub const EVENT_NODE_LOST: &str = "node_lost";
