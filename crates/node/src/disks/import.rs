//! Imports native files that already lie on this node as slices, without a copy (path: `docs/paths/rebuild.md`,
//! import). Only files below the allowed folders qualify; the kernel resolves each path from there, so `..` and
//! symbolic links cannot leave. A file is hashed once and gets a second name in the data folder, which the store takes
//! over as the slice's. It is copied if its folder is on another file system or its owner keeps it. An import that
//! fails never loses a file.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Component, Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use protocol::{Reason, SliceHeader, SliceId, SliceMetadata, limits, message::transfer::NativeFile};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, linkat, openat2, renameat, unlinkat};
use store::{DiskSet, SliceHasher};

use crate::NodeError;

/// The folders of a node from which files may be imported, and the recent imports. The native name of a file stays
/// until the slice is published, so that no broken import loses a file. Then the name is given up: a file that someone
/// goes on writing to cannot be a slice.
#[derive(Debug)]
pub(crate) struct ImportFolders {
    /// The folder that relative paths begin at; always allowed.
    own: PathBuf,
    others: Vec<PathBuf>,
    imported: Mutex<BTreeMap<SliceId, FileFingerprint>>,
    /// Counts the additional names that files were given, so that no two are the same.
    links: AtomicU64,
}

/// Distinguishes a file, with its present content, from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileFingerprint {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl ImportFolders {
    /// The folders below `import/` in the data folder, and `others`.
    pub(crate) fn new(data_folder: &Path, others: &[PathBuf]) -> Self {
        Self {
            own: data_folder.join(OWN_FOLDER),
            others: others.to_vec(),
            imported: Mutex::default(),
            links: AtomicU64::new(0),
        }
    }

    /// A page of the files in and below a folder, sorted by path, and whether more follow. Blocks.
    pub(crate) fn list(&self, folder: &str, after: Option<&str>) -> Result<(Vec<NativeFile>, bool), NodeError> {
        let root = self.open_folder(folder)?;
        let after: Option<Vec<&str>> = after.map(|after| after.split('/').collect());
        let (mut files, mut bytes) = (Vec::new(), 0);
        // Folders still to be read, the next one last. Each is opened when its turn comes, from the root.
        let mut rest = vec![(Vec::new(), true)];
        while let Some((path, is_folder)) = rest.pop() {
            let text = path.join("/");
            if !is_folder {
                let length = self.length(&root, folder, &text)?;
                bytes += text.len() + ENTRY_BYTES;
                if files.len() == limits::LISTING_PAGE_ENTRIES_MAX || bytes > limits::MESSAGE_BYTES_MAX {
                    return Ok((files, true));
                }
                files.push(NativeFile { path: text, bytes: length });
                continue;
            }
            if path.len() >= limits::PATH_COMPONENTS_MAX {
                return Err(refused(format!("`{folder}/{text}` is too deep to be imported")));
            }
            let mut items = self.items(&root, folder, &text)?;
            items.retain(|(name, is_folder)| !comes_before(&path, name, *is_folder, after.as_deref()));
            items.sort_by(|a, b| b.cmp(a));
            rest.extend(items.into_iter().map(|(name, is_folder)| ([path.clone(), vec![name]].concat(), is_folder)));
        }
        Ok((files, false))
    }

    /// Makes a file the bytes of a new slice; `progress` is told how many bytes were read. Blocks.
    pub(crate) fn import(
        &self,
        store: &DiskSet,
        header: SliceHeader,
        folder: &str,
        name: &str,
        keep: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<SliceMetadata, NodeError> {
        let slice = header.slice;
        if header.path.is_in_memory() {
            return Err(refused(format!("`{}` would be kept in memory only; import it elsewhere", header.path)));
        }
        let shown = Path::new(folder).join(name);
        let root = self.open_folder(folder)?;
        let file = open_file(&root, folder, name)?;
        let before = FileFingerprint::of(&file, &shown)?;
        // Of several disks, the one on which the file lies, if it lies on any of them.
        let lies_there = |folder: &PathBuf| folder.metadata().is_ok_and(|found| found.dev() == before.device);
        let jobs = store.jobs_folders().into_iter().find(lies_there).filter(|_| !keep);
        let metadata = if let Some(jobs) = jobs {
            let mut hasher = SliceHasher::new();
            let mut take = |bytes: &[u8]| {
                hasher.update(bytes);
                Ok(())
            };
            read_all(&file, &shown, &mut take, progress)?;
            unchanged(&file, &shown, before)?;
            // A new name each time: a second try must not take the file of a first try that is still at work.
            let linked = jobs.join(format!("import-{slice}-{}", self.links.fetch_add(1, Ordering::Relaxed)));
            link(&file, &linked, &shown)?;
            let adopted = store.ingest_file(header, &linked, hasher.finish());
            // The file still has its own name. Nothing is left at the new name if it became the slice's.
            let _ = std::fs::remove_file(&linked);
            adopted?
        } else {
            let mut writer = store.begin(header)?;
            read_all(&file, &shown, &mut |bytes| Ok(writer.write(bytes)?), progress)?;
            unchanged(&file, &shown, before)?;
            writer.finish(None)?
        };
        let mut imported = self.imported.lock().unwrap_or_else(PoisonError::into_inner);
        if imported.len() >= IMPORTED_MAX {
            imported.pop_first();
        }
        imported.insert(slice, before);
        Ok(metadata)
    }

    /// Removes the native name of a file that was imported as this slice, if it is still the same file. Blocks.
    pub(crate) fn unlink_original(&self, folder: &str, name: &str, slice: SliceId) -> Result<(), NodeError> {
        self.leave_while(folder, name, slice, || ())
    }

    /// As [`unlink_original`](Self::unlink_original), with `meanwhile` called in the middle.
    fn leave_while(&self, folder: &str, name: &str, slice: SliceId, meanwhile: impl FnOnce()) -> Result<(), NodeError> {
        let shown = Path::new(folder).join(name);
        let root = self.open_folder(folder)?;
        self.is_imported(&open_file(&root, folder, name)?, &shown, slice)?;
        let (above, last) = name.rsplit_once('/').unwrap_or((".", name));
        let above = open_beneath(&root, above, OFlags::PATH | OFlags::DIRECTORY, &shown)?;
        let failed = |operation| {
            let shown = shown.clone();
            move |error: rustix::io::Errno| NodeError::io(operation, &shown)(error.into())
        };
        meanwhile();
        // Renamed to a name that nobody else knows, and checked once more there. So the file removed is the file
        // checked, not one that somebody put at the name in between.
        let own = format!(".sector-leave-{slice}-{}", self.links.fetch_add(1, Ordering::Relaxed));
        renameat(&above, last, &above, &own).map_err(failed("rename"))?;
        let found = open_beneath(&above, &own, OFlags::RDONLY | OFlags::NONBLOCK, &shown).map(File::from);
        if let Err(error) = found.and_then(|file| self.is_imported(&file, &shown, slice)) {
            // Uses a link, which never replaces a file that is there by now. If one is, this file stays here and the
            // error says so.
            linkat(&above, &own, &above, last, AtFlags::empty()).map_err(|_| {
                refused(format!("`{}` was replaced meanwhile; the file lies beside it as `{own}`", shown.display()))
            })?;
            unlinkat(&above, &own, AtFlags::empty()).map_err(failed("remove"))?;
            return Err(error);
        }
        unlinkat(&above, &own, AtFlags::empty()).map_err(failed("remove"))?;
        self.imported.lock().unwrap_or_else(PoisonError::into_inner).remove(&slice);
        Ok(())
    }

    /// Fails unless this is the file, with the same content, that was imported as this slice.
    fn is_imported(&self, file: &File, shown: &Path, slice: SliceId) -> Result<(), NodeError> {
        let now = FileFingerprint::of(file, shown)?;
        let imported = self.imported.lock().unwrap_or_else(PoisonError::into_inner);
        if imported.get(&slice) == Some(&now) {
            return Ok(());
        }
        Err(refused(format!("`{}` is not the file that was imported; it keeps its name", shown.display())))
    }

    /// Opens a folder that may be imported from.
    fn open_folder(&self, folder: &str) -> Result<OwnedFd, NodeError> {
        let path = Path::new(folder);
        let has_dots = path.components().any(|component| component == Component::ParentDir);
        let absolute = if path.is_absolute() { path.to_owned() } else { self.own.join(path) };
        let allowed = std::iter::once(&self.own).chain(&self.others).find(|allowed| absolute.starts_with(allowed));
        let Some(allowed) = allowed.filter(|_| !has_dots) else {
            let names: Vec<_> = self.others.iter().map(|folder| folder.display().to_string()).collect();
            return Err(refused(format!(
                "`{folder}` may not be imported from: this node allows `{}`{}; its operator may add to `import_folders`",
                self.own.display(),
                names.iter().map(|name| format!(", `{name}`")).collect::<String>()
            )));
        };
        let root = rustix::fs::open(allowed, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(|error| not_there(allowed, error))?;
        match absolute.strip_prefix(allowed) {
            Ok(rest) if rest.as_os_str().is_empty() => Ok(root),
            Ok(rest) => open_beneath(&root, rest, OFlags::PATH | OFlags::DIRECTORY, &absolute),
            Err(_) => Ok(root),
        }
    }

    /// The files and folders in a folder; everything else, including symbolic links, is left out.
    fn items(&self, root: &OwnedFd, folder: &str, path: &str) -> Result<Vec<(String, bool)>, NodeError> {
        let shown = Path::new(folder).join(path);
        let path = if path.is_empty() { "." } else { path };
        let opened = open_beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY, &shown)?;
        let failed = |error: rustix::io::Errno| NodeError::io("list", &shown)(error.into());
        let mut items = Vec::new();
        for item in Dir::read_from(&opened).map_err(failed)? {
            let item = item.map_err(failed)?;
            let Ok(name) = item.file_name().to_str() else {
                let name = item.file_name().to_string_lossy();
                return Err(refused(format!("`{}/{name}` has a name that is not UTF-8; rename it", shown.display())));
            };
            let kind = match item.file_type() {
                FileType::Unknown => rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| FileType::from_raw_mode(stat.st_mode))
                    .map_err(failed)?,
                known => known,
            };
            match kind {
                FileType::RegularFile => items.push((name.to_owned(), false)),
                FileType::Directory if name != "." && name != ".." => items.push((name.to_owned(), true)),
                _ => {}
            }
        }
        Ok(items)
    }

    fn length(&self, root: &OwnedFd, folder: &str, name: &str) -> Result<u64, NodeError> {
        let shown = Path::new(folder).join(name);
        let stat = rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|error| NodeError::io("look at", &shown)(error.into()))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }
}

