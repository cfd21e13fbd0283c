//! The node (the papers' *slave*): stores slices, moves them, and runs Sphere processing elements (Sector/Sphere paper,
//! 2.2, 2.3 and 3.3). [`rules`] decides, `server` drives it on a real machine, [`bucket`] gathers the results of jobs,
//! and [`spe`] runs functions in child processes. A node takes orders only from its master, and moves bytes only for a
//! ticket that the master signed. It never runs a user's code in its own process.

pub mod bucket;
mod disks;
mod error;
mod load;
pub mod metadata_mirror;
mod node_context;
pub mod rules;
mod server;
mod session;
mod task;
mod tickets;
mod transfer;
mod transfer_server;

pub use error::NodeError;
pub(crate) use error::blocking;
pub use server::{NodeServer, serve};
