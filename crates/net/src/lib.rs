//! Everything that touches a socket: datagrams and the messenger that drives GMP over them, bulk transfer over TCP
//! with TLS 1.3, identity (certificates, tickets), and a network in memory that delays, loses, reorders and cuts.
//!
//! It never touches files and never decides what a message means.

pub mod clock;
pub mod datagram;
pub mod error;
pub mod folder_door;
pub mod identity;
pub mod local;
pub mod memory;
pub mod messenger;
pub mod pace;
pub mod strangers;
pub mod transfer;

pub use error::NetError;
