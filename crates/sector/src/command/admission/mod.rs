//! How machines join a cloud. [`security`] runs at the security server, and [`join`] at the machine that joins. With
//! [`node_admission`], an administrator decides about nodes. A private key never moves between machines.

pub(super) mod join;
pub(super) mod node_admission;
pub(super) mod security;
