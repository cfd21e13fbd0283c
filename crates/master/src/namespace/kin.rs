//! An entry's folder and age, for the tables that others keep beside the names. Serves policies, trash, quotas and
//! lifetimes. Never more than one entry's own properties.

use protocol::FileId;

use super::{ItemKind, Namespace, ROOT};

impl Namespace {
    /// The folder that holds an entry; `None` for the root and for what is not there.
    pub(crate) fn parent(&self, id: FileId) -> Option<FileId> {
        self.items.get(&id).filter(|_| id != ROOT).map(|item| item.parent)
    }

    /// Whether an entry is a folder with nothing in it.
    pub(crate) fn is_empty_folder(&self, id: FileId) -> bool {
        matches!(self.items.get(&id).map(|item| &item.kind), Some(ItemKind::Folder(children)) if children.is_empty())
    }

    /// When an entry's content was last written, in milliseconds since the Unix epoch.
    pub(crate) fn modified(&self, id: FileId) -> Option<u64> {
        self.items.get(&id).map(|item| item.modified_unix_millis)
    }
}
