//! The session with the master (door 4): how the node joins, and how it renews the certificate it joins with. It never
//! decides what the node tells the master.

pub(crate) mod certificate_renewal;
pub(crate) mod join;
pub(crate) mod master_location;
