//! A whole cloud in one process, on one thread, from one seed. The real rules of GMP, master, node, store and Sphere
//! run with a simulated clock, network and disks. Clients work while processes die, links are cut and disks fail; a
//! model keeps their answers, and the invariants report where the cloud disagrees. Then all faults stop, and the cloud
//! has to become well again. The same seed is the same run, to the byte. The other crates never depend on this one.

mod actor;
mod cloud;
mod environment;
mod faults;
mod invariants;
mod model;
mod options;
mod reading;
mod report;
mod role;
mod tagged;
#[cfg(test)]
mod tests;

pub use cloud::run;
pub use environment::network::DatagramCounts;
pub use options::{Options, Sabotage};
pub use report::{FaultCounts, SimulationReport, Violation, ViolationKind};
