//! Takes a backup, while the roles run or while they are stopped. First come the rows, through the socket in the
//! role's folder ([`net::backup_socket`]), then the small files. The audit record comes last, so it reaches at least
//! as far as the accounts say. Everything is written to a folder without a name and read again. A backup never gets
//! its name before that.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use net::backup_socket;
use protocol::Reason;
use rustix::fs::{FlockOperation, flock};
use store::{Journal, StoreError};
use terminal::failure::Failure;

use super::{
    Interrupt, InterruptibleReader, READ_WAIT,
    file_copy::{self, Copied},
    manifest::{AUDIT_FOLDER, FILES_FOLDER, FORMAT, FileLine, MANIFEST_FILE, Manifest, Part, ROWS_FILE, Role},
    roles_in, verify,
};

/// A backup that was taken.
#[derive(Debug)]
pub(crate) struct TakenBackup {
    /// Where it is.
    pub(crate) folder: PathBuf,
    /// Its description of itself.
    pub(crate) manifest: Manifest,
    /// Files of the roles' folders that are not in it.
    pub(crate) left_out: Vec<PathBuf>,
}

/// Takes a backup of the roles in these folders into a new folder below `to`. Blocks.
pub(crate) fn take(to: &Path, folders: &[PathBuf], interrupt: &Interrupt) -> Result<TakenBackup, Failure> {
    let roles = roles_in(folders)?;
    file_copy::make_folder(to)?;
    remove_unfinished(to)?;
    let unfinished = UnfinishedBackup::begin(to)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut manifest = Manifest {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").into(),
        made_unix_millis: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        cloud: String::new(),
        parts: Vec::new(),
    };
    let mut left_out = Vec::new();
    for (role, folder) in roles {
        let cloud = authority_fingerprint(&folder)?.ok_or_else(|| {
            let message = format!("`authority.pem` is missing in `{}`; bring it back first", folder.display());
            Failure::new(Reason::NotFound, message)
        })?;
        if !manifest.cloud.is_empty() && manifest.cloud != cloud {
            return Err(Failure::usage("these are roles of two clouds; take a backup of each by itself"));
        }
        manifest.cloud = cloud;
        let part = take_part(role, &folder, &unfinished.folder.join(role.as_str()), &mut left_out, interrupt)?;
        manifest.parts.push(part);
    }
    file_copy::write(manifest.to_text()?.as_bytes(), &unfinished.folder.join(MANIFEST_FILE), interrupt)?;
    file_copy::sync(&unfinished.folder)?;
    // A backup that cannot be read again is none.
    verify::verify(&unfinished.folder, interrupt)?;
    interrupt.check()?;
    let folder = unfinished.name(to, &manifest)?;
    Ok(TakenBackup { folder, manifest, left_out })
}

