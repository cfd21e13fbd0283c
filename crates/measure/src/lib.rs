//! Measurements beside other systems, in turn and in one run, which `sector bench` and the developers' bench share. A
//! crate of its own, so that no role pays for what only a comparison needs (gRPC).

pub mod connection_flood;
pub mod messages;
pub mod transfer;
