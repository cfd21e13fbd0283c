//! The master: names, places, copies, leases, sessions and the health of nodes (Sector/Sphere paper, 2.1 to 2.3). It
//! never sees a byte of a file.
//!
//! [`Master`] holds the rules and is pure: messages, completions and time go in, [`JobAction`]s come out. [`NodeServer`] is the
//! only code here that knows sockets, disks and clocks. Paths served: upload, download, listing, job admission,
//! replication.

mod actions;
mod arriving;
mod aside;
mod audit;
mod checking;
mod clock_guard;
mod commits;
mod config;
mod copying;
mod denied;
mod dense;
mod drain;
mod drivers;
mod error;
mod files;
mod health;
mod histories;
mod inspect;
mod interrupted;
mod jobs;
mod joins;
mod keeping;
mod leases;
mod left;
mod lifetimes;
mod lineage;
mod links;
mod loading;
mod master;
mod memory;
pub mod namespace;
mod nodes;
mod order_group;
mod orders;
mod per_user;
mod placement;
mod policies;
mod questions;
mod quotas;
mod rebalance;
mod rebuild;
mod reconcile;
mod removal;
mod renewal;
mod replicas;
mod replication;
mod reports;
mod restored;
mod rights;
mod saves;
mod security_door;
mod server;
mod sessions;
mod shares;
mod spread;
mod standing;
mod targets;
mod tickets;
mod together;
mod topology;
mod topology_watch;
mod trash;
mod turns;
mod upkeep;
mod wish;
mod writes;

#[cfg(test)]
mod tests;

pub use actions::{
    Action, BatchId, Caller, ClientJoin, Completion, Message, NodeJoin, OrderId, OrderOutcome, StoredRow, TABLES,
};
pub use aside::set_journal_aside;
pub use config::MasterConfig;
pub use error::MasterError;
pub use inspect::{JournalReport, RowProblem, inspect_journal};
pub use loading::Loading;
pub use master::Master;
pub use namespace::Namespace;
pub use restored::{JournalFacts, mark_restored};
pub use server::{JOURNAL_FILE, Server, serve};
pub use sessions::Peer;
pub use tickets::SignTickets;
