//! Memory for ten million names in a few gigabytes. [`Slab`] keeps slots of one size in large pieces, [`StringPool`]
//! keeps texts without an allocation each, and [`Index`] is an index of four-byte slots. Serves the names and the
//! replicas. None of them knows the meaning of its content. The same calls leave the same slots, and an index is only
//! asked and never walked, so no order here can influence a decision.

mod index;
mod slab;
mod string_pool;

pub(crate) use index::{Index, hash_of};
pub(crate) use slab::{Slab, Slot, SlotValue};
pub(crate) use string_pool::{PooledString, StringPool, TEXT_BYTES_MAX};