impl FileFingerprint {
    fn of(file: &File, shown: &Path) -> Result<Self, NodeError> {
        let found = file.metadata().map_err(NodeError::io("look at", shown))?;
        if !found.is_file() {
            return Err(refused(format!("`{}` is no file", shown.display())));
        }
        let modified = (found.mtime(), found.mtime_nsec());
        Ok(Self { device: found.dev(), inode: found.ino(), bytes: found.len(), modified })
    }
}

/// Whether an item of the folder `path` was listed in an earlier page. A folder was if everything in it was.
fn comes_before(path: &[String], name: &str, is_folder: bool, after: Option<&[&str]>) -> bool {
    let Some(after) = after else { return false };
    let item: Vec<&str> = path.iter().map(String::as_str).chain([name]).collect();
    if is_folder { item.as_slice() < &after[..after.len().min(item.len())] } else { item.as_slice() <= after }
}

fn open_file(root: &OwnedFd, folder: &str, name: &str) -> Result<File, NodeError> {
    let shown = Path::new(folder).join(name);
    // Opened without blocking: a pipe of that name would never answer.
    open_beneath(root, name, OFlags::RDONLY | OFlags::NONBLOCK, &shown).map(File::from)
}

/// Opens what is below a folder; the kernel refuses every way out of it.
fn open_beneath(root: &OwnedFd, path: impl AsRef<Path>, flags: OFlags, shown: &Path) -> Result<OwnedFd, NodeError> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    openat2(root, path.as_ref(), flags, Mode::empty(), resolve).map_err(|error| match error {
        rustix::io::Errno::XDEV | rustix::io::Errno::LOOP => refused(format!(
            "`{}` leads out of its folder or over a symbolic link; name the file itself",
            shown.display()
        )),
        error => not_there(shown, error),
    })
}

