//! The master: names, places, copies, leases, sessions and the health of nodes (Sector/Sphere paper, 2.1 to 2.3).
//! [`Master`] holds the rules and is pure: messages, completions and time go in, [`MasterAction`]s come out.
//! [`MasterServer`] runs it with sockets, disks and clocks. Paths served: upload, download, listing, job admission,
//! replication. The master never sees a byte of a file.

mod actions;
mod audit;
mod certificate_renewal;
mod clock_guard;
mod closed_sessions;
mod colocation;
mod compact_storage;
mod config;
mod copy_bandwidth;
mod desired_replication;
mod drain;
mod drivers;
mod error;
mod fair_queue;
mod file_locations;
mod health;
mod heartbeats;
mod job_histories;
mod jobs;
mod joins;
mod journal_archive;
mod journal_inspect;
mod journal_lineage;
mod journal_loader;
mod journal_restore;
mod journal_writes;
mod lease_completion;
mod lease_table;
mod lifetimes;
mod master;
mod memory_files;
mod metadata_mirror;
pub mod namespace;
mod node_removal;
mod nodes;
mod order_group;
mod orders;
mod partial_uploads;
mod per_user;
mod placement;
mod placement_constraints;
mod policies;
mod quotas;
mod rebalance;
mod rebuild;
mod reconcile;
mod replicas;
mod replication_monitor;
mod replication_queue;
mod rights;
mod security_client;
mod security_proxy;
mod server;
mod session_recheck;
mod sessions;
mod site_bandwidth;
mod tickets;
mod topology;
mod topology_watch;
mod trash;
mod upload_targets;
mod usage_accounting;
mod verify_copies;
mod write_progress;
mod writes;

#[cfg(test)]
mod tests;

pub use actions::{
    BatchId, ClientJoin, MasterAction, MasterCompletion, MasterMessage, NodeJoin, OrderId, OrderOutcome, SessionCaller,
    StoredRow, TABLES,
};
pub use config::MasterConfig;
pub use error::MasterError;
pub use journal_archive::archive_journal;
pub use journal_inspect::{JournalReport, RowProblem, inspect_journal};
pub use journal_loader::JournalLoader;
pub use journal_restore::{JournalFacts, mark_restored};
pub use master::Master;
pub use namespace::Namespace;
pub use server::{JOURNAL_FILE, MasterServer, serve};
pub use sessions::Peer;
pub use tickets::SignTickets;
