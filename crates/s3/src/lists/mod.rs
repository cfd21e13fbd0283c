//! Lists of the objects of a bucket, in the order of their keys. They never keep an index.

pub(crate) mod key_walk;
pub(crate) mod requests;