/// Reads a file from its beginning to its end.
fn read_all(
    file: &File,
    shown: &Path,
    take: &mut dyn FnMut(&[u8]) -> Result<(), NodeError>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), NodeError> {
    let mut buffer = vec![0; READ_BYTES];
    let mut done = 0;
    loop {
        match file.read_at(&mut buffer, done) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                take(&buffer[..count])?;
                done += count as u64;
                progress(done);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(NodeError::io("read", shown)(error)),
        }
        if done > limits::SLICE_BYTES_MAX {
            return Err(refused(format!("`{}` is larger than a slice may be; cut it", shown.display())));
        }
    }
}

/// Refuses a file that was written to while it was read.
fn unchanged(file: &File, shown: &Path, before: FileFingerprint) -> Result<(), NodeError> {
    if FileFingerprint::of(file, shown)? == before {
        return Ok(());
    }
    let message = format!("`{}` changed while it was read; import it when nobody writes to it", shown.display());
    Err(refused(message))
}

/// Gives an open file another name: that very file, whatever has its old name by now.
fn link(file: &File, to: &Path, shown: &Path) -> Result<(), NodeError> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, from.as_str(), CWD, to, AtFlags::SYMLINK_FOLLOW).map_err(|error| match error {
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => refused(format!(
            "`{}` is another user's and cannot become a slice as it is; import it with `--keep`",
            shown.display()
        )),
        error => NodeError::io("link", shown)(error.into()),
    })
}

