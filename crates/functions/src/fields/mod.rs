//! Functions that choose, group or reduce records by their fields. They never know what a field means.

pub(crate) mod field;
pub(crate) mod filter;
pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod number;
pub(crate) mod reduce;
