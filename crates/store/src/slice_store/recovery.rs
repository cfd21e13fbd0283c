//! Scans a data folder when it is opened, and completes what a crash interrupted. Serves every start of a node; after
//! it, both files of each slice are in one of three places, by its state. A crash may keep any of the renames of a move
//! and lose the others, so a file's place alone proves nothing. Bytes and sidecars are joined by slice id; if several
//! slices may own bytes at a path, their content decides. Bytes are deleted only if they were never acknowledged, or
//! lie here twice.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{SectorPath, SliceId, SliceMetadata, limits, message::node_master::HeldState};

use crate::{
    Disk, Sidecar, SidecarError, StoreError,
    disk::{is_bad_sector, is_folder, read_exactly, read_whole},
    error::WhileDoing,
    slice_store::{
        inventory::Inventory,
        layout::{Layout, SliceFileName, SliceFiles, slice_name},
        quarantine_names::quarantine_path,
        sidecar::SIDECAR_BYTES_MAX,
    },
};

/// Scans the folder, completes what was interrupted and fills the inventory. Also returns the largest number of a
/// sidecar.
pub(crate) fn recover(
    disk: &dyn Disk,
    layout: &Layout,
    inventory: &mut Inventory,
) -> Result<(OpenReport, u64), StoreError> {
    let mut recovery = Recovery { disk, layout, found: ScanResult::default(), report: OpenReport::default() };
    recovery.scan_by_id(HeldState::Staged)?;
    recovery.scan_by_id(HeldState::Retired)?;
    recovery.scan_slices()?;
    let sidecars = recovery.found.sidecars.values().flatten();
    let sequence = sidecars.map(|sidecar| sidecar.sequence).max().unwrap_or(0);
    let owners = recovery.owners_of_paths()?;
    let mut joined = Vec::new();
    for (slice, sidecars) in std::mem::take(&mut recovery.found.sidecars) {
        joined.extend(recovery.join(slice, sidecars, &owners)?);
    }
    recovery.quarantine_damaged()?;
    if !recovery.report.quarantined.is_empty() {
        // What could not be read must not be back at the next start.
        disk.sync_folder(&layout.corrupt).while_doing("sync", &layout.corrupt)?;
    }
    recovery.move_all(joined, inventory)?;
    Ok((recovery.report, sequence))
}

/// The result of opening a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Slices held now.
    pub slices: u64,
    /// Moves that a crash had interrupted, completed now.
    pub completed_moves: u64,
    /// Damaged files, at their present place, for the operator.
    pub quarantined: Vec<PathBuf>,
}

struct Recovery<'a> {
    disk: &'a dyn Disk,
    layout: &'a Layout,
    found: ScanResult,
    report: OpenReport,
}

/// What the scan found.
#[derive(Default)]
struct ScanResult {
    /// The sidecars of each slice, the truest first once sorted.
    sidecars: BTreeMap<SliceId, Vec<FoundSidecar>>,
    /// Files named by id, with their length in bytes.
    staged: BTreeMap<SliceId, u64>,
    retired: BTreeMap<SliceId, u64>,
    /// Files in `slices/` that are not sidecars, with their length in bytes. Many may not be slices either.
    native: BTreeMap<SectorPath, u64>,
    /// Sidecars that cannot be read.
    damaged: Vec<DamagedSidecar>,
    /// Files in `slices/` that several slices may own and that could not be read to identify the owner.
    unreadable: BTreeSet<SectorPath>,
}

struct FoundSidecar {
    metadata: SliceMetadata,
    sequence: u64,
    file: PathBuf,
    /// Where it is; if it lies beside a file, with that file's path.
    state: HeldState,
    beside: Option<SectorPath>,
}

struct DamagedSidecar {
    sidecar: PathBuf,
    /// The file that it describes, if that turns out to have no other owner.
    bytes: PathBuf,
    beside: Option<SectorPath>,
}

