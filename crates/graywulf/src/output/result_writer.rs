//! Writes rows while they come. A file appears when it is whole: beside it stands a temporary one until then, which goes
//! when the query fails. A device or pipe gets the bytes, and is never replaced. It never prints to anything but
//! standard output and that file.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use client::LocalTarget;
use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch, StringArray},
        compute::cast,
        csv,
        datatypes::{DataType, Field, Schema, SchemaRef},
        error::ArrowError,
        ipc, json,
    },
    parquet::{arrow::ArrowWriter, errors::ParquetError},
};
use tempfile::NamedTempFile;
use terminal::{Failure, show};
use vo::votable::{Ending, Serialisation};

use super::{ResultFormat, votable_rows::VotableWriter};
use crate::slices::fits_of_rows;

/// Where results go: standard output, or a file that is not there yet.
pub(crate) enum OutputFile {
    Standard,
    File {
        file: io::BufWriter<NamedTempFile>,
        path: PathBuf,
    },
    /// A device, a pipe or a socket.
    Special {
        file: io::BufWriter<File>,
        path: PathBuf,
    },
    /// Memory, out of which somebody takes it.
    Shared(SharedBytes),
}

/// Bytes that one writes and another takes. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBytes(Arc<Mutex<Vec<u8>>>);

impl SharedBytes {
    /// What was written since the last time.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputFile {
    /// `None` and `-` are standard output. If the path is a link, what it leads to is written.
    ///
    /// # Errors
    /// A folder in which no file can be made.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else { return Ok(Self::Standard) };
        if path.is_dir() {
            return Err(Failure::usage(format!("`{}` is a folder: name a file", path.display())));
        }
        let unwritable = |error: io::Error| Failure::local("write", path, &error);
        let real = match LocalTarget::at(path).map_err(unwritable)? {
            LocalTarget::Nothing => path.to_owned(),
            LocalTarget::File(real) => real,
            LocalTarget::Special => {
                let file = File::options().write(true).open(path).map_err(unwritable)?;
                return Ok(Self::Special { file: io::BufWriter::new(file), path: path.to_owned() });
            }
        };
        let folder = match real.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        // As any new file: what the user's umask leaves.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let file = builder.prefix(".sector-sql-").permissions(permissions).tempfile_in(folder).map_err(unwritable)?;
        Ok(Self::File { file: io::BufWriter::new(file), path: real })
    }

    /// Makes the file appear.
    fn publish(self) -> Result<(), Failure> {
        match self {
            Self::Standard | Self::Shared(_) => Ok(()),
            Self::Special { mut file, path } => file.flush().map_err(|error| Failure::local("write", &path, &error)),
            Self::File { file, path } => {
                let unwritable = |error: &io::Error| Failure::local("write", &path, error);
                let file = file.into_inner().map_err(|error| unwritable(error.error()))?;
                file.persist(&path).map(drop).map_err(|error| unwritable(&error.error))
            }
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard => {
                show::bytes(bytes);
                Ok(bytes.len())
            }
            Self::File { file, .. } => file.write(bytes),
            Self::Special { file, .. } => file.write(bytes),
            Self::Shared(shared) => {
                shared.lock().extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard | Self::Shared(_) => Ok(()),
            Self::File { file, .. } => file.flush(),
            Self::Special { file, .. } => file.flush(),
        }
    }
}

/// Writes one result.
pub(crate) struct ResultWriter {
    format: Writer,
    path: String,
}

enum Writer {
    Csv(Box<csv::Writer<OutputFile>>),
    Json(Box<json::ArrayWriter<OutputFile>>),
    JsonLines(Box<json::LineDelimitedWriter<OutputFile>>),
    Parquet(Box<ArrowWriter<OutputFile>>),
    ArrowFile(Box<ipc::writer::FileWriter<OutputFile>>),
    ArrowStream(Box<ipc::writer::StreamWriter<OutputFile>>),
    Votable(Box<VotableWriter<OutputFile>>),
    /// FITS says at its beginning how many rows come: they wait.
    Fits {
        to: OutputFile,
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
        bytes: usize,
    },
}

