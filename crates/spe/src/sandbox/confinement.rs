//! The bounds of one SPE, as the node tells it in its first message (door 7). It serves the path *job*. It never says
//! what the kernel offers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a process may have and use. The node makes it from its settings, and the SPE applies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// User and group number to become; `None` if the node itself may not change users.
    pub user: Option<u32>,
    /// Files and folders that may be read besides the system's libraries.
    pub read_paths: Vec<PathBuf>,
    /// Most bytes of memory of its own; files mapped for reading do not count.
    pub memory_bytes: u64,
    /// Most bytes in its scratch folder, which lies in memory.
    pub scratch_bytes: u64,
    /// Most bytes of one file that it writes, its results included.
    pub file_bytes: u64,
    /// Most threads of all its processes.
    pub threads: u32,
    /// Most files open at once.
    pub open_files: u32,
    /// Whether it may start further processes, each with the same memory limit again.
    pub fork: bool,
    /// Whether it starts programs itself, each locked in further: then no user code runs in it.
    pub starts_programs: bool,
}
