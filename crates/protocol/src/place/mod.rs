//! Where bytes lie: places of machines, disks, slices, and how many copies an owner wants. It never chooses a place.

pub mod address_range;
pub mod disk;
pub mod host_address;
pub mod policy;
pub mod slice;
pub mod topology;