impl ResultWriter {
    /// Begins a result with these columns. A table to look at is none of this writer's formats, and becomes CSV.
    ///
    /// # Errors
    /// A type that the format does not know.
    pub(crate) fn new(format: ResultFormat, to: OutputFile, schema: &SchemaRef) -> Result<Self, Failure> {
        let path = match &to {
            OutputFile::Standard => "standard output".to_owned(),
            OutputFile::File { path, .. } | OutputFile::Special { path, .. } => path.display().to_string(),
            OutputFile::Shared(_) => "the answer".to_owned(),
        };
        let with_names = csv::WriterBuilder::new().with_header(true);
        let format = match (format, &to) {
            (ResultFormat::Table | ResultFormat::Csv, _) => {
                let mut writer = with_names.build(to);
                // The names stand there without any row, too.
                writer.write(&named_only(schema)).map_err(|error| arrow_failure(&path, &error))?;
                Writer::Csv(Box::new(writer))
            }
            (ResultFormat::Tsv, _) => {
                let mut writer = with_names.with_delimiter(b'\t').build(to);
                writer.write(&named_only(schema)).map_err(|error| arrow_failure(&path, &error))?;
                Writer::Csv(Box::new(writer))
            }
            (ResultFormat::Json, _) => {
                let builder = json::WriterBuilder::new().with_explicit_nulls(true);
                Writer::Json(Box::new(builder.build(to)))
            }
            (ResultFormat::Jsonl, _) => {
                let builder = json::WriterBuilder::new().with_explicit_nulls(true);
                Writer::JsonLines(Box::new(builder.build(to)))
            }
            (ResultFormat::Parquet, _) => {
                let writer = ArrowWriter::try_new(to, schema.clone(), None);
                Writer::Parquet(Box::new(writer.map_err(|error| parquet_failure(&path, &error))?))
            }
            (ResultFormat::Arrow, OutputFile::File { .. }) => {
                let writer = ipc::writer::FileWriter::try_new(to, schema);
                Writer::ArrowFile(Box::new(writer.map_err(|error| arrow_failure(&path, &error))?))
            }
            (ResultFormat::Votable, _) => {
                Writer::Votable(Box::new(VotableWriter::new(schema, Serialisation::Binary2, to)))
            }
            (ResultFormat::VotableTd, _) => {
                Writer::Votable(Box::new(VotableWriter::new(schema, Serialisation::TableData, to)))
            }
            (ResultFormat::Fits, _) => Writer::Fits { to, schema: schema.clone(), rows: Vec::new(), bytes: 0 },
            (ResultFormat::Arrow, OutputFile::Standard | OutputFile::Special { .. } | OutputFile::Shared(_)) => {
                let writer = ipc::writer::StreamWriter::try_new(to, schema);
                Writer::ArrowStream(Box::new(writer.map_err(|error| arrow_failure(&path, &error))?))
            }
        };
        Ok(Self { format, path })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// A file that cannot be written, such as on a full disk.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), Failure> {
        let written = match &mut self.format {
            Writer::Csv(writer) => match flat(rows) {
                Ok(rows) => writer.write(&rows),
                Err(error) => Err(error),
            },
            Writer::Json(writer) => writer.write(rows),
            Writer::JsonLines(writer) => writer.write(rows),
            Writer::Parquet(writer) => {
                return writer.write(rows).map_err(|error| parquet_failure(&self.path, &error));
            }
            Writer::ArrowFile(writer) => writer.write(rows),
            Writer::ArrowStream(writer) => writer.write(rows),
            Writer::Votable(writer) => writer.write(rows),
            Writer::Fits { rows: waiting, bytes, .. } => {
                waiting.push(rows.clone());
                *bytes += rows.get_array_memory_size();
                if *bytes > FITS_BYTES_MAX {
                    let message =
                        format!("`{}`: a table of FITS of over {FITS_BYTES_MAX} bytes: use Parquet", self.path);
                    return Err(Failure::usage(message));
                }
                Ok(())
            }
        };
        written.map_err(|error| arrow_failure(&self.path, &error))
    }

    /// Ends the result: a file appears now.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.finish_as(Ending::Complete)
    }

    /// Ends the result, and says how where the format has a place for that: a VOTable has.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn finish_as(self, ending: Ending<'_>) -> Result<(), Failure> {
        let arrow = |error: ArrowError| arrow_failure(&self.path, &error);
        let to = match self.format {
            Writer::Csv(writer) => writer.into_inner(),
            Writer::Json(mut writer) => {
                writer.finish().map_err(arrow)?;
                let mut to = writer.into_inner();
                to.write_all(b"\n").map_err(|error| Failure::local("write", Path::new(&self.path), &error))?;
                to
            }
            Writer::JsonLines(mut writer) => {
                writer.finish().map_err(arrow)?;
                writer.into_inner()
            }
            Writer::Parquet(writer) => writer.into_inner().map_err(|error| parquet_failure(&self.path, &error))?,
            Writer::ArrowFile(writer) => writer.into_inner().map_err(arrow)?,
            Writer::ArrowStream(writer) => writer.into_inner().map_err(arrow)?,
            Writer::Votable(writer) => writer.finish(ending).map_err(arrow)?,
            Writer::Fits { mut to, schema, rows, .. } => {
                let table = fits_of_rows(&schema, &rows).map_err(arrow)?;
                drop(rows);
                let bytes = fits::table::write(&table);
                let bytes = bytes.map_err(|error| Failure::failed(format!("cannot write `{}`: {error}", self.path)))?;
                to.write_all(&bytes).map_err(|error| Failure::local("write", Path::new(&self.path), &error))?;
                to
            }
        };
        to.publish()
    }
}

