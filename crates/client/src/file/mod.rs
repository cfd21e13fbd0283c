//! Files: their bytes go between the caller and a node, by a ticket of the master (paths: upload, download). At most
//! [`FRAMES_IN_FLIGHT`] frames are in memory for each transfer, however large the file.

mod attempt;
pub mod copy;
pub mod get;
pub(crate) mod pump;
pub mod put;

/// Told of bytes as they pass, from whatever task moves them.
pub type Progress<'a> = &'a (dyn Fn(u64) + Send + Sync);

/// Frames between the disk and the network of one transfer: enough that neither waits for the other, 4 MiB at most.
pub(crate) const FRAMES_IN_FLIGHT: usize = 4;
