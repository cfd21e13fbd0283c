//! The processes of the cloud: the real rules of master and node, with hands that work in the time of the simulation.
//! What `server.rs` does in a role's crate with tasks, sockets and files is done here with events.

mod bucket;
mod disks;
mod forgotten;
mod journal;
mod master;
mod master_link;
mod node;
mod spe;
mod tickets;
mod transfer;

pub(crate) use self::disks::Disks;
pub(crate) use self::master::{MasterRole, node_id, node_number, site_of};
pub(crate) use self::master_link::MasterLink;
pub(crate) use self::node::{NodeRole, NodeWork, Process};
pub(crate) use self::tickets::delegate;
