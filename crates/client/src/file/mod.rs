//! Files: their bytes go between the caller and nodes, by tickets of the master (paths: upload, download). At most
//! [`FRAMES_IN_FLIGHT`] frames wait in memory between a disk and the network, or a window of `WINDOW_BYTES` for a
//! stream from several sources. It never takes more memory for a larger file.

pub mod check;
pub(crate) mod checksummed_file;
pub mod copy;
mod descriptor_passing;
pub(crate) mod executable;
pub(crate) mod fetch;
pub(crate) mod fetch_plan;
pub mod get;
pub(crate) mod local_digest;
pub(crate) mod local_slice;
pub(crate) mod local_target;
pub(crate) mod local_time;
pub(crate) mod partial_download;
pub mod put;
pub(crate) mod range_writer;
pub(crate) mod read_ahead;
pub mod reader;
mod reader_pool;
mod relay;
mod retry;
mod source_failover;
pub(crate) mod source_list;
pub mod stream;
mod upload_attempt;
pub mod writer;

/// Called with the number of bytes as they pass, by whatever task moves them.
pub type TransferProgress<'a> = &'a (dyn Fn(u64) + Send + Sync);

/// Frames between the disk and the network of one transfer: enough that neither waits for the other, 4 MiB at most.
pub(crate) const FRAMES_IN_FLIGHT: usize = 4;
/// Reads of at least this length, in bytes, are split over several sources or threads: below it, more connections cost
/// more than they gain.
pub(crate) const SPLIT_FROM_BYTES: u64 = 32 * 1024 * 1024;