/// A slice whose bytes and sidecar were found, and where they belong.
struct RecoveredSlice {
    metadata: SliceMetadata,
    from: SliceFiles,
    state: HeldState,
    /// Sidecars that an interrupted move left behind.
    stale: Vec<PathBuf>,
}

/// Who may own a file.
struct Claims {
    owner: Option<SliceId>,
    /// Slices with the same bytes.
    others: Vec<SliceId>,
}

/// Where a slice's bytes were found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BytesAt<'a> {
    Staging,
    Retired,
    Path(&'a SectorPath),
}

impl Recovery<'_> {
    fn scan_by_id(&mut self, state: HeldState) -> Result<(), StoreError> {
        let folder = if state == HeldState::Staged { &self.layout.staging } else { &self.layout.retired };
        for item in self.disk.list(folder).while_doing("list", folder)? {
            match SliceFileName::parse(&item.name) {
                Some(SliceFileName::Bytes(slice)) if !item.is_folder => {
                    let files =
                        if state == HeldState::Staged { &mut self.found.staged } else { &mut self.found.retired };
                    files.insert(slice, item.bytes);
                }
                Some(SliceFileName::Sidecar(slice)) if !item.is_folder => {
                    let files = Layout::files_by_id(folder, slice);
                    self.read_sidecar(files, state, None)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn scan_slices(&mut self) -> Result<(), StoreError> {
        // As deep as a path can be: nothing below that can be ours.
        let mut unread = vec![SectorPath::root()];
        while let Some(folder) = unread.pop() {
            let native = self.layout.native_path(&folder);
            for item in self.disk.list(&native).while_doing("list", &native)? {
                if let Some(path) = slice_name(&item.name).and_then(|name| folder.join(name).ok())
                    && !item.is_folder
                {
                    self.read_sidecar(self.layout.files_at(&path), HeldState::Placed, Some(path))?;
                } else if let Ok(path) = folder.join(&item.name) {
                    if item.is_folder {
                        unread.push(path);
                    } else {
                        self.found.native.insert(path, item.bytes);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_sidecar(
        &mut self,
        files: SliceFiles,
        state: HeldState,
        beside: Option<SectorPath>,
    ) -> Result<(), StoreError> {
        let decoded = match read_whole(self.disk, &files.sidecar, SIDECAR_BYTES_MAX) {
            Ok(bytes) => Sidecar::decode(&bytes),
            Err(error) if is_damage(&error) => Err(SidecarError::Torn),
            // For example out of descriptors, which says nothing about the slice.
            Err(error) => return Err(StoreError::io("read", &files.sidecar, error)),
        };
        match decoded {
            Ok(Sidecar { metadata, sequence, .. }) => {
                let slice = metadata.header.slice;
                let sidecar = FoundSidecar { metadata, sequence, file: files.sidecar, state, beside };
                self.found.sidecars.entry(slice).or_default().push(sidecar);
            }
            // Intact, but written by another build: someone started the wrong one. Nothing is touched.
            Err(source @ SidecarError::Version(_)) => return Err(StoreError::Sidecar { path: files.sidecar, source }),
            Err(error) => {
                tracing::warn!(sidecar = %files.sidecar.display(), %error, "put aside");
                self.found.damaged.push(DamagedSidecar { sidecar: files.sidecar, bytes: files.bytes, beside });
            }
        }
        Ok(())
    }

    /// The slice that owns the file at a path, if several may. A slice that has no bytes, and whose bytes these could be
    /// too, gets a copy. Nobody here can say which of the two was removed, or to whom the file was moved last.
    fn owners_of_paths(&mut self) -> Result<BTreeMap<SectorPath, SliceId>, StoreError> {
        self.found.sidecars.values_mut().for_each(|sidecars| sidecars.sort_by_key(FoundSidecar::rank));
        let mut claims: BTreeMap<SectorPath, BTreeSet<SliceId>> = BTreeMap::new();
        for (slice, sidecars) in &self.found.sidecars {
            // Bytes named by the slice's id are the slice's. It may have those at its path too, if its sidecar is
            // there.
            let claiming = if !self.found.has_by_id(*slice) {
                &sidecars[..]
            } else if sidecars[0].is_at_its_path() {
                &sidecars[..1]
            } else {
                &[]
            };
            let paths = claiming.iter().flat_map(FoundSidecar::paths);
            for path in paths.filter(|path| self.found.native.contains_key(*path)) {
                claims.entry(path.clone()).or_default().insert(*slice);
            }
        }
        let (mut owners, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        let mut twins: BTreeMap<SliceId, SectorPath> = BTreeMap::new();
        for (path, claimants) in claims {
            let Claims { owner, others } = self.judge(&path, &claimants, &mut unreadable)?;
            twins.extend(others.into_iter().map(|slice| (slice, path.clone())));
            owners.extend(owner.map(|slice| (path, slice)));
        }
        self.found.unreadable = unreadable;
        let owning: BTreeSet<_> = owners.values().copied().collect();
        for (slice, path) in twins {
            if owning.contains(&slice) || self.found.has_by_id(slice) {
                continue;
            }
            let bytes = self.found.native[&path];
            match self.copy_to_staging(slice, &path, bytes) {
                Ok(()) => drop(self.found.staged.insert(slice, bytes)),
                // The node starts on a full disk and with a bad sector too, and then the older slice gives way.
                Err(error) => tracing::error!(%slice, %path, %error, "not copied; only the newer one is left here"),
            }
        }
        Ok(owners)
    }

    /// Who owns the file at a path, and who else has the same bytes.
    fn judge(
        &self,
        path: &SectorPath,
        claimants: &BTreeSet<SliceId>,
        unreadable: &mut BTreeSet<SectorPath>,
    ) -> Result<Claims, StoreError> {
        let beside = claimants.iter().copied().find(|slice| {
            let lies_beside = |sidecar: &FoundSidecar| sidecar.beside.as_ref() == Some(path);
            !self.found.has_by_id(*slice) && self.found.sidecars[slice].iter().any(lies_beside)
        });
        // The usual case: a file with its own sidecar beside it, and no other claimant.
        if claimants.len() == 1 && beside.is_some() {
            return Ok(Claims { owner: beside, others: Vec::new() });
        }
        // A crash in the middle of a move, or a removed slice whose sidecar came back. The content decides; of two
        // slices with the same content the newer version gets it.
        let native = self.layout.native_path(path);
        let mut matching = Vec::new();
        for slice in claimants {
            for sidecar in &self.found.sidecars[slice] {
                match self.content_matches(&native, self.found.native[path], sidecar)? {
                    Some(true) => matching.push((sidecar.metadata.header.version, *slice)),
                    Some(false) => {}
                    None => drop(unreadable.insert(path.clone())),
                }
            }
        }
        let newest = matching.iter().max().map(|(_, slice)| *slice);
        let owner = newest.or(beside);
        let others = matching.into_iter().map(|(_, slice)| slice).filter(|slice| Some(*slice) != owner).collect();
        Ok(Claims { owner, others })
    }

    /// Copies a file of `slices/` to the place of a staged slice.
    fn copy_to_staging(&self, slice: SliceId, path: &SectorPath, bytes: u64) -> Result<(), StoreError> {
        let native = self.layout.native_path(path);
        let copied = self.layout.unfinished.join(slice.to_string());
        tracing::info!(%slice, %path, bytes, "copied: two slices have the same bytes, and only one file is left");
        let from = self.disk.open_to_read(&native).while_doing("open", &native)?;
        let to = self.disk.create(&copied).while_doing("create", &copied)?;
        let mut block = vec![0; limits::BLOCK_BYTES as usize];
        for at in (0..bytes).step_by(block.len()) {
            let block = &mut block[..limits::BLOCK_BYTES.min(bytes - at) as usize];
            read_exactly(&*from, block, at).while_doing("read", &native)?;
            to.write_all_at(block, at).while_doing("write to", &copied)?;
        }
        to.sync_data().while_doing("sync", &copied)?;
        let staged = Layout::files_by_id(&self.layout.staging, slice).bytes;
        self.disk.rename(&copied, &staged).while_doing("rename", &copied)
    }

    /// Whether a file may be that slice's: checks the length, and some of its blocks. A wrong yes would be found by the
    /// first read, which verifies every block. `None` if they cannot be read.
    fn content_matches(&self, native: &Path, bytes: u64, found: &FoundSidecar) -> Result<Option<bool>, StoreError> {
        if bytes != found.metadata.bytes {
            return Ok(Some(false));
        }
        let sidecar = match read_whole(self.disk, &found.file, SIDECAR_BYTES_MAX) {
            Err(error) if is_damage(&error) => return Ok(None),
            sidecar => sidecar.while_doing("read", &found.file)?,
        };
        let Ok(sidecar) = Sidecar::decode(&sidecar) else { return Ok(Some(false)) };
        let file = self.disk.open_to_read(native).while_doing("open", native)?;
        let mut block = vec![0; limits::BLOCK_BYTES as usize];
        let step = sidecar.blocks.len().div_ceil(BLOCKS_COMPARED_MAX).max(1);
        for (number, checksum) in sidecar.blocks.iter().enumerate().step_by(step) {
            let from = number as u64 * limits::BLOCK_BYTES;
            let block = &mut block[..limits::BLOCK_BYTES.min(bytes - from) as usize];
            match read_exactly(&*file, block, from) {
                Ok(()) if crc32c::crc32c(block) == *checksum => {}
                Ok(()) => return Ok(Some(false)),
                Err(error) if is_damage(&error) => return Ok(None),
                Err(error) => return Err(StoreError::io("read", native, error)),
            }
        }
        Ok(Some(true))
    }

    /// Finds a slice's bytes and says where both files belong; `None` if there are no bytes, or not the right ones.
    fn join(
        &mut self,
        slice: SliceId,
        mut sidecars: Vec<FoundSidecar>,
        owners: &BTreeMap<SectorPath, SliceId>,
    ) -> Result<Option<RecoveredSlice>, StoreError> {
        let newest = sidecars.remove(0);
        let stale: Vec<PathBuf> = sidecars.iter().map(|sidecar| sidecar.file.clone()).collect();
        let at_path = newest
            .paths()
            .chain(sidecars.iter().flat_map(FoundSidecar::paths))
            .find(|path| owners.get(*path) == Some(&slice));
        let placed = at_path.and_then(|path| Some((BytesAt::Path(path), self.found.native.remove(path)?)));
        let staged = self.found.staged.remove(&slice).map(|bytes| (BytesAt::Staging, bytes));
        let retired = self.found.retired.remove(&slice).map(|bytes| (BytesAt::Retired, bytes));
        let mut places = [placed, staged, retired].into_iter().flatten();
        let Some((at, bytes)) = places.next() else {
            let mut paths = newest.paths().chain(sidecars.iter().flat_map(FoundSidecar::paths));
            let in_doubt = paths.find(|path| self.found.unreadable.contains(*path)).cloned();
            let files = std::iter::once(newest.file.clone()).chain(stale);
            return self.give_up(files.collect(), in_doubt.filter(|path| !owners.contains_key(path)));
        };
        for (twice, _) in places {
            // The slice was removed and written again, and then the removal was lost.
            let file = self.bytes_file(slice, twice);
            self.disk.remove_file(&file).while_doing("remove", &file)?;
        }
        let from = SliceFiles { bytes: self.bytes_file(slice, at), sidecar: newest.file.clone() };
        if bytes != newest.metadata.bytes {
            tracing::warn!(%slice, bytes, wanted = newest.metadata.bytes, "put aside: not the length its sidecar says");
            self.quarantine(&from.bytes)?;
            self.quarantine(&from.sidecar)?;
            return Ok(None);
        }
        let state = recovered_state(&newest, at);
        Ok(Some(RecoveredSlice { metadata: newest.metadata, from, state, stale }))
    }

    /// Handles the sidecars of a slice without bytes. It was removed and the sidecar came back, or it was never
    /// complete. If an unreadable file may be its bytes, all are quarantined.
    fn give_up(
        &mut self,
        sidecars: Vec<PathBuf>,
        in_doubt: Option<SectorPath>,
    ) -> Result<Option<RecoveredSlice>, StoreError> {
        let Some(path) = in_doubt else {
            for file in sidecars {
                self.disk.remove_file(&file).while_doing("remove", &file)?;
            }
            return Ok(None);
        };
        if self.found.native.remove(&path).is_some() {
            self.quarantine(&self.layout.native_path(&path))?;
        }
        for file in sidecars {
            self.quarantine(&file)?;
        }
        Ok(None)
    }

    fn bytes_file(&self, slice: SliceId, at: BytesAt<'_>) -> PathBuf {
        match at {
            BytesAt::Staging => Layout::files_by_id(&self.layout.staging, slice).bytes,
            BytesAt::Retired => Layout::files_by_id(&self.layout.retired, slice).bytes,
            BytesAt::Path(path) => self.layout.native_path(path),
        }
    }

    /// Handles files without an owner. Bytes of an unfinished slice are removed. Those that may belong to a damaged
    /// sidecar are quarantined with it.
    fn quarantine_damaged(&mut self) -> Result<(), StoreError> {
        let damaged = std::mem::take(&mut self.found.damaged);
        let staged = std::mem::take(&mut self.found.staged).into_keys().map(|slice| (BytesAt::Staging, slice));
        let retired = std::mem::take(&mut self.found.retired).into_keys().map(|slice| (BytesAt::Retired, slice));
        for (at, slice) in staged.chain(retired) {
            let file = self.bytes_file(slice, at);
            if damaged.is_empty() {
                self.disk.remove_file(&file).while_doing("remove", &file)?;
            } else {
                self.quarantine(&file)?;
            }
        }
        for DamagedSidecar { sidecar, bytes, beside } in damaged {
            self.quarantine(&sidecar)?;
            if beside.is_some_and(|path| self.found.native.contains_key(&path)) {
                self.quarantine(&bytes)?;
            }
        }
        Ok(())
    }

    /// Completes the moves: first those that leave `slices/`, so that the others find their place free.
    fn move_all(&mut self, joined: Vec<RecoveredSlice>, inventory: &mut Inventory) -> Result<(), StoreError> {
        let mut sidecars: BTreeSet<PathBuf> = joined.iter().map(|slice| slice.from.sidecar.clone()).collect();
        let stale: Vec<PathBuf> = joined.iter().flat_map(|slice| slice.stale.clone()).collect();
        let (placed, others): (Vec<_>, Vec<_>) = joined.into_iter().partition(|slice| slice.state == HeldState::Placed);
        for slice in others {
            self.move_one(slice, inventory, &mut sidecars)?;
        }
        if !stale.is_empty() {
            // A stale sidecar alone knows where the bytes were, until their own rename is safe.
            self.disk.sync_folder(&self.layout.staging).while_doing("sync", &self.layout.staging)?;
            // A rename above may have put a true sidecar in its place.
            for file in stale.iter().filter(|file| !sidecars.contains(*file)) {
                self.disk.remove_file(file).while_doing("remove", file)?;
            }
        }
        for mut slice in placed {
            let header = &slice.metadata.header;
            let to = self.layout.files_at(&header.path);
            let free = slice.from.bytes == to.bytes || self.is_free(&to.bytes)?;
            if !free || (slice.from.sidecar != to.sidecar && sidecars.contains(&to.sidecar)) {
                slice.state = HeldState::Staged;
            }
            self.move_one(slice, inventory, &mut sidecars)?;
        }
        Ok(())
    }

    /// Moves a slice's files to where they belong; `sidecars` are the true ones on the disk.
    fn move_one(
        &mut self,
        slice: RecoveredSlice,
        inventory: &mut Inventory,
        sidecars: &mut BTreeSet<PathBuf>,
    ) -> Result<(), StoreError> {
        let RecoveredSlice { metadata, from, state, .. } = slice;
        let to = self.layout.files(metadata.header.slice, state, &metadata.header.path);
        for (from, to) in [(&from.bytes, &to.bytes), (&from.sidecar, &to.sidecar)] {
            if from != to {
                self.disk.rename(from, to).while_doing("rename", from)?;
            }
        }
        if from != to {
            self.report.completed_moves += 1;
            sidecars.remove(&from.sidecar);
            sidecars.insert(to.sidecar);
        }
        inventory.set(Arc::new(metadata), state);
        Ok(())
    }

    /// Whether a file can be moved to that name, which is below `slices/`.
    fn is_free(&self, native: &Path) -> Result<bool, StoreError> {
        let taken = self.disk.bytes(native).while_doing("look at", native)?.is_some() || is_folder(self.disk, native);
        let folder = native.parent().unwrap_or(&self.layout.slices);
        Ok(!taken && self.disk.create_folder_all(folder).is_ok())
    }

    fn quarantine(&mut self, file: &Path) -> Result<(), StoreError> {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let aside = quarantine_path(self.disk, self.layout, name).while_doing("put aside", file)?;
        self.disk.rename(file, &aside).while_doing("put aside", file)?;
        self.report.quarantined.push(aside);
        Ok(())
    }
}

impl FoundSidecar {
    /// Sorts the truest first. Only a sidecar copied by hand has the same number as another; then the one in its proper
    /// place counts.
    fn rank(&self) -> (Reverse<u64>, bool) {
        (Reverse(self.sequence), self.state == HeldState::Placed && !self.is_at_its_path())
    }

    fn is_at_its_path(&self) -> bool {
        self.beside.as_ref() == Some(&self.metadata.header.path)
    }

    /// The paths in `slices/` where the bytes may be.
    fn paths(&self) -> impl Iterator<Item = &SectorPath> {
        std::iter::once(&self.metadata.header.path).chain(&self.beside)
    }
}

impl ScanResult {
    fn has_by_id(&self, slice: SliceId) -> bool {
        self.staged.contains_key(&slice) || self.retired.contains_key(&slice)
    }
}

/// The state of a slice whose truest sidecar and bytes were found; each arm is a move and how far it got.
fn recovered_state(sidecar: &FoundSidecar, at: BytesAt<'_>) -> HeldState {
    let at_its_path = sidecar.is_at_its_path();
    match (at, sidecar.state) {
        // Placing: the sidecar was moved first, or the bytes were.
        (BytesAt::Staging, HeldState::Placed) if at_its_path => HeldState::Placed,
        (BytesAt::Path(path), HeldState::Staged) if *path == sidecar.metadata.header.path => HeldState::Placed,
        // In place.
        (BytesAt::Path(path), HeldState::Placed) if at_its_path && *path == sidecar.metadata.header.path => {
            HeldState::Placed
        }
        // Retiring, or retired.
        (BytesAt::Path(_), HeldState::Retired) | (BytesAt::Retired, HeldState::Placed | HeldState::Retired) => {
            HeldState::Retired
        }
        // Staged, or moving to another path, or moved by hand: the master says where it belongs.
        _ => HeldState::Staged,
    }
}

/// Whether a read error means that the file itself is bad, not that reading is impossible now.
fn is_damage(error: &io::Error) -> bool {
    is_bad_sector(error) || matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::FileTooLarge)
}

/// Most blocks of a file that are compared to identify its owner (1 MiB). They are enough to tell two slices apart, and
/// few enough to keep a start quick whatever lies there.
const BLOCKS_COMPARED_MAX: usize = 16;
