//! Uploads that are not complete: their bytes so far, and what is known of them, so that they can continue. They
//! are kept apart from slices, and are never seen as such.

pub(crate) mod partial_file;
pub(crate) mod partial_record;
pub(crate) mod partial_uploads;
pub(crate) mod partials;
