//! The processes of the cloud: the real rules of master and node, driven in simulated time. Events take the place of
//! the tasks, sockets and files of `server.rs` in a role's crate. A process never reaches another except through the
//! environment.

mod bucket;
mod disks;
mod forgotten;
mod journal;
mod master;
mod master_link;
mod node;
mod node_names;
mod spe;
mod tickets;
mod transfer;

pub(crate) use self::disks::{Disks, PLENTY_BYTES};
pub(crate) use self::master::MasterRole;
pub(crate) use self::master_link::MasterLink;
pub(crate) use self::node::{NodeRole, Process};
pub(crate) use self::node_names::{node_id, node_number, site_of};
pub(crate) use self::tickets::delegate;
