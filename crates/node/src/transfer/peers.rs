//! What is needed to reach other nodes: connections to them, the rules for those of other clouds, and the limits of what
//! crosses between sites. It never sends anything itself.

use super::{
    connection_pool::ConnectionPool, pull::foreign_cloud_policy::ForeignCloudPolicy, site_limiters::SiteLimiters,
};

/// The other nodes, as this one reaches them.
pub(crate) struct Peers {
    /// The site of this node: with nodes of the same one it may use another carrier.
    pub(crate) site: String,
    pub(crate) connections: ConnectionPool,
    /// The operator's rules on copies from other clouds.
    pub(crate) foreign_clouds: ForeignCloudPolicy,
    /// The rate limits of bytes to and from other sites.
    pub(crate) site_limiters: SiteLimiters,
}
