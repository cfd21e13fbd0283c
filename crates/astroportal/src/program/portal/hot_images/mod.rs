//! Copies of images that are asked for often, kept where they are asked for (AstroPortal report, storage levels; decision
//! 61). They are files of a folder of this machine, named by what identifies their content, with a bounded room. The cloud
//! knows nothing of them, so none counts as a copy. It never serves a byte that was not verified.

mod hot_set;

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File},
    io::{self, BufWriter, Write},
    ops::Range,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use client::{ChecksummedFile, FileReader};
use futures_util::{StreamExt, stream};
use protocol::limits::BLOCK_BYTES;
use tokio::task::spawn_blocking;

use self::hot_set::{Digest, HotSet};

/// The copies. Clones are the same.
#[derive(Clone)]
pub(super) struct HotImages {
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    set: Mutex<HotSet>,
    open: Mutex<HashMap<Digest, Arc<ChecksummedFile>>>,
    /// Nobody else keeps copies in the folder as long as this is open.
    _lock: File,
}

/// What is kept (contract: `/portal/status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct HotStatus {
    pub(super) images: usize,
    pub(super) bytes: u64,
    pub(super) room_bytes: u64,
}

impl HotImages {
    /// Uses a folder, which is made where it is missing. What an earlier run has left there is verified, and kept. Only
    /// this user can read it: some images are not for everyone.
    ///
    /// # Errors
    /// If it cannot be written, or another portal uses it.
    pub(super) fn open(folder: &Path, room_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let lock = create(&folder.join(LOCK))?;
        lock.try_lock().map_err(|_| io::Error::other("another portal keeps its copies there"))?;
        let inner = Inner {
            folder: folder.to_owned(),
            set: Mutex::new(HotSet::new(room_bytes)),
            open: Mutex::default(),
            _lock: lock,
        };
        let images = Self { inner: Arc::new(inner) };
        images.remove_parts()?;
        let left = images.clone();
        spawn_blocking(move || left.take_over());
        Ok(images)
    }

    /// The copy of an image.
    pub(super) fn find(&self, digest: &str) -> Option<Arc<ChecksummedFile>> {
        if !lock(&self.inner.set).is_used_here(digest) {
            return None;
        }
        lock(&self.inner.open).get(digest).cloned()
    }

    /// So many bytes of an image were moved here from another node. If that is often enough, the image is brought.
    pub(super) fn note_moved(&self, file: &FileReader, digest: &str, moved_bytes: u64) {
        let wanted = lock(&self.inner.set).want(digest, file.bytes(), moved_bytes);
        let Some(gone) = wanted else { return };
        let (images, file, digest) = (self.clone(), file.clone(), digest.to_owned());
        tokio::spawn(async move {
            images.remove(&gone);
            if let Err(error) = images.bring(&file, &digest).await {
                tracing::info!(path = %file.entry().path, %error, "an image that is asked for often was not brought here");
                lock(&images.inner.set).give_up(&digest);
            }
        });
    }

    /// A copy cannot be read, or is damaged. The cloud has the image still.
    pub(super) fn drop_damaged(&self, digest: &str, error: &io::Error) {
        tracing::warn!(digest, %error, "a copy of an image that was kept here goes");
        lock(&self.inner.set).forget(digest);
        self.remove(&[digest.to_owned()]);
    }

    /// How much is kept.
    pub(super) fn status(&self) -> HotStatus {
        let set = lock(&self.inner.set);
        let (images, bytes) = set.size();
        HotStatus { images, bytes, room_bytes: set.room_bytes() }
    }

    /// Reads the version that `file` has open, several pieces at once, and keeps it if its digest is the right one.
    async fn bring(&self, file: &FileReader, digest: &str) -> io::Result<()> {
        let part = self.inner.folder.join(format!("{digest}{PART}"));
        let mut writing = Some(Writing { to: BufWriter::new(create(&part)?), sums: Sums::default() });
        let pieces = stream::iter((0..file.bytes()).step_by(PIECE_BYTES));
        let mut pieces = pieces.map(|at| file.read_at(at, PIECE_BYTES)).buffered(PIECES_AT_ONCE);
        let brought = async {
            while let Some(piece) = pieces.next().await {
                let (piece, mut into) = (piece.map_err(io::Error::other)?, writing.take().ok_or(io::ErrorKind::Other)?);
                writing = Some(spawn_blocking(move || into.add(&piece).map(|()| into)).await??);
            }
            let Writing { mut to, sums } = writing.take().ok_or(io::ErrorKind::Other)?;
            to.flush()?;
            if sums.digest() != digest {
                return Err(io::Error::other("what came is another content"));
            }
            fs::rename(&part, self.inner.folder.join(digest))?;
            self.keep(digest, file.bytes(), sums.checksums)
        };
        let brought = brought.await;
        if brought.is_err() {
            // It may have its name already.
            let _ = fs::remove_file(&part);
        }
        brought
    }

