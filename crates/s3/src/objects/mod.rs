//! Single objects: what they are in the cloud, and the requests about them. They never are anything but files.

pub(crate) mod body_check;
pub(crate) mod copies;
pub(crate) mod metadata;
pub(crate) mod path;
pub(crate) mod reads;
pub(crate) mod removals;
pub(crate) mod tags;
pub(crate) mod writes;
