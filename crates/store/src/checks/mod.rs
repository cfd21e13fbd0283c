//! Checks of what lies on a disk: by the node, slice by slice while it runs, and by hand where a folder is inspected.
//! They never decide what becomes of a bad slice.

pub(crate) mod inspect;
pub(crate) mod scrub;
