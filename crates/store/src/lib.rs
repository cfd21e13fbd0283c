//! Everything that touches a disk: slice files with their sidecars, the inventory of a node's data folder, the journal
//! of the master and the security server, small files written whole, and the disks themselves ([`OsDisk`], and
//! [`MemoryDisk`] for the simulation).
//!
//! This room keeps bytes and says what it keeps; it never opens a socket and never decides what is worth keeping. What
//! lies on a disk, byte by byte and in which order it is synced, stands in `docs/formats-on-disk.md`.

mod atomic_file;
mod disk;
mod disk_set;
mod error;
mod file_set;
mod hasher;
mod inspect;
mod inventory;
mod journal;
mod layout;
mod locking;
mod memory_disk;
mod os_disk;
mod partial;
mod partial_record;
mod partials;
mod placing;
mod reader;
mod recovery;
mod scrub;
mod seen;
mod shared_sync;
mod sidecar;
mod slice_store;
mod staging;
mod watched;
mod writer;

pub use atomic_file::{read_file_from_disk, write_file_atomically};
pub use disk::{Disk, DiskFile, FolderItem, FolderLock};
pub use disk_set::{DataFolder, DiskSet, LostDisk};
pub use error::StoreError;
pub use file_set::{replace_together, settle_together};
pub use hasher::{HasherMark, SliceHasher, SliceSums};
pub use inspect::{
    FolderProblem, FolderReport, FoundSlice, SidecarReport, data_folder_of, inspect_folder, inspect_sidecar,
    rebuild_sidecar,
};
pub use journal::{Journal, RowChange, RowsError, TakeRow, read_rows, write_refusal};
pub use memory_disk::{DiskFault, MemoryDisk};
pub use os_disk::OsDisk;
pub use partial::Checkpoint;
pub use partials::PartialKey;
pub use reader::SliceReader;
pub use scrub::{CheckStep, Scrub, ScrubStep, SliceCheck};
pub use seen::{SEEN_FILE, SeenSlices};
pub use sidecar::{SIDECAR_VERSION, Sidecar, SidecarError};
pub use slice_store::{OpenReport, SliceStore};
pub use writer::{SliceDigest, SliceFile, SliceWriter};
