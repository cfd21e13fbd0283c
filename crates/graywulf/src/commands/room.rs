//! What the engine may take of this machine, by the options of a command. It never measures what is taken.

use std::num::NonZeroUsize;

use client::SectorPath;
use terminal::Failure;

use crate::{arguments::Room, engine::EngineSettings};

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
