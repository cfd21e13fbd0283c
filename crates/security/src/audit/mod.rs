//! The audit record on the disk: a folder of append-only files, with one line of JSON for each event
//! (`docs/formats-on-disk.md`). Each line has a hash of itself and of all before it. It serves anyone who must know
//! later who did what. [`AuditLog`] writes, [`check_folder`] finds later changes, [`read_page`] gives lines to
//! administrators. A line that was acknowledged is never changed here.

mod check;
mod line;
mod log;

pub use check::{check_folder, read_page};
pub use log::AuditLog;

/// The folder of the record in the security server's folder.
pub const AUDIT_FOLDER: &str = "audit";
