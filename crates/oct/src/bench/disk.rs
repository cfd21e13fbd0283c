//! `bench io`: measures a disk as a node uses it. It writes and syncs a large file and reads it back from the disk.
//! It then reads small pieces at random, and syncs small files one after the other. It never touches any file but its
//! own, which it removes.

use std::{
    fs::{self, File, OpenOptions},
    io,
    num::NonZeroU64,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{Advice, fadvise};
use serde::Serialize;
use terminal::{Failure, Global, show};

use crate::arguments::BenchIo;

/// `sector oct bench io`.
pub(crate) fn io(bench: &BenchIo, global: &Global) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::local("measure the disk of", &bench.folder, &error);
    let figures = measure(&bench.folder, bench.bytes.as_u64()).map_err(failed)?;
    if global.json {
        return show::json(&figures);
    }
    let rows: Vec<_> = figures
        .iter()
        .map(|figure| {
            let rate = format!("{}/s", show::size(figure.bytes_per_s as u64));
            vec![
                figure.test.to_owned(),
                rate,
                format!("{:.0}", figure.operations_per_s),
                format!("{:.2}", figure.seconds),
            ]
        })
        .collect();
    show::table(&["test", " rate", " operations/s", " seconds"], &rows);
    Ok(())
}

/// The result of one test.
#[derive(Debug, Serialize)]
pub(crate) struct DiskFigure {
    test: &'static str,
    bytes: u64,
    operations: u64,
    seconds: f64,
    bytes_per_s: f64,
    operations_per_s: f64,
}

impl DiskFigure {
    fn new(test: &'static str, bytes: u64, operations: u64, took: Duration) -> Self {
        let seconds = took.as_secs_f64().max(f64::EPSILON);
        let (bytes_per_s, operations_per_s) = (bytes as f64 / seconds, operations as f64 / seconds);
        Self { test, bytes, operations, seconds, bytes_per_s, operations_per_s }
    }
}

fn measure(folder: &Path, bytes: u64) -> io::Result<Vec<DiskFigure>> {
    fs::create_dir_all(folder)?;
    // One that cannot be removed is recognisable by its name.
    let scratch = tempfile::Builder::new().prefix(".sector-bench-").tempdir_in(folder)?;
    let large = scratch.path().join("large");
    let write = write_and_sync(&large, bytes)?;
    let file = File::open(&large)?;
    let read = read_all(&file, bytes)?;
    let random = read_randomly(&file, bytes)?;
    Ok(vec![write, read, random, sync_often(scratch.path())?])
}

fn write_and_sync(path: &Path, bytes: u64) -> io::Result<DiskFigure> {
    // Not zeros: some disks and file systems store zeros as nothing.
    let mut buffer = vec![0; STEP_BYTES as usize];
    let mut lot = SplitMix64(bytes | 1);
    buffer.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&lot.next().to_le_bytes()));
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let (begun, mut at, mut writes) = (Instant::now(), 0, 0);
    while at < bytes {
        buffer[..8].copy_from_slice(&at.to_le_bytes());
        let step = STEP_BYTES.min(bytes - at);
        file.write_all_at(&buffer[..step as usize], at)?;
        (at, writes) = (at + step, writes + 1);
    }
    file.sync_all()?;
    Ok(DiskFigure::new("write and sync", bytes, writes, begun.elapsed()))
}

fn read_all(file: &File, bytes: u64) -> io::Result<DiskFigure> {
    forget_cached(file, bytes)?;
    let mut buffer = vec![0; STEP_BYTES as usize];
    let (begun, mut at, mut reads) = (Instant::now(), 0, 0);
    while at < bytes {
        let step = STEP_BYTES.min(bytes - at);
        file.read_exact_at(&mut buffer[..step as usize], at)?;
        (at, reads) = (at + step, reads + 1);
    }
    Ok(DiskFigure::new("read", bytes, reads, begun.elapsed()))
}

fn read_randomly(file: &File, bytes: u64) -> io::Result<DiskFigure> {
    forget_cached(file, bytes)?;
    let blocks = (bytes / BLOCK_BYTES).max(1);
    let block_bytes = BLOCK_BYTES.min(bytes);
    let mut buffer = vec![0; block_bytes as usize];
    let (mut lot, mut reads, begun) = (SplitMix64(7), 0, Instant::now());
    while reads < RANDOM_READS_MAX.min(blocks) && begun.elapsed() < TEST_TIME_MAX {
        file.read_exact_at(&mut buffer, lot.next() % blocks * BLOCK_BYTES)?;
        reads += 1;
    }
    Ok(DiskFigure::new("random 64 KiB reads", reads * block_bytes, reads, begun.elapsed()))
}

fn sync_often(folder: &Path) -> io::Result<DiskFigure> {
    let (mut syncs, begun) = (0, Instant::now());
    while syncs < SYNCS_MAX && begun.elapsed() < TEST_TIME_MAX {
        sync_once(folder, syncs)?;
        syncs += 1;
    }
    Ok(DiskFigure::new("small files, each synced", syncs * SMALL_BYTES as u64, syncs, begun.elapsed()))
}

/// Writes a small file and syncs it and its folder: the least that makes anything durable. The file stays.
fn sync_once(folder: &Path, number: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(folder.join(format!("small-{number}")))?;
    file.write_all_at(&[7; SMALL_BYTES], 0)?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}

/// Makes reads come from the disk. It is a hint; a file system without a disk (tmpfs) has nowhere else to read from.
fn forget_cached(file: &File, bytes: u64) -> io::Result<()> {
    Ok(fadvise(file, 0, NonZeroU64::new(bytes), Advice::DontNeed)?)
}

/// Numbers that look random: enough to miss the disk's own cache (splitmix64).
pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Bytes written and read at once, as a node does.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes of a random read: a block of a slice.
const BLOCK_BYTES: u64 = 64 << 10;
/// Bytes of a small file.
const SMALL_BYTES: usize = 4_096;
/// Random reads, if the time allows.
const RANDOM_READS_MAX: u64 = 20_000;
/// Small files, if the time allows.
const SYNCS_MAX: u64 = 1_000;
/// Longest time for each of these two.
const TEST_TIME_MAX: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn all_four_figures_are_measured_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [1, 100_000, 3 << 20] {
            let figures = measure(folder.path(), bytes).unwrap();
            assert_eq!(figures.len(), 4);
            assert!(figures.iter().all(|figure| figure.operations > 0 && figure.bytes_per_s > 0.0), "{figures:?}");
            assert_eq!((figures[0].bytes, figures[1].bytes), (bytes, bytes));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
