//! Reads everything again before it is needed, so that bit rot is found while another copy is still good. A
//! [`SliceCheck`] compares one slice with its block checksums and its digest (`sector check`). A [`Scrub`] does so with
//! every slice of a disk, by id, and remembers its position over restarts. Both read from the disk, not from the
//! system's cache, in steps of the caller's size. They never decide the pace, or what becomes of a bad slice: the
//! caller does.

use std::{io, path::PathBuf, sync::Arc};

use protocol::{Digest, SliceId, disk::ScrubStatus};

use crate::{
    DiskSet, SliceReader, SliceStore, StoreError, disk::read_whole, disk_set::DiskRef, error::WhileDoing,
    slice_store::unfinished_file::UnfinishedFile,
};

/// Compares a slice with its sidecar. Opening the reader has already checked that the sidecar is intact and belongs to
/// it.
pub struct SliceCheck {
    reader: SliceReader,
    whole: blake3::Hasher,
    buffer: Vec<u8>,
    next: u64,
}

/// The outcome of a step of a [`SliceCheck`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStep {
    /// This many bytes were good; there are more.
    More(u64),
    /// All bytes are good; this many of them were read in the last step.
    Good {
        /// Bytes of this step.
        bytes: u64,
        /// The digest of the whole slice, computed from the bytes read.
        digest: Digest,
    },
}

impl SliceCheck {
    /// Begins at the first byte.
    pub fn begin(reader: SliceReader) -> Self {
        Self { reader, whole: blake3::Hasher::new(), buffer: Vec::new(), next: 0 }
    }

    /// Reads about `bytes_max` more bytes, at least one block.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a block or, at the end, the digest does not match.
    pub fn step(&mut self, bytes_max: u64) -> Result<CheckStep, StoreError> {
        let (bytes_all, slice) = (self.reader.metadata().bytes, self.slice());
        let wanted = bytes_max.clamp(1, bytes_all.max(1)).next_multiple_of(READ_BYTES);
        let until = self.next.saturating_add(wanted).min(bytes_all);
        let bytes = until - self.next;
        self.reader.drop_cached(self.next, bytes);
        while self.next < until {
            self.reader.read_at(&mut self.buffer, self.next, READ_BYTES.min(until - self.next) as usize)?;
            self.whole.update(&self.buffer);
            self.next += self.buffer.len() as u64;
        }
        if until < bytes_all {
            return Ok(CheckStep::More(bytes));
        }
        let digest = Digest(*self.whole.finalize().as_bytes());
        if digest != self.reader.metadata().digest {
            return Err(StoreError::Corrupt { slice, what: "its digest".into() });
        }
        Ok(CheckStep::Good { bytes, digest })
    }

    /// The slice.
    pub fn slice(&self) -> SliceId {
        self.reader.metadata().header.slice
    }
}

/// Reads one disk of a [`DiskSet`] from beginning to end, again and again.
pub struct Scrub {
    served: DiskRef,
    record: ScrubStatus,
    current: Option<SliceCheck>,
}

/// The outcome of a step of a [`Scrub`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScrubStep {
    /// This many bytes are good.
    Read(u64),
    /// A slice is damaged. The caller must take it out of service; the scrub goes on after it.
    Corrupt {
        /// The slice.
        slice: SliceId,
        /// What does not match.
        what: String,
    },
    /// Every slice was read. The next step begins anew.
    PassDone,
}

impl DiskSet {
    /// A scrub for each working real disk, by its position in the settings. Each continues where it was last saved.
    pub fn scrubs(self: &Arc<Self>) -> Vec<(usize, Scrub)> {
        let disks: Vec<_> = self.persistent().map(|(disk, _)| disk).collect();
        let scrub = |disk| {
            let record = self.store(disk).map(|store| load(store)).unwrap_or_default();
            Scrub { served: DiskRef { set: Arc::clone(self), disk }, record, current: None }
        };
        disks.into_iter().map(|disk| (disk, scrub(disk))).collect()
    }
}

impl Scrub {
    /// Reads about `bytes_max` more bytes, at least one block. The first step of a pass sets its beginning to
    /// `now_unix_millis`.
    ///
    /// # Errors
    /// When the disk does not answer, or has failed: [`StoreError::DiskFailed`].
    pub fn step(&mut self, now_unix_millis: u64, bytes_max: u64) -> Result<ScrubStep, StoreError> {
        let set = Arc::clone(&self.served.set);
        let store = set.store(self.served.disk)?;
        if self.record.began_unix_millis.is_none() {
            (self.record.began_unix_millis, self.record.checked_bytes) = (Some(now_unix_millis), 0);
        }
        let mut check = match self.current.take() {
            Some(check) => check,
            None => {
                let Some(slice) = store.inventory().next_after(self.record.position) else {
                    self.record.position = None;
                    self.record.last_began_unix_millis = self.record.began_unix_millis.take();
                    self.record.finished_unix_millis = Some(now_unix_millis);
                    return Ok(ScrubStep::PassDone);
                };
                // A spare is not read: it is removed when the serving copy was found good.
                let opened = if set.serves(self.served.disk, slice) { Some(set.open_slice(slice)) } else { None };
                match opened {
                    Some(Ok(reader)) => SliceCheck::begin(reader),
                    // Removed meanwhile.
                    None | Some(Err(StoreError::NotHeld(_))) => {
                        self.record.position = Some(slice);
                        return Ok(ScrubStep::Read(0));
                    }
                    Some(Err(error)) => return self.bad(slice, error),
                }
            }
        };
        let slice = check.slice();
        match check.step(bytes_max) {
            Ok(CheckStep::More(bytes)) => {
                self.record.checked_bytes += bytes;
                self.current = Some(check);
                Ok(ScrubStep::Read(bytes))
            }
            Ok(CheckStep::Good { bytes, .. }) => {
                self.record.checked_bytes += bytes;
                self.record.position = Some(slice);
                set.drop_spares(slice)?;
                Ok(ScrubStep::Read(bytes))
            }
            // Removed, or quarantined by another reader, while it was open here.
            Err(_) if set.store(self.served.disk).is_ok() && !set.contains(slice) => {
                self.record.position = Some(slice);
                Ok(ScrubStep::Read(0))
            }
            Err(error) => self.bad(slice, error),
        }
    }

