//! Congestion controllers compared without sockets: real QUIC connections over the model of a link. Time is simulated,
//! so every run is the same and a minute takes seconds.
//!
//! `matrix.rs` is one flow over many links, `sharing.rs` several flows over one. `changes.rs` changes the link
//! meanwhile, `stalls.rs` has an end that does not run for a while, and `first_packets.rs` loses the beginning.

#![allow(clippy::unwrap_used)]

mod changes;
mod first_packets;
mod host;
mod machine;
mod matrix;
mod sharing;
mod stalls;
mod world;
