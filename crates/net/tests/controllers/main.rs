//! Congestion controllers beside each other without sockets: real QUIC connections over the model of a link, in
//! simulated time, so that every run is the same and a minute takes seconds.
//!
//! `matrix.rs` is one flow over many links, `sharing.rs` several over one, `changes.rs` what changes meanwhile,
//! `stalls.rs` what an end does that is not run for a while.

#![allow(clippy::unwrap_used)]

mod changes;
mod host;
mod machine;
mod matrix;
mod sharing;
mod stalls;
mod world;
