//! The part of a file that is being fetched to a local one (path *download*). It is beside its destination, under its
//! own name, until it is complete. The next attempt uses what a broken one left. A small file is written from front to
//! back, so its length says what it has; a large one has a ledger beside it. It never syncs: a file from two attempts
//! must be compared with its digest before it gets its name.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use protocol::{limits, message::client_master::FileContent};

use super::{
    executable::make_executable, fetch_plan::RangeSet, local_digest::digest_of, local_time::set_modified,
    range_writer::Destination,
};

/// An open part. Several threads may write to it; clones are the same part.
///
/// A large file is written in several places at once. Its ledger is a text with a line for each range that was written:
/// first byte, and first byte after it. A line is written after its bytes.
#[derive(Clone)]
pub(crate) struct PartialDownload {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    file: File,
    ledger: Option<Ledger>,
}

struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
}

impl PartialDownload {
    /// Opens the part of `content` for the local `destination`, and gives the bytes that it lacks. The part is bound to
    /// the slice, so that it is never continued with another version.
    pub(crate) fn open(destination: &Path, content: &FileContent) -> io::Result<(Self, RangeSet)> {
        let path = part_path(destination, content);
        let file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "another `get` is writing it; wait until that has ended";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            // A file system without locks: as before there were any.
            Err(TryLockError::Error(error)) => tracing::debug!(%error, "the part was not locked"),
        }
        let mut missing = RangeSet::of(0..content.bytes);
        if content.bytes < LEDGER_FROM_BYTES {
            let there = whole_blocks(file.metadata()?.len().min(content.bytes));
            file.set_len(there)?;
            missing.remove(0..there);
            return Ok((Self { inner: Arc::new(Inner { path, file, ledger: None }) }, missing));
        }
        let ledger = ledger_path(&path);
        let mut lines = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&ledger)?;
        let mut text = String::new();
        let bytes = file.metadata()?.len().min(content.bytes);
        // If the ledger is no text, we did not write it completely. The ledger of a part that is gone must not outlive
        // it.
        if lines.read_to_string(&mut text).is_err() || bytes == 0 {
            text.clear();
        }
        for range in read_ledger(&text, bytes) {
            missing.remove(range);
        }
        // A torn last line must not spoil the next one.
        let good = text.rfind('\n').map_or(0, |end| end + 1);
        lines.set_len(good as u64)?;
        lines.seek(SeekFrom::Start(good as u64))?;
        let ledger = Some(Ledger { path: ledger, file: Mutex::new(lines) });
        Ok((Self { inner: Arc::new(Inner { path, file, ledger }) }, missing))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Writes bytes at their place. Without a ledger, only from front to back.
    pub(crate) fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.inner.file.write_all_at(bytes, at)
    }

    /// Records a range that was written.
    pub(crate) fn note(&self, range: Range<u64>) -> io::Result<()> {
        let Some(ledger) = &self.inner.ledger else { return Ok(()) };
        // In one call, so that lines of two threads do not mix.
        let line = format!("{} {}\n", range.start, range.end);
        ledger.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
    }

    /// Whether the complete file has this digest.
    pub(crate) fn has_digest(&self, digest: &protocol::Digest) -> io::Result<bool> {
        Ok(digest_of(&self.inner.path)? == digest.0)
    }

    /// Gives the complete file its time of change, its executable bit and its name.
    pub(crate) fn publish(self, destination: &Path, modified_unix_millis: u64, is_executable: bool) -> io::Result<()> {
        if is_executable && let Err(error) = make_executable(&self.inner.file) {
            tracing::info!(%error, "the executable bit of a local file is not set");
        }
        set_modified(&self.inner.file, modified_unix_millis);
        fs::rename(&self.inner.path, destination)?;
        self.remove_ledger()?;
        remove_other_parts(destination);
        Ok(())
    }

    /// Discards what was fetched.
    pub(crate) fn discard(self) -> io::Result<()> {
        fs::remove_file(&self.inner.path)?;
        self.remove_ledger()
    }

    fn remove_ledger(&self) -> io::Result<()> {
        self.inner.ledger.as_ref().map_or(Ok(()), |ledger| fs::remove_file(&ledger.path))
    }
}

