//! The node (the papers' *slave*): stores slices, moves them, and runs Sphere processing elements (Sector/Sphere paper,
//! 2.2, 2.3 and 3.3). [`rules`] decides, `server` drives it on a real machine, [`bucket`] gathers the results of jobs,
//! and [`spe`] runs functions in child processes. A node takes orders only from its master, and moves bytes only for a
//! ticket that the master signed. It never runs a user's code in its own process.

mod active_writes;
pub mod bucket;
mod certificate_renewal;
mod connection_pool;
mod copy;
mod disks;
mod driver_process;
mod error;
mod fetch;
mod forward;
mod frame_pipe;
mod import;
mod join;
mod memory_folder;
pub mod metadata_mirror;
mod node_context;
mod pull;
mod receive_pipeline;
mod revocation_watch;
pub mod rules;
mod scrub;
mod server;
mod site_limiters;
mod task;
mod tickets;
mod transfer_server;
mod upload_locks;

pub use error::NodeError;
pub(crate) use error::blocking;
pub use server::{NodeServer, serve};
