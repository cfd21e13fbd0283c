//! The slices of one data folder of a node. Serves upload and copy (through [`SliceWriter`]), publishing of buckets
//! (`ingest_file`), download and SPEs (through [`SliceReader`]) and the master's orders (`place`, `remove`). The disk
//! is the truth, and the inventory a memory of it. It never reports a slice as held before it is synced, and never
//! deletes one without an order.

pub(crate) mod disk_mark;
pub(crate) mod hasher;
pub(crate) mod inventory;
pub(crate) mod layout;
pub(crate) mod quarantine_names;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod sidecar;
pub(crate) mod slice_moves;
pub(crate) mod staging;
pub(crate) mod unfinished_file;
pub(crate) mod writer;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use protocol::{
    SliceHeader, SliceId, SliceMetadata, limits,
    message::{node_master::HeldSlice, rebuild::MirrorPosition},
};

use crate::{
    Disk, FolderLock, OpenReport, SliceReader, SliceSums, StoreError,
    disk::{empty_folder, group_sync::GroupSync},
    error::WhileDoing,
    locking::lock,
    slice_store::{inventory::Inventory, layout::Layout, recovery::recover, unfinished_file::UnfinishedFile},
    uploads::partials::Partials,
};

/// The slices of one data folder, which has these subfolders:
/// - `slices/`: placed slices, `/a/b` at `slices/a/b` with sidecar `slices/a/.b.sector`;
/// - `staging/`: complete and synced, not yet placed, named by slice id;
/// - `retired/`: replaced by a newer slice at their path;
/// - `corrupt/`: quarantined for the operator;
/// - `unfinished/`: never visible, emptied at open;
/// - `partial/`: the safe bytes of broken uploads;
/// - `jobs/`: scratch files of Sphere jobs, emptied at open; the node manages its content.
///
/// All calls block on the disk; they may come from several threads at once.
pub struct SliceStore {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) layout: Layout,
    inventory: RwLock<Inventory>,
    /// Held while files of slices are moved, so that files and inventory change as one. Taken before `inventory`.
    pub(crate) moves: Mutex<()>,
    pub(crate) staging_sync: GroupSync,
    pub(crate) removal_sync: GroupSync,
    /// Whether a sync of removals failed, and none has succeeded since.
    pub(crate) has_unsynced_removals: AtomicBool,
    /// The kept parts of broken uploads, and the resumable uploads under way.
    pub(crate) partials: Mutex<Partials>,
    /// The last number given to a sidecar or to a file in `unfinished/`, which was empty at the start.
    number: AtomicU64,
    /// The number of present writers of each slice.
    writing: Arc<Mutex<BTreeMap<SliceId, u32>>>,
    /// Bytes of the slices that are being written.
    writing_bytes: Arc<AtomicU64>,
    /// Bytes of the disk that new slices may not take.
    reserve_bytes: AtomicU64,
    /// The most that slices may take.
    bytes_max: AtomicU64,
    given_up: AtomicBool,
    /// The position given by the master that was told everything here.
    pub(crate) disk_mark: Mutex<Option<MirrorPosition>>,
    _lock: FolderLock,
}

