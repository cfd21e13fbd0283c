//! All rows of a journal as one run of bytes, and back: the content of a backup (`docs/paths/backup.md`). The rows are
//! those of one moment, although the journal changes while they are written; they are never all in memory. The format
//! is our own (`docs/formats-on-disk.md`, rows of a backup), so that it outlives the embedded store's files. It never
//! changes the journal that it reads, and never writes into an existing one.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use thiserror::Error;

use super::{
    Journal,
    open::{builder, open_error},
};
use crate::{StoreError, error::WhileDoing, locking::lock};

/// Why rows could not be taken from a run of bytes.
#[derive(Debug, Error)]
pub enum RowsError {
    /// The bytes could not be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// They are not rows.
    #[error("it does not begin as the rows of a journal do")]
    NotRows,
    /// They have another version of the format.
    #[error("it has version {0}, and this program reads version {VERSION}")]
    Version(u8),
    /// They end too early.
    #[error("it ends in the middle")]
    Truncated,
    /// They are not what was written.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// The writer's reason for not going on.
    #[error("{0}")]
    Refused(String),
    /// The receiver of the rows failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Journal {
    /// Writes all rows as they are now. Later changes are not included; the journal's file grows by what they replace
    /// until this returns. If something cannot be read, the bytes end with a sentence that says so.
    ///
    /// # Errors
    /// The disk's error, or that of `out`.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, StoreError> {
        let written = self.write_rows(out);
        if let Err(error) = &written {
            // The reader may be the one that has gone; then nobody misses the sentence.
            let _ = write_refusal(out, &error.to_string());
        }
        written
    }

    /// Begins a journal in a new file with the rows that `from` has, except for those of tables that `keeps` rejects.
    /// After an error the file is unusable.
    ///
    /// # Errors
    /// When the file exists, when the bytes are not whole rows, and the disk's error.
    pub fn import(path: &Path, from: &mut dyn Read, keeps: &dyn Fn(&str) -> bool) -> Result<u64, RowsError> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create_new(true).mode(0o600).open(path).while_doing("create", path)?;
        let database = builder().create_file(file).map_err(|error| open_error(path, error))?;
        let mut batch = Batch { path, database: &database, rows: Vec::new(), bytes: 0 };
        let count = read_rows(from, &mut |table, key, value| {
            if keeps(table) { batch.take(table, key, value) } else { Ok(()) }
        })?;
        batch.write()?;
        drop(database);
        let synced = File::open(path).and_then(|file| file.sync_all());
        synced.while_doing("sync", path)?;
        Ok(count)
    }

    fn write_rows(&self, out: &mut dyn Write) -> Result<u64, StoreError> {
        let transaction = {
            let mut database = lock(&self.database);
            let begun = self.opened(&mut database)?.begin_read();
            begun.map_err(|error| self.error("read", error.into()))?
        };
        let failed = |error: redb::Error| self.error("read", error);
        let mut tables: Vec<String> = transaction
            .list_tables()
            .map_err(|error| failed(error.into()))?
            .map(|table| table.name().to_owned())
            .collect();
        tables.sort();
        let written = |source| StoreError::io("write the rows of", &self.file, source);
        out.write_all(MAGIC).and_then(|()| out.write_all(&[VERSION])).map_err(written)?;
        let mut count = 0;
        for table in tables {
            write_head(out, TABLE, table.as_bytes(), &[]).map_err(written)?;
            count += self.write_table(&transaction, &table, out)?;
        }
        out.write_all(&[END]).and_then(|()| out.write_all(&u64::to_be_bytes(count))).map_err(written)?;
        out.flush().map_err(written)?;
        Ok(count)
    }

    fn write_table(&self, transaction: &ReadTransaction, table: &str, out: &mut dyn Write) -> Result<u64, StoreError> {
        let failed = |error: redb::Error| self.error("read", error);
        let rows = transaction.open_table(definition(table)).map_err(|error| failed(error.into()))?;
        let mut count = 0;
        for row in rows.iter().map_err(|error| failed(error.into()))? {
            let (key, value) = row.map_err(|error| failed(error.into()))?;
            let written = write_head(out, ROW, key.value(), value.value());
            written.map_err(|source| StoreError::io("write the rows of", &self.file, source))?;
            count += 1;
        }
        Ok(count)
    }
}

