//! Moves a slice's files once it is complete: to its path, out of the way, or away. Serves the master's orders. Every
//! step is a rename; after a crash between any two, [`recovery`](crate::slice_store::recovery) joins the files again
//! by slice id. It never deletes a slice unless its removal was asked for.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use protocol::{SectorPath, SliceHeader, SliceId, SliceMetadata, message::node_master::HeldState};

use crate::{
    Sidecar, SliceStore, StoreError,
    disk::{is_bad_sector, is_folder, read_whole, remove_if_only_folders},
    error::WhileDoing,
    locking::lock,
    slice_store::{
        inventory::Held,
        layout::{Layout, SliceFiles},
        quarantine_names::quarantine_path,
        sidecar::SIDECAR_BYTES_MAX,
    },
};

impl SliceStore {
    /// See [`SliceStore::place`]. The caller holds the lock on moves.
    pub(crate) fn place_locked(&self, header: &SliceHeader) -> Result<(), StoreError> {
        let (slice, path) = (header.slice, &header.path);
        let held = self.inventory().get(slice).ok_or(StoreError::NotHeld(slice))?;
        let same_header = held.metadata.header == *header;
        let synced = self.inventory().is_synced(slice);
        if same_header && held.state == HeldState::Placed {
            return Ok(());
        }
        if !same_header {
            self.restage(&held, header)?;
        } else if !synced {
            self.sync_staged(slice)?;
        }
        self.clear_path(slice, path)?;
        // Read again: both earlier steps may have moved the slice itself.
        let held = self.inventory().get(slice).ok_or(StoreError::NotHeld(slice))?;
        self.move_files(&held, HeldState::Placed)
    }

    /// See [`SliceStore::remove`].
    pub(crate) fn remove_files(&self, slice: SliceId) -> Result<(), StoreError> {
        let (removed, removed_sidecar) = (self.unfinished(slice), self.unfinished(slice));
        let moves = lock(&self.moves);
        // The inventory first: from now on nobody opens it.
        let was_synced = self.inventory().is_synced(slice);
        let Some(held) = self.inventory_mut().remove(slice) else {
            drop(moves);
            return if self.has_unsynced_removals.load(Ordering::Relaxed) { self.sync_removals() } else { Ok(()) };
        };
        let files = self.files(&held);
        // Moved through `unfinished/`: the path is free at once, while deleting a large file takes a moment (the guards
        // do it after the lock). The bytes leave first. A sidecar without bytes is known to be a leftover, while
        // bytes without a sidecar might be anyone's.
        if let Err(error) = unless_missing(self.disk.rename(&files.bytes, removed.path())) {
            // It is still here, and a caller that orders the removal again must not hear that it is gone.
            let mut inventory = self.inventory_mut();
            inventory.set(held.metadata, held.state);
            inventory.set_synced(slice, was_synced);
            return Err(StoreError::io("remove", &files.bytes, error));
        }
        self.has_unsynced_removals.store(true, Ordering::Relaxed);
        unless_missing(self.disk.rename(&files.sidecar, removed_sidecar.path()))
            .while_doing("remove", &files.sidecar)?;
        if held.state == HeldState::Placed {
            self.remove_empty_parents(&held.metadata.header.path);
        }
        drop(moves);
        self.sync_removals()?;
        drop((removed, removed_sidecar));
        Ok(())
    }

    /// Makes all removals so far safe. One sync of the folder into which their files went serves all callers at about
    /// the same time, wherever the slices were. A sidecar that a crash before that brings back finds no bytes, unless
    /// another slice has the same ones at its path (`recovery`).
    fn sync_removals(&self) -> Result<(), StoreError> {
        let unfinished = &self.layout.unfinished;
        let synced = self.removal_sync.sync(|| self.disk.sync_folder(unfinished));
        // A caller that orders the removal again finds nothing to remove, and must not be told that it is safe.
        self.has_unsynced_removals.store(synced.is_err(), Ordering::Relaxed);
        synced.while_doing("sync", unfinished)
    }

