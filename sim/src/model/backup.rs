//! The names in a copy of the journal. It is taken from time to time, and restored later; the master then has its old
//! state. It holds only what is known of the names, never the copy's bytes.

use std::{collections::BTreeSet, time::Duration};

use protocol::SectorPath;

use super::{ContentId, Model};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    /// Files that it may name, with their contents.
    names: BTreeSet<(SectorPath, ContentId)>,
    /// When it was taken.
    pub(crate) taken: Duration,
}

impl Backup {
    /// A copy that is taken now.
    pub(crate) fn take(book: &Model, now: Duration) -> Self {
        let mut names = BTreeSet::new();
        let mut note = |(path, content): (&SectorPath, ContentId)| _ = names.insert((path.clone(), content));
        match &book.recovered {
            Some(recovered) => recovered.names().for_each(note),
            None => {
                for region in &book.regions {
                    region.visible().iter().flat_map(|tree| tree.files()).for_each(&mut note);
                }
                for register in &book.registers {
                    register.possible(now).into_iter().for_each(|content| note((&register.path, content)));
                    register.begun().for_each(|content| note((&register.path, content)));
                }
                book.outputs.iter().for_each(|(path, content)| note((path, *content)));
            }
        }
        Self { names, taken: now }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &(SectorPath, ContentId)> {
        self.names.iter()
    }

    /// Whether a file that it may name is incompatible with this file: it needs a folder there, or is one of its
    /// folders.
    pub(super) fn is_in_the_way(&self, path: &SectorPath) -> bool {
        self.names.iter().any(|(at, _)| at != path && (path.is_within(at) || at.is_within(path)))
    }

    /// Whether a file that it may name is at this folder's path, or at one above it.
    pub(super) fn has_file_above(&self, folder: &SectorPath) -> bool {
        self.names.iter().any(|(at, _)| folder.is_within(at))
    }
}