impl Destination for PartialDownload {
    type Output = ();

    fn put(&mut self, at: u64, frame: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        self.write_at(&frame, at)?;
        self.note(at..at + frame.len() as u64)?;
        Ok(Some(frame))
    }

    fn written(&self) -> u64 {
        0
    }

    fn end(self) -> io::Result<()> {
        Ok(())
    }
}

/// The ranges that a ledger names and that a file of `bytes` bytes can have, cut to whole blocks.
fn read_ledger(text: &str, bytes: u64) -> Vec<Range<u64>> {
    let whole_lines = text.rfind('\n').map_or("", |end| &text[..end]);
    let range = |line: &str| {
        let (from, until) = line.split_once(' ')?;
        Some(from.parse().ok()?..until.parse().ok()?)
    };
    let ranges = whole_lines.lines().filter_map(range);
    ranges.filter(|range: &Range<u64>| range.end <= bytes && !range.is_empty()).collect()
}

fn part_path(destination: &Path, content: &FileContent) -> PathBuf {
    let name = destination.file_name().unwrap_or_default().to_string_lossy();
    destination.with_file_name(format!(".{name}.{:.8}.part", content.slice.to_string()))
}

/// Removes the parts of other versions of a file that is complete now. Nobody goes on with one of these but a `get` that
/// runs, which holds its lock. What cannot be removed stays, as it would have.
fn remove_other_parts(destination: &Path) {
    let (Some(name), Some(folder)) = (destination.file_name(), destination.parent()) else { return };
    let prefix = format!(".{}.", name.to_string_lossy());
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let slice = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".part"));
        if !slice.is_some_and(|slice| slice.len() == 8 && slice.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            continue;
        }
        let path = entry.path();
        if File::open(&path).is_ok_and(|part| part.try_lock().is_ok()) {
            let _ = fs::remove_file(ledger_path(&path));
            let _ = fs::remove_file(path);
        }
    }
}

fn ledger_path(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push(".ranges");
    name.into()
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes - bytes % limits::BLOCK_BYTES
}

/// Files of at least this length, in bytes, have a ledger. A smaller one is soon fetched again, and many of them would
/// each pay for a second file.
pub(crate) const LEDGER_FROM_BYTES: u64 = super::SPLIT_FROM_BYTES;

