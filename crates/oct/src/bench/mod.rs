//! `sector oct bench`: measurements of a disk, of messages and transfers beside other systems, and of the running
//! cloud. They never change what a user keeps.

pub(crate) mod disk;
pub(crate) mod messages;
pub(crate) mod names;
pub(crate) mod reads;
pub(crate) mod transfer;
