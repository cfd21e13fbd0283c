//! What an operator decides about SPEs, as this crate needs it. Serves the path *job*. The node makes it from its
//! settings and has checked each value. It never reads a settings file.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

/// How SPEs are to be confined. `docs/settings.md` describes each value under its name with `spe_` before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    /// The node's name, which tells its user numbers from those of other nodes of the machine.
    pub node: String,
    /// SPEs at work at once.
    pub slots: u32,
    /// Whether functions are refused if a layer is missing.
    pub is_required: bool,
    /// User (and group) numbers for SPEs, if the node runs as root.
    pub users: RangeInclusive<u32>,
    /// Most memory of an SPE's own; 0: the machine's memory divided by `slots`.
    pub memory_bytes: u64,
    /// The control group to divide; by default the process's own.
    pub cgroup: Option<PathBuf>,
    /// Most bytes in the scratch folder of a function.
    pub scratch_bytes: u64,
    /// Most bytes of one file that a function writes; 0: the free space of the disk less `reserve_bytes`.
    pub file_bytes: u64,
    /// Bytes of the disk that results leave free.
    pub reserve_bytes: u64,
    /// Most threads of an SPE.
    pub threads_max: u32,
    /// Most files that an SPE has open.
    pub open_files_max: u32,
    /// Whether functions may start processes.
    pub fork: bool,
    /// The Python for functions in Python; by default the first in `PATH`.
    pub python: Option<PathBuf>,
    /// Files and folders that functions may read beside the system's libraries.
    pub read_paths: Vec<PathBuf>,
    /// Folders that no function may see: the node's own.
    pub hidden_folders: Vec<PathBuf>,
    /// How long a function may show no sign of life; `None`: for ever.
    pub silence_max: Option<Duration>,
    /// How long a function may work on one task; `None`: for ever.
    pub task_max: Option<Duration>,
}

/// A node's usual settings; a test of the node keeps the two alike.
impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            node: String::new(),
            slots: 0,
            is_required: false,
            users: 2_000_000_000..=2_000_065_535,
            memory_bytes: 0,
            cgroup: None,
            scratch_bytes: 256 << 20,
            file_bytes: 0,
            reserve_bytes: 1 << 30,
            threads_max: 256,
            open_files_max: 256,
            fork: false,
            python: None,
            read_paths: Vec::new(),
            hidden_folders: Vec::new(),
            silence_max: Some(Duration::from_secs(3_600)),
            task_max: Some(Duration::from_secs(86_400)),
        }
    }
}