/// The fingerprint of the authority in a role's folder, in hexadecimal; `None` if it has none.
pub(super) fn authority_fingerprint(folder: &Path) -> Result<Option<String>, Failure> {
    let file = folder.join("authority.pem");
    match fs::read_to_string(&file) {
        Ok(text) => {
            let print = net::identity::fingerprint(&text).map_err(|error| Failure::from(error.refusal()))?;
            Ok(Some(print.iter().map(|byte| format!("{byte:02x}")).collect()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::local("read", &file, &error)),
    }
}

fn take_part(
    role: Role,
    folder: &Path,
    to: &Path,
    left_out: &mut Vec<PathBuf>,
    interrupt: &Interrupt,
) -> Result<Part, Failure> {
    for made in [to, &to.join(FILES_FOLDER), &to.join(AUDIT_FOLDER)] {
        file_copy::make_folder(made)?;
    }
    let line = |name: String, copied: Copied, mode| {
        let Copied { bytes, blake3 } = copied;
        FileLine { name, bytes, blake3, mode }
    };
    let mut lines = vec![line(ROWS_FILE.into(), take_rows(role, folder, &to.join(ROWS_FILE), interrupt)?, 0o600)];
    let (rows, journal) = verify::read_part(role, &to.join(ROWS_FILE), interrupt)?;
    for small in small_files(folder, left_out)? {
        let name = format!("{FILES_FOLDER}/{}", small.name);
        let copied = file_copy::write(&small.bytes, &to.join(&name), interrupt)?;
        lines.push(line(name, copied, small.mode));
    }
    // After the accounts, so that it has all lines that they know of.
    if role == Role::Security {
        for (name, bytes) in audit_files(folder)? {
            let name = format!("{AUDIT_FOLDER}/{name}");
            let copied = file_copy::write(&bytes, &to.join(&name), interrupt)?;
            lines.push(line(name, copied, 0o600));
        }
    }
    for made in [&to.join(FILES_FOLDER), &to.join(AUDIT_FOLDER), to] {
        file_copy::sync(made)?;
    }
    Ok(Part { role, folder: folder.to_owned(), rows, journal, files: lines })
}

/// Takes the rows from the running role, or else from its journal.
fn take_rows(role: Role, folder: &Path, to: &Path, interrupt: &Interrupt) -> Result<Copied, Failure> {
    match backup_socket::connect(folder) {
        Ok(stream) => {
            let socket = |error: io::Error| Failure::failed(format!("cannot listen to the {}: {error}", role.name()));
            stream.set_read_timeout(Some(READ_WAIT)).map_err(socket)?;
            let silent = |error: &io::Error| {
                let message = format!("the {} did not tell all of its rows ({error}); see its log", role.name());
                Failure::new(Reason::Unavailable, message)
            };
            file_copy::copy(&mut InterruptibleReader::new(stream, interrupt), to, interrupt, &silent)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            take_stopped(role, folder, to, interrupt)
        }
        Err(error) => Err(Failure::local("ask for the rows in", folder, &error)),
    }
}

fn take_stopped(role: Role, folder: &Path, to: &Path, interrupt: &Interrupt) -> Result<Copied, Failure> {
    let journal = Journal::open(&folder.join(role.rows_file())).map_err(|error| match error {
        StoreError::JournalLocked { .. } => {
            let message = format!(
                "the {} in `{}` runs and gives no backup: it is just starting or stopping, or an older version; try again",
                role.name(),
                folder.display()
            );
            Failure::new(Reason::Unavailable, message)
        }
        other => Failure::from(other.refusal()),
    })?;
    let mut file = File::create_new(to).map_err(|error| file_copy::unwritten(to, &error))?;
    file_copy::set_mode(to, 0o600)?;
    let exported = journal.export(&mut io::BufWriter::new(&mut file));
    exported.map_err(|error| Failure::from(error.refusal()))?;
    file.sync_all().map_err(|error| file_copy::unwritten(to, &error))?;
    file_copy::digest(to, interrupt)
}

/// A small file of a role's folder.
struct SmallFile {
    name: String,
    bytes: Vec<u8>,
    mode: u32,
}

/// The small files of a role's folder, all of one moment: a certificate and its key are now and then replaced
/// together.
fn small_files(folder: &Path, left_out: &mut Vec<PathBuf>) -> Result<Vec<SmallFile>, Failure> {
    for _ in 0..LOOKS_MAX {
        let (before, _) = read_small_files(folder)?;
        let (after, large) = read_small_files(folder)?;
        let is_same = |one: &SmallFile, other: &SmallFile| one.name == other.name && one.bytes == other.bytes;
        let is_still = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| is_same(a, b));
        // During a renewal, its second half lies beside the files.
        let is_renewed = fs::exists(folder.join("certificate.pem.next")).unwrap_or(false);
        if is_still && !is_renewed {
            left_out.extend(large);
            return Ok(after);
        }
    }
    let message = format!("the files in `{}` are being changed all the time; try again", folder.display());
    Err(Failure::new(Reason::Busy, message))
}

fn read_small_files(folder: &Path) -> Result<(Vec<SmallFile>, Vec<PathBuf>), Failure> {
    let failed = |error: io::Error| Failure::local("read", folder, &error);
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for item in fs::read_dir(folder).map_err(failed)? {
        let item = item.map_err(failed)?;
        let (path, Ok(name)) = (item.path(), item.file_name().into_string()) else { continue };
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata,
            // Folders and sockets, and files that have just been removed.
            _ => continue,
        };
        let is_rows = Role::ALL.iter().any(|role| name.starts_with(role.rows_file()));
        if is_rows || name.starts_with('.') || TRANSIENT_SUFFIXES.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        if metadata.size() > SMALL_BYTES_MAX {
            large.push(path);
            continue;
        }
        match fs::read(&path) {
            Ok(bytes) => small.push(SmallFile { name, bytes, mode: metadata.permissions().mode() & 0o777 }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::local("read", &path, &error)),
        }
    }
    small.sort_by(|a, b| a.name.cmp(&b.name));
    large.sort();
    Ok((small, large))
}