/// Takes a row: table, key, value.
pub type RowVisitor<'a> = dyn FnMut(&str, &[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// Passes the rows in `from` to `take`: table, key, value. Returns their number.
///
/// # Errors
/// When the bytes are not whole rows; some may have been passed on by then.
pub fn read_rows(from: &mut dyn Read, take: &mut RowVisitor<'_>) -> Result<u64, RowsError> {
    let magic: [u8; 4] = bytes(from).map_err(|error| if is_truncated(&error) { RowsError::NotRows } else { error })?;
    let [version] = bytes(from)?;
    match (&magic == MAGIC, version) {
        (true, VERSION) => {}
        (true, other) => return Err(RowsError::Version(other)),
        (false, _) => return Err(RowsError::NotRows),
    }
    let (mut table, mut count) = (None, 0);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    loop {
        let [kind] = bytes(from)?;
        match kind {
            TABLE | ROW => {
                let lengths = (u32::from_be_bytes(bytes(from)?), u32::from_be_bytes(bytes(from)?));
                read_into(from, lengths.0, &mut key)?;
                read_into(from, lengths.1, &mut value)?;
            }
            END if u64::from_be_bytes(bytes(from)?) == count => return Ok(count),
            END => return Err(RowsError::Damaged("rows are missing")),
            REFUSED => {
                let length = u32::from_be_bytes(bytes(from)?);
                read_into(from, length, &mut value)?;
                return Err(RowsError::Refused(String::from_utf8_lossy(&value).into_owned()));
            }
            _ => return Err(RowsError::Damaged("there is neither a row nor a table nor the end")),
        }
        match (kind, &table) {
            (TABLE, _) => {
                let name = std::str::from_utf8(&key).map_err(|_| RowsError::Damaged("a table's name is no text"))?;
                table = Some(name.to_owned());
            }
            (_, Some(table)) => {
                take(table, &key, &value)?;
                count += 1;
            }
            (_, None) => return Err(RowsError::Damaged("a row stands before the first table")),
        }
    }
}

/// Ends rows with a sentence that says why there are no more.
///
/// # Errors
/// The error of `out`.
pub fn write_refusal(out: &mut dyn Write, message: &str) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    out.write_all(&[REFUSED])?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(message.as_bytes())?;
    out.flush()
}

/// Rows for a new journal, gathered until a transaction is worth its sync.
struct Batch<'a> {
    path: &'a Path,
    database: &'a Database,
    rows: Vec<(String, Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Batch<'_> {
    fn take(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.bytes += key.len() + value.len() + ROW_OVERHEAD_BYTES;
        self.rows.push((table.to_owned(), key.to_vec(), value.to_vec()));
        if self.bytes < BATCH_BYTES { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        commit(self.database, &rows).map_err(|error| match error {
            redb::Error::Io(source) => StoreError::io("write", self.path, source),
            other => StoreError::Journal { operation: "write", file: self.path.to_owned(), why: other.to_string() },
        })
    }
}

fn commit(database: &Database, rows: &[(String, Vec<u8>, Vec<u8>)]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    for run in rows.chunk_by(|a, b| a.0 == b.0) {
        let Some((name, ..)) = run.first() else { continue };
        let mut table = transaction.open_table(definition(name))?;
        for (_, key, value) in run {
            table.insert(key.as_slice(), value.as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn definition(table: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(table)
}

fn write_head(out: &mut dyn Write, kind: u8, key: &[u8], value: &[u8]) -> io::Result<()> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
    out.write_all(&[kind])?;
    out.write_all(&length(key)?.to_be_bytes())?;
    out.write_all(&length(value)?.to_be_bytes())?;
    out.write_all(key)?;
    out.write_all(value)
}

fn bytes<const N: usize>(from: &mut dyn Read) -> Result<[u8; N], RowsError> {
    let mut read = [0; N];
    from.read_exact(&mut read).map_err(cut)?;
    Ok(read)
}

/// Reads so many bytes. A false length fills no memory: it grows with the bytes that arrive.
fn read_into(from: &mut dyn Read, length: u32, into: &mut Vec<u8>) -> Result<(), RowsError> {
    into.clear();
    let read = from.take(u64::from(length)).read_to_end(into).map_err(cut)?;
    if read as u64 == u64::from(length) { Ok(()) } else { Err(RowsError::Truncated) }
}

fn cut(error: io::Error) -> RowsError {
    if error.kind() == io::ErrorKind::UnexpectedEof { RowsError::Truncated } else { RowsError::Read(error) }
}

fn is_truncated(error: &RowsError) -> bool {
    matches!(error, RowsError::Truncated)
}

/// The first bytes.
const MAGIC: &[u8; 4] = b"SROW";
/// The version of the format that follows.
const VERSION: u8 = 1;
/// What comes next: the end with the number of rows, a table, a row of the last table, or a sentence instead of more.
const END: u8 = 0;
const TABLE: u8 = 1;
const ROW: u8 = 2;
const REFUSED: u8 = 3;
/// Bytes of rows that are written in one transaction: some tens of thousands of rows a sync, and little memory.
const BATCH_BYTES: usize = 8 << 20;
/// Memory of a row besides its bytes, about.
const ROW_OVERHEAD_BYTES: usize = 96;

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
