//! Files of one schema as a table of the engine: the slices of a table, or files that a statement names. What is known
//! of each file's values leaves out those without wanted rows, which are never opened. It never reads a row.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{Session, TableProvider},
    common::{DFSchema, Statistics, pruning::PrunableStatistics},
    datasource::{
        TableType,
        file_format::{FileFormat, csv::CsvFormat, json::JsonFormat, parquet::ParquetFormat},
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfigBuilder},
        table_schema::TableSchema,
    },
    error::Result,
    execution::object_store::ObjectStoreUrl,
    logical_expr::{Expr, TableProviderFilterPushDown, utils::conjunction},
    physical_optimizer::pruning::PruningPredicateBuilder,
    physical_plan::{ExecutionPlan, empty::EmptyExec},
};

/// How rows are written in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// Columns, with statistics.
    Parquet,
    /// Lines of values, the first one the names.
    Csv,
    /// The same, with tabs.
    Tsv,
    /// An object of JSON a line.
    JsonLines,
}

impl FileKind {
    /// What the end of a file's name says.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "parquet" | "parq" | "pq" => Some(Self::Parquet),
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }

    /// The engine's reader.
    pub(crate) fn format(self) -> Arc<dyn FileFormat> {
        // A value may have the end of a line in it: so a file is read by one thread, and never cut at one.
        let csv = || {
            let format = CsvFormat::default().with_has_header(true).with_newlines_in_values(true);
            format.with_schema_infer_max_rec(INFER_ROWS)
        };
        match self {
            Self::Parquet => Arc::new(ParquetFormat::default()),
            Self::Csv => Arc::new(csv()),
            Self::Tsv => Arc::new(csv().with_delimiter(b'\t')),
            Self::JsonLines => Arc::new(JsonFormat::default().with_schema_infer_max_rec(INFER_ROWS)),
        }
    }
}

/// Files of one schema.
pub(crate) struct FilesTable {
    pub(crate) store: ObjectStoreUrl,
    pub(crate) kind: FileKind,
    pub(crate) schema: SchemaRef,
    /// The files, with their statistics where they are known.
    pub(crate) files: Vec<PartitionedFile>,
}

impl FilesTable {
    /// Files that may have rows for which all these conditions hold.
    fn within(&self, conditions: &[Expr], state: &dyn Session) -> Vec<PartitionedFile> {
        let known = self.files.iter().map(|file| file.statistics.clone()).collect::<Option<Vec<_>>>();
        // What bounds cannot decide, such as a cast of one that has no place in the type, is no reason to fail.
        let kept = known.and_then(|known| self.kept(known, conditions, state).ok().flatten());
        let Some(kept) = kept else { return self.files.clone() };
        self.files.iter().zip(kept).filter(|(_, is_kept)| *is_kept).map(|(file, _)| file.clone()).collect()
    }

    /// For each file whether it may have such rows; `None` without conditions.
    fn kept(&self, known: Vec<Arc<Statistics>>, conditions: &[Expr], state: &dyn Session) -> Result<Option<Vec<bool>>> {
        let Some(condition) = conjunction(conditions.to_vec()) else { return Ok(None) };
        let condition = state.create_physical_expr(condition, &DFSchema::try_from(Arc::clone(&self.schema))?)?;
        let condition =
            PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema)).try_build(condition)?;
        condition.prune(&PrunableStatistics::new(known, Arc::clone(&self.schema))).map(Some)
    }

    /// What is known of these files together.
    fn total(&self, files: &[PartitionedFile]) -> Statistics {
        let known = files.iter().map(|file| file.statistics.as_deref()).collect::<Option<Vec<_>>>();
        let Some(known) = known.filter(|known| !known.is_empty()) else {
            return Statistics::new_unknown(&self.schema);
        };
        Statistics::try_merge_iter(known, &self.schema).unwrap_or_else(|_| Statistics::new_unknown(&self.schema))
    }
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Statistics leave whole slices, row groups and pages out; rows are still filtered.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.within(conditions, state);
        if files.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(self.schema.project(columns)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let format = self.kind.format();
        let source = format.file_source(TableSchema::from(&self.schema));
        let config = FileScanConfigBuilder::new(self.store.clone(), source)
            .with_file_groups(groups(&files, state.config().target_partitions()))
            .with_statistics(self.total(&files))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        format.create_physical_plan(state, config).await
    }
}

impl fmt::Debug for FilesTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesTable").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

/// Files in as many groups as run at once: neighbours in one group, since they are read one after the other.
fn groups(files: &[PartitionedFile], at_once: usize) -> Vec<FileGroup> {
    let each = files.len().div_ceil(at_once.max(1)).max(1);
    files.chunks(each).map(|group| FileGroup::new(group.to_vec())).collect()
}

/// Rows whose values decide the types of a text file's columns.
const INFER_ROWS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_in_one_group() {
        for (files, at_once, expected) in [(5, 2, vec![3, 2]), (2, 8, vec![1, 1]), (0, 4, vec![]), (3, 0, vec![3])] {
            let files: Vec<_> = (0..files).map(|at| PartitionedFile::new(format!("s{at}"), 1)).collect();
            let counts: Vec<_> = groups(&files, at_once).iter().map(FileGroup::len).collect();
            assert_eq!(counts, expected);
        }
    }

    #[test]
    fn a_name_says_what_a_file_is() {
        assert_eq!(FileKind::of_name("a.PARQUET"), Some(FileKind::Parquet));
        assert_eq!(FileKind::of_name("a.b.csv"), Some(FileKind::Csv));
        assert_eq!(FileKind::of_name("a.csv.gz"), None);
        assert_eq!(FileKind::of_name("csv"), None);
    }
}
