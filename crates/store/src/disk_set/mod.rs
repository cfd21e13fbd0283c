//! The slices of a node with several disks: one [`SliceStore`] a disk, each with its own lock, recovery and staging,
//! behind one interface. Serves every path that touches slices. A failing disk goes out of service alone. There may
//! also be a disk in memory, only for paths below `/memory`. The set chooses a new slice's disk, and decides where two
//! disks disagree. It never moves a slice between disks, and never deletes one unless another good copy was just read.

pub(crate) mod marked_slices;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use protocol::{
    SectorPath, SliceHeader, SliceId, SliceMetadata,
    disk::{DiskState, DiskStatus},
    message::node_master::{HeldPartial, HeldSlice, HeldState},
};

use crate::{
    Disk, PartialKey, SliceReader, SliceStore, SliceSums, SliceWriter, StoreError,
    disk::{
        disk_failure::{DiskFailure, WatchedDisk, is_disk_failure},
        is_bad_sector, is_folder,
    },
    error::WhileDoing,
    locking::lock,
    slice_store::{WriteGuard, check_header},
};

/// The disks of a node. All calls block on a disk; they may come from several threads at once.
///
/// Two disks hold the same slice if disks were moved between nodes by hand. One copy then serves: placed comes before
/// staged, and staged before retired. Among equals, the disk that is first in the settings counts. The other copy is a
/// *spare*, which is not listed and not read until the first is found damaged or its disk fails. The spare is removed
/// once the first was read whole and found good.
pub struct DiskSet {
    slots: Vec<Slot>,
    spares: Mutex<BTreeSet<(SliceId, usize)>>,
    /// Held while a disk is chosen, so that two writers of the same slice use the same disk.
    choosing: Mutex<()>,
    /// Counts jobs' scratch files, to spread them over disks that are about equally empty.
    turns: AtomicUsize,
}

/// A disk to open: the folder on it that holds its slices.
#[derive(Clone)]
pub struct DataFolder {
    /// How it is reached.
    pub disk: Arc<dyn Disk>,
    /// The folder.
    pub folder: PathBuf,
    /// Whether it held slices of this node before. If so and none are there now, the disk is not mounted, and no new
    /// folder may be begun in its place.
    pub known: bool,
    /// For a disk in memory, the most bytes that its slices may take. Only slices with a path below `/memory` go there.
    pub memory_bytes: Option<u64>,
}

/// A disk that has just failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedDisk {
    /// Its folder.
    pub folder: PathBuf,
    /// Its first error.
    pub why: String,
    /// Slices that are no longer on this node.
    pub lost: Vec<SliceId>,
    /// Slices that a spare on another disk serves from now on.
    pub replaced: Vec<SliceMetadata>,
}

/// A disk of the set whose slices are read one after the other; see [`crate::Scrub`].
pub(crate) struct DiskRef {
    pub(crate) set: Arc<DiskSet>,
    pub(crate) disk: usize,
}

struct Slot {
    folder: PathBuf,
    /// `None` if it could not be opened.
    store: Option<Arc<SliceStore>>,
    failure: Arc<DiskFailure>,
    missing: bool,
    is_memory: bool,
    /// Found to be slower than others: new slices come here last.
    is_slow: AtomicBool,
}

impl DiskSet {
    /// Opens all folders and keeps `reserve_bytes` free on each; also returns the quarantined files. A folder that
    /// cannot be opened is out of service, like a failed disk, as long as another can be opened.
    ///
    /// # Errors
    /// When another process has one of the folders, or none can be opened.
    pub fn open(folders: Vec<DataFolder>, reserve_bytes: u64) -> Result<(Arc<Self>, Vec<PathBuf>), StoreError> {
        let (mut slots, mut put_aside, mut first_error) = (Vec::new(), Vec::new(), None);
        for DataFolder { disk, folder, known, memory_bytes } in folders {
            let is_memory = memory_bytes.is_some();
            let (failure, is_slow) = (Arc::default(), AtomicBool::new(false));
            let mut slot = Slot { store: None, failure, missing: false, is_memory, is_slow, folder };
            let disk = Arc::new(WatchedDisk::new(disk, &slot.folder, Arc::clone(&slot.failure)));
            let opened = match (open_known(disk, &slot.folder, known), slot.failure.why()) {
                (Err(error @ StoreError::Locked { .. }), _) => return Err(error),
                // The first error says more than its consequences.
                (_, Some(_)) => Err(slot.error()),
                (opened, None) => opened,
            };
            match opened {
                Ok((store, report)) => {
                    match memory_bytes {
                        Some(bytes_max) => store.set_bytes_max(bytes_max),
                        None => store.set_reserve_bytes(reserve_bytes),
                    }
                    put_aside.extend(report.quarantined);
                    slot.store = Some(store);
                }
                Err(error) => {
                    slot.missing = is_missing(&error);
                    slot.failure.note(error.to_string());
                    first_error = first_error.or(Some(error));
                }
            }
            slots.push(slot);
        }
        if let Some(error) = first_error
            && slots.iter().all(|slot| slot.is_memory || slot.store().is_none())
        {
            return Err(error);
        }
        let set = Self { slots, spares: Mutex::default(), choosing: Mutex::default(), turns: AtomicUsize::new(0) };
        set.find_spares();
        Ok((Arc::new(set), put_aside))
    }