    /// Retires the slice placed at a path, or at one above it, because another disk's slice has the path now.
    pub(crate) fn retire_at(&self, path: &SectorPath) -> Result<(), StoreError> {
        let paths = std::iter::successors(Some(path.clone()), SectorPath::parent).take_while(|path| !path.is_root());
        for path in paths {
            let _moves = lock(&self.moves);
            let placed = self.inventory().placed_at(&path);
            if let Some(held) = placed {
                self.move_files(&held, HeldState::Retired)?;
                self.remove_empty_parents(&path);
            }
        }
        Ok(())
    }

    /// Retires a slice that is placed below a path where a file is to be.
    pub(crate) fn retire_below(&self, slice: SliceId, path: &SectorPath) -> Result<(), StoreError> {
        let _moves = lock(&self.moves);
        let Some(held) = self.inventory().get(slice) else { return Ok(()) };
        let at = &held.metadata.header.path;
        if held.state == HeldState::Placed && at != path && at.is_within(path) {
            self.move_files(&held, HeldState::Retired)?;
            self.remove_empty_parents(at);
        }
        Ok(())
    }

    /// Whether any slice is placed below a path.
    pub(crate) fn any_placed_below(&self, path: &SectorPath) -> bool {
        self.inventory().any_placed_below(path)
    }

    /// See [`SliceStore::mark_corrupt`].
    pub(crate) fn quarantine_slice(&self, slice: SliceId) -> Result<(), StoreError> {
        let _moves = lock(&self.moves);
        let Some(held) = self.inventory_mut().remove(slice) else { return Ok(()) };
        let from = self.files(&held);
        let to = Layout::files_by_id(&self.layout.corrupt, slice);
        for (from, to) in [(&from.bytes, &to.bytes), (&from.sidecar, &to.sidecar)] {
            unless_missing(self.disk.rename(from, to)).while_doing("put aside", from)?;
        }
        if held.state == HeldState::Placed {
            self.remove_empty_parents(&held.metadata.header.path);
        }
        // Synced, unlike other moves: a damaged slice must not be back after the next start.
        self.disk.sync_folder(&self.layout.corrupt).while_doing("sync", &self.layout.corrupt)
    }

    /// Gives a slice another path, owner or desired replication. Wherever it was, it is staged afterwards, and safe
    /// there. Only then do its old sidecar and, later, its bytes move on. So after a crash the bytes are where one of
    /// its sidecars says.
    fn restage(&self, held: &Held, header: &SliceHeader) -> Result<(), StoreError> {
        let slice = header.slice;
        let (from, staged) = (self.files(held), Layout::files_by_id(&self.layout.staging, slice));
        let mut sidecar = self.load_sidecar(slice, &from.sidecar)?;
        sidecar.metadata.header = header.clone();
        sidecar.sequence = self.next_number();
        let (file, written) = self.write_sidecar(&sidecar)?;
        // Done before the rename, which replaces the old sidecar of a staged slice: a torn one would cost the slice.
        file.sync_data().while_doing("sync", written.path())?;
        written.rename(&staged.sidecar).while_doing("rename", &staged.sidecar)?;
        if held.state != HeldState::Staged
            && let Err(error) = self.disk.rename(&from.bytes, &staged.bytes)
        {
            let _ = self.disk.remove_file(&staged.sidecar);
            return Err(StoreError::io("rename", &from.bytes, error));
        }
        let mut inventory = self.inventory_mut();
        inventory.set(Arc::new(sidecar.metadata), HeldState::Staged);
        inventory.set_synced(slice, false);
        drop(inventory);
        self.sync_staged(slice)?;
        if held.state != HeldState::Staged {
            self.disk.remove_file(&from.sidecar).while_doing("remove", &from.sidecar)?;
        }
        if held.state == HeldState::Placed {
            self.remove_empty_parents(&held.metadata.header.path);
        }
        Ok(())
    }

