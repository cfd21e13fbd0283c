//! The archive of a table's cutouts: tar, with the manifest at its end. It grows batch by batch in a file beside its
//! place, `ARCHIVE.part`. After each batch `ARCHIVE.state` says how far it is, so a command that was interrupted goes
//! on there. One that goes to standard output is written as it is made, and begins anew each time. An archive with a name
//! never appears before it is whole.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use astroportal::tuples::{ManifestRow, Parcel};
use serde::{Deserialize, Serialize};
use terminal::Failure;

/// An archive that is being made.
pub(crate) struct Archive {
    /// `None` for standard output.
    target: Option<PathBuf>,
    tar: BufWriter<File>,
    manifest: csv::Writer<File>,
    state: State,
    modified_unix_seconds: u64,
}

/// How far an archive is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// What identifies the table, and how it is worked on.
    table: String,
    batches: usize,
    tar_bytes: u64,
    manifest_bytes: u64,
    made: u64,
    failed: u64,
}

impl Archive {
    /// Begins an archive, or goes on with one of the same table.
    pub(crate) fn open(target: &Path, table: &str, modified_unix_seconds: u64) -> Result<Self, Failure> {
        if target.exists() {
            let message = format!("`{}` exists already: remove it, or give another name", target.display());
            return Err(Failure::new(protocol::Reason::Exists, message));
        }
        let read = fs::read(beside(target, STATE)).ok().and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
        let state = read
            .filter(|state| state.table == table)
            .unwrap_or_else(|| State { table: table.to_owned(), ..State::default() });
        let open = |ending: &str, bytes: u64| {
            let file = beside(target, ending);
            let opened =
                File::options().read(true).write(true).create(true).truncate(false).open(&file).and_then(|mut open| {
                    // What came after the last whole batch is done again.
                    open.set_len(bytes)?;
                    open.seek(SeekFrom::End(0))?;
                    Ok(open)
                });
            opened.map_err(|error| Failure::local("write", &file, &error))
        };
        let tar = BufWriter::with_capacity(1 << 20, open(PART, state.tar_bytes)?);
        let manifest = open(MANIFEST, state.manifest_bytes)?;
        let manifest = csv::WriterBuilder::new().has_headers(state.manifest_bytes == 0).from_writer(manifest);
        Ok(Self { target: Some(target.to_owned()), tar, manifest, state, modified_unix_seconds })
    }

    /// Begins an archive that goes to this open file as it is made.
    pub(crate) fn to_stream(stream: File, modified_unix_seconds: u64) -> Result<Self, Failure> {
        let manifest = tempfile::tempfile().map_err(|error| Failure::failed(format!("cannot make a file: {error}")))?;
        Ok(Self {
            target: None,
            tar: BufWriter::with_capacity(1 << 16, stream),
            manifest: csv::Writer::from_writer(manifest),
            state: State::default(),
            modified_unix_seconds,
        })
    }

    /// Batches that are in it.
    pub(crate) fn batches(&self) -> usize {
        self.state.batches
    }

    /// Cutouts in it, and tuples that failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.state.made, self.state.failed)
    }

    /// Adds a cutout, or why there is none.
    pub(crate) fn add(&mut self, parcel: &Parcel) -> Result<(), Failure> {
        let Parcel { outcome, content } = parcel;
        if outcome.is_ok() {
            let added =
                append(&mut self.tar, &outcome.file, content.as_slice(), outcome.bytes, self.modified_unix_seconds);
            added.map_err(|error| self.failed(&error))?;
        }
        self.note(outcome)
    }

    /// Adds a row to the manifest.
    pub(crate) fn note(&mut self, outcome: &ManifestRow) -> Result<(), Failure> {
        *(if outcome.is_ok() { &mut self.state.made } else { &mut self.state.failed }) += 1;
        self.manifest.serialize(outcome).map_err(|error| self.failed(&io::Error::other(error)))
    }

    /// A batch is whole: it is on disk, and would not be done again.
    pub(crate) fn end_batch(&mut self) -> Result<(), Failure> {
        let ended = (|| {
            self.tar.flush()?;
            self.manifest.flush()?;
            let Some(target) = &self.target else { return Ok(()) };
            self.tar.get_ref().sync_data()?;
            self.manifest.get_ref().sync_data()?;
            self.state.batches += 1;
            let (mut tar, mut manifest) = (self.tar.get_ref(), self.manifest.get_ref());
            (self.state.tar_bytes, self.state.manifest_bytes) = (tar.stream_position()?, manifest.stream_position()?);
            // Whole or not at all.
            let (new, file) = (beside(target, ".state.new"), beside(target, STATE));
            fs::write(&new, serde_json::to_vec(&self.state)?)?;
            fs::rename(new, file)
        })();
        ended.map_err(|error: io::Error| self.failed(&error))
    }

    /// Ends the archive with its manifest, and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let finished = (|| {
            self.manifest.flush()?;
            let mut rows = self.manifest.get_ref();
            let bytes = rows.seek(SeekFrom::End(0))?;
            rows.seek(SeekFrom::Start(0))?;
            append(&mut self.tar, "manifest.csv", rows, bytes, self.modified_unix_seconds)?;
            end_archive(&mut self.tar)?;
            self.tar.flush()?;
            let Some(target) = &self.target else { return Ok(()) };
            self.tar.get_ref().sync_all()?;
            fs::rename(beside(target, PART), target)?;
            for ending in [MANIFEST, STATE] {
                // Without a batch there is no state.
                let _ = fs::remove_file(beside(target, ending));
            }
            Ok(())
        })();
        finished.map_err(|error: io::Error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::local("write the archive", self.target.as_deref().unwrap_or(Path::new("-")), error)
    }
}

