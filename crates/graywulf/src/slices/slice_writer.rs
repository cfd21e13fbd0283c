//! Rows become slices: each one a Parquet file of about the same length, with statistics of its columns and pages. A
//! slice is sent while it is written. It never holds more than a row group.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use client::{Client, ClientError, FileWriter, PutOptions, SectorPath};
use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    datasource::physical_plan::parquet::metadata::DFParquetMetadata,
    parquet::{
        arrow::{AsyncArrowWriter, async_writer::AsyncFileWriter},
        basic::{Compression, ZstdLevel},
        errors::ParquetError,
        file::properties::WriterProperties,
    },
};
use futures_util::future::BoxFuture;
use terminal::Failure;

use crate::tables::{SLICES_NAME, SliceDescription, TableFolder};

/// Slices that were written, and that no description names yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uncommitted {
    files: Arc<Mutex<Vec<SectorPath>>>,
}

impl Uncommitted {
    fn add(&self, path: SectorPath) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }

    /// They are named now.
    pub(super) fn commit(&self) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Removes them, as far as that is possible: no query sees them.
    pub(crate) async fn remove(&self, cloud: &Client) {
        let files = std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner));
        for file in files {
            if let Err(error) = cloud.remove_now(&file, false).await {
                tracing::debug!(%file, %error, "a slice of a load that failed stays");
            }
        }
    }
}

/// Writes the slices of one load.
pub(super) struct SliceWriter<'load> {
    cloud: &'load Client,
    table: &'load TableFolder,
    schema: SchemaRef,
    /// About how long a slice becomes.
    slice_bytes: u64,
    /// What the names of this load's slices begin with.
    load: String,
    open: Option<(String, AsyncArrowWriter<CloudFile>)>,
    slices: Vec<SliceDescription>,
    uncommitted: &'load Uncommitted,
}

impl<'load> SliceWriter<'load> {
    pub(super) fn new(
        cloud: &'load Client,
        table: &'load TableFolder,
        slice_bytes: u64,
        load: String,
        uncommitted: &'load Uncommitted,
    ) -> Self {
        let schema = table.description.schema();
        Self { cloud, table, schema, slice_bytes, load, open: None, slices: Vec::new(), uncommitted }
    }

    /// Takes rows. They follow those before.
    pub(super) async fn write(&mut self, rows: &RecordBatch) -> Result<(), Failure> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let (_, writer) = match &mut self.open {
            Some(open) => open,
            None => {
                let file = format!("{SLICES_NAME}/{}-{:05}.parquet", self.load, self.slices.len() + 1);
                let path = self.table.slice_path(&file)?;
                let options = PutOptions { parents: true, ..PutOptions::default() };
                let upload = self.cloud.open_writer(&path, options, false).await?;
                self.uncommitted.add(path);
                let upload = CloudFile { upload: Some(upload) };
                let writer = AsyncArrowWriter::try_new(upload, Arc::clone(&self.schema), Some(properties()?));
                self.open.insert((file, writer.map_err(|error| failure(&error))?))
            }
        };
        let rows = rows.clone().with_schema(Arc::clone(&self.schema));
        let rows = rows.map_err(|error| Failure::failed(error.to_string()))?;
        writer.write(&rows).await.map_err(|error| failure(&error))?;
        let bytes = writer.bytes_written() + writer.in_progress_size();
        if bytes as u64 >= self.slice_bytes { self.end_slice().await } else { Ok(()) }
    }

    /// Ends the last slice and gives all of them.
    pub(super) async fn finish(mut self) -> Result<Vec<SliceDescription>, Failure> {
        self.end_slice().await?;
        Ok(self.slices)
    }

    async fn end_slice(&mut self) -> Result<(), Failure> {
        let Some((file, mut writer)) = self.open.take() else { return Ok(()) };
        let metadata = writer.finish().await.map_err(|error| failure(&error))?;
        let bytes = writer.bytes_written() as u64;
        let counted = DFParquetMetadata::statistics_from_parquet_metadata(&metadata, &self.schema)
            .map_err(|error| Failure::failed(error.to_string()))?;
        self.slices.push(SliceDescription::new(file, bytes, &self.schema, &counted));
        Ok(())
    }
}

/// A file of the cloud that Parquet is written to.
struct CloudFile {
    upload: Option<FileWriter>,
}

impl AsyncFileWriter for CloudFile {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), ParquetError>> {
        Box::pin(async move {
            let upload = self.upload.as_mut().ok_or_else(|| ParquetError::General("the file has ended".into()))?;
            upload.write(bytes).await.map_err(|error| ParquetError::External(Box::new(error)))
        })
    }

    fn complete(&mut self) -> BoxFuture<'_, Result<(), ParquetError>> {
        Box::pin(async move {
            let upload = self.upload.take().ok_or_else(|| ParquetError::General("the file has ended".into()))?;
            upload.finish().await.map_err(|error| ParquetError::External(Box::new(error)))?;
            Ok(())
        })
    }
}

fn failure(error: &ParquetError) -> Failure {
    if let ParquetError::External(inner) = error
        && let Some(client) = inner.downcast_ref::<ClientError>()
    {
        return client.into();
    }
    Failure::failed(error.to_string())
}

fn properties() -> Result<WriterProperties, Failure> {
    let level = ZstdLevel::try_new(1).map_err(|error| Failure::failed(error.to_string()))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_created_by(concat!("sector ", env!("CARGO_PKG_VERSION")).to_owned());
    Ok(properties.build())
}

/// Rows that are read or left out together.
const GROUP_ROWS: usize = 128 * 1024;
/// Rows that are unpacked, or left out, together within a group.
const PAGE_ROWS: usize = 8 * 1024;
