//! The broken uploads that a data folder keeps, so that the same user can resume them. Serves upload. It records only
//! which there are and whether someone writes to them; the bytes are in `partial`, the records in `partial_record`. It
//! never promises to keep anything: the sender has all bytes, so what is damaged, old or in the way is dropped.

use std::time::Duration;

use protocol::{SliceHeader, limits, message::node_master::HeldPartial};

use crate::{
    SliceStore, SliceWriter, StoreError,
    locking::lock,
    slice_store::check_header,
    uploads::{
        partial_file::PartialFile,
        partial_record::{PartialKey, RECORD_SUFFIX},
        partials::Partials,
    },
};

impl SliceStore {
    /// As [`begin`](Self::begin), for an upload that can be resumed after it breaks off. The writer continues after the
    /// bytes of an earlier attempt, which were read and compared with their checksums. Fails with
    /// [`StoreError::BeingFinished`] while another writer has the upload.
    pub fn begin_resumable(
        self: &std::sync::Arc<Self>,
        header: SliceHeader,
        key: PartialKey,
    ) -> Result<SliceWriter, StoreError> {
        check_header(&header)?;
        let slice = header.slice;
        if self.contains(slice) {
            return Err(StoreError::Exists(slice));
        }
        self.evict_partials(limits::PARTIALS_MAX - 1, &key);
        let there = lock(&self.partials).claim(&key).ok_or(StoreError::BeingFinished(slice))?;
        let (file, whole) = PartialFile::open(std::sync::Arc::clone(self), key, there)?;
        let writing = self.claim_writing(slice);
        Ok(SliceWriter::resume(std::sync::Arc::clone(self), header, writing, file, whole))
    }

    /// Whether bytes of this upload are here, or someone is writing them now.
    pub(crate) fn has_partial(&self, key: &PartialKey) -> bool {
        lock(&self.partials).has(key)
    }

    /// The broken uploads whose bytes are here.
    pub fn partials(&self) -> Vec<HeldPartial> {
        lock(&self.partials).list()
    }

    /// Drops the uploads that nobody has resumed for this long; returns their number.
    pub fn drop_idle_partials(&self, idle_for: Duration) -> usize {
        let mut partials = lock(&self.partials);
        let old: Vec<_> = partials.idle().into_iter().filter(|(since, _)| since.elapsed() >= idle_for).collect();
        for (_, key) in &old {
            self.drop_partial(&mut partials, key);
        }
        old.len()
    }

    /// Drops the longest idle until at most `count` are kept, not counting `but`.
    fn evict_partials(&self, count: usize, but: &PartialKey) {
        let mut partials = lock(&self.partials);
        let idle: Vec<_> = partials.idle().into_iter().filter(|(_, key)| key != but).collect();
        for (_, key) in idle.iter().take(idle.len().saturating_sub(count)) {
            self.drop_partial(&mut partials, key);
        }
    }

    /// Removes an idle one, under the lock, so that nobody claims it meanwhile.
    fn drop_partial(&self, partials: &mut Partials, key: &PartialKey) {
        partials.remove(key);
        self.remove_partial_files(key);
    }

    /// Removes both files; one that cannot be removed belongs to nobody, and is removed when the folder is next opened.
    pub(crate) fn remove_partial_files(&self, key: &PartialKey) {
        let name = key.file_name();
        // The record first: bytes without one are dropped.
        let _ = self.disk.remove_file(&self.layout.partial.join(format!("{name}{RECORD_SUFFIX}")));
        let _ = self.disk.remove_file(&self.layout.partial.join(name));
    }
}