/// Ends an archive.
pub(crate) fn end_archive(to: &mut impl Write) -> io::Result<()> {
    to.write_all(&[0; 2 * TAR_BLOCK_BYTES])
}

/// Appends a file, and never the end of an archive.
pub(crate) fn append(
    to: &mut impl Write,
    name: &str,
    mut content: impl Read,
    bytes: u64,
    modified: u64,
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(modified);
    header.set_cksum();
    to.write_all(header.as_bytes())?;
    let written = io::copy(&mut (&mut content).take(bytes), to)?;
    if written != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let fill = (TAR_BLOCK_BYTES as u64 - bytes % TAR_BLOCK_BYTES as u64) % TAR_BLOCK_BYTES as u64;
    to.write_all(&[0; TAR_BLOCK_BYTES][..fill as usize])
}

fn beside(target: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(ending);
    name.into()
}

const PART: &str = ".part";
const MANIFEST: &str = ".manifest";
const STATE: &str = ".state";
const TAR_BLOCK_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use astroportal::tuples::Tuple;

    use super::*;

    fn parcel(number: u64, content: &[u8]) -> Parcel {
        let selection = "[1:2,3:4]".parse().unwrap();
        let tuple = Tuple { number, path: "/a".into(), selection, name: format!("{number}.fits") };
        Parcel { outcome: ManifestRow::made(&tuple, content, 0.5, "node"), content: content.to_vec() }
    }

    fn files(archive: &Path) -> Vec<(String, Vec<u8>)> {
        let mut archive = tar::Archive::new(File::open(archive).unwrap());
        let files = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        files.collect()
    }

    #[test]
    fn an_archive_goes_on_after_its_last_whole_batch() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.tar");
        let mut archive = Archive::open(&target, "table", 1).unwrap();
        archive.add(&parcel(1, b"first")).unwrap();
        archive.end_batch().unwrap();
        archive.add(&parcel(2, b"lost")).unwrap();
        drop(archive);
        let mut archive = Archive::open(&target, "table", 1).unwrap();
        assert_eq!((archive.batches(), archive.counts()), (1, (1, 0)));
        archive.add(&parcel(2, b"second")).unwrap();
        archive.finish().unwrap();
        let found = files(&target);
        assert_eq!(found[..2], [("1.fits".into(), b"first".to_vec()), ("2.fits".into(), b"second".to_vec())]);
        let manifest = String::from_utf8(found[2].1.clone()).unwrap();
        let lines: Vec<_> = manifest.lines().collect();
        assert!(found[2].0 == "manifest.csv" && lines.len() == 3 && lines[0].starts_with("tuple,path,"), "{manifest}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else stays");
        assert!(Archive::open(&target, "table", 1).is_err(), "what is there is never overwritten");
    }

    #[test]
    fn another_table_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.tar");
        let mut archive = Archive::open(&target, "table", 1).unwrap();
        archive.add(&parcel(1, b"first")).unwrap();
        archive.end_batch().unwrap();
        drop(archive);
        let archive = Archive::open(&target, "other", 1).unwrap();
        assert_eq!(archive.batches(), 0);
        archive.finish().unwrap();
        assert_eq!(files(&target).len(), 1);
    }
}
