//! Everything that touches a socket: datagrams, the messenger that drives GMP over them, bulk transfer over TCP with
//! TLS 1.3 or QUIC, identity (certificates, tickets). A network in memory delays, loses, reorders and cuts for tests.
//!
//! It never touches files and never decides what a message means.

pub mod backup_socket;
pub mod clock;
pub mod datagram;
pub mod error;
pub mod identity;
pub mod local;
pub mod memory_network;
pub mod message_port;
pub mod messenger;
pub mod rate_limiter;
pub mod transfer;
pub mod unauthenticated;

pub use error::NetError;
