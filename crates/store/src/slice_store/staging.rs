//! Makes a slice of complete bytes: the crash-safe order of syncs and renames (`docs/formats-on-disk.md` says why this
//! order and not fewer syncs). Serves upload, copy and publishing. After [`SliceStore::stage`] returns, no crash
//! removes the slice; before that, a crash never leaves half of it.

use std::{path::Path, sync::Arc};

use protocol::{SliceHeader, SliceId, SliceMetadata, message::node_master::HeldState};

use crate::{
    DiskFile, Sidecar, SliceStore, SliceSums, StoreError,
    error::WhileDoing,
    locking::lock,
    slice_store::{
        layout::{Layout, SliceFiles},
        unfinished_file::UnfinishedFile,
    },
};

impl SliceStore {
    /// Syncs the bytes in `from`, gives them a sidecar and moves both to `staging/`. If the same slice is meanwhile
    /// held with the same bytes, that one is the answer and `from` stays where it is.
    pub(crate) fn stage(
        &self,
        header: SliceHeader,
        file: &dyn DiskFile,
        from: &Path,
        sums: SliceSums,
    ) -> Result<SliceMetadata, StoreError> {
        let slice = header.slice;
        let metadata = SliceMetadata { header, bytes: sums.bytes, digest: sums.digest };
        let sidecar = Sidecar { metadata, sequence: self.next_number(), blocks: sums.blocks };
        // Both files are on their way to the disk before either is waited for: one commit of the file system's journal
        // then serves both.
        let (sidecar_file, sidecar_at) = self.write_sidecar(&sidecar)?;
        file.sync_data().while_doing("sync", from)?;
        sidecar_file.sync_data().while_doing("sync", sidecar_at.path())?;
        let metadata = sidecar.metadata;
        if let Some(metadata) = self.claim_staging(slice, &metadata)? {
            return Ok(metadata);
        }
        let staged = Layout::files_by_id(&self.layout.staging, slice);
        let outcome = self.move_to_staging(&staged, from, sidecar_at);
        if outcome.is_err() {
            // Whatever happened must not stay, since the caller was told that there is no such slice. It goes while the
            // claim still holds. Afterwards the same names may belong to another writer that was told that its slice is
            // safe.
            for path in [&staged.sidecar, &staged.bytes] {
                let _ = self.disk.remove_file(path);
            }
        }
        let mut inventory = self.inventory_mut();
        inventory.end_staging(slice);
        outcome?;
        inventory.set(Arc::new(metadata.clone()), HeldState::Staged);
        Ok(metadata)
    }

    /// Writes a sidecar to `unfinished/` and lets the disk begin with it; not yet synced.
    pub(crate) fn write_sidecar(&self, sidecar: &Sidecar) -> Result<(Box<dyn DiskFile>, UnfinishedFile), StoreError> {
        let at = self.unfinished(sidecar.metadata.header.slice);
        let bytes = sidecar.encode();
        let file = self.disk.create(at.path()).while_doing("create", at.path())?;
        file.write_all_at(&bytes, 0).while_doing("write", at.path())?;
        // A hint; if it fails, the sync will report it.
        let _ = file.start_writeback(0, bytes.len() as u64);
        Ok((file, at))
    }

    /// Makes all renames into `staging/` so far safe.
    pub(crate) fn sync_staging(&self) -> Result<(), StoreError> {
        let staging = &self.layout.staging;
        self.staging_sync.sync(|| self.disk.sync_folder(staging)).while_doing("sync", staging)
    }

    /// Claims the slice for the caller, or returns the metadata of the one that is already held.
    fn claim_staging(&self, slice: SliceId, metadata: &SliceMetadata) -> Result<Option<SliceMetadata>, StoreError> {
        let mut inventory = self.inventory_mut();
        match inventory.get(slice) {
            Some(held) if held.metadata.digest == metadata.digest => Ok(Some(SliceMetadata::clone(&held.metadata))),
            Some(_) => Err(StoreError::Exists(slice)),
            None if inventory.begin_staging(slice) => Ok(None),
            None => Err(StoreError::BeingFinished(slice)),
        }
    }

    /// The renames and the one sync of the folder.
    fn move_to_staging(&self, staged: &SliceFiles, from: &Path, sidecar: UnfinishedFile) -> Result<(), StoreError> {
        {
            let _moves = lock(&self.moves);
            sidecar.rename(&staged.sidecar).while_doing("rename", &staged.sidecar)?;
            self.disk.rename(from, &staged.bytes).while_doing("rename", from)?;
        }
        self.sync_staging()
    }
}
