//! A file of the cloud as a source of bytes. Reads wait in the caller's thread, which must be none of the runtime's: those
//! that decode images are threads of their own. It never reads more than it is asked for.

use std::io::{self, Read};

use astroportal::tuples::StorageLevel;
use client::{ByteRuns, ClientError, Distance, FileReader};
use fits::{ByteSource, Runs};
use tokio::runtime::Handle;

/// An open file of the cloud.
#[derive(Clone, Debug)]
pub(crate) struct CloudSource {
    file: FileReader,
    runtime: Handle,
}

impl CloudSource {
    /// For use by threads that wait. Must be called within the runtime.
    pub(crate) fn new(file: FileReader) -> Self {
        Self { file, runtime: Handle::current() }
    }

    /// How near the copy is that is read now.
    pub(crate) fn level(&self) -> StorageLevel {
        match self.file.distance() {
            Some(Distance::SameNode) => StorageLevel::Machine,
            Some(Distance::SameRack | Distance::SameSite) => StorageLevel::Site,
            Some(Distance::OtherSite) | None => StorageLevel::Elsewhere,
        }
    }

    /// The file.
    pub(crate) fn file(&self) -> &FileReader {
        &self.file
    }

    /// The file from its beginning to its end.
    pub(crate) fn stream(self) -> impl Read {
        Stream { source: self, at: 0, buffer: Vec::new(), used: 0 }
    }
}

impl ByteSource for CloudSource {
    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.copy_from_slice(&self.read_owned(offset, buffer.len())?);
        Ok(())
    }

    fn read_owned(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let found = self.runtime.block_on(self.file.read_at(offset, bytes)).map_err(other)?;
        if found.len() == bytes { Ok(found) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn read_runs(&self, runs: &Runs) -> Option<io::Result<Vec<u8>>> {
        if self.level() == StorageLevel::Machine {
            return None;
        }
        let Runs { from, run_bytes, stride_bytes, runs } = *runs;
        let runs = ByteRuns { from, run_bytes, stride_bytes, runs };
        Some(self.runtime.block_on(self.file.read_runs(&runs)).map_err(other))
    }

    fn read_ahead_bytes(&self) -> usize {
        READ_AHEAD_BYTES
    }
}

struct Stream {
    source: CloudSource,
    at: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            let file = &self.source.file;
            self.buffer = self.source.runtime.block_on(file.read_at(self.at, STREAM_BYTES)).map_err(other)?;
            self.at += self.buffer.len() as u64;
            self.used = 0;
        }
        let taken = buffer.len().min(self.buffer.len() - self.used);
        buffer[..taken].copy_from_slice(&self.buffer[self.used..self.used + taken]);
        self.used += taken;
        Ok(taken)
    }
}

fn other(error: ClientError) -> io::Error {
    io::Error::other(error)
}

/// Two blocks of checksums: over a network a round trip costs more than they do.
const READ_AHEAD_BYTES: usize = 128 * 1024;
/// Bytes of a stream that are read at once.
const STREAM_BYTES: usize = 4 << 20;
