//! What the engine may take of this machine, and which workers help, by the options of a command and the environment. It
//! never measures what is taken.

use std::{env, num::NonZeroUsize};

use client::SectorPath;
use terminal::Failure;

use crate::{
    arguments::{Room, WorkersUsed},
    engine::EngineSettings,
    workers::{WorkerAddress, Workers},
};

impl Room {
    /// The settings of an engine that looks for names in `base`.
    ///
    /// # Errors
    /// A size that is too small, or a folder that is not there.
    pub(crate) fn settings(&self, base: SectorPath) -> Result<EngineSettings, Failure> {
        let memory = self.memory.map_or_else(default_memory, |size| size.as_u64());
        if memory < MEMORY_BYTES_MIN {
            return Err(Failure::usage(format!("--memory: an engine needs {MEMORY_BYTES_MIN} bytes at least")));
        }
        if let Some(folder) = &self.spill_folder
            && !folder.is_dir()
        {
            return Err(Failure::usage(format!("--spill-folder: `{}` is no folder", folder.display())));
        }
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Ok(EngineSettings {
            memory_bytes: usize::try_from(memory).unwrap_or(usize::MAX),
            spill_bytes: self.spill.as_u64(),
            spill_folder: self.spill_folder.clone(),
            at_once: self.threads.unwrap_or(cores),
            base,
        })
    }
}

impl WorkersUsed {
    /// The workers; `None` where none is named.
    ///
    /// # Errors
    /// What of them cannot be, and a file that holds no certificate.
    pub(crate) fn workers(&self) -> Result<Option<Workers>, Failure> {
        let mut named = self.workers.clone();
        if named.is_empty() {
            let said = env::var(WORKERS_VARIABLE).unwrap_or_default();
            let parse = |text: &str| text.parse::<WorkerAddress>();
            let parsed: Result<_, _> =
                said.split(',').map(str::trim).filter(|text| !text.is_empty()).map(parse).collect();
            named = parsed.map_err(|why| Failure::usage(format!("${WORKERS_VARIABLE}: {why}")))?;
        }
        if named.is_empty() {
            return Ok(None);
        }
        let authority = self.workers_authority.clone().or_else(|| env::var_os(AUTHORITY_VARIABLE).map(Into::into));
        let from = self.workers_from.as_u64();
        Workers::new(&named, authority.as_deref(), self.insecure_workers, from).map(Some)
    }
}

/// Half of what is free now.
fn default_memory() -> u64 {
    let known = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    free_bytes(&known).map_or(FREE_BYTES_UNKNOWN, |free| (free / 2).max(MEMORY_BYTES_MIN))
}

fn free_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

const WORKERS_VARIABLE: &str = "SECTOR_WORKERS";
const AUTHORITY_VARIABLE: &str = "SECTOR_WORKERS_AUTHORITY";
/// With less, not even the first rows of a sort fit.
const MEMORY_BYTES_MIN: u64 = 16_000_000;
/// Where the machine does not say what is free.
const FREE_BYTES_UNKNOWN: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_what_the_kernel_says() {
        let text = "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   10000 kB\n";
        assert_eq!(free_bytes(text), Some(10_240_000));
        assert_eq!(free_bytes("MemTotal: 5 kB\n"), None);
    }
}
