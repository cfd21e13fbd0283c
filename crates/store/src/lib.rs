//! Everything that touches a disk: slice files with their sidecars, the inventory of a node's data folder, and small
//! files written whole. Also the journal of the master and the security server, and the disks themselves ([`OsDisk`],
//! and [`MemoryDisk`] for the simulation). `docs/formats-on-disk.md` describes the bytes on a disk and the order of
//! syncs. This crate keeps bytes and reports them. It never opens a socket, and never decides what is worth keeping.

mod checks;
mod disk;
mod disk_set;
mod error;
mod journal;
mod locking;
mod slice_store;
mod uploads;

pub use checks::inspect::{
    FolderProblem, FolderReport, FoundSlice, SidecarReport, data_folder_of, inspect_folder, inspect_sidecar,
    rebuild_sidecar,
};
pub use checks::scrub::{CheckStep, Scrub, ScrubStep, SliceCheck};
pub use disk::atomic_file::{read_file_uncached, write_file_atomically};
pub use disk::atomic_file_set::{finish_file_replacement, replace_files_atomically};
pub use disk::memory_disk::{DiskFault, MemoryDisk};
pub use disk::os_disk::OsDisk;
pub use disk::room::{is_full, keep_room};
pub use disk::scratch::clear_scratch;
pub use disk::{Disk, DiskFile, FolderItem, FolderLock};
pub use disk_set::marked_slices::MarkedSlices;
pub use disk_set::{DataFolder, DiskSet, FailedDisk};
pub use error::StoreError;
pub use journal::{Journal, RowChange, RowVisitor, RowsError, read_rows, write_refusal};
pub use slice_store::SliceStore;
pub use slice_store::disk_mark::DISK_MARK_FILE;
pub use slice_store::hasher::{SliceHasher, SliceSums};
pub use slice_store::reader::SliceReader;
pub use slice_store::recovery::OpenReport;
pub use slice_store::sidecar::{SIDECAR_VERSION, Sidecar, SidecarError};
pub use slice_store::writer::{SliceDigest, SliceFile, SliceWriter};
pub use uploads::partial_file::Checkpoint;
pub use uploads::partial_record::PartialKey;
