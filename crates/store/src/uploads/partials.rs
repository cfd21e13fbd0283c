//! The list of the broken uploads that a data folder keeps: which there are, how much of each, and whether someone
//! writes to it. It is read from the folder once, when that is opened. It never promises to keep anything: the sender
//! has all bytes, so what is damaged or belongs to nobody is dropped.

use std::{collections::BTreeMap, io, path::Path, time::Instant};

use protocol::message::node_master::HeldPartial;

use crate::{
    Disk, StoreError,
    disk::read_whole,
    error::WhileDoing,
    uploads::partial_record::{PartialKey, PartialRecord, RECORD_BYTES_MAX, RECORD_SUFFIX},
};

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
    pub(crate) fn claim(&mut self, key: &PartialKey) -> Option<u64> {
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
    pub(crate) fn idle(&self) -> Vec<(Instant, PartialKey)> {
        let idle = |(key, kept): (&PartialKey, &PartialEntry)| kept.idle_since.map(|since| (since, key.clone()));
        let mut idle: Vec<_> = self.by_key.iter().filter_map(idle).collect();
        idle.sort();
        idle
    }

    /// Whether bytes of this upload are here, or someone is writing them now.
    pub(crate) fn has(&self, key: &PartialKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Those whose bytes are here and that nobody writes to.
    pub(crate) fn list(&self) -> Vec<HeldPartial> {
        let idle = self.by_key.iter().filter(|(_, kept)| kept.idle_since.is_some());
        idle.map(|(key, kept)| HeldPartial { user: key.user.clone(), key: key.key, bytes: kept.bytes }).collect()
    }
}

/// Cuts a file to this length if it is longer.
fn cut(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<()> {
    let file = disk.open(path)?;
    if file.bytes()? > bytes { file.set_len(bytes) } else { Ok(()) }
}

/// Less than this is not worth keeping: sending it again takes no longer than its syncs.
pub(crate) const PARTIAL_BYTES_MIN: u64 = 1 << 20;
