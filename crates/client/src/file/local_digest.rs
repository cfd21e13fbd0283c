//! The digest of a local file, to compare it with one in the cloud (paths: download, tree). It never looks at a file's
//! name or times.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use protocol::limits;

/// The BLAKE3 digest of a local file.
pub(crate) fn digest_of(file: &Path) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut file = File::open(file)?;
    let mut buffer = vec![0; limits::FRAME_BYTES_MAX];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().into()),
            bytes => hasher.update(&buffer[..bytes]),
        };
    }
}
