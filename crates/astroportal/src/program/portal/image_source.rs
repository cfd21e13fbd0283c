//! The bytes of an image for one request: of the copy that is kept here where there is one, else of the cloud. Which of
//! them served, and how many bytes came from another machine, is known afterwards. It never gives out a byte that was not
//! verified.

use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use astroportal::tuples::StorageLevel;
use client::ChecksummedFile;
use fits::{ByteSource, Runs};

use super::{
    hot_images::{self, HotImages},
    open_images::{HeadBytes, OpenImage},
};
use crate::cloud_source::CloudSource;

/// An open image. Clones read the same, and count together.
#[derive(Clone)]
pub(super) struct ImageSource {
    cloud: CloudSource,
    digest: Arc<str>,
    hot: Option<HotImages>,
    copy: Option<Arc<ChecksummedFile>>,
    heads: Arc<HeadBytes>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    bytes: AtomicU64,
    is_damaged: AtomicBool,
}

impl ImageSource {
    /// The image whose content has this digest. Must be called within the runtime.
    pub(super) fn new(image: OpenImage, digest: &str, hot: Option<&HotImages>) -> Self {
        let OpenImage { file, heads } = image;
        let cloud = CloudSource::new(file);
        // What lies on this machine already needs no further copy.
        let is_near = cloud.level() == StorageLevel::Machine;
        let copy = hot.filter(|_| !is_near).and_then(|hot| hot.find(digest));
        Self { cloud, digest: digest.into(), hot: hot.cloned(), copy, heads, counts: Arc::default() }
    }

    /// How near the bytes were.
    pub(super) fn level(&self) -> StorageLevel {
        if self.copy().is_some() { StorageLevel::Machine } else { self.cloud.level() }
    }

    /// The request has read all that it needs: the image is brought here if that is often enough.
    pub(super) fn end(&self) {
        if let (Some(hot), true) = (&self.hot, self.level() != StorageLevel::Machine) {
            hot.note_moved(self.cloud.file(), &self.digest, self.counts.bytes.load(Ordering::Relaxed));
        }
    }

    fn copy(&self) -> Option<&Arc<ChecksummedFile>> {
        self.copy.as_ref().filter(|_| !self.counts.is_damaged.load(Ordering::Relaxed))
    }

    fn read_copy(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        match hot_images::read(self.copy()?, range) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.counts.is_damaged.store(true, Ordering::Relaxed);
                if let Some(hot) = &self.hot {
                    hot.drop_damaged(&self.digest, &error);
                }
                None
            }
        }
    }
}

impl ByteSource for ImageSource {
    fn bytes(&self) -> u64 {
        self.cloud.bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.copy_from_slice(&self.read_owned(offset, buffer.len())?);
        Ok(())
    }

    fn read_owned(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let until = offset.checked_add(bytes as u64).filter(|until| *until <= self.bytes());
        let range = offset..until.ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Some(found) = self.read_copy(&range) {
            return Ok(found);
        }
        let is_near = self.cloud.level() == StorageLevel::Machine;
        if let Some(found) = self.heads.find(offset, bytes).filter(|_| !is_near) {
            return Ok(found);
        }
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let found = self.cloud.read_owned(offset, bytes)?;
        if !is_near {
            self.heads.note(offset, &found);
        }
        Ok(found)
    }

    fn read_runs(&self, runs: &Runs) -> Option<io::Result<Vec<u8>>> {
        if self.copy().is_some() {
            return None;
        }
        let read = self.cloud.read_runs(runs)?;
        if let Ok(bytes) = &read {
            self.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Some(read)
    }

    fn read_ahead_bytes(&self) -> usize {
        self.cloud.read_ahead_bytes()
    }
}
