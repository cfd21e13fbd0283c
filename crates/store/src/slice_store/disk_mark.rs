//! The mark on each disk, in the file `seen`: which master was told everything that lies there. It is the position of
//! the small rows which that master gave afterwards. By it a node knows a disk that came from elsewhere, was away, or
//! is new, and a disk keeps it wherever it goes (`docs/paths/rebuild.md`). It never says what a master concludes from
//! it.

use std::path::Path;

use protocol::{JournalId, message::rebuild::MirrorPosition};

use crate::{Disk, disk::read_whole};

/// The mark in a data folder. An unreadable mark counts as none, which does no harm.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Option<MirrorPosition> {
    let bytes = read_whole(disk, &folder.join(DISK_MARK_FILE), SEEN_BYTES_MAX).ok()?;
    decode(std::str::from_utf8(&bytes).ok()?)
}

pub(crate) fn encode(mark: &MirrorPosition) -> String {
    format!("{} {} {}\n", mark.journal.0, mark.generation, mark.sequence)
}

/// An earlier build wrote only the journal: then the time is unknown, and the mark counts as from the beginning.
fn decode(text: &str) -> Option<MirrorPosition> {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let journal = JournalId(numbers.next()??);
    let (generation, sequence) = match (numbers.next(), numbers.next(), numbers.next()) {
        (None, ..) => (0, 0),
        (Some(generation), Some(sequence), None) => (generation?, sequence?),
        _ => return None,
    };
    Some(MirrorPosition { journal, generation, sequence })
}

/// The file in each data folder that says under which journal a master was told what lies there.
pub const DISK_MARK_FILE: &str = "seen";
/// Three numbers and their separators.
const SEEN_BYTES_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_an_earlier_build_is_read_and_nonsense_is_none() {
        assert_eq!(decode("5\n"), Some(MirrorPosition { journal: JournalId(5), generation: 0, sequence: 0 }));
        for text in ["", "x", "5 1", "5 1 x", "5 1 2 3", "-1"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
