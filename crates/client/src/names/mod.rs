//! Names in the cloud: what is there, what patterns match, and who may do what (door 2 alone). It never moves a byte of
//! a file.

pub mod expand;
pub mod known_names;
pub mod location;
pub mod namespace;
pub mod rights;