impl SliceStore {
    /// Opens a data folder and creates what is missing. Completes what a crash interrupted and drops what was
    /// unfinished. Fails with [`StoreError::Locked`] when another process has it.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<(Arc<Self>, OpenReport), StoreError> {
        let layout = Layout::new(folder);
        disk.create_folder_all(folder).while_doing("create", folder)?;
        let folder_lock = disk.lock_folder(folder).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => StoreError::Locked { folder: folder.to_owned() },
            _ => StoreError::io("lock", folder, error),
        })?;
        for subfolder in layout.subfolders() {
            disk.create_folder_all(subfolder).while_doing("create", subfolder)?;
        }
        // Without this a crash could remove `staging/` itself, with everything that was synced in it.
        disk.sync_folder(folder).while_doing("sync", folder)?;
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // This matters on the first start only; on any other we may not even be allowed to open it.
            let _ = disk.sync_folder(parent);
        }
        empty_folder(&*disk, &layout.unfinished).while_doing("empty", &layout.unfinished)?;
        disk.clear_scratch(&layout.jobs).while_doing("empty", &layout.jobs)?;
        let mut inventory = Inventory::default();
        let (mut report, sequence) = recover(&*disk, &layout, &mut inventory)?;
        report.slices = inventory.len();
        let partials = Partials::scan(&*disk, &layout.partial)?;
        let seen = disk_mark::read(&*disk, folder);
        let store = Self {
            disk,
            layout,
            inventory: RwLock::new(inventory),
            moves: Mutex::new(()),
            staging_sync: GroupSync::default(),
            removal_sync: GroupSync::default(),
            has_unsynced_removals: AtomicBool::new(false),
            partials: Mutex::new(partials),
            number: AtomicU64::new(sequence),
            writing: Arc::default(),
            writing_bytes: Arc::default(),
            reserve_bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(u64::MAX),
            given_up: AtomicBool::new(false),
            disk_mark: Mutex::new(seen),
            _lock: folder_lock,
        };
        tracing::debug!(folder = %folder.display(), slices = report.slices, moves = report.completed_moves, "data folder open");
        Ok((Arc::new(store), report))
    }

    /// Makes a finished file on this disk (a bucket) a staged slice: sync, sidecar, rename. The file moves. `sums` must
    /// be those of its bytes; only the length is compared. After an error the file is still there, unless the very last
    /// sync failed.
    pub fn ingest_file(&self, header: SliceHeader, file: &Path, sums: SliceSums) -> Result<SliceMetadata, StoreError> {
        check_header(&header)?;
        let slice = header.slice;
        if self.contains(slice) {
            return Err(StoreError::Exists(slice));
        }
        let opened = self.disk.open(file).while_doing("open", file)?;
        let bytes = opened.bytes().while_doing("open", file)?;
        if bytes != sums.bytes || sums.blocks.len() as u64 != protocol::slice::block_count(bytes) {
            let what = format!("`{}` has {bytes} bytes, its sums are of {}", file.display(), sums.bytes);
            return Err(StoreError::Corrupt { slice, what });
        }
        self.stage(header, &*opened, file, sums)
    }

    /// Puts a slice at its header's path in `slices/`, and makes its sidecar agree with the header. Repeating the call
    /// does no harm. What is in the way is handled like this:
    /// - Another slice at the path is retired, and so is one in the place of a folder above it.
    /// - Files that are not slices, at the path or in a folder there, are quarantined in `corrupt/`.
    /// - A folder with another slice placed in it stays; the slice stays staged and the error names the folder.
    ///
    /// When it returns, the slice's header is safe against a crash, though the files may be in `staging/` after one.
    pub fn place(&self, header: &SliceHeader) -> Result<(), StoreError> {
        check_header(header)?;
        let _moves = lock(&self.moves);
        self.place_locked(header)
    }

    /// Removes a slice, wherever it is. Present readers may finish. No error if it is not here. When it returns, the
    /// slice does not come back; a crash before that may bring it back, whole, and it is reported again.
    pub fn remove(&self, slice: SliceId) -> Result<(), StoreError> {
        self.remove_files(slice)
    }

    /// Opens a slice for reading; the reader keeps this slice even if its path gets another or it is removed.
    pub fn open_slice(&self, slice: SliceId) -> Result<SliceReader, StoreError> {
        // Moves are renames and short, so most openings need no lock. One that meets a move tries again, at last with
        // the lock; then a missing file is truly missing.
        for _ in 0..UNLOCKED_OPENINGS {
            let held = self.inventory().get(slice).ok_or(StoreError::NotHeld(slice))?;
            if let Ok(reader) = SliceReader::open(&*self.disk, &self.layout, &held) {
                return Ok(reader);
            }
        }
        let _moves = lock(&self.moves);
        let held = self.inventory().get(slice).ok_or(StoreError::NotHeld(slice))?;
        SliceReader::open(&*self.disk, &self.layout, &held)
    }

    /// Whether the slice is here: complete, synced and not known to be damaged.
    pub fn contains(&self, slice: SliceId) -> bool {
        self.inventory().contains(slice)
    }

    /// The length of a slice that is here.
    pub fn bytes_of(&self, slice: SliceId) -> Option<u64> {
        self.inventory().get(slice).map(|held| held.metadata.bytes)
    }

    /// All slices here, by id.
    pub fn held(&self) -> Vec<HeldSlice> {
        self.inventory().list()
    }

    /// Bytes of the slices here, sidecars not counted.
    pub fn used_bytes(&self) -> u64 {
        self.inventory().used_bytes()
    }

    /// Bytes that can still be written to the data folder's disk.
    pub fn free_bytes(&self) -> Result<u64, StoreError> {
        // Not of the data folder: when its disk is unmounted, that folder still exists, on another disk.
        self.disk.free_bytes(&self.layout.slices).while_doing("measure", &self.layout.slices)
    }

    /// Keeps so many bytes of the disk free: the writer of a new slice is refused before it takes them. They are there
    /// for moves and sidecars. 0 at first.
    pub fn set_reserve_bytes(&self, bytes: u64) {
        self.reserve_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Lets slices take so many bytes in all, including those being written. Unlimited at first.
    pub fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that new slices may still take: those free above the reserve.
    pub fn available_bytes(&self) -> Result<u64, StoreError> {
        let free = self.free_bytes()?.saturating_sub(self.reserve_bytes.load(Ordering::Relaxed));
        Ok(free.min(self.bytes_max.load(Ordering::Relaxed).saturating_sub(self.taken_bytes())))
    }

    fn taken_bytes(&self) -> u64 {
        self.used_bytes().saturating_add(self.writing_bytes.load(Ordering::Relaxed))
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.layout.folder
    }

    /// The folder for the scratch files of Sphere jobs. It is on the same disk as the slices, so that a bucket can be
    /// [ingested](Self::ingest_file).
    pub fn jobs_folder(&self) -> PathBuf {
        self.layout.jobs.clone()
    }

    /// Takes a slice with damaged bytes out of service, also across a crash. It is no longer listed, and its files are
    /// quarantined in `corrupt/` for the operator. No error if it is not here.
    pub fn mark_corrupt(&self, slice: SliceId) -> Result<(), StoreError> {
        self.quarantine_slice(slice)
    }

    /// Counts `bytes` more as being written. Fails as [`check_available`](Self::check_available), and with
    /// [`StoreError::MemoryFull`] if slices would take more than they may.
    pub(crate) fn allocate_bytes(&self, writing: &mut WriteGuard, bytes: u64) -> Result<(), StoreError> {
        self.check_available(bytes)?;
        // Counted before it is compared: two writers that claim the last room at once must not both get it.
        writing.grow(bytes);
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        if self.taken_bytes() > bytes_max { Err(StoreError::MemoryFull { bytes_max }) } else { Ok(()) }
    }

    /// Fails with [`StoreError::Reserve`] if `bytes` more would use the reserve.
    pub(crate) fn check_available(&self, bytes: u64) -> Result<(), StoreError> {
        let reserve_bytes = self.reserve_bytes.load(Ordering::Relaxed);
        if reserve_bytes == 0 || self.free_bytes()? >= bytes.saturating_add(reserve_bytes) {
            return Ok(());
        }
        Err(StoreError::Reserve { folder: self.layout.folder.clone(), reserve_bytes })
    }

    /// Why nothing more can be written here.
    pub(crate) fn full_error(&self) -> StoreError {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        if self.taken_bytes() >= bytes_max {
            return StoreError::MemoryFull { bytes_max };
        }
        let no_room = || StoreError::DiskFull { operation: "write to", path: self.layout.folder.clone() };
        self.check_available(1).err().unwrap_or_else(no_room)
    }

    /// Forgets all slices, since their disk has failed; `None` if there was nothing left to forget.
    pub(crate) fn drop_all_slices(&self) -> Option<Vec<SliceId>> {
        let slices = self.inventory_mut().take_all();
        let is_first = !self.given_up.swap(true, Ordering::Relaxed);
        (is_first || !slices.is_empty()).then_some(slices)
    }

    /// Records that a slice is being written, until the result is dropped.
    pub(crate) fn claim_writing(&self, slice: SliceId) -> WriteGuard {
        *lock(&self.writing).entry(slice).or_default() += 1;
        let (all, bytes_of_all) = (Arc::clone(&self.writing), Arc::clone(&self.writing_bytes));
        WriteGuard { slice, bytes: 0, all, bytes_of_all }
    }

    /// Whether someone writes this slice now.
    pub(crate) fn is_writing(&self, slice: SliceId) -> bool {
        lock(&self.writing).contains_key(&slice)
    }

    /// Slices being written now.
    pub(crate) fn writing_count(&self) -> usize {
        lock(&self.writing).len()
    }

    /// Lasts to the end of the statement. No thread may hold two: a writer that comes between waits for the first, and
    /// the second for the writer, for ever.
    pub(crate) fn inventory(&self) -> RwLockReadGuard<'_, Inventory> {
        self.inventory.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn inventory_mut(&self) -> RwLockWriteGuard<'_, Inventory> {
        self.inventory.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new file name in `unfinished/`, whose file is removed when the guard is dropped.
    pub(crate) fn unfinished(&self, slice: SliceId) -> UnfinishedFile {
        self.unfinished_named(&slice.to_string())
    }

    /// As [`unfinished`](Self::unfinished), for a file that belongs to no slice.
    pub(crate) fn unfinished_named(&self, name: &str) -> UnfinishedFile {
        let path = self.layout.unfinished.join(format!("{name}.{}", self.next_number()));
        UnfinishedFile::new(Arc::clone(&self.disk), path)
    }

    /// A number larger than any in this data folder.
    pub(crate) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// See [`SliceStore::claim_writing`].
#[derive(Debug)]
pub(crate) struct WriteGuard {
    slice: SliceId,
    bytes: u64,
    all: Arc<Mutex<BTreeMap<SliceId, u32>>>,
    bytes_of_all: Arc<AtomicU64>,
}

impl WriteGuard {
    fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.bytes_of_all.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        self.bytes_of_all.fetch_sub(self.bytes, Ordering::Relaxed);
        let mut all = lock(&self.all);
        if let Some(count) = all.get_mut(&self.slice) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.slice);
            }
        }
    }
}

/// Refuses a header that a sidecar cannot hold or a path cannot take, before a byte is written.
pub(crate) fn check_header(header: &SliceHeader) -> Result<(), StoreError> {
    let user_bytes: usize = header.user.iter().map(|(key, value)| key.len() + value.len()).sum();
    let why = if header.path.is_root() {
        "its path is the root folder: give it a name"
    } else if user_bytes > limits::USER_METADATA_BYTES_MAX {
        "its user metadata is longer than 64 KiB: shorten it"
    } else {
        return Ok(());
    };
    Err(StoreError::Header { slice: header.slice, why })
}

/// Attempts to open a slice's files without the lock on moves; each meets a different move if it fails.
const UNLOCKED_OPENINGS: u32 = 3;
