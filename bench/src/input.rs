//! Bytes to measure with, and the shell for the machine's own way.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    path::Path,
    process::Command,
};

/// Runs a line of shell.
pub(crate) fn shell(line: &str) -> Result<(), String> {
    let status = Command::new("sh").args(["-c", line]).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed")) }
}

/// Removes a file or a folder, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

/// Reads a file of holes until no memory lies free. What is written afterwards takes the place of pages that nobody
/// needs, as on a machine that has been at work for a while. Many hosts of virtual machines take memory back that lies
/// free: the first touch of a page then costs more than all that is measured.
pub(crate) fn fill_cache(folder: &Path) -> Result<(), String> {
    let path = folder.join("holes");
    let failed = |error| format!("{}: {error}", path.display());
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    file.set_len(memory_bytes("MemTotal:")?).map_err(failed)?;
    let (mut from, mut buffer) = (&file, vec![0; 64 << 20]);
    while memory_bytes("MemFree:")? > FREE_BYTES && from.read(&mut buffer).map_err(failed)? > 0 {}
    Ok(())
}

/// A line of `/proc/meminfo`, in bytes.
fn memory_bytes(name: &str) -> Result<u64, String> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|error| error.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes << 10).ok_or_else(|| format!("/proc/meminfo has no `{name}`"))
}

/// What the system keeps free anyway.
const FREE_BYTES: u64 = 512 << 20;

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
