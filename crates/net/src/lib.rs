//! Everything that touches a socket: datagrams and the messenger that drives GMP over them, bulk transfer over TCP
//! with TLS 1.3, identity (certificates, tickets), and a network in memory that delays, loses, reorders and cuts.
//!
//! It never touches files and never decides what a message means.

pub mod backup_socket;
pub mod clock;
pub mod datagram;
pub mod error;
pub mod identity;
pub mod local;
pub mod memory_network;
pub mod messenger;
pub mod rate_limiter;
pub mod transfer;
pub mod unauthenticated;

pub use error::NetError;
