//! Measurements beside other systems, in turn and in one run. `sector oct bench` and the developers' bench share them.
//! This is a crate of its own because it needs libraries that only a comparison needs (gRPC). The crates of the roles
//! never depend on it.

pub mod connection_flood;
pub mod messages;
pub mod transfer;
