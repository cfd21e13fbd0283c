//! Compares a table with its slices: whether each is there, as long as the description says, and Parquet with the same
//! columns, rows and bounds. It never mends anything; copies and digests are `sector check`'s.

use std::sync::Arc;

use client::{Client, EntryKind, SectorPath};
use datafusion::{
    datasource::physical_plan::parquet::metadata::DFParquetMetadata,
    object_store::ObjectStoreExt,
    parquet::{arrow::parquet_to_arrow_schema, file::metadata::ParquetMetaData},
};
use terminal::Failure;

use crate::{
    engine::Engine,
    failure::failure_of,
    storage::location_of,
    tables::{SLICES_NAME, SliceDescription, TableFolder},
};

/// What is wrong with a file of a table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Finding {
    /// The file.
    pub(crate) path: String,
    /// What is wrong with it, in a sentence.
    pub(crate) problem: String,
}

/// All that is wrong; nothing for a table that is whole.
///
/// # Errors
/// A cloud that cannot be asked.
pub(crate) async fn check(cloud: &Client, engine: &Engine, table: &TableFolder) -> Result<Vec<Finding>, Failure> {
    let mut found = Vec::new();
    for slice in &table.description.slices {
        let path = table.slice_path(&slice.file)?;
        if let Some(problem) = check_slice(cloud, engine, table, slice, &path).await? {
            found.push(Finding { path: path.to_string(), problem });
        }
    }
    let folder = table.slice_path(SLICES_NAME)?;
    let files = match cloud.find(&folder).await? {
        Some(_) => cloud.list(&folder).await?,
        None => Vec::new(),
    };
    for file in files {
        let is_named = table
            .description
            .slices
            .iter()
            .any(|slice| table.slice_path(&slice.file).is_ok_and(|path| path == file.path));
        if !is_named {
            let problem = "is no slice of the table: a load that was cut off left it, or one runs now".into();
            found.push(Finding { path: file.path.to_string(), problem });
        }
    }
    Ok(found)
}

/// What is wrong with a slice.
async fn check_slice(
    cloud: &Client,
    engine: &Engine,
    table: &TableFolder,
    slice: &SliceDescription,
    path: &SectorPath,
) -> Result<Option<String>, Failure> {
    let Some(entry) = cloud.find(path).await? else { return Ok(Some("is not there".into())) };
    let EntryKind::File(content) = &entry.kind else { return Ok(Some("is a folder".into())) };
    if content.bytes != slice.bytes {
        return Ok(Some(format!("has {} bytes instead of {}", content.bytes, slice.bytes)));
    }
    let store = engine.store();
    let file = match store.head(&location_of(path)).await {
        Ok(file) => file,
        Err(error) => return Ok(Some(failure_of(&error.into()).message)),
    };
    let metadata = match DFParquetMetadata::new(&*store, &file).fetch_metadata().await {
        Ok(metadata) => metadata,
        Err(error) => return Ok(Some(format!("cannot be read as Parquet: {}", failure_of(&error).message))),
    };
    Ok(compare(table, slice, &metadata).err())
}

fn compare(table: &TableFolder, slice: &SliceDescription, metadata: &Arc<ParquetMetaData>) -> Result<(), String> {
    let file = metadata.file_metadata();
    let columns = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())
        .map_err(|error| format!("has columns that cannot be read: {error}"))?;
    let schema = table.description.schema();
    for field in schema.fields() {
        match columns.field_with_name(field.name()) {
            Err(_) => return Err(format!("has no column `{}`", field.name())),
            Ok(found) if found.data_type() != field.data_type() => {
                return Err(format!(
                    "has {} in `{}` instead of {}",
                    found.data_type(),
                    field.name(),
                    field.data_type()
                ));
            }
            Ok(_) => {}
        }
    }
    let counted =
        DFParquetMetadata::statistics_from_parquet_metadata(metadata, &schema).map_err(|error| error.to_string())?;
    let found = SliceDescription::new(slice.file.clone(), slice.bytes, &schema, &counted);
    if found.rows != slice.rows {
        return Err(format!("has {} rows instead of {}", found.rows, slice.rows));
    }
    let wrong = slice.ranges.iter().find(|(column, range)| found.ranges.get(*column) != Some(range));
    match wrong {
        Some((column, _)) => Err(format!("has other bounds of `{column}` than the description says")),
        None => Ok(()),
    }
}