/// The files of the audit record, without a line that is just being written.
fn audit_files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let folder = folder.join(AUDIT_FOLDER);
    let failed = |error: io::Error| Failure::local("read", &folder, &error);
    let listed = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(failed)?,
    };
    let mut found = Vec::new();
    for item in listed {
        let item = item.map_err(failed)?;
        let Ok(name) = item.file_name().into_string() else { continue };
        if !name.ends_with(".jsonl") {
            continue;
        }
        let mut bytes = fs::read(item.path()).map_err(failed)?;
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        if !bytes.is_empty() {
            found.push((name, bytes));
        }
    }
    found.sort();
    Ok(found)
}

/// A backup without a name yet; removed when dropped.
struct UnfinishedBackup {
    folder: PathBuf,
    /// Locked as long as a process works in it.
    lock: Option<File>,
}

impl UnfinishedBackup {
    fn begin(to: &Path) -> Result<Self, Failure> {
        let folder = to.join(format!("{UNFINISHED_PREFIX}{}", std::process::id()));
        file_copy::make_folder(&folder)?;
        let failed = |error: io::Error| file_copy::unwritten(&folder, &error);
        let lock = File::open(&folder).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
        Ok(Self { folder, lock: Some(lock) })
    }

    /// Gives it a name from its time.
    fn name(mut self, to: &Path, manifest: &Manifest) -> Result<PathBuf, Failure> {
        let time: String = manifest.made().chars().filter(|char| char.is_ascii_alphanumeric()).collect();
        let name = |number: u32| match number {
            0 => format!("{}{time}", verify::NAME_PREFIX),
            number => format!("{}{time}-{number}", verify::NAME_PREFIX),
        };
        for number in 0..NAMES_MAX {
            let named = to.join(name(number));
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(rustix::fs::CWD, &self.folder, rustix::fs::CWD, &named, flags) {
                Ok(()) => {
                    self.lock = None;
                    file_copy::sync(to)?;
                    return Ok(named);
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(file_copy::unwritten(&named, &error.into())),
            }
        }
        Err(Failure::new(Reason::Exists, format!("`{}` has too many backups of this second", to.display())))
    }
}

impl Drop for UnfinishedBackup {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // What cannot be removed now is removed by the next backup to this folder.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Removes what killed backups left behind.
fn remove_unfinished(to: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::local("list", to, &error);
    for item in fs::read_dir(to).map_err(failed)? {
        let item = item.map_err(failed)?;
        if !item.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX) {
            continue;
        }
        let is_free = File::open(item.path())
            .is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_free {
            let _ = fs::remove_dir_all(item.path());
        }
    }
    Ok(())
}

/// How the folder of an unfinished backup is named.
const UNFINISHED_PREFIX: &str = ".unfinished-";
/// Largest file of a role's folder that is included: settings, keys and topologies are small.
const SMALL_BYTES_MAX: u64 = 1 << 20;
/// Suffixes of files that are not valid yet, or that are not needed.
const TRANSIENT_SUFFIXES: [&str; 3] = [".tmp", ".next", ".log"];
/// How often the small files are read before giving up on a moment without changes.
const LOOKS_MAX: usize = 100;
/// Most backups in one second.
const NAMES_MAX: u32 = 100;
