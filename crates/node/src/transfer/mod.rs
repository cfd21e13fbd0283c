//! Bytes between this node and others: requests to them, the pipes between a connection and a disk, and the limits of
//! both. `transfer_server` answers what others request; this folder never does.

pub(crate) mod connection_pool;
pub(crate) mod copy;
pub(crate) mod fetch;
pub(crate) mod forward;
pub(crate) mod frame_pipe;
pub(crate) mod peers;
pub(crate) mod pull;
pub(crate) mod receive_pipeline;
pub(crate) mod site_limiters;
pub(crate) mod site_links;
pub(crate) mod transfer_limits;
