//! What administrators do: accounts, machines that come in, nodes, the audit record, imports, and the rebuild after a
//! lost journal. The master decides. It never moves a byte of a file itself: a node imports its own files.

pub mod accounts;
pub mod admission;
pub mod audit;
pub mod cluster;
pub mod events;
pub mod import;
pub mod observation;
pub mod rebuild;
pub mod room;
