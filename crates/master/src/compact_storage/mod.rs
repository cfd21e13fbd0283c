//! Memory for ten million names in a few gigabytes: slots of one size in large pieces ([`Slab`]), texts without an
//! allocation each ([`StringPool`]), and an index of four-byte slots ([`Index`]). Serves the names and the replicas.
//! Nothing here knows what it keeps, and nothing here has an order that could decide anything: the same calls leave the
//! same slots, and an index is only asked, never walked.

mod index;
mod slab;
mod string_pool;

pub(crate) use index::{Index, hash_of};
pub(crate) use slab::{Slab, Slot, SlotValue};
pub(crate) use string_pool::{PooledString, StringPool, TEXT_BYTES_MAX};
