//! `sector oct bench reads`: how many small random reads of one open file complete in a second. A program that cuts
//! pictures out of a survey reads in this way. The same reads of an ordinary local file are measured beside it. It
//! uses files of its own, which it removes when it ends or is interrupted. It never reads a user's file.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    sync::Arc,
};

use client::{Client, PutOptions, SectorPath};
use terminal::{Failure, Global};
use tokio::task::spawn_blocking;

use super::{
    disk::SplitMix64,
    names::{OperationFigure, measure_each, print},
};
use crate::arguments::BenchReads;

/// `sector oct bench reads`.
pub(crate) async fn reads(cloud: &Client, reads: &BenchReads, global: &Global) -> Result<(), Failure> {
    let bytes = reads.bytes.as_u64();
    let piece_bytes = reads.read_bytes.as_u64();
    if piece_bytes == 0 || piece_bytes > bytes.min(READ_BYTES_MAX) {
        let message = format!("a read must have 1 byte to 64 MiB, and no more than the file: {}", reads.read_bytes);
        return Err(Failure::usage(message));
    }
    let path = SectorPath::parse(&format!("/.bench-reads-{}", std::process::id()))?;
    let local = std::env::temp_dir().join(format!("sector-bench-reads-{}", std::process::id()));
    let measured = tokio::select! {
        measured = measure(cloud, &path, &local, reads) => measured,
        // The command as a whole listens for it too; here the files must be removed first.
        signal = terminal::interrupted() => Err(signal.failure("interrupted")),
    };
    let removed = match cloud.stat(&path).await {
        Ok(_) => cloud.remove_now(&path, false).await,
        Err(_) => Ok(()),
    };
    // If it could not be made, there is nothing to remove.
    let _ = fs::remove_file(&local);
    let figures = measured?;
    removed?;
    print(&figures, global)
}

async fn measure(
    cloud: &Client,
    path: &SectorPath,
    local: &std::path::Path,
    reads: &BenchReads,
) -> Result<Vec<OperationFigure>, Failure> {
    let (bytes, piece_bytes) = (reads.bytes.as_u64(), reads.read_bytes.as_u64());
    let options =
        PutOptions { bytes_expected: Some(bytes), copies: Some(1), sync_copies: Some(1), ..Default::default() };
    cloud.put(SplitMix64(1).take(bytes), path, &options, &|_| {}).await?;
    let file = cloud.open(path).await?;

    let failed = |error: io::Error| Failure::local("write the file to compare with", local, &error);
    let beside = write_beside(local.to_owned(), bytes).await.map_err(failed)?;

    let (mut lot, places) = (SplitMix64(7), bytes / piece_bytes);
    let offsets: Vec<u64> = (0..reads.reads).map(|_| lot.next() % places * piece_bytes).collect();
    let mut figures = Vec::new();
    for tasks in [1, reads.tasks as usize] {
        let read = move |file: client::FileReader, offset: u64| async move {
            let piece = file.read_at(offset, piece_bytes as usize).await?;
            if piece.len() as u64 == piece_bytes { Ok(()) } else { Err(Failure::failed("a read came short")) }
        };
        figures.push(measure_each("read of the cloud's file", &file, tasks, &offsets, read).await?);
        let read = move |file: Arc<File>, offset: u64| async move {
            // As a program without a runtime: no hand-over to another thread.
            let mut piece = vec![0; piece_bytes as usize];
            file.read_exact_at(&mut piece, offset).map_err(|error| Failure::failed(error.to_string()))
        };
        figures.push(measure_each("pread of a local file", &beside, tasks, &offsets, read).await?);
    }
    Ok(figures)
}

/// An open local file of the same size.
async fn write_beside(file: std::path::PathBuf, bytes: u64) -> io::Result<Arc<File>> {
    let written = spawn_blocking(move || {
        let mut written = File::options().read(true).write(true).create_new(true).open(file)?;
        io::copy(&mut SplitMix64(1).take(bytes), &mut written)?;
        written.flush()?;
        Ok(Arc::new(written))
    });
    written.await.map_err(io::Error::other)?
}

impl Read for SplitMix64 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(buffer.len())
    }
}

/// Most bytes of one read: each task holds a whole read in memory.
const READ_BYTES_MAX: u64 = 64 << 20;
