//! Every message of the system, one file per door (see `ARCHITECTURE.md`, Doors). Sender and handler meet here and
//! nowhere else. The order of variants and fields is the wire format (see [`codec`](crate::wire::codec)). Each meaning
//! has one type, and a type never has two meanings.

pub mod access;
pub mod accounts;
pub mod admission;
pub mod audit;
pub mod byte_runs;
pub mod client_master;
pub mod client_reply;
pub mod cluster;
pub mod events;
pub mod history;
pub mod join;
pub mod links;
pub mod load;
pub mod local;
pub mod login;
pub mod marks;
pub mod master_security;
pub mod node_master;
pub mod printed;
pub mod rebuild;
pub mod request;
pub mod spe;
pub mod transfer;
pub mod work;

#[cfg(test)]
mod vectors;
