//! What rows are loaded from: a file of this machine or of the cloud, in Parquet, CSV, TSV, JSON lines, FITS or VOTable. Its
//! columns are read first, and given types by the table that takes them. It never guesses twice: what the table says of
//! a column decides how its text is read.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use client::SectorPath;
use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray},
        compute::{CastOptions, cast_with_options},
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    catalog::Session,
    datasource::{MemTable, listing::PartitionedFile},
    execution::object_store::ObjectStoreUrl,
    object_store::{ObjectMeta, ObjectStore, local::LocalFileSystem},
    prelude::DataFrame,
};
use terminal::Failure;
use vo::votable::TextTable;

use super::rows_of_fits;
use crate::{
    engine::{Engine, FileKind, FilesTable},
    failure::failure_of,
    storage::{file_at, location_of, store_url},
    tables::{ColumnDescription, parse_type},
};

/// A file of rows.
#[derive(Clone, Debug)]
pub(crate) enum SourceFile {
    /// Of this machine.
    Local(PathBuf),
    /// Of the cloud, with its length.
    Cloud(SectorPath, u64),
}

/// An opened source.
enum Opened {
    Files { store: ObjectStoreUrl, kind: FileKind, schema: SchemaRef, file: ObjectMeta },
    Votable(TextTable),
    Fits(RecordBatch),
}

