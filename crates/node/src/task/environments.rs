//! The Python environments of this node (path *job*): folders of installed packages, each made once for equal
//! requirements and wheels. They are kept for later jobs, up to a bound: what was used least recently goes first. It
//! never removes one that a job uses, and never believes a name in an archive.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use protocol::{Reason, Refusal};
use tokio::sync::OnceCell;

use crate::{NodeError, blocking};

/// The environments in a folder of the node's data.
#[derive(Debug)]
pub(crate) struct Environments {
    folder: PathBuf,
    /// Most bytes of all together.
    bytes_max: u64,
    /// How many were begun: each is unpacked under a name of its own.
    begun: AtomicU64,
    all: Mutex<BTreeMap<EnvironmentKey, Arc<Environment>>>,
}

/// What an environment was made of: requirements, wheels and interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EnvironmentKey([u8; 32]);

/// An environment. It stays as long as somebody holds it.
#[derive(Debug)]
pub(crate) struct Environment {
    folder: PathBuf,
    /// Its length in bytes, once it was made.
    bytes: OnceCell<u64>,
}

impl Environments {
    /// Those that lie in `folder`, which need not be there. What an earlier process had not finished is removed.
    pub(crate) fn open(folder: PathBuf, bytes_max: u64) -> Self {
        let mut all = BTreeMap::new();
        for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let key = item.file_name().to_str().and_then(EnvironmentKey::from_hex);
            match key.and_then(|key| Some((key, length_of(&item.path()).ok()?))) {
                Some((key, bytes)) => {
                    let bytes = OnceCell::new_with(Some(bytes));
                    all.insert(key, Arc::new(Environment { folder: item.path(), bytes }));
                }
                // It is no use to anybody, and what cannot be removed now is tried again at the next start.
                None => drop(fs::remove_dir_all(item.path())),
            }
        }
        Self { folder, bytes_max, begun: AtomicU64::new(0), all: Mutex::new(all) }
    }

    /// The environment of this key. Where it is not here, `make` gives its archive; others that ask for it wait
    /// meanwhile. If making fails or is dropped, the next of them tries with its own `make`.
    ///
    /// # Errors
    /// Those of `make`. `Invalid` for an archive with names that lead elsewhere, or longer than all may be.
    pub(crate) async fn get_or_make(
        self: &Arc<Self>,
        key: EnvironmentKey,
        make: impl Future<Output = Result<Box<dyn Read + Send>, NodeError>>,
    ) -> Result<Arc<Environment>, NodeError> {
        let found = {
            let folder = self.folder.join(key.to_hex());
            let new = || Arc::new(Environment { folder, bytes: OnceCell::new() });
            Arc::clone(self.lock().entry(key).or_insert_with(new))
        };
        let made = found.bytes.get_or_try_init(|| async {
            let archive = make.await?;
            let (place, most) = (found.folder.clone(), self.bytes_max);
            let unfinished = self.folder.join(format!("{}.unfinished", self.begun.fetch_add(1, Ordering::Relaxed)));
            blocking("unpacking an environment", move || unpack(archive, &unfinished, &place, most)).await
        });
        let made = made.await.map(drop);
        if made.is_err() {
            // Whoever waits for it holds it too, and goes on with it.
            self.lock().retain(|_, each| each.bytes.initialized() || Arc::strong_count(each) > 2);
        }
        made?;
        let (kept, used) = (Arc::clone(self), Arc::clone(&found));
        // Best effort: what cannot be removed now goes after the next one was made.
        let _ = blocking("tidying environments", move || {
            kept.note_use(&used);
            kept.remove_surplus();
            Ok(())
        })
        .await;
        Ok(found)
    }

    /// The time of its folder says when it was used last, also after a restart.
    fn note_use(&self, used: &Environment) {
        let noted = File::open(&used.folder).and_then(|folder| folder.set_modified(SystemTime::now()));
        if let Err(error) = noted {
            tracing::info!(folder = %used.folder.display(), %error, "the use of an environment is not noted");
        }
    }

    /// Removes those that nobody uses, the least recently used first, until the others are no longer than allowed.
    fn remove_surplus(&self) {
        let mut all = self.lock();
        let mut total: u64 = all.values().filter_map(|each| each.bytes.get()).sum();
        let last_use = |each: &Environment| each.folder.metadata().and_then(|found| found.modified()).ok();
        let mut idle: Vec<_> = all
            .iter()
            .filter(|(_, each)| Arc::strong_count(each) == 1)
            .filter_map(|(key, each)| Some((last_use(each), *key, *each.bytes.get()?)))
            .collect();
        idle.sort();
        for (_, key, bytes) in idle {
            if total <= self.bytes_max {
                return;
            }
            let Some(removed) = all.remove(&key) else { continue };
            total -= bytes;
            if let Err(error) = fs::remove_dir_all(&removed.folder) {
                tracing::warn!(folder = %removed.folder.display(), %error, "could not remove an environment");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<EnvironmentKey, Arc<Environment>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Environment {
    /// Where its packages lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl EnvironmentKey {
    /// The key of what these parts, of which none may be left out, make together.
    pub(crate) fn of(requirements: &str, wheels: &blake3::Hash, interpreter: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [requirements.as_bytes(), wheels.as_bytes(), interpreter.as_bytes()] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

/// Unpacks an archive to a folder, which appears whole. Gives the bytes of its files.
fn unpack(archive: impl Read, unfinished: &Path, place: &Path, bytes_max: u64) -> Result<u64, NodeError> {
    let failed = NodeError::io("make the environment", place);
    let named = unpack_files(archive, unfinished, bytes_max).and_then(|bytes| {
        // It stays over a power cut, so it must be whole after one.
        rustix::fs::syncfs(File::open(unfinished)?)?;
        match fs::rename(unfinished, place) {
            // One whose maker was given up has got there in the meantime: they are equal.
            Err(_) if place.is_dir() => fs::remove_dir_all(unfinished)?,
            renamed => renamed?,
        }
        Ok(bytes)
    });
    named.map_err(|error| {
        let _ = fs::remove_dir_all(unfinished);
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge => {
                NodeError::Refused(Refusal::new(Reason::Invalid, format!("the Python packages of the job: {error}")))
            }
            _ => failed(error),
        }
    })
}

/// Only files, by names that lead nowhere else: the archive comes out of a process in which something may have gone
/// wrong.
fn unpack_files(archive: impl Read, folder: &Path, bytes_max: u64) -> io::Result<u64> {
    let mut archive = tar::Archive::new(archive);
    let mut total: u64 = 0;
    create_folder(folder)?;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || path.as_os_str().is_empty() || !entry.header().entry_type().is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{}` is no file of them", path.display())));
        }
        total = total.saturating_add(entry.size());
        if total > bytes_max {
            let message = format!("they have more than {bytes_max} bytes, the node's `spe_environments_bytes`");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let place = folder.join(&path);
        if let Some(parent) = place.parent() {
            create_folder(parent)?;
        }
        let mode = if entry.header().mode()? & 0o100 == 0 { 0o644 } else { 0o755 };
        let mut file = File::options().write(true).create_new(true).open(&place)?;
        io::copy(&mut entry, &mut file)?;
        // The user of an SPE reads it, whatever this process gives its files.
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(total)
}

fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_folder(parent)?;
    }
    fs::create_dir(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// The bytes of all files below a folder.
fn length_of(folder: &Path) -> io::Result<u64> {
    let mut total = 0;
    for item in fs::read_dir(folder)? {
        let item = item?;
        total += if item.file_type()?.is_dir() { length_of(&item.path())? } else { item.metadata()?.len() };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use protocol::Status;

    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            // Written by hand, since the library refuses bad names.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, text.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn key(text: &str) -> EnvironmentKey {
        EnvironmentKey::of(text, &blake3::hash(b"wheels"), "3.11")
    }

    async fn make(all: &Arc<Environments>, name: &str, text: &str) -> Result<Arc<Environment>, NodeError> {
        let bytes = archive(&[("pack/a.py", text)]);
        all.get_or_make(key(name), async move { Ok(Box::new(io::Cursor::new(bytes)) as Box<dyn Read + Send>) }).await
    }

    /// Dates a use, so that the order does not depend on how fine the clock is.
    fn used_at(environment: &Environment, second: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        File::open(environment.folder()).unwrap().set_modified(time).unwrap();
    }

    async fn never() -> Result<Box<dyn Read + Send>, NodeError> {
        panic!("it is there already")
    }

    #[tokio::test]
    async fn an_environment_is_made_once_also_after_a_restart_and_never_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Arc::new(Environments::open(folder.path().join("environments"), 1_000));
        let all = open();
        let failed = all.get_or_make(key("a"), async { Err(NodeError::Spe("died".into())) }).await;
        assert!(failed.is_err());
        let made = make(&all, "a", "first").await.unwrap();
        let file = made.folder().join("pack/a.py");
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        all.get_or_make(key("a"), never()).await.unwrap();
        fs::create_dir(folder.path().join("environments/abc.unfinished")).unwrap();
        let again = open();
        again.get_or_make(key("a"), never()).await.unwrap();
        assert_eq!(fs::read_dir(folder.path().join("environments")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn the_least_recently_used_one_goes_but_none_that_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let all = Arc::new(Environments::open(folder.path().join("environments"), 25));
        let old = make(&all, "old", "0123456789").await.unwrap();
        used_at(&old, 1);
        let middle = make(&all, "middle", "0123456789").await.unwrap();
        used_at(&middle, 2);
        let (old_folder, middle_folder) = (old.folder().to_owned(), middle.folder().to_owned());
        drop(middle);
        let newest = make(&all, "new", "0123456789").await.unwrap();
        assert!(old_folder.exists() && !middle_folder.exists(), "the older one is in use");
        assert_eq!(fs::read_to_string(newest.folder().join("pack/a.py")).unwrap(), "0123456789");
        make(&all, "middle", "made anew").await.unwrap();
    }

    #[tokio::test]
    async fn names_that_lead_elsewhere_and_too_much_are_refused_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (unfinished, place) = (folder.path().join("unfinished"), folder.path().join("made"));
        for (name, text) in [("../out", "x"), ("/out", "x"), ("a/../../out", "x"), ("a", "12345678901")] {
            let refused = unpack(&archive(&[("good", ""), (name, text)])[..], &unfinished, &place, 10);
            let refused = refused.unwrap_err().refusal();
            assert_eq!(refused.status(), Status::Usage, "{name}: {refused}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
        }
        for _ in 0..2 {
            assert_eq!(unpack(&archive(&[("a", "1234567890")])[..], &unfinished, &place, 10).unwrap(), 10);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn another_requirement_wheel_or_python_is_another_environment() {
        let wheels = [blake3::hash(b"a"), blake3::hash(b"b")];
        let keys = [("x", 0, "3.11"), ("xy", 0, "3.11"), ("x", 1, "3.11"), ("x", 0, "3.12"), ("x3", 0, ".11")]
            .map(|(requirements, wheel, python)| EnvironmentKey::of(requirements, &wheels[wheel], python));
        assert_eq!(keys.into_iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
        assert_eq!(EnvironmentKey::from_hex(&keys[0].to_hex()), Some(keys[0]));
        assert_eq!(EnvironmentKey::from_hex("lock"), None);
    }
}
