//! Reads of the engine, answered by open files of the cloud. Each file is opened once in a query and keeps the version
//! that it had then, so that a query never mixes two. It never writes: what would change the cloud is refused.

use std::{
    collections::HashMap,
    fmt,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use bytes::Bytes;
use client::{Client, ClientError, FileReader, FileStream, Reason, SectorPath};
use datafusion::{
    execution::object_store::ObjectStoreUrl,
    object_store::{
        self, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
        ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, coalesce_ranges, path::Path,
    },
};
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use terminal::Failure;
use tokio::sync::OnceCell;

use super::{ReadCounts, file_at, path_of};
use crate::failure::TableFailure;

/// The address under which the engine knows the cloud.
pub(crate) fn store_url() -> ObjectStoreUrl {
    ObjectStoreUrl::parse(STORE_URL).unwrap_or_else(|_| ObjectStoreUrl::local_filesystem())
}

/// The files of one cloud, for one query.
pub(crate) struct CloudStore {
    cloud: Client,
    open: Mutex<HashMap<SectorPath, Arc<OnceCell<FileReader>>>>,
    counts: Arc<ReadCounts>,
    failure: Arc<FirstFailure>,
}

/// The first failure of a read. The engine makes a text of some errors, and then its reason would be lost.
#[derive(Debug, Default)]
struct FirstFailure(Mutex<Option<(Reason, String)>>);

impl FirstFailure {
    /// Notes a failure, and gives the engine its own form of it.
    fn note(&self, error: ClientError) -> object_store::Error {
        let failure = Failure::from(&error);
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert((failure.reason, failure.message.clone()));
        other(Box::new(TableFailure::from(failure)))
    }
}

impl CloudStore {
    /// Reads as the user of this session.
    pub(crate) fn new(cloud: Client) -> Self {
        Self { cloud, open: Mutex::default(), counts: Arc::default(), failure: Arc::default() }
    }

    /// What was read so far.
    pub(crate) fn counts(&self) -> &Arc<ReadCounts> {
        &self.counts
    }

    /// Why the first read failed that did.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let first = self.failure.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.clone().map(|(reason, message)| Failure::new(reason, message))
    }

    async fn file(&self, location: &Path) -> object_store::Result<(SectorPath, FileReader)> {
        let path = path_of(location).ok_or_else(|| other(format!("`{location}` is no path of a cloud").into()))?;
        let cell =
            Arc::clone(self.open.lock().unwrap_or_else(PoisonError::into_inner).entry(path.clone()).or_default());
        let file = cell.get_or_try_init(|| self.cloud.open(&path)).await;
        let file = file.map_err(|error| self.failure.note(error))?.clone();
        Ok((path, file))
    }

    async fn read(&self, path: &SectorPath, file: &FileReader, range: Range<u64>) -> object_store::Result<Bytes> {
        let begun = Instant::now();
        let bytes = file.read_at(range.start, (range.end - range.start) as usize).await;
        let bytes = bytes.map_err(|error| self.failure.note(error))?;
        self.counts.note(path, bytes.len() as u64, begun.elapsed(), file.distance());
        if bytes.len() as u64 != range.end - range.start {
            let why = format!("`{path}` ends at {}, before byte {}", file.bytes(), range.end);
            return Err(other(why.into()));
        }
        Ok(bytes.into())
    }
}

#[async_trait]
impl ObjectStore for CloudStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let (path, file) = self.file(location).await?;
        let meta = file_at(location.clone(), file.bytes());
        let range = match &options.range {
            None => 0..meta.size,
            Some(asked) => asked.as_range(meta.size).map_err(|error| other(Box::new(error)))?,
        };
        let payload: BoxStream<'static, object_store::Result<Bytes>> = if options.head || range.is_empty() {
            futures_util::stream::empty().boxed()
        } else if range.end - range.start <= AT_ONCE_BYTES {
            let bytes = self.read(&path, &file, range.clone()).await?;
            futures_util::stream::once(std::future::ready(Ok(bytes))).boxed()
        } else {
            // A whole file of rows: it comes in order, and is not held.
            let stream = file.stream(range.clone());
            let (counts, failure) = (Arc::clone(&self.counts), Arc::clone(&self.failure));
            let next = move |mut stream: FileStream| {
                let (counts, failure) = (Arc::clone(&counts), Arc::clone(&failure));
                let (path, file) = (path.clone(), file.clone());
                async move {
                    let begun = Instant::now();
                    let piece = stream.next().await?.map(Bytes::from).map_err(|error| failure.note(error));
                    let bytes = piece.as_ref().map_or(0, Bytes::len) as u64;
                    counts.note(&path, bytes, begun.elapsed(), file.distance());
                    Some((piece, stream))
                }
            };
            futures_util::stream::unfold(stream, next).boxed()
        };
        Ok(GetResult { payload: GetResultPayload::Stream(payload), meta, range, attributes: Default::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        let (path, file) = self.file(location).await?;
        coalesce_ranges(ranges, |range| self.read(&path, &file, range), GAP_BYTES).await
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        futures_util::stream::once(std::future::ready(Err(unsupported("list")))).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> object_store::Result<ListResult> {
        Err(unsupported("list"))
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        Err(unsupported("write"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(unsupported("write"))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        locations.and_then(|_| std::future::ready(Err(unsupported("remove")))).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        Err(unsupported("copy"))
    }
}

impl fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudStore").finish_non_exhaustive()
    }
}

impl fmt::Display for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cloud")
    }
}

fn other(source: Box<dyn std::error::Error + Send + Sync>) -> object_store::Error {
    object_store::Error::Generic { store: "the cloud", source }
}

fn unsupported(what: &str) -> object_store::Error {
    object_store::Error::NotSupported { source: format!("queries do not {what} files").into() }
}

const STORE_URL: &str = "sector://cloud";
/// Ranges with a smaller gap are one read: over a wide area a further round trip costs more than these bytes.
const GAP_BYTES: u64 = 256 * 1024;
/// Longer ranges come as a stream.
const AT_ONCE_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cloud_has_an_address_of_its_own() {
        assert_eq!(store_url().as_str(), "sector://cloud/");
        assert_ne!(store_url(), ObjectStoreUrl::local_filesystem());
    }
}