impl SourceFile {
    /// How it is named to people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Local(path) => path.display().to_string(),
            Self::Cloud(path, _) => format!("sector:/{path}"),
        }
    }

    /// Its columns, with the types that its values have.
    ///
    /// # Errors
    /// A file that cannot be read, or a type that tables do not keep.
    pub(crate) async fn columns(&self, engine: &Engine) -> Result<Vec<ColumnDescription>, Failure> {
        let described = |schema: &SchemaRef| {
            let columns = schema.fields().iter().map(|field| ColumnDescription::of(field));
            columns.collect::<Result<_, _>>().map_err(|wrong| self.wrong(&wrong.to_string()))
        };
        match self.open(engine).await? {
            Opened::Files { schema, .. } => described(&schema),
            Opened::Votable(table) => Ok(table.fields.iter().map(column_of).collect()),
            Opened::Fits(rows) => described(&rows.schema()),
        }
    }

    /// Its rows as those of a table: columns by their names, in the table's order and types. A column that the source
    /// does not have is null.
    ///
    /// # Errors
    /// A file that cannot be read, or a column that the table does not have.
    pub(crate) async fn rows(&self, engine: &Engine, table: &SchemaRef) -> Result<DataFrame, Failure> {
        let opened = self.open(engine).await?;
        let names_of = |schema: &SchemaRef| schema.fields().iter().map(|field| field.name().clone()).collect();
        let names: Vec<String> = match &opened {
            Opened::Files { schema, .. } => names_of(schema),
            Opened::Fits(rows) => names_of(&rows.schema()),
            Opened::Votable(table) => table.fields.iter().map(|field| field.name.clone()).collect(),
        };
        let unknown: Vec<_> = names.iter().filter(|name| target(table, name).is_none()).map(String::as_str).collect();
        if !unknown.is_empty() {
            let message = format!("{}: the table has no column {}", self.shown(), unknown.join(", "));
            return Err(Failure::usage(message));
        }
        let context = engine.context();
        let wrong = |error| {
            let failure = failure_of(&error);
            Failure::new(failure.reason, format!("{}: {}", self.shown(), failure.message))
        };
        let read = match opened {
            Opened::Files { store, kind, schema, file } => {
                let schema = if kind == FileKind::Parquet { schema } else { typed_by(table, &schema) };
                let files = vec![PartitionedFile::new_from_meta(file)];
                context.read_table(Arc::new(FilesTable { store, kind, schema, files })).map_err(wrong)?
            }
            Opened::Votable(rows) => {
                let batch = votable_batch(&rows, table).map_err(|why| self.wrong(&why))?;
                let rows = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(wrong)?;
                context.read_table(Arc::new(rows)).map_err(wrong)?
            }
            Opened::Fits(rows) => {
                let rows = MemTable::try_new(rows.schema(), vec![vec![rows]]).map_err(wrong)?;
                context.read_table(Arc::new(rows)).map_err(wrong)?
            }
        };
        let columns = table.fields().iter().map(|field| {
            let found = names.iter().find(|name| name.eq_ignore_ascii_case(field.name()));
            let value = match found {
                Some(name) => datafusion::prelude::ident(name),
                None => datafusion::prelude::lit(datafusion::common::ScalarValue::Null),
            };
            datafusion::prelude::cast(value, field.data_type().clone()).alias(field.name())
        });
        read.select(columns.collect::<Vec<_>>()).map_err(wrong)
    }

    async fn open(&self, engine: &Engine) -> Result<Opened, Failure> {
        let name = match self {
            Self::Local(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            Self::Cloud(path, _) => path.name().unwrap_or_default().to_owned(),
        };
        let lower = name.to_ascii_lowercase();
        if VOTABLE_ENDS.iter().any(|end| lower.ends_with(end)) {
            let bytes = self.whole(engine).await?;
            let table = TextTable::read(&bytes).map_err(|fault| self.wrong(&fault.to_string()))?;
            return if table.fields.is_empty() {
                Err(self.wrong("it has no column"))
            } else {
                Ok(Opened::Votable(table))
            };
        }
        if FITS_ENDS.iter().any(|end| lower.ends_with(end)) {
            let bytes = self.whole(engine).await?;
            let table = fits::table::read(&bytes).map_err(|error| self.wrong(&error.to_string()))?;
            return rows_of_fits(table).map(Opened::Fits).map_err(|why| self.wrong(&why));
        }
        let kind = FileKind::of_name(&name).ok_or_else(|| {
            let hint = if lower.ends_with(".gz") || lower.ends_with(".bz2") || lower.ends_with(".zip") {
                "unpack it first"
            } else {
                "its name should end with .parquet, .csv, .tsv, .jsonl, .fits, .vot or .xml"
            };
            Failure::usage(format!("{}: {hint}", self.shown()))
        })?;
        let (store, url, file) = self.located(engine)?;
        if file.size == 0 {
            return Err(self.wrong("it is empty"));
        }
        let state = engine.context().state();
        let schema = kind.format().infer_schema(&state as &dyn Session, &store, std::slice::from_ref(&file)).await;
        let schema = schema.map_err(|error| {
            let failure = failure_of(&error);
            Failure::new(failure.reason, format!("{}: {}", self.shown(), failure.message))
        })?;
        Ok(Opened::Files { store: url, kind, schema, file })
    }

    /// The store that has the file.
    fn located(&self, engine: &Engine) -> Result<(Arc<dyn ObjectStore>, ObjectStoreUrl, ObjectMeta), Failure> {
        match self {
            Self::Cloud(path, bytes) => Ok((engine.store(), store_url(), file_at(location_of(path), *bytes))),
            Self::Local(path) => {
                let url = ObjectStoreUrl::local_filesystem();
                let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
                engine.context().runtime_env().register_object_store(url.as_ref(), Arc::clone(&store));
                let unreadable = |error: &std::io::Error| Failure::local("read", path, error);
                let absolute = std::fs::canonicalize(path).map_err(|error| unreadable(&error))?;
                let file = std::fs::File::open(&absolute).map_err(|error| unreadable(&error))?;
                let known = file.metadata().map_err(|error| unreadable(&error))?;
                if !known.is_file() {
                    return Err(Failure::usage(format!("`{}` is no regular file", path.display())));
                }
                let location = datafusion::object_store::path::Path::from_absolute_path(&absolute)
                    .map_err(|error| self.wrong(&error.to_string()))?;
                Ok((store, url, file_at(location, known.len())))
            }
        }
    }

    /// All bytes of a file that is read as a whole.
    async fn whole(&self, engine: &Engine) -> Result<Vec<u8>, Failure> {
        let too_long = |bytes: u64| {
            let message =
                format!("{}: {bytes} bytes are too many to read as a whole; write it as Parquet", self.shown());
            Failure::usage(message)
        };
        match self {
            Self::Local(path) => {
                let bytes = std::fs::metadata(path).map(|known| known.len());
                match bytes {
                    Ok(bytes) if bytes > DOCUMENT_BYTES_MAX => Err(too_long(bytes)),
                    _ => read_local(path),
                }
            }
            Self::Cloud(_, bytes) if *bytes > DOCUMENT_BYTES_MAX => Err(too_long(*bytes)),
            Self::Cloud(path, _) => {
                let file = engine.store().get_opts(&location_of(path), Default::default()).await;
                let bytes = match file {
                    Ok(file) => file.bytes().await,
                    Err(error) => Err(error),
                };
                let bytes = bytes.map_err(|error| failure_of(&error.into()))?;
                Ok(bytes.into())
            }
        }
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::failed(format!("{}: {why}", self.shown()))
    }
}