fn not_there(path: &Path, error: rustix::io::Errno) -> NodeError {
    match error {
        rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => {
            NodeError::refused(Reason::NotFound, format!("there is no `{}` on this node", path.display()))
        }
        error => NodeError::io("open", path)(error.into()),
    }
}

fn refused(message: String) -> NodeError {
    NodeError::refused(Reason::NotPermitted, message)
}

/// The folder in a data folder from which files may always be imported.
const OWN_FOLDER: &str = "import";
/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// Bytes of an entry in a page besides its path, at most.
const ENTRY_BYTES: usize = 24;
/// Imports whose native names may still be removed, a few hundred kilobytes; older ones keep theirs.
const IMPORTED_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Status;
    use std::{fs, os::unix::fs::symlink, sync::Arc};

    use protocol::{JournalId, RecordFraming, SectorPath, UserName, Version};
    use store::{OsDisk, SliceStore};

    use super::*;

    struct Fixture {
        folder: tempfile::TempDir,
        store: Arc<DiskSet>,
        import: ImportFolders,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let (store, _) = SliceStore::open(Arc::new(OsDisk), &data).unwrap();
        let allowed = folder.path().join("allowed");
        fs::create_dir_all(data.join("import/sub")).unwrap();
        fs::create_dir_all(&allowed).unwrap();
        let import = ImportFolders::new(&data, &[allowed]);
        Fixture { folder, store: DiskSet::of(store), import }
    }

    impl Fixture {
        fn write(&self, at: &str, bytes: &[u8]) -> PathBuf {
            let file = self.folder.path().join(at);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, bytes).unwrap();
            file
        }

        fn header(slice: u128) -> SliceHeader {
            SliceHeader {
                slice: SliceId(slice),
                path: SectorPath::parse("/a").unwrap(),
                version: Version(1),
                owner: UserName::new("alice").unwrap(),
                modified_unix_millis: 0,
                copies: 1,
                records: RecordFraming::File,
                user: BTreeMap::new(),
                journal: JournalId(1),
                acl: None,
            }
        }

        fn import(&self, folder: &str, name: &str, keep: bool) -> Result<SliceMetadata, NodeError> {
            self.import.import(&self.store, Self::header(1), folder, name, keep, &mut |_| ())
        }

        fn status(result: Result<impl std::fmt::Debug, NodeError>) -> Status {
            result.unwrap_err().refusal().status()
        }
    }

    // Promise 8.
    #[test]
    fn a_file_becomes_a_slice_without_a_copy_and_gives_its_name_up_when_told() {
        let made = fixture();
        let file = made.write("data/import/sub/f", &[7; 100_000]);
        let inode = fs::metadata(&file).unwrap().ino();
        let metadata = made.import("sub", "f", false).unwrap();
        assert_eq!(metadata.bytes, 100_000);
        assert_eq!(metadata.digest.0, *blake3_of(&[7; 100_000]));
        assert!(file.exists(), "until it is published");
        let staged = made.folder.path().join(format!("data/staging/{}", SliceId(1)));
        assert_eq!(fs::metadata(staged).unwrap().ino(), inode, "the same bytes on the disk");
        made.import.unlink_original("sub", "f", SliceId(1)).unwrap();
        assert!(!file.exists());
        let mut bytes = Vec::new();
        made.store.open_slice(SliceId(1)).unwrap().read_at(&mut bytes, 0, 100_000).unwrap();
        assert_eq!(bytes, [7; 100_000]);
    }

    #[test]
    fn a_kept_file_is_copied_and_stays_its_owners() {
        let made = fixture();
        let file = made.write("allowed/f", b"bytes");
        let folder = made.folder.path().join("allowed");
        made.import(folder.to_str().unwrap(), "f", true).unwrap();
        let staged = made.folder.path().join(format!("data/staging/{}", SliceId(1)));
        assert_ne!(fs::metadata(staged).unwrap().ino(), fs::metadata(&file).unwrap().ino());
    }

    /// The slice would be gone with its node, and the file was its owner's only copy.
    #[test]
    fn nothing_is_imported_into_memory_and_the_file_stays_where_it_is() {
        let made = fixture();
        let file = made.write("data/import/f", b"bytes");
        for keep in [false, true] {
            let header = SliceHeader { path: SectorPath::parse("/memory/f").unwrap(), ..Fixture::header(1) };
            let refused = made.import.import(&made.store, header, ".", "f", keep, &mut |_| ());
            let refusal = refused.unwrap_err().refusal();
            assert_eq!(refusal.status(), Status::Refused, "{refusal}");
            assert!(refusal.message.contains("`/memory/f`") && refusal.message.contains("elsewhere"), "{refusal}");
        }
        assert!(file.exists() && made.store.held().is_empty());
    }

    #[test]
    fn a_file_that_is_another_by_now_keeps_its_name() {
        let made = fixture();
        let file = made.write("data/import/f", b"bytes");
        made.import(".", "f", false).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, b"other").unwrap();
        assert_eq!(Fixture::status(made.import.unlink_original(".", "f", SliceId(1))), Status::Refused);
        assert_eq!(Fixture::status(made.import.unlink_original(".", "f", SliceId(2))), Status::Refused);
        assert_eq!(fs::read(&file).unwrap(), b"other");
    }

    // Promise 8.
    #[test]
    fn a_file_that_is_put_at_the_name_while_it_is_given_up_is_not_removed() {
        let made = fixture();
        let file = made.write("data/import/sub/f", b"bytes");
        made.import("sub", "f", false).unwrap();
        let replace = || {
            fs::remove_file(&file).unwrap();
            fs::write(&file, b"other").unwrap();
        };
        assert_eq!(Fixture::status(made.import.leave_while("sub", "f", SliceId(1), replace)), Status::Refused);
        assert_eq!(fs::read(&file).unwrap(), b"other");
        let names = fs::read_dir(file.parent().unwrap()).unwrap();
        assert_eq!(names.map(|name| name.unwrap().file_name()).collect::<Vec<_>>(), ["f"], "and nothing beside it");
    }

    // Promise 8.
    #[test]
    fn nothing_outside_the_allowed_folders_can_be_named() {
        let made = fixture();
        made.write("secret/f", b"secret");
        made.write("data/import/f", b"bytes");
        let outside = made.folder.path().join("secret");
        let import = made.folder.path().join("data/import");
        symlink(&outside, import.join("way")).unwrap();
        symlink(outside.join("f"), import.join("link")).unwrap();
        let dotted = import.join("../../secret");
        for folder in [outside.to_str().unwrap(), "/", "../../secret", "sub/../..", dotted.to_str().unwrap(), "way"] {
            assert_eq!(Fixture::status(made.import.list(folder, None)), Status::Refused, "{folder}");
            assert_eq!(Fixture::status(made.import(folder, "f", true)), Status::Refused, "{folder}");
        }
        for name in ["link", "way/f", "../../secret/f", "/etc/passwd", "sub/../../../secret/f"] {
            assert_eq!(Fixture::status(made.import(".", name, true)), Status::Refused, "{name}");
            assert_eq!(Fixture::status(made.import.unlink_original(".", name, SliceId(1))), Status::Refused, "{name}");
        }
        assert_eq!(Fixture::status(made.import(".", "absent", true)), Status::NotFound);
        assert_eq!(Fixture::status(made.import(".", "sub", true)), Status::Refused, "a folder");
        // Links are not listed either.
        let (files, more) = made.import.list("", None).unwrap();
        assert_eq!((files.len(), more), (1, false));
        // A folder whose name begins like an allowed one.
        let beside = made.folder.path().join("allowed-not");
        fs::create_dir(&beside).unwrap();
        assert_eq!(Fixture::status(made.import.list(beside.to_str().unwrap(), None)), Status::Refused);
    }

    #[test]
    fn a_large_folder_is_told_in_pages_each_file_once_and_in_order() {
        let made = fixture();
        for folder in ["", "a", "a/deep", "a-b", "z"] {
            for number in 0..450 {
                made.write(&format!("data/import/{folder}/{number:03}"), b"x");
            }
        }
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (page, more) = made.import.list(".", after.as_deref()).unwrap();
            assert!(page.len() <= limits::LISTING_PAGE_ENTRIES_MAX);
            all.extend(page.into_iter().map(|file| file.path));
            after = all.last().cloned();
            if !more {
                break;
            }
        }
        assert_eq!(all.len(), 5 * 450);
        let parts: Vec<Vec<&str>> = all.iter().map(|path| path.split('/').collect()).collect();
        assert!(parts.is_sorted_by(|a, b| a < b));
    }

    fn blake3_of(bytes: &[u8]) -> Box<[u8; 32]> {
        let mut hasher = SliceHasher::new();
        hasher.update(bytes);
        Box::new(hasher.finish().digest.0)
    }
}