#[cfg(test)]
mod tests {
    // A list of ranges with one range in it is intended.
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]

    use std::collections::BTreeMap;

    use protocol::{Digest, RecordFraming, SliceId, Version};

    use super::{
        super::{executable::is_executable_here, local_time::unix_millis},
        *,
    };

    fn content(bytes: u64) -> FileContent {
        FileContent {
            slice: SliceId(0xABCD << 112),
            version: Version(1),
            bytes,
            digest: Digest([0; 32]),
            records: RecordFraming::File,
            copies: 1,
            user: BTreeMap::new(),
        }
    }

    fn ranges(set: &RangeSet) -> Vec<Range<u64>> {
        set.iter().collect()
    }

    #[test]
    fn a_small_part_is_resumed_at_a_whole_block() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("a.dat");
        let (part, missing) = PartialDownload::open(&destination, &content(1 << 20)).unwrap();
        assert_eq!(ranges(&missing), [0..1 << 20]);
        part.write_at(&[1; 70_000], 0).unwrap();
        drop(part);
        let (again, missing) = PartialDownload::open(&destination, &content(1 << 20)).unwrap();
        assert_eq!(ranges(&missing), [limits::BLOCK_BYTES..1 << 20]);
        assert_eq!(fs::metadata(again.path()).unwrap().len(), limits::BLOCK_BYTES);
        drop(again);
        let (_, missing) = PartialDownload::open(&destination, &content(5)).unwrap();
        assert_eq!(ranges(&missing), [0..5], "a shorter file was begun by another version");
    }

    #[test]
    fn a_large_part_with_holes_is_resumed_where_its_ledger_says() {
        let folder = tempfile::tempdir().unwrap();
        let (destination, large) = (folder.path().join("b.dat"), content(LEDGER_FROM_BYTES + 7));
        let (part, _) = PartialDownload::open(&destination, &large).unwrap();
        let block = limits::BLOCK_BYTES;
        for at in [5 * block, 2 * block] {
            part.write_at(&[1; limits::BLOCK_BYTES as usize], at).unwrap();
            part.note(at..at + block).unwrap();
        }
        part.write_at(&[1; limits::BLOCK_BYTES as usize], 9 * block).unwrap();
        // Lines that a crash tore, that lie beyond the file's end, or that make no sense are ignored.
        let mut ledger = OpenOptions::new().append(true).open(ledger_path(part.path())).unwrap();
        ledger.write_all(b"900000000 900000001\nnonsense\n0 65536").unwrap();
        drop(part);
        let expected = [0..2 * block, 3 * block..5 * block, 6 * block..large.bytes];
        let (again, missing) = PartialDownload::open(&destination, &large).unwrap();
        assert_eq!(ranges(&missing), expected);
        again.note(0..2 * block).unwrap();
        drop(again);
        let (again, missing) = PartialDownload::open(&destination, &large).unwrap();
        assert_eq!(ranges(&missing), expected[1..]);
        again.publish(&destination, 1_600_000_000_123, true).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "part and ledger are gone");
        let modified = fs::metadata(&destination).unwrap().modified().unwrap();
        assert_eq!(unix_millis(modified), Some(1_600_000_000_123), "as in the cloud, not as it came");
        assert!(is_executable_here(&fs::metadata(&destination).unwrap()));
    }

    #[test]
    fn a_part_has_one_writer_and_those_of_other_versions_go_with_the_first_that_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("d.dat");
        let of_slice = |slice: u128, bytes| FileContent { slice: SliceId(slice << 96), ..content(bytes) };
        let (older, newer) = (of_slice(0x1111_1111, LEDGER_FROM_BYTES), of_slice(0x2222_2222, 5));
        let (held, _) = PartialDownload::open(&destination, &of_slice(0x3333_3333, 5)).unwrap();
        drop(PartialDownload::open(&destination, &older).unwrap());
        let (part, _) = PartialDownload::open(&destination, &newer).unwrap();
        let refused = PartialDownload::open(&destination, &newer).err().unwrap();
        assert!(refused.to_string().contains("another `get`"), "{refused}");
        fs::write(folder.path().join(".d.dat.mine.part"), "not ours").unwrap();
        part.publish(&destination, 0, false).unwrap();
        assert!(!is_executable_here(&fs::metadata(&destination).unwrap()));
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            [".d.dat.33333333.part", ".d.dat.mine.part", "d.dat"],
            "one is being written, one is not ours"
        );
        drop(held);
    }

    #[test]
    fn a_ledger_whose_part_is_gone_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (destination, large) = (folder.path().join("c.dat"), content(LEDGER_FROM_BYTES));
        let (part, _) = PartialDownload::open(&destination, &large).unwrap();
        part.write_at(&[1], 0).unwrap();
        part.note(0..1).unwrap();
        fs::remove_file(part.path()).unwrap();
        drop(part);
        let (anew, missing) = PartialDownload::open(&destination, &large).unwrap();
        assert_eq!(ranges(&missing), [0..large.bytes]);
        anew.write_at(&[1], 5).unwrap();
        drop(anew);
        assert_eq!(ranges(&PartialDownload::open(&destination, &large).unwrap().1), [0..large.bytes], "not even later");
    }
}
