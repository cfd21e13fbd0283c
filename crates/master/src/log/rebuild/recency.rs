//! How new what a node says of names is. Serves the rebuild of the names, where the newest knowledge decides. It never
//! looks at a clock: changes are counted.

use protocol::message::rebuild::MirrorPosition;

/// How new the knowledge of a file's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Recency {
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    /// Whether it concerns the file itself, and not only a folder above it.
    pub(crate) is_of_file: bool,
}

impl Recency {
    /// Nobody says how new it is.
    pub(crate) const NONE: Self = Self { generation: 0, sequence: 0, is_of_file: true };

    /// As new as the copy of a node.
    pub(crate) fn of(mark: &MirrorPosition) -> Self {
        Self { generation: mark.generation, sequence: mark.sequence, is_of_file: true }
    }

    /// The same for a folder above the file.
    pub(crate) fn of_folder(self) -> Self {
        Self { is_of_file: false, ..self }
    }
}