    /// Makes a slice safe in `staging/`; until that succeeds it must not be moved on.
    fn sync_staged(&self, slice: SliceId) -> Result<(), StoreError> {
        self.sync_staging()?;
        self.inventory_mut().set_synced(slice, true);
        Ok(())
    }

    /// Makes sure that a file can be created at the path: folders above it, nothing at it.
    fn clear_path(&self, slice: SliceId, path: &SectorPath) -> Result<(), StoreError> {
        let native = self.layout.native_path(path);
        let folder = native.parent().unwrap_or(&self.layout.slices);
        if self.disk.create_folder_all(folder).is_err() {
            let above: Vec<SectorPath> = std::iter::successors(path.parent(), SectorPath::parent).collect();
            for above in above.iter().rev().filter(|above| !above.is_root()) {
                self.clear_file(above)?;
            }
            self.disk.create_folder_all(folder).while_doing("create", folder)?;
        }
        self.clear_file(path)?;
        if is_folder(&*self.disk, &native)
            && !remove_if_only_folders(&*self.disk, &native).while_doing("remove", &native)?
            && !self.clear_folder(path, &native)?
        {
            return Err(StoreError::PathBlocked { slice, path: path.clone(), obstacle: native });
        }
        Ok(())
    }

    /// Clears a folder that has no slice placed in it; `false` if it has one. Its files are someone's own, or leftovers
    /// of removed slices after a crash (the bytes without their sidecar). Nobody would ever order their removal.
    fn clear_folder(&self, path: &SectorPath, native: &Path) -> Result<bool, StoreError> {
        if self.inventory().any_placed_below(path) {
            return Ok(false);
        }
        let mut unread = vec![native.to_owned()];
        while let Some(folder) = unread.pop() {
            for item in self.disk.list(&folder).while_doing("list", &folder)? {
                let inside = folder.join(&item.name);
                if item.is_folder {
                    unread.push(inside);
                } else {
                    self.quarantine_file(&inside, &item.name)?;
                }
            }
        }
        remove_if_only_folders(&*self.disk, native).while_doing("remove", native)
    }

    /// Moves away a file at a path: a slice is retired, anything else is quarantined.
    fn clear_file(&self, path: &SectorPath) -> Result<(), StoreError> {
        let placed = self.inventory().placed_at(path);
        if let Some(held) = placed {
            return self.move_files(&held, HeldState::Retired);
        }
        let native = self.layout.native_path(path);
        if self.disk.bytes(&native).while_doing("look at", &native)?.is_some() {
            self.quarantine_file(&native, path.name().unwrap_or_default())?;
        }
        Ok(())
    }

    /// Puts a file that is not a slice where the operator finds it.
    fn quarantine_file(&self, file: &Path, name: &str) -> Result<(), StoreError> {
        let aside = quarantine_path(&*self.disk, &self.layout, name).while_doing("put aside", file)?;
        tracing::warn!(file = %file.display(), aside = %aside.display(), "a file that is no slice was in the way");
        self.disk.rename(file, &aside).while_doing("put aside", file)
    }

    /// Moves both files to the place of a slice in that state; nothing is in the way there.
    fn move_files(&self, held: &Held, state: HeldState) -> Result<(), StoreError> {
        let header = &held.metadata.header;
        let (from, to) = (self.files(held), self.layout.files(header.slice, state, &header.path));
        self.disk.rename(&from.bytes, &to.bytes).while_doing("rename", &from.bytes)?;
        if let Err(error) = self.disk.rename(&from.sidecar, &to.sidecar) {
            // Both or none. If this fails too, the next start joins them.
            let _ = self.disk.rename(&to.bytes, &from.bytes);
            return Err(StoreError::io("rename", &from.sidecar, error));
        }
        self.inventory_mut().set(Arc::clone(&held.metadata), state);
        Ok(())
    }

