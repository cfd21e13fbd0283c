//! Images that requests have opened lately, with what was read of their headers. The next request for one needs neither a
//! connection nor the header from another machine. It never says that a path still has the content that is open, nor that
//! someone may read it: the master is asked each time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use client::{FileReader, SectorPath, UserName};

/// Open images, by who opened them and where. The longest unused are closed for others.
#[derive(Default)]
pub(super) struct OpenImages {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    known: HashMap<(UserName, SectorPath), (OpenImage, u64)>,
    uses: u64,
}

/// An open image. Clones are the same.
#[derive(Clone)]
pub(super) struct OpenImage {
    pub(super) file: FileReader,
    pub(super) heads: Arc<HeadBytes>,
}

impl OpenImages {
    /// The image that this user opened at this path.
    pub(super) fn find(&self, user: &UserName, path: &SectorPath) -> Option<OpenImage> {
        let mut inner = self.lock();
        inner.uses += 1;
        let now = inner.uses;
        let (image, used) = inner.known.get_mut(&(user.clone(), path.clone()))?;
        *used = now;
        Some(image.clone())
    }

    /// A file was opened, in place of what was open there.
    pub(super) fn add(&self, user: &UserName, path: &SectorPath, file: FileReader) -> OpenImage {
        let image = OpenImage { file, heads: Arc::default() };
        let mut inner = self.lock();
        inner.uses += 1;
        let now = inner.uses;
        inner.known.insert((user.clone(), path.clone()), (image.clone(), now));
        if inner.known.len() > OPEN_MAX {
            let oldest = inner.known.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| inner.known.remove(&key));
        }
        image
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first ranges of a file that were read, as headers are. Each request reads the same ones.
#[derive(Default)]
pub(super) struct HeadBytes {
    ranges: Mutex<Vec<(u64, Arc<[u8]>)>>,
}

impl HeadBytes {
    /// The bytes of a range that was read before.
    pub(super) fn find(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let found = ranges.iter().find(|(from, found)| *from == offset && found.len() == bytes);
        found.map(|(_, found)| found.to_vec())
    }

    /// A range was read. It is kept if it is small, and one of the first.
    pub(super) fn note(&self, offset: u64, bytes: &[u8]) {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() <= RANGE_BYTES_MAX && ranges.len() < RANGES_MAX {
            ranges.push((offset, bytes.into()));
        }
    }
}

/// Images that are kept open. With the ranges of each, they are 256 MiB at most.
const OPEN_MAX: usize = 512;
/// Ranges that are kept of each.
const RANGES_MAX: usize = 4;
/// The longest of them in bytes: what is read ahead.
const RANGE_BYTES_MAX: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_small_ranges_are_kept_and_no_others() {
        let heads = HeadBytes::default();
        heads.note(9, &[0; RANGE_BYTES_MAX + 1]);
        for at in 0..RANGES_MAX as u64 + 1 {
            heads.note(at, &[at as u8; 3]);
        }
        assert_eq!(heads.find(0, 3), Some(vec![0; 3]));
        assert_eq!(heads.find(3, 3), Some(vec![3; 3]));
        for (offset, bytes) in [(4, 3), (3, 2), (9, RANGE_BYTES_MAX + 1)] {
            assert_eq!(heads.find(offset, bytes), None, "{offset}");
        }
    }
}
