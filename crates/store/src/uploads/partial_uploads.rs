//! The broken uploads that a data folder keeps, so that the same user can resume them. Serves upload. It records only
//! which there are and whether someone writes to them; the bytes are in `partial`, the records in `partial_record`. It
//! never promises to keep anything: the sender has all bytes, so what is damaged, old or in the way is dropped.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    time::{Duration, Instant},
};

use protocol::{ResumeKey, SliceHeader, UserName, limits, message::node_master::HeldPartial};

use crate::{
    Disk, SliceStore, SliceWriter, StoreError,
    disk::read_whole,
    error::WhileDoing,
    locking::lock,
    slice_store::check_header,
    uploads::{
        partial_file::PartialFile,
        partial_record::{PartialRecord, RECORD_BYTES_MAX},
    },
};

/// Identifies an upload and its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartialKey {
    /// The user who may resume it.
    pub user: UserName,
    /// The key that the client derived from the file and its destination.
    pub key: ResumeKey,
}

impl PartialKey {
    /// The name of its file; its record has the suffix `.record`.
    pub(crate) fn file_name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"sector partial upload\0");
        hasher.update(&self.key.0.to_be_bytes());
        hasher.update(self.user.as_str().as_bytes());
        let hex = hasher.finalize().to_hex();
        hex[..NAME_DIGITS].to_owned()
    }
}

/// The kept uploads of one data folder.
#[derive(Debug, Default)]
pub(crate) struct Partials {
    by_key: BTreeMap<PartialKey, PartialEntry>,
}

#[derive(Clone, Copy, Debug)]
struct PartialEntry {
    bytes: u64,
    /// Since when nobody writes to it; `None` while someone does.
    idle_since: Option<Instant>,
}

impl Partials {
    /// Finds what was kept when the folder was last in use, cuts off what is not safe, and removes the rest.
    pub(crate) fn scan(disk: &dyn Disk, folder: &Path) -> Result<Self, StoreError> {
        let mut partials = Self::default();
        let items = disk.list(folder).while_doing("list", folder)?;
        let mut unclaimed: BTreeMap<_, _> =
            items.into_iter().filter(|item| !item.is_folder).map(|item| (item.name, item.bytes)).collect();
        let records: Vec<_> = unclaimed.keys().filter(|name| name.ends_with(RECORD_SUFFIX)).cloned().collect();
        for name in records {
            let Ok(encoded) = read_whole(disk, &folder.join(&name), RECORD_BYTES_MAX) else { continue };
            let Some(record) = PartialRecord::decode(&encoded) else { continue };
            let file_name = record.key.file_name();
            let is_whole = name.strip_suffix(RECORD_SUFFIX) == Some(&*file_name)
                && record.bytes() >= PARTIAL_BYTES_MIN
                && unclaimed.get(&file_name).is_some_and(|bytes| *bytes >= record.bytes());
            if is_whole && cut(disk, &folder.join(&file_name), record.bytes()).is_ok() {
                unclaimed.remove(&file_name);
                unclaimed.remove(&name);
                let kept = PartialEntry { bytes: record.bytes(), idle_since: Some(Instant::now()) };
                partials.by_key.insert(record.key, kept);
            }
        }
        for name in unclaimed.keys() {
            let path = folder.join(name);
            disk.remove_file(&path).while_doing("remove", &path)?;
        }
        Ok(partials)
    }

    /// Claims an upload for a writer; returns how many bytes of it are there. Fails while someone else writes.
    fn claim(&mut self, key: &PartialKey) -> Option<u64> {
        let kept =
            self.by_key.entry(key.clone()).or_insert(PartialEntry { bytes: 0, idle_since: Some(Instant::now()) });
        kept.idle_since.take().map(|_| kept.bytes)
    }

    /// Ends a writer's claim; this many bytes are safe.
    pub(crate) fn release(&mut self, key: &PartialKey, bytes: u64) {
        self.by_key.insert(key.clone(), PartialEntry { bytes, idle_since: Some(Instant::now()) });
    }

    /// It is complete, or dropped.
    pub(crate) fn remove(&mut self, key: &PartialKey) {
        self.by_key.remove(key);
    }

    /// Those that nobody writes to, the longest idle first.
    fn idle(&self) -> Vec<(Instant, PartialKey)> {
        let idle = |(key, kept): (&PartialKey, &PartialEntry)| kept.idle_since.map(|since| (since, key.clone()));
        let mut idle: Vec<_> = self.by_key.iter().filter_map(idle).collect();
        idle.sort();
        idle
    }
}

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
        lock(&self.partials).by_key.contains_key(key)
    }

    /// The broken uploads whose bytes are here.
    pub fn partials(&self) -> Vec<HeldPartial> {
        let partials = lock(&self.partials);
        let idle = partials.by_key.iter().filter(|(_, kept)| kept.idle_since.is_some());
        idle.map(|(key, kept)| HeldPartial { user: key.user.clone(), key: key.key, bytes: kept.bytes }).collect()
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

/// Cuts a file to this length if it is longer.
fn cut(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<()> {
    let file = disk.open(path)?;
    if file.bytes()? > bytes { file.set_len(bytes) } else { Ok(()) }
}

/// Less than this is not worth keeping: sending it again takes no longer than its syncs.
pub(crate) const PARTIAL_BYTES_MIN: u64 = 1 << 20;
pub(crate) const RECORD_SUFFIX: &str = ".record";
/// Hexadecimal digits of a file's name: 128 bits, so that no two uploads collide.
const NAME_DIGITS: usize = 32;
