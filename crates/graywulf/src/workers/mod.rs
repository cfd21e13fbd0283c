//! Parts of a query at workers beside the nodes (GrayWulf, section 5). A slice is read where it lies, and rows that are
//! left cross the network. The engine's distributed planner cuts the plan; ours is which worker reads what, with whose
//! rights, and over which connection. It never runs a part without its caller's login.

mod address;
mod channels;
mod fleet;
mod messages;
mod placement;
mod planning;
mod service;

pub(crate) use address::WorkerAddress;
pub(crate) use fleet::{Fleet, MissingWorker, Workers};
pub(crate) use messages::WorkerReads;
pub(crate) use planning::QueryAtWorkers;
pub(crate) use service::run;