    /// Counts a file of the folder in, and removes those that go for it.
    fn keep(&self, digest: &str, bytes: u64, checksums: Vec<u32>) -> io::Result<()> {
        let file = File::open(self.inner.folder.join(digest))?;
        let file = Arc::new(ChecksummedFile::new(file, bytes, checksums));
        let gone = {
            let mut open = lock(&self.inner.open);
            let gone = lock(&self.inner.set).keep(digest, bytes);
            if gone.is_some() {
                open.insert(digest.to_owned(), file);
            }
            gone
        };
        self.remove(&gone.ok_or_else(|| io::Error::other("there is no room"))?);
        Ok(())
    }

    fn remove(&self, gone: &[Digest]) {
        for digest in gone {
            lock(&self.inner.open).remove(digest);
            // Whoever reads it has it open.
            if let Err(error) = fs::remove_file(self.inner.folder.join(digest)) {
                tracing::warn!(digest, %error, "a copy of an image could not be removed");
            }
        }
    }

    /// Removes what an earlier run has begun to bring. Nothing is brought yet now.
    fn remove_parts(&self) -> io::Result<()> {
        for file in fs::read_dir(&self.inner.folder)? {
            let file = file?;
            if file.file_name().to_str().and_then(|name| name.strip_suffix(PART)).is_some_and(is_digest) {
                fs::remove_file(file.path())?;
            }
        }
        Ok(())
    }

    /// What an earlier run has left: whole files are kept as long as there is room, all else goes.
    fn take_over(&self) {
        let Ok(files) = fs::read_dir(&self.inner.folder) else { return };
        for file in files.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            // A folder of someone's may have files of other names.
            if !is_digest(&name) {
                continue;
            }
            let (room, taken) = (self.status().room_bytes, self.status().bytes);
            let kept = Sums::of(&file.path()).and_then(|(sums, bytes)| {
                if sums.digest() != name || taken + bytes > room {
                    return Err(io::Error::other("it is not whole, or there is no room"));
                }
                self.keep(&name, bytes, sums.checksums)
            });
            if let Err(error) = kept {
                tracing::info!(name, %error, "a copy of an image from an earlier run goes");
                // The next run tries it again.
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

struct Writing {
    to: BufWriter<File>,
    sums: Sums,
}

impl Writing {
    fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.sums.add(piece);
        self.to.write_all(piece)
    }
}

/// The sums of a file that is read in whole blocks.
#[derive(Default)]
struct Sums {
    hasher: blake3::Hasher,
    checksums: Vec<u32>,
}

impl Sums {
    /// Those of a whole file, and its length.
    fn of(file: &Path) -> io::Result<(Self, u64)> {
        let mut file = File::open(file)?;
        let (mut sums, mut bytes, mut piece) = (Self::default(), 0, Vec::new());
        loop {
            piece.clear();
            let read = io::Read::read_to_end(&mut io::Read::take(&mut file, PIECE_BYTES as u64), &mut piece)?;
            if read == 0 {
                return Ok((sums, bytes));
            }
            bytes += read as u64;
            sums.add(&piece);
        }
    }

    fn add(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
        self.checksums.extend(piece.chunks(BLOCK_BYTES as usize).map(crc32c::crc32c));
    }

    fn digest(&self) -> Digest {
        self.hasher.finalize().to_hex().to_string()
    }
}

/// Bytes of a copy.
///
/// # Errors
/// If it is damaged, or cannot be read.
pub(super) fn read(copy: &ChecksummedFile, range: &Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match copy.read(range, &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(client::UnreadableBytes::Io(error)) => Err(error),
        Err(client::UnreadableBytes::BadBlock(at)) => {
            Err(io::Error::other(format!("the block at byte {at} is damaged")))
        }
    }
}

fn is_digest(name: &str) -> bool {
    name.len() == DIGEST_LETTERS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A new file, which only this user can read.
fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn lock<T>(what: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What marks a copy that is not whole yet.
const PART: &str = ".part";
/// The file that says who uses the folder.
const LOCK: &str = "lock";
/// Letters of a digest in hexadecimal.
const DIGEST_LETTERS: usize = 64;
/// Bytes that are read at once: whole blocks.
const PIECE_BYTES: usize = 64 * BLOCK_BYTES as usize;
/// Pieces of an image on their way, so that a round trip is no pause.
const PIECES_AT_ONCE: usize = 4;
