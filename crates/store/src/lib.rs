//! Everything that touches a disk: slice files with their sidecars, the inventory of a node's data folder, and small
//! files written whole. Also the journal of the master and the security server, and the disks themselves ([`OsDisk`],
//! and [`MemoryDisk`] for the simulation). `docs/formats-on-disk.md` describes the bytes on a disk and the order of
//! syncs. This crate keeps bytes and reports them. It never opens a socket, and never decides what is worth keeping.

mod atomic_file;
mod atomic_file_set;
mod disk;
mod disk_failure;
mod disk_mark;
mod disk_set;
mod error;
mod group_sync;
mod hasher;
mod inspect;
mod inventory;
mod journal;
mod layout;
mod locking;
mod memory_disk;
mod os_disk;
mod partial_file;
mod partial_record;
mod partial_uploads;
mod reader;
mod recovery;
mod scrub;
mod sidecar;
mod slice_moves;
mod slice_store;
mod staging;
mod writer;

pub use atomic_file::{read_file_uncached, write_file_atomically};
pub use atomic_file_set::{finish_file_replacement, replace_files_atomically};
pub use disk::{Disk, DiskFile, FolderItem, FolderLock};
pub use disk_mark::{DISK_MARK_FILE, MarkedSlices};
pub use disk_set::{DataFolder, DiskSet, FailedDisk};
pub use error::StoreError;
pub use hasher::{HasherMark, SliceHasher, SliceSums};
pub use inspect::{
    FolderProblem, FolderReport, FoundSlice, SidecarReport, data_folder_of, inspect_folder, inspect_sidecar,
    rebuild_sidecar,
};
pub use journal::{Journal, RowChange, RowVisitor, RowsError, read_rows, write_refusal};
pub use memory_disk::{DiskFault, MemoryDisk};
pub use os_disk::OsDisk;
pub use partial_file::Checkpoint;
pub use partial_uploads::PartialKey;
pub use reader::SliceReader;
pub use scrub::{CheckStep, Scrub, ScrubStep, SliceCheck};
pub use sidecar::{SIDECAR_VERSION, Sidecar, SidecarError};
pub use slice_store::{OpenReport, SliceStore};
pub use writer::{SliceDigest, SliceFile, SliceWriter};
