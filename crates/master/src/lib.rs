//! The master: names, places, copies, leases, sessions and the health of nodes (Sector/Sphere paper, 2.1 to 2.3).
//! [`Master`] holds the rules and is pure: messages, completions and time go in, [`MasterAction`]s come out.
//! [`MasterServer`] runs it with sockets, disks and clocks. Paths served: upload, download, listing, job admission,
//! replication. The master never sees a byte of a file.

mod access;
mod actions;
mod catalog;
mod config;
mod error;
mod fleet;
mod jobs;
mod log;
mod master;
mod replicas;
mod server;
mod writes;

#[cfg(test)]
mod tests;

pub use access::{sessions::Peer, tickets::SignTickets};
pub use actions::{
    BatchId, ClientJoin, MasterAction, MasterCompletion, MasterMessage, NodeJoin, OrderId, OrderOutcome, SessionCaller,
    StoredRow, TABLES,
};
pub use catalog::namespace::{self, Namespace};
pub use config::MasterConfig;
pub use error::MasterError;
pub use log::{
    journal_inspect::{JournalReport, RowProblem, inspect_journal},
    journal_loader::JournalLoader,
    journal_restore::{JournalFacts, mark_restored},
    journal_set_aside::archive_journal,
};
pub use master::{Master, observation::MasterFigures};
pub use server::{JOURNAL_FILE, MasterServer, serve};
