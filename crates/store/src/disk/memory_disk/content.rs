//! The content of one file of a [`MemoryDisk`](super::MemoryDisk), with the data to undo what was not synced. It never
//! decides what a crash keeps: the caller does.

use std::{collections::BTreeMap, io};

/// The present bytes, and for each page changed since the last sync its content at that sync.
#[derive(Default)]
pub(super) struct Content {
    /// A number that no other file of the disk has.
    number: u64,
    now: Vec<u8>,
    synced_bytes: u64,
    /// By page number; a page without bytes at that time is empty.
    before: BTreeMap<u64, Box<[u8]>>,
    /// The disk's content of pages that a failed sync did not write, by page number. The system returns them as they
    /// were intended, treats them as safe, and never writes them again.
    lost: BTreeMap<u64, Box<[u8]>>,
    /// The number of a page that cannot be read. It stays with the file whatever its name is, also across a crash.
    bad_page: Option<u64>,
}

impl Content {
    /// An empty file.
    pub(super) fn numbered(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn bytes(&self) -> u64 {
        self.now.len() as u64
    }

    /// Copies the bytes from an offset on; an input/output error if that touches the unreadable page.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.bytes());
        if self.bad_page.is_some_and(|page| page * PAGE_BYTES < end && offset < (page + 1) * PAGE_BYTES) {
            return Err(rustix::io::Errno::IO.into());
        }
        let rest = usize::try_from(offset).ok().and_then(|offset| self.now.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    /// Makes the page around an offset unreadable, or all pages readable again.
    pub(super) fn set_bad_sector(&mut self, offset: Option<u64>) {
        self.bad_page = offset.map(|offset| offset / PAGE_BYTES);
    }

    /// Writes within the length; bytes beyond it are not written.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.remember(offset, offset + bytes.len() as u64);
        let from = (offset as usize).min(self.now.len());
        let until = (from + bytes.len()).min(self.now.len());
        self.now[from..until].copy_from_slice(&bytes[..until - from]);
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        self.remember(self.bytes().min(bytes), self.bytes().max(bytes));
        self.now.resize(bytes as usize, 0);
    }

    pub(super) fn sync(&mut self) {
        self.before.clear();
        self.synced_bytes = self.bytes();
    }

    /// A sync that failed.
    pub(super) fn fail_sync(&mut self) {
        self.lost.append(&mut self.before);
        self.synced_bytes = self.bytes();
    }

    /// Drops the pages of a range that count as safe from memory: the next read returns what is on the disk.
    pub(super) fn drop_cached(&mut self, from: u64, bytes: u64) {
        let pages = from.div_ceil(PAGE_BYTES)..from.saturating_add(bytes).div_ceil(PAGE_BYTES);
        let dropped: Vec<u64> = self.lost.keys().copied().filter(|page| pages.contains(page)).collect();
        for page in dropped {
            let before = self.lost.remove(&page).unwrap_or_default();
            self.restore(page, &before);
        }
    }

    pub(super) fn flip_bit(&mut self, offset: u64) -> io::Result<()> {
        let byte = self.now.get_mut(offset as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        *byte ^= 1;
        if let Some(byte) =
            self.before.get_mut(&(offset / PAGE_BYTES)).and_then(|page| page.get_mut((offset % PAGE_BYTES) as usize))
        {
            *byte ^= 1;
        }
        Ok(())
    }

    /// Takes back each page that `keeps` rejects; returns the length after that.
    pub(super) fn crash(&mut self, keeps: &mut dyn FnMut() -> bool) -> u64 {
        self.drop_cached(0, u64::MAX);
        let new_bytes = self.bytes();
        self.now.resize(new_bytes.max(self.synced_bytes) as usize, 0);
        // The length that reached the disk: a growing file may end at any page in between.
        let mut bytes = if keeps() { new_bytes } else { self.synced_bytes };
        for (page, before) in std::mem::take(&mut self.before) {
            if keeps() {
                continue;
            }
            let from = page * PAGE_BYTES;
            self.restore(page, &before);
            if bytes > self.synced_bytes && from >= self.synced_bytes && !keeps() {
                bytes = bytes.min(from.max(self.synced_bytes));
            }
        }
        self.now.truncate(bytes as usize);
        self.now.shrink_to_fit();
        self.sync();
        self.bytes()
    }

    /// Restores a page, as far as the file reaches.
    fn restore(&mut self, page: u64, before: &[u8]) {
        let from = (page * PAGE_BYTES) as usize;
        let until = (from + PAGE_BYTES as usize).min(self.now.len());
        if from < until {
            self.now[from..until].fill(0);
            let count = before.len().min(until - from);
            self.now[from..from + count].copy_from_slice(&before[..count]);
        }
    }

    /// Saves the pages of a range before they change.
    fn remember(&mut self, from: u64, until: u64) {
        for page in from / PAGE_BYTES..until.div_ceil(PAGE_BYTES) {
            let start = page * PAGE_BYTES;
            let end = (start + PAGE_BYTES).min(self.synced_bytes).min(self.now.len() as u64);
            let lost = self.lost.remove(&page);
            self.before.entry(page).or_insert_with(|| {
                lost.unwrap_or_else(|| self.now.get(start as usize..end as usize).unwrap_or_default().into())
            });
        }
    }
}

/// The unit, in bytes, that a disk writes whole or not at all.
const PAGE_BYTES: u64 = 4096;