    /// A set of one disk.
    pub fn of(store: Arc<SliceStore>) -> Arc<Self> {
        let folder = store.folder().to_owned();
        let (failure, is_slow) = (Arc::default(), AtomicBool::new(false));
        let slot = Slot { store: Some(store), failure, missing: false, is_memory: false, is_slow, folder };
        let (spares, choosing, turns) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { slots: vec![slot], spares, choosing, turns })
    }

    /// As [`SliceStore::begin`], on the disk with the largest share of its room still free. Of several about equally
    /// empty disks it takes the one where the fewest slices are being written now.
    ///
    /// # Errors
    /// [`StoreError::Reserve`] if no disk has room, [`StoreError::DiskFailed`] if all have failed,
    /// [`StoreError::MemoryFull`] if it is to be kept in memory and there is none.
    pub fn begin(&self, header: SliceHeader) -> Result<SliceWriter, StoreError> {
        check_header(&header)?;
        let (store, writing) = self.claim(&header, |store| store.is_writing(header.slice))?;
        // Outside the lock: a slow disk must not prevent others from beginning on another.
        SliceWriter::begin(store, header, writing)
    }

    /// As [`SliceStore::begin_resumable`], on the disk that has the first bytes, else as [`begin`](Self::begin). In
    /// memory, nothing of a broken upload is kept.
    ///
    /// # Errors
    /// As both.
    pub fn begin_resumable(&self, header: SliceHeader, key: PartialKey) -> Result<SliceWriter, StoreError> {
        check_header(&header)?;
        if header.path.is_in_memory() {
            return self.begin(header);
        }
        let (store, _writing) = self.claim(&header, |store| store.has_partial(&key))?;
        store.begin_resumable(header, key)
    }

    /// As [`SliceStore::partials`], on all disks.
    pub fn partials(&self) -> Vec<HeldPartial> {
        self.usable().flat_map(|(_, store)| store.partials()).collect()
    }

    /// As [`SliceStore::drop_idle_partials`], on all disks.
    pub fn drop_idle_partials(&self, idle_for: Duration) -> usize {
        self.usable().map(|(_, store)| store.drop_idle_partials(idle_for)).sum()
    }

    /// As [`SliceStore::bytes_of`].
    pub fn bytes_of(&self, slice: SliceId) -> Option<u64> {
        self.serving(slice).and_then(|(_, store)| store.bytes_of(slice))
    }

    /// As [`SliceStore::ingest_file`], on the disk where the file lies. A slice that is kept in memory is copied there.
    pub fn ingest_file(&self, header: SliceHeader, file: &Path, sums: SliceSums) -> Result<SliceMetadata, StoreError> {
        if self.contains(header.slice) {
            return Err(StoreError::Exists(header.slice));
        }
        let slot = self.slots.iter().filter(|slot| file.starts_with(&slot.folder)).max_by_key(depth);
        let slot = slot.or(self.slots.first()).ok_or(StoreError::NotHeld(header.slice))?;
        let store = slot.store().ok_or_else(|| slot.error())?;
        if header.path.is_in_memory() && !slot.is_memory {
            self.ingest_into_memory(header, store, file, sums)
        } else {
            store.ingest_file(header, file, sums)
        }
    }

    /// The file is read from its disk's cache, since nobody asked for it to be synced.
    fn ingest_into_memory(
        &self,
        header: SliceHeader,
        from: &SliceStore,
        file: &Path,
        sums: SliceSums,
    ) -> Result<SliceMetadata, StoreError> {
        let memory = self.choose_disk(true, |disk, _| disk)?;
        let mut writing = memory.claim_writing(header.slice);
        memory.allocate_bytes(&mut writing, sums.bytes)?;
        let copy = memory.unfinished(header.slice);
        let target = memory.disk.create(copy.path()).while_doing("create", copy.path())?;
        let source = from.disk.open_to_read(file).while_doing("open", file)?;
        let (mut buffer, mut at) = (vec![0; COPIED_BYTES], 0);
        loop {
            let count = source.read_at(&mut buffer, at).while_doing("read", file)?;
            if count == 0 {
                break;
            }
            target.write_all_at(&buffer[..count], at).while_doing("write", copy.path())?;
            at += count as u64;
        }
        let metadata = memory.ingest_file(header, copy.path(), sums)?;
        // The slice is there; the rest goes with the job's scratch files.
        let _ = from.disk.remove_file(file);
        Ok(metadata)
    }

    /// As [`SliceStore::place`], also with regard to the path on other disks: another slice at it is retired once this
    /// one is in place.
    pub fn place(&self, header: &SliceHeader) -> Result<(), StoreError> {
        let (slice, path) = (header.slice, &header.path);
        let (disk, store) = self.serving(slice).ok_or(StoreError::NotHeld(slice))?;
        self.retire_spares_below(path)?;
        let others = || self.usable().filter(|(other, _)| *other != disk).map(|(_, store)| store);
        if let Some(other) = others().find(|other| other.any_placed_below(path)) {
            let obstacle = other.folder().join("slices").join(path.relative());
            return Err(StoreError::PathBlocked { slice, path: path.clone(), obstacle });
        }
        store.place(header)?;
        others().try_for_each(|other| other.retire_at(path))
    }

    /// As [`SliceStore::remove`], from all disks.
    pub fn remove(&self, slice: SliceId) -> Result<(), StoreError> {
        self.usable().try_for_each(|(_, store)| store.remove(slice))?;
        lock(&self.spares).retain(|(spare, _)| *spare != slice);
        Ok(())
    }

    /// As [`SliceStore::open_slice`].
    ///
    /// # Errors
    /// [`StoreError::DiskFailed`] also if a missing file turns out to be a missing disk.
    pub fn open_slice(&self, slice: SliceId) -> Result<SliceReader, StoreError> {
        let (disk, store) = self.serving(slice).ok_or(StoreError::NotHeld(slice))?;
        store.open_slice(slice).map_err(|error| match self.probe(disk) {
            Ok(()) => error,
            Err(failed) => failed,
        })
    }

    /// Whether the slice is here, on a disk that works.
    pub fn contains(&self, slice: SliceId) -> bool {
        self.serving(slice).is_some()
    }

    /// All slices here, by id.
    pub fn held(&self) -> Vec<HeldSlice> {
        let mut all = Vec::new();
        for (disk, store) in self.usable() {
            all.extend(self.held_on(disk, store));
        }
        all.sort_by_key(|held| held.metadata.header.slice);
        all
    }

    /// The slices that one disk serves.
    pub(crate) fn held_on(&self, disk: usize, store: &SliceStore) -> Vec<HeldSlice> {
        let mut held = store.held();
        let spares = lock(&self.spares);
        held.retain(|held| !spares.contains(&(held.metadata.header.slice, disk)));
        held
    }

    /// Bytes of the slices on the disks that work, sidecars and memory not counted.
    pub fn used_bytes(&self) -> u64 {
        self.persistent().map(|(_, store)| store.used_bytes()).sum()
    }

    /// Bytes that the working disks can still take, above each disk's reserve; memory not counted.
    pub fn available_bytes(&self) -> u64 {
        self.persistent().filter_map(|(_, store)| store.available_bytes().ok()).sum()
    }

    /// From now on these disks, by their folders, count as slow, and no others. New slices and scratch files go to the
    /// others as long as those have room.
    pub fn set_slow(&self, folders: &[String]) {
        for slot in &self.slots {
            let is_slow = folders.contains(&slot.folder.display().to_string());
            slot.is_slow.store(is_slow, Ordering::Relaxed);
        }
    }

    /// Bytes that new slices may still take in memory; 0 if none are kept there.
    pub fn memory_available_bytes(&self) -> u64 {
        let in_memory = self.usable().filter(|(disk, _)| self.slots[*disk].is_memory);
        in_memory.filter_map(|(_, store)| store.available_bytes().ok()).sum()
    }

    /// The status of each disk, in the order of the settings; without the one in memory.
    pub fn statuses(&self) -> Vec<DiskStatus> {
        self.slots.iter().filter(|slot| !slot.is_memory).map(Slot::status).collect()
    }

    /// Folders for scratch files of Sphere jobs, one a disk; a bucket is [ingested](Self::ingest_file) on its own disk.
    pub fn jobs_folders(&self) -> Vec<PathBuf> {
        self.persistent().map(|(_, store)| store.jobs_folder()).collect()
    }

    /// The folder for the next scratch file: one with much room, in turns if several are about equal.
    pub fn emptiest_jobs_folder(&self) -> Result<PathBuf, StoreError> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let count = self.slots.len();
        Ok(self.choose_disk(false, |disk, _| (disk + count - turn % count) % count)?.jobs_folder())
    }

    /// As [`SliceStore::mark_corrupt`]. A spare of the slice serves from now on: [`contains`](Self::contains) then is
    /// still true. If not the slice but its disk is at fault, the disk's failure is recorded instead.
    pub fn mark_corrupt(&self, slice: SliceId) -> Result<(), StoreError> {
        let Some((disk, store)) = self.serving(slice) else { return Ok(()) };
        if self.probe(disk).is_err() {
            return Ok(());
        }
        let marked = store.mark_corrupt(slice);
        self.promote(slice);
        marked
    }

    /// Records an error of a caller that accesses a disk directly (files of jobs), if it concerns the disk. An
    /// unreadable file (`reading`) may be the only one.
    pub fn note_error(&self, file: &Path, error: &io::Error, reading: bool) {
        let slot = self.slots.iter().filter(|slot| file.starts_with(&slot.folder)).max_by_key(depth);
        let Some(slot) = slot.filter(|_| is_disk_failure(error)) else { return };
        match slot.store() {
            Some(store) if reading && is_bad_sector(error) => {
                let number = store.disk.open_to_read(file).and_then(|file| file.id()).ok();
                slot.failure.note_unreadable(number, file, error);
            }
            _ => slot.failure.note(error.to_string()),
        }
    }

    /// Checks every disk, and returns those that failed since the last check. Their slices are given up.
    pub fn check_disks(&self) -> Vec<FailedDisk> {
        let mut lost = Vec::new();
        for (disk, slot) in self.slots.iter().enumerate() {
            let Some(store) = &slot.store else { continue };
            let _ = self.probe(disk);
            let Some(why) = slot.failure.why() else { continue };
            // A slice finished while the disk failed is given up by the next check.
            let given_up = store.drop_all_slices();
            if given_up.is_none() {
                continue;
            }
            let mut lost_disk =
                FailedDisk { folder: slot.folder.clone(), why: why.to_owned(), lost: Vec::new(), replaced: Vec::new() };
            for slice in given_up.unwrap_or_default() {
                let was_spare = lock(&self.spares).remove(&(slice, disk));
                if was_spare {
                    continue;
                }
                self.promote(slice);
                match self.serving(slice).and_then(|(_, store)| store.inventory().get(slice)) {
                    Some(held) => lost_disk.replaced.push(SliceMetadata::clone(&held.metadata)),
                    None => lost_disk.lost.push(slice),
                }
            }
            lost.push(lost_disk);
        }
        lost
    }

    /// The working disks, by their position in the settings.
    pub(crate) fn usable(&self) -> impl Iterator<Item = (usize, &Arc<SliceStore>)> {
        self.slots.iter().enumerate().filter_map(|(disk, slot)| slot.store().map(|store| (disk, store)))
    }

    /// Those of them that are not in memory.
    pub(crate) fn persistent(&self) -> impl Iterator<Item = (usize, &Arc<SliceStore>)> {
        self.usable().filter(|(disk, _)| !self.slots[*disk].is_memory)
    }

    /// The store of a disk, unless it has failed.
    pub(crate) fn store(&self, disk: usize) -> Result<&Arc<SliceStore>, StoreError> {
        let slot = &self.slots[disk];
        slot.store().ok_or_else(|| slot.error())
    }

    /// Whether this disk's copy is the one that serves.
    pub(crate) fn serves(&self, disk: usize, slice: SliceId) -> bool {
        self.serving(slice).is_some_and(|(serving, _)| serving == disk)
    }

    /// Removes the spares of a slice whose serving copy was just read whole and found good.
    pub(crate) fn drop_spares(&self, slice: SliceId) -> Result<(), StoreError> {
        let spares: Vec<_> =
            lock(&self.spares).range((slice, 0)..=(slice, usize::MAX)).map(|(_, disk)| *disk).collect();
        for disk in spares {
            if let Some(store) = self.slots[disk].store() {
                store.remove(slice)?;
            }
            lock(&self.spares).remove(&(slice, disk));
        }
        Ok(())
    }

    fn serving(&self, slice: SliceId) -> Option<(usize, &Arc<SliceStore>)> {
        self.usable().find(|(disk, store)| store.contains(slice) && !lock(&self.spares).contains(&(slice, *disk)))
    }

    /// Asks a disk for its free space, which shows whether it is there and can be written.
    pub(crate) fn probe(&self, disk: usize) -> Result<(), StoreError> {
        let slot = &self.slots[disk];
        if let Some(store) = slot.store()
            && let Err(error) = store.free_bytes()
        {
            slot.failure.note(error.to_string());
        }
        if slot.failure.why().is_some() { Err(slot.error()) } else { Ok(()) }
    }

    /// The disk for a new slice, which then counts as being written there: the disk that `has` a part of it, else the
    /// best one.
    fn claim(
        &self,
        header: &SliceHeader,
        has: impl Fn(&SliceStore) -> bool,
    ) -> Result<(Arc<SliceStore>, WriteGuard), StoreError> {
        let _choosing = lock(&self.choosing);
        let slice = header.slice;
        if self.contains(slice) {
            return Err(StoreError::Exists(slice));
        }
        let store = match self.usable().find(|(_, store)| has(store)) {
            Some((_, store)) => store,
            None => self.choose_disk(header.path.is_in_memory(), |_, store| store.writing_count())?,
        };
        let writing = store.claim_writing(slice);
        Ok((Arc::clone(store), writing))
    }

    /// The disk, real or in memory, with the largest share of its room still free. Among those about equal it is the
    /// one that `rank` puts first. A slow disk is taken only if no other has room.
    fn choose_disk<R: Ord>(
        &self,
        in_memory: bool,
        rank: impl Fn(usize, &SliceStore) -> R,
    ) -> Result<&Arc<SliceStore>, StoreError> {
        let mut candidates = Vec::new();
        let mut refusal =
            if in_memory { Some(StoreError::MemoryFull { bytes_max: 0 }) } else { self.slots.first().map(Slot::error) };
        for (disk, store) in self.usable().filter(|(disk, _)| self.slots[*disk].is_memory == in_memory) {
            match store.available_bytes() {
                Ok(0) => refusal = Some(store.full_error()),
                Ok(room) => candidates.push((free_permille(room, store.used_bytes()), disk, store)),
                Err(error) => refusal = Some(error),
            }
        }
        let is_slow = |disk: usize| self.slots[disk].is_slow.load(Ordering::Relaxed);
        if candidates.iter().any(|(_, disk, _)| !is_slow(*disk)) {
            candidates.retain(|(_, disk, _)| !is_slow(*disk));
        }
        let best = candidates.iter().map(|(free, ..)| *free).max().unwrap_or(0);
        let chosen = candidates
            .into_iter()
            .filter(|(free, ..)| free + ABOUT_EQUAL_PERMILLE >= best)
            .min_by_key(|(free, disk, store)| (rank(*disk, store), std::cmp::Reverse(*free), *disk));
        match (chosen, refusal) {
            (Some((_, _, store)), _) => Ok(store),
            (None, Some(refusal)) => Err(refusal),
            (None, None) => Err(StoreError::DiskFailed { folder: PathBuf::new(), why: "there is none".into() }),
        }
    }

    /// Lets a spare serve, if there is one.
    fn promote(&self, slice: SliceId) {
        let mut spares = lock(&self.spares);
        let of_slice: Vec<_> = spares.range((slice, 0)..=(slice, usize::MAX)).copied().collect();
        if let Some(spare) = of_slice.into_iter().find(|(_, disk)| self.slots[*disk].store().is_some()) {
            spares.remove(&spare);
        }
    }

    /// Retires the spares that are below a path where a file is to be. No spare is ever reported, so nobody would order
    /// its removal.
    fn retire_spares_below(&self, path: &SectorPath) -> Result<(), StoreError> {
        let spares: Vec<_> = lock(&self.spares).iter().copied().collect();
        let stores = spares.into_iter().filter_map(|(slice, disk)| Some((slice, self.slots[disk].store()?)));
        stores.into_iter().try_for_each(|(slice, store)| store.retire_below(slice, path))
    }

    /// Finds the slices that lie on several disks.
    fn find_spares(&self) {
        let mut first: BTreeMap<SliceId, (u8, usize)> = BTreeMap::new();
        let mut spares = lock(&self.spares);
        for (disk, store) in self.usable() {
            for held in store.held() {
                let (slice, rank) = (held.metadata.header.slice, (state_rank(held.state), disk));
                match first.get(&slice).copied() {
                    None => drop(first.insert(slice, rank)),
                    Some(known) if known <= rank => drop(spares.insert((slice, disk))),
                    Some(known) => {
                        spares.insert((slice, known.1));
                        first.insert(slice, rank);
                    }
                }
            }
        }
        if !spares.is_empty() {
            tracing::warn!(slices = spares.len(), "slices lie on two disks of this node; one copy of each serves");
        }
    }
}

