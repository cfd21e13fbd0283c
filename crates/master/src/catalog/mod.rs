//! The catalogue: names, and what holds for them: rights, policies, lifetimes, quotas and the trash. It never knows where
//! a copy lies.

pub(crate) mod compact_storage;
pub(crate) mod lifetimes;
pub(crate) mod memory_files;
pub mod namespace;
pub(crate) mod policies;
pub(crate) mod quotas;
pub(crate) mod rights;
pub(crate) mod trash;
pub(crate) mod usage_accounting;