    /// Best effort: an empty folder left behind harms nobody.
    fn remove_empty_parents(&self, path: &SectorPath) {
        for folder in std::iter::successors(path.parent(), SectorPath::parent).take_while(|folder| !folder.is_root()) {
            if self.disk.remove_folder(&self.layout.native_path(&folder)).is_err() {
                break;
            }
        }
    }

    fn load_sidecar(&self, slice: SliceId, path: &Path) -> Result<Sidecar, StoreError> {
        let corrupt = |what: String| StoreError::Corrupt { slice, what };
        let bytes = read_whole(&*self.disk, path, SIDECAR_BYTES_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => corrupt("its sidecar is missing".to_owned()),
            _ if is_bad_sector(&error) => corrupt(format!("its sidecar cannot be read: {error}")),
            _ => StoreError::io("read", path, error),
        })?;
        let sidecar = Sidecar::decode(&bytes).map_err(|error| corrupt(format!("its sidecar: {error}")))?;
        if sidecar.metadata.header.slice == slice {
            Ok(sidecar)
        } else {
            Err(corrupt("its sidecar is another's".to_owned()))
        }
    }

    fn files(&self, held: &Held) -> SliceFiles {
        let SliceMetadata { header, .. } = &*held.metadata;
        self.layout.files(header.slice, held.state, &header.path)
    }
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        collections::BTreeMap,
        sync::{atomic::AtomicBool, mpsc},
        thread,
        time::Duration,
    };

    use protocol::{Digest, JournalId, RecordFraming, UserName, Version};

    use super::*;
    use crate::MemoryDisk;

    fn header(slice: u128, path: &str) -> SliceHeader {
        SliceHeader {
            slice: SliceId(slice),
            path: SectorPath::parse(path).unwrap(),
            version: Version(1),
            owner: UserName::new("alice").unwrap(),
            modified_unix_millis: 1,
            copies: 1,
            records: RecordFraming::File,
            user: BTreeMap::new(),
            journal: JournalId(1),
            acl: None,
        }
    }

    // A thread that holds the inventory and reads it again waits for ever if a writer comes between.
    #[test]
    fn slices_replace_each_other_at_a_path_while_others_are_finished() {
        let (store, _) = SliceStore::open(Arc::new(MemoryDisk::new(1)), Path::new("/data")).unwrap();
        let deep = format!("/{}", format!("{}/", "d".repeat(200)).repeat(4));
        let headers = [1, 2].map(|slice| header(slice, &format!("{deep}file")));
        for header in &headers {
            store.begin(header.clone()).unwrap().finish(None).unwrap();
        }
        // Many paths that begin alike: the inventory is read for long enough to be met by a writer.
        for other in 3..OTHERS {
            let metadata =
                SliceMetadata { header: header(other, &format!("{deep}{other}")), bytes: 0, digest: Digest([0; 32]) };
            store.inventory_mut().set(Arc::new(metadata), HeldState::Placed);
        }
        let (is_over, (told, ended)) = (Arc::new(AtomicBool::new(false)), mpsc::sync_channel(1));
        // Not scoped: a test that fails must not wait for a thread that never ends.
        let (finishing, until) = (Arc::clone(&store), Arc::clone(&is_over));
        thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                drop(finishing.inventory_mut());
            }
        });
        thread::spawn(move || {
            for round in 0..ROUNDS {
                // Retires the other one, which then comes back; now and then another disk's slice gets the path.
                let header = &headers[round % 2];
                store.place(header).unwrap();
                if round % 3 == 0 {
                    store.retire_at(&header.path).unwrap();
                }
            }
            told.send(()).unwrap();
        });
        let has_ended = ended.recv_timeout(ENDS_WITHIN);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(has_ended, Ok(()));
    }

    const OTHERS: u128 = 1_000;
    const ROUNDS: usize = 2_000;
    const ENDS_WITHIN: Duration = Duration::from_secs(60);
}
