//! The audit record on the disk: a folder of append-only files, one line of JSON for each event, each line with the
//! hash of itself and of all before it (`docs/formats-on-disk.md`). It serves whoever must know later who did what.
//!
//! [`AuditLog`] writes, [`check_folder`] finds whatever was changed since, [`read_page`] gives lines to administrators.
//! A line that was written is never changed here.

mod check;
mod line;
mod log;

pub use check::{check_folder, read_page};
pub use log::AuditLog;

/// The folder of the record in the security server's folder.
pub const AUDIT_FOLDER: &str = "audit";