impl fmt::Debug for DiskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.slots.iter().map(|slot| &slot.folder)).finish()
    }
}

impl Slot {
    fn store(&self) -> Option<&Arc<SliceStore>> {
        self.store.as_ref().filter(|_| self.failure.why().is_none())
    }

    fn error(&self) -> StoreError {
        let why = self.failure.why().unwrap_or("it does not answer").to_owned();
        StoreError::DiskFailed { folder: self.folder.clone(), why }
    }

    fn status(&self) -> DiskStatus {
        let room = self.store().and_then(|store| store.available_bytes().ok());
        let state = match (self.failure.why(), self.missing) {
            (None, _) => DiskState::Ok,
            (Some(_), false) => DiskState::Failed,
            (Some(_), true) => DiskState::Missing,
        };
        DiskStatus {
            folder: self.folder.display().to_string(),
            state,
            used_bytes: self.store().map_or(0, |store| store.used_bytes()),
            free_bytes: room.unwrap_or(0),
            why: self.failure.why().unwrap_or_default().to_owned(),
            scrub: None,
        }
    }
}

/// Another disk's folder may lie below the main one: the innermost counts.
fn depth(slot: &&Slot) -> usize {
    slot.folder.components().count()
}

fn open_known(
    disk: Arc<dyn Disk>,
    folder: &Path,
    known: bool,
) -> Result<(Arc<SliceStore>, crate::OpenReport), StoreError> {
    if known && !is_folder(&*disk, &folder.join("slices")) {
        let source = io::Error::new(io::ErrorKind::NotFound, NOT_MOUNTED);
        return Err(StoreError::Io { operation: "open", path: folder.to_owned(), source });
    }
    SliceStore::open(disk, folder)
}

fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Which of two copies of a slice on two disks serves: the lower rank does.
fn state_rank(state: HeldState) -> u8 {
    match state {
        HeldState::Placed => 0,
        HeldState::Staged => 1,
        HeldState::Retired => 2,
    }
}

/// The free share, in thousandths, of the space that slices have and may still take. Other data on the disk does not
/// count: a small disk and a large one fill up at the same time.
fn free_permille(room_bytes: u64, used_bytes: u64) -> u64 {
    let whole = u128::from(room_bytes) + u128::from(used_bytes);
    (u128::from(room_bytes) * 1_000).checked_div(whole).map_or(0, |permille| permille as u64)
}

/// Disks whose free shares differ by less are equally good: work goes where there is least of it.
const ABOUT_EQUAL_PERMILLE: u64 = 50;
/// Bytes copied into memory at once.
const COPIED_BYTES: usize = 1 << 20;
/// The message about a folder that lost its slices between two starts.
const NOT_MOUNTED: &str = "it held slices before and has no `slices` now: mount its disk and start the node again, or \
                           make that folder if the disk was replaced by an empty one";