/// No rows, for the names alone.
fn named_only(schema: &SchemaRef) -> RecordBatch {
    let fields: Vec<_> = schema.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true)).collect();
    RecordBatch::new_empty(Arc::new(Schema::new(fields)))
}

/// Rows with lists as texts: CSV has no lists. Values stand as DALI (1.1, 3.3) writes arrays.
fn flat(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let is_list = |field: &Field| matches!(field.data_type(), DataType::List(_));
    if !rows.schema().fields().iter().any(|field| is_list(field)) {
        return Ok(rows.clone());
    }
    let schema = rows.schema();
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in schema.fields().iter().zip(rows.columns()) {
        if !is_list(field) {
            fields.push(Field::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let text = |list: Option<ArrayRef>| -> Result<Option<String>, ArrowError> {
            let Some(list) = list else { return Ok(None) };
            let texts = cast(&list, &DataType::Utf8)?;
            let texts: Vec<_> = texts.as_string::<i32>().iter().map(Option::unwrap_or_default).collect();
            Ok(Some(texts.join(" ")))
        };
        let texts = column.as_list::<i32>().iter().map(text).collect::<Result<StringArray, _>>()?;
        fields.push(Field::new(field.name(), DataType::Utf8, true));
        columns.push(Arc::new(texts) as ArrayRef);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn arrow_failure(path: &str, error: &ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => Failure::local("write", Path::new(path), error),
        other => Failure::failed(format!("cannot write `{path}`: {other}")),
    }
}

fn parquet_failure(path: &str, error: &ParquetError) -> Failure {
    if let ParquetError::External(inner) = error
        && let Some(error) = inner.downcast_ref::<io::Error>()
    {
        return Failure::local("write", Path::new(path), error);
    }
    Failure::failed(format!("cannot write `{path}`: {error}"))
}

/// Rows that wait for a table of FITS take at most so many bytes.
const FITS_BYTES_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::arrow::{
        array::{ArrayRef, Float64Array, StringArray},
        datatypes::{DataType, Field, Schema},
    };

    use super::*;

    fn rows() -> RecordBatch {
        let schema =
            Schema::new(vec![Field::new("name", DataType::Utf8, true), Field::new("ra", DataType::Float64, true)]);
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("M 51, \"core\""), None]));
        let ra: ArrayRef = Arc::new(Float64Array::from(vec![Some(202.5), None]));
        RecordBatch::try_new(Arc::new(schema), vec![names, ra]).unwrap()
    }

    fn written(format: ResultFormat, rows: &[RecordBatch], schema: &SchemaRef) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let mut writer = ResultWriter::new(format, OutputFile::create(Some(&path)).unwrap(), schema).unwrap();
        for batch in rows {
            writer.write(batch).unwrap();
        }
        assert!(!path.exists(), "it appears when it is whole");
        writer.finish().unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn texts_are_what_programs_read() {
        let rows = rows();
        let text = |format| String::from_utf8(written(format, std::slice::from_ref(&rows), &rows.schema())).unwrap();
        assert_eq!(text(ResultFormat::Csv), "name,ra\n\"M 51, \"\"core\"\"\",202.5\n,\n");
        assert_eq!(
            text(ResultFormat::Json),
            "[{\"name\":\"M 51, \\\"core\\\"\",\"ra\":202.5},{\"name\":null,\"ra\":null}]\n"
        );
        assert_eq!(text(ResultFormat::Jsonl).lines().count(), 2);
    }

    #[test]
    fn no_rows_are_a_whole_document_too() {
        let schema = rows().schema();
        let text = |format| String::from_utf8(written(format, &[], &schema)).unwrap();
        assert_eq!(text(ResultFormat::Csv), "name,ra\n");
        assert_eq!(text(ResultFormat::Json), "[]\n");
        let arrow = written(ResultFormat::Arrow, &[], &schema);
        assert_eq!(ipc::reader::FileReader::try_new(io::Cursor::new(arrow), None).unwrap().schema(), schema);
    }

    #[test]
    fn nothing_stays_of_a_result_that_is_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.csv");
        let output = OutputFile::create(Some(&path)).unwrap();
        let mut writer = ResultWriter::new(ResultFormat::Csv, output, &rows().schema()).unwrap();
        writer.write(&rows()).unwrap();
        drop(writer);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
