//! The node (the papers' *slave*): keeps slices, moves them, and runs Sphere processing elements (Sector/Sphere paper,
//! 2.2, 2.3 and 3.3).
//!
//! [`rules`] decides, `server` drives it on a real machine, [`bucket`] gathers the results of jobs, [`spe`] runs
//! functions in child processes. It takes orders from its master alone, gives and takes bytes only for a ticket that the
//! master signed, and never runs a user's code in its own process.

mod arriving;
pub mod bucket;
mod copy;
mod disks;
mod door;
mod drive;
mod error;
mod fetch;
mod flow;
mod forward;
mod hands;
mod import;
mod intake;
pub mod keeping;
mod link;
mod memory_folder;
mod peers;
mod pull;
mod renewal;
mod revoked;
pub mod rules;
mod scrub;
mod server;
mod site_gates;
pub mod spe;
mod task;
mod tickets;
mod uploads;

pub use error::NodeError;
pub(crate) use error::blocking;
pub use server::{Server, serve};
