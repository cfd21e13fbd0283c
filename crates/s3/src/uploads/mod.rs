//! Uploads in parts, which any gateway takes over from any other. They never live in a gateway.

pub(crate) mod parts;
pub(crate) mod requests;
