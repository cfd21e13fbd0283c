//! An entry's folder and age, for the tables that others keep beside the names. Serves policies, trash, quotas and
//! lifetimes. Never more than one entry's own properties.

use protocol::FileId;

use super::{Namespace, ROOT};

impl Namespace {
    /// The folder that holds an entry; `None` for the root, for a missing entry and for a cut-off folder.
    pub(crate) fn parent(&self, id: FileId) -> Option<FileId> {
        if id == ROOT {
            return None;
        }
        self.items.id(self.items.parent(self.items.find(id)?)?)
    }

    /// Whether an entry is a folder with nothing in it.
    pub(crate) fn is_empty_folder(&self, id: FileId) -> bool {
        let folder = self.items.find(id).and_then(|slot| self.items.folder(slot));
        folder.is_some_and(|folder| folder.children.is_empty())
    }

    /// When an entry's content was last written, in milliseconds since the Unix epoch.
    pub(crate) fn modified(&self, id: FileId) -> Option<u64> {
        Some(self.items.modified_unix_millis(self.items.find(id)?))
    }
}
