//! Copies files into a backup and out of one. A copy is private to its owner, is synced, and comes with its digest.
//! It never overwrites a file.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown},
    path::Path,
};

use protocol::Reason;
use terminal::failure::Failure;

use super::Interrupt;

/// Length and digest of bytes that were copied.
pub(super) struct Copied {
    pub(super) bytes: u64,
    pub(super) blake3: String,
}

/// Copies to a new file, and syncs it. `read` makes the error for a source that cannot be read.
pub(super) fn copy(
    from: &mut dyn Read,
    to: &Path,
    interrupt: &Interrupt,
    read: &dyn Fn(&io::Error) -> Failure,
) -> Result<Copied, Failure> {
    let unwritten = |error: io::Error| unwritten(to, &error);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let mut file = made.map_err(unwritten)?;
    let (mut hasher, mut bytes, mut buffer) = (blake3::Hasher::new(), 0, vec![0; COPY_BYTES]);
    loop {
        interrupt.check()?;
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                interrupt.check()?;
                return Err(read(&error));
            }
        };
        let chunk = buffer.get(..count).unwrap_or_default();
        hasher.update(chunk);
        file.write_all(chunk).map_err(unwritten)?;
        bytes += count as u64;
    }
    file.sync_all().map_err(unwritten)?;
    Ok(Copied { bytes, blake3: hasher.finalize().to_hex().to_string() })
}

/// Writes bytes as [`copy`] does.
pub(super) fn write(bytes: &[u8], to: &Path, interrupt: &Interrupt) -> Result<Copied, Failure> {
    copy(&mut &bytes[..], to, interrupt, &|error| unwritten(to, error))
}

/// The length and digest of a file.
pub(super) fn digest(file: &Path, interrupt: &Interrupt) -> Result<Copied, Failure> {
    let failed = |error: io::Error| Failure::local("read", file, &error);
    let mut from = File::open(file).map_err(failed)?;
    let (mut hasher, mut bytes, mut buffer) = (blake3::Hasher::new(), 0, vec![0; COPY_BYTES]);
    loop {
        interrupt.check()?;
        let count = from.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok(Copied { bytes, blake3: hasher.finalize().to_hex().to_string() });
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        bytes += count as u64;
    }
}

/// Makes a folder, and those above it, private to its owner.
pub(super) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unwritten(folder, &error))
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Path) -> Result<(), Failure> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unwritten(folder, &error))
}

/// If root made `made`, gives it to the user who owns `folder`, in which it lies.
pub(super) fn give_to_owner_of(folder: &Path, made: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| unwritten(made, &error);
    let (owner, own) = (fs::metadata(folder).map_err(failed)?, fs::symlink_metadata(made).map_err(failed)?);
    if (owner.uid(), owner.gid()) == (own.uid(), own.gid()) || own.uid() == owner.uid() {
        return Ok(());
    }
    chown(made, Some(owner.uid()), Some(owner.gid())).map_err(failed)
}

/// Gives a file these permissions.
pub(super) fn set_mode(file: &Path, mode: u32) -> Result<(), Failure> {
    fs::set_permissions(file, Permissions::from_mode(mode & 0o777)).map_err(|error| unwritten(file, &error))
}

/// The error for a file or folder that could not be written.
pub(super) fn unwritten(at: &Path, error: &io::Error) -> Failure {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        let message = format!("there is no room on the disk of `{}`; free some, or name another", at.display());
        return Failure::new(Reason::NoSpace, message);
    }
    Failure::local("write", at, error)
}

/// Bytes copied at a time.
const COPY_BYTES: usize = 256 * 1024;