/// The rows of a VOTable, with the types that it says.
///
/// # Errors
/// A value that is none of its column's type.
pub(crate) fn votable_rows(rows: &TextTable) -> Result<RecordBatch, String> {
    let fields = rows.fields.iter().map(|field| {
        let column = column_of(field).field();
        let mut said = column.metadata().clone();
        said.extend([("xtype".to_owned(), field.xtype.clone()), ("datatype".to_owned(), field.datatype.clone())]);
        column.with_metadata(said)
    });
    let fields: Vec<_> = fields.collect();
    votable_batch(rows, &Arc::new(Schema::new(fields)))
}

/// The texts of a VOTable as values of a table's types.
fn votable_batch(rows: &TextTable, table: &SchemaRef) -> Result<RecordBatch, String> {
    let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (at, field) in rows.fields.iter().enumerate() {
        let Some(target) = target(table, &field.name) else { continue };
        let texts = rows.rows.iter().map(|row| row.get(at).map(String::as_str).filter(|text| !text.is_empty()));
        let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let values = cast_with_options(&texts, target.data_type(), &strict)
            .map_err(|error| format!("column `{}`: {error}", field.name))?;
        fields.push(target.clone().with_name(&field.name).with_nullable(true));
        columns.push(values);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| error.to_string())
}

fn read_local(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::local("read", path, &error))
}

/// The table's column of a name: in catalogues the letters' case says nothing.
fn target<'table>(table: &'table SchemaRef, name: &str) -> Option<&'table Field> {
    table.fields().iter().map(|field| &**field).find(|field| field.name().eq_ignore_ascii_case(name))
}

/// The columns of a text file, with the types of the table's.
fn typed_by(table: &SchemaRef, found: &SchemaRef) -> SchemaRef {
    let typed = |field: &Arc<Field>| {
        let data_type = target(table, field.name()).map(|target| match target.data_type() {
            // Which texts cannot hold: cast afterwards.
            DataType::Binary | DataType::List(_) | DataType::Struct(_) => field.data_type().clone(),
            other => other.clone(),
        });
        Field::new(field.name(), data_type.unwrap_or_else(|| field.data_type().clone()), true)
    };
    Arc::new(Schema::new(found.fields().iter().map(typed).collect::<Vec<_>>()))
}

/// The column of a table for one of a VOTable.
fn column_of(field: &vo::votable::TextField) -> ColumnDescription {
    let is_single = field.arraysize.is_empty() || field.arraysize == "1";
    let column_type = match field.datatype.as_str() {
        "boolean" if is_single => "boolean",
        "unsignedByte" if is_single => "utinyint",
        "short" if is_single => "smallint",
        "int" if is_single => "int",
        "long" if is_single => "bigint",
        "float" if is_single => "real",
        "double" if is_single => "double",
        // Arrays stay as they are written.
        _ => "text",
    };
    debug_assert!(parse_type(column_type).is_some(), "{column_type}");
    ColumnDescription {
        name: field.name.clone(),
        column_type: column_type.into(),
        unit: field.unit.clone(),
        ucd: field.ucd.clone(),
        description: field.description.clone(),
    }
}

const VOTABLE_ENDS: [&str; 4] = [".vot", ".votable", ".xml", ".vot.xml"];
const FITS_ENDS: [&str; 3] = [".fits", ".fit", ".fts"];
/// What is read as a whole takes some times its length.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;