    /// The position and the counts so far.
    pub fn status(&self) -> ScrubStatus {
        ScrubStatus { total_bytes: self.store().map_or(0, |store| store.used_bytes()), ..self.record.clone() }
    }

    /// Saves the position, whole or not at all.
    pub fn save(&self) -> Result<(), StoreError> {
        let store = self.store()?;
        let name = store.layout.unfinished.join(format!("{RECORD_NAME}.{}", store.next_number()));
        let written = UnfinishedFile::new(Arc::clone(&store.disk), name.clone());
        let file = store.disk.create(&name).while_doing("create", &name)?;
        file.write_all_at(encode(&self.record).as_bytes(), 0).while_doing("write", &name)?;
        file.sync_data().while_doing("sync", &name)?;
        let record = record_file(store);
        written.rename(&record).while_doing("rename", &record)?;
        store.disk.sync_folder(store.folder()).while_doing("sync", store.folder())
    }

    /// A damaged slice is recorded and skipped; any other error is the disk's.
    fn bad(&mut self, slice: SliceId, error: StoreError) -> Result<ScrubStep, StoreError> {
        let StoreError::Corrupt { what, .. } = error else { return Err(error) };
        // An unreadable slice is not damaged if the whole disk is failing.
        self.served.set.probe(self.served.disk)?;
        self.record.position = Some(slice);
        self.record.corrupt += 1;
        Ok(ScrubStep::Corrupt { slice, what })
    }

    fn store(&self) -> Result<&Arc<SliceStore>, StoreError> {
        self.served.set.store(self.served.disk)
    }
}

fn record_file(store: &SliceStore) -> PathBuf {
    store.folder().join(RECORD_NAME)
}

/// The last saved position; a pass from the start if there is none that can be read.
fn load(store: &SliceStore) -> ScrubStatus {
    let file = record_file(store);
    match read_whole(&*store.disk, &file, RECORD_BYTES_MAX) {
        Ok(bytes) => decode(&String::from_utf8_lossy(&bytes)).unwrap_or_else(|| {
            tracing::warn!(file = %file.display(), "the scrub's record makes no sense; it begins anew");
            ScrubStatus::default()
        }),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(file = %file.display(), %error, "the scrub's record cannot be read; it begins anew");
            }
            ScrubStatus::default()
        }
    }
}

/// Lines of a name and a value, `-` for none; the last has the checksum of the others.
fn encode(record: &ScrubStatus) -> String {
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let text = format!(
        "scrub 1\nposition {}\nbegan {}\nlast-began {}\nfinished {}\nchecked {}\ncorrupt {}\n",
        record.position.map_or("-".to_owned(), |slice| slice.to_string()),
        number(record.began_unix_millis),
        number(record.last_began_unix_millis),
        number(record.finished_unix_millis),
        record.checked_bytes,
        record.corrupt,
    );
    format!("{text}crc32c {:08x}\n", crc32c::crc32c(text.as_bytes()))
}

fn decode(text: &str) -> Option<ScrubStatus> {
    let (text, sum) = text.split_at_checked(text.rfind("crc32c ")?)?;
    if sum.trim_end().strip_prefix("crc32c ")? != format!("{:08x}", crc32c::crc32c(text.as_bytes())) {
        return None;
    }
    let mut lines = text.lines();
    let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
    let number = |text: String| if text == "-" { Some(None) } else { text.parse::<u64>().ok().map(Some) };
    if value("scrub")? != "1" {
        return None;
    }
    let position = value("position")?;
    Some(ScrubStatus {
        position: if position == "-" { None } else { Some(position.parse().ok()?) },
        began_unix_millis: number(value("began")?)?,
        last_began_unix_millis: number(value("last-began")?)?,
        finished_unix_millis: number(value("finished")?)?,
        checked_bytes: value("checked")?.parse().ok()?,
        corrupt: value("corrupt")?.parse().ok()?,
        total_bytes: 0,
    })
}

/// The record's name in the data folder.
const RECORD_NAME: &str = "scrub";
/// Far more than a record has.
const RECORD_BYTES_MAX: u64 = 4096;
/// Bytes of one read: whole blocks, few enough to stay in the processor's cache for both sums.
const READ_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_and_a_damaged_one_is_none() {
        let record = ScrubStatus {
            position: Some(SliceId(0xabc)),
            began_unix_millis: Some(5),
            last_began_unix_millis: None,
            finished_unix_millis: Some(4),
            checked_bytes: 77,
            corrupt: 2,
            total_bytes: 0,
        };
        let text = encode(&record);
        assert_eq!(decode(&text), Some(record));
        assert_eq!(decode(&encode(&ScrubStatus::default())), Some(ScrubStatus::default()));
        for damaged in [text.replace("77", "78"), text[..text.len() / 2].to_owned(), String::new(), "crc32c ".into()] {
            assert_eq!(decode(&damaged), None, "{damaged}");
        }
    }
}
