//! The index as requests read it: slices that were read lately stay decoded, as long as they are the same. Which slices
//! there are is asked anew for each request, with the caller's rights. It never holds more rows than its limit.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use astroportal::{
    obscore::ImageRow,
    tuples::{ManifestRow, Tuple},
};
use client::{Client, EntryKind, SectorPath};
use vo::Fault;

use crate::{batches::by_image, index_folder::IndexFolder, nearest_images::NearestImages};

/// The rows of one slice.
pub(super) type Slice = Arc<Vec<ImageRow>>;

/// The index.
pub(super) struct IndexCache {
    folder: SectorPath,
    slices: Mutex<Slices>,
}

#[derive(Default)]
struct Slices {
    /// By the digest of their file, with the time of their last use.
    read: HashMap<String, (u64, Slice)>,
    uses: u64,
}

impl IndexCache {
    pub(super) fn new(folder: SectorPath) -> Self {
        Self { folder, slices: Mutex::default() }
    }

    /// The folder, as the caller sees it.
    pub(super) async fn open(&self, cloud: &Client) -> Result<IndexFolder, Fault> {
        let folder = IndexFolder::open(cloud, &self.folder).await;
        let folder = folder.map_err(|failure| Fault::Unavailable(failure.message))?;
        if folder.is_empty() {
            return Err(Fault::Unavailable("the index has no images, or may not be read".into()));
        }
        Ok(folder)
    }

    /// The rows of a slice.
    pub(super) async fn slice(&self, cloud: &Client, entry: &client::Entry) -> Result<Slice, Fault> {
        let digest = match &entry.kind {
            EntryKind::File(content) => content.digest.to_string(),
            EntryKind::Folder => return Ok(Slice::default()),
        };
        if let Some(known) = self.known(&digest) {
            return Ok(known);
        }
        let rows = IndexFolder::read(cloud, &entry.path).await;
        let rows = Arc::new(rows.map_err(|failure| Fault::Unavailable(failure.message))?);
        self.keep(digest, Arc::clone(&rows));
        Ok(rows)
    }

    /// The image of each position, with its tuples, and the rows of those that have none.
    pub(super) async fn find_images(
        &self,
        cloud: &Client,
        mut nearest: NearestImages,
    ) -> Result<(Vec<Vec<Tuple>>, Vec<ManifestRow>), Fault> {
        let folder = self.open(cloud).await?;
        for entry in folder.slices_near(Some(&nearest.near())) {
            nearest.look_through(self.slice(cloud, entry).await?.iter());
        }
        let (tuples, without) = nearest.finish();
        Ok((by_image(tuples).collect(), without))
    }

    fn known(&self, digest: &str) -> Option<Slice> {
        let mut slices = self.lock();
        slices.uses += 1;
        let now = slices.uses;
        let (used, rows) = slices.read.get_mut(digest)?;
        *used = now;
        Some(Arc::clone(rows))
    }

    fn keep(&self, digest: String, rows: Slice) {
        let mut slices = self.lock();
        slices.uses += 1;
        let now = slices.uses;
        slices.read.insert(digest, (now, rows));
        let mut total: usize = slices.read.values().map(|(_, rows)| rows.len()).sum();
        while total > ROWS_MAX && slices.read.len() > 1 {
            let oldest = slices.read.iter().min_by_key(|(_, (used, _))| *used).map(|(digest, _)| digest.clone());
            let Some((_, gone)) = oldest.and_then(|oldest| slices.read.remove(&oldest)) else { break };
            total -= gone.len();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slices> {
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index, where the portal has one.
pub(super) fn required(index: Option<&IndexCache>) -> Result<&IndexCache, Fault> {
    index.ok_or_else(|| Fault::Unavailable("the portal was started without an index (--index)".into()))
}

/// Rows that are kept: about a kilobyte each.
const ROWS_MAX: usize = 300_000;
