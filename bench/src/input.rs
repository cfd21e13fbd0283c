//! Bytes to measure with, and the shell for the machine's own way.

use std::{fs::File, io::Write, path::Path, process::Command};

/// Runs a line of shell.
pub(crate) fn shell(line: &str) -> Result<(), String> {
    let status = Command::new("sh").args(["-c", line]).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed")) }
}

/// Writes random bytes from a fixed seed: nothing compresses, every run has the same.
pub(crate) fn write_random(path: &Path, bytes: u64) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(bytes);
    let mut file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut left = bytes;
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        random.fill(&mut buffer);
        let part = usize::try_from(left.min(buffer.len() as u64)).unwrap_or(buffer.len());
        file.write_all(&buffer[..part]).map_err(|error| format!("{}: {error}", path.display()))?;
        left -= part as u64;
    }
    file.sync_all().map_err(|error| format!("{}: {error}", path.display()))
}
