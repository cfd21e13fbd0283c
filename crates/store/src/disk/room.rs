//! Room that is kept on a disk for one file, ahead of its end: it can then grow although others have filled the disk.
//! Serves the journals and the audit record. It never changes what is in a file, or how long it is.

use std::{fs::File, io};

use rustix::fs::{FallocateFlags, fallocate};

/// Keeps room for the first `bytes` of a file, whether it is that long already or not. What the file system does not
/// offer is not an error: such a file has no room of its own.
///
/// # Errors
/// When there is no such room, or the disk failed.
pub fn keep_room(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        kept => Ok(kept?),
    }
}

/// Whether an error says that there is no room: it is over once there is some.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
