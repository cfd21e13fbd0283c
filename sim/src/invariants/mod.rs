//! The promises that hold whatever fails, one per file. Those of bytes, names and jobs are checked with every answer
//! and again at the end; that of healing is never checked before the end.

pub(crate) mod attribute_checks;
pub(crate) mod bytes;
pub(crate) mod healing;
pub(crate) mod job_output;
pub(crate) mod names;
pub(crate) mod recovery;
pub(crate) mod rights;
pub(crate) mod versions;
