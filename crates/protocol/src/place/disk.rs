//! The state of one disk of a node, and the progress of its scrub. A node reports it in its status, and the master
//! shows it to people. It never reads a disk.

use serde::{Deserialize, Serialize};

use crate::SliceId;

/// One disk of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Its data folder.
    pub folder: String,
    /// Its state.
    pub state: DiskState,
    /// Bytes its slices take.
    pub used_bytes: u64,
    /// Bytes it can still take, above what is kept free.
    pub free_bytes: u64,
    /// What is wrong, where something is.
    pub why: String,
    /// The progress of its scrub; `None` where it is not scrubbed.
    pub scrub: Option<ScrubStatus>,
}

/// The state of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskState {
    /// It works.
    Ok,
    /// It has failed: nothing of it is served, and nothing is written to it until its node is started again.
    Failed,
    /// It was not there when its node started.
    Missing,
}

/// The progress of a disk's scrub: a pass reads every slice again, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// The last slice that was read in this pass.
    pub position: Option<SliceId>,
    /// When this pass began, in milliseconds since the Unix epoch; `None` between two passes.
    pub began_unix_millis: Option<u64>,
    /// When the last complete pass began.
    pub last_began_unix_millis: Option<u64>,
    /// When the last complete pass ended.
    pub finished_unix_millis: Option<u64>,
    /// Bytes read in this pass.
    pub checked_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
    /// Damaged slices that all passes found.
    pub corrupt: u64,
}

/// So many bytes in the largest unit of which there is one, for people: `32.0 MiB`.
pub fn size(bytes: u64) -> String {
    let (mut number, mut unit) = (bytes as f64, 0);
    while number >= 1_024.0 && unit + 1 < UNITS.len() {
        number /= 1_024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{number:.1} {}", UNITS[unit]) }
}

/// Units of sizes, each 1,024 times the one before.
const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_said_in_the_largest_unit_of_which_there_is_one() {
        let said = [0, 1_000, 1_024, 33_554_432, 1 << 60].map(size);
        assert_eq!(said, ["0 B", "1000 B", "1.0 KiB", "32.0 MiB", "1024.0 PiB"]);
    }
}
