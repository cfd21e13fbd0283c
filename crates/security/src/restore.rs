//! What is done with accounts that were put back from a backup (`docs/paths/backup.md`). What was taken away from
//! someone after the backup was made is not known any more, so all that may be had again comes not back: login
//! sessions, tickets for machines, approvals. The audit record says that it happened.

use std::path::Path;

use net::clock::Clock;
use protocol::message::audit::{AuditEvent, AuditKind, AuditOutcome};
use store::Journal;

use crate::{
    SecurityError,
    accounts::{self, SESSIONS},
    audit::{AUDIT_FOLDER, AuditLog},
    machines::{APPROVALS, TICKETS},
    setup::{ACCOUNTS_FILE, open_cloud},
};

/// Whether rows of a table are put back.
pub fn is_restored(table: &str) -> bool {
    ![SESSIONS, TICKETS, APPROVALS].contains(&table)
}

/// Finishes the return of a security server in its folder: accounts and authority are read as a start does, the
/// server's own certificate is issued anew where the accounts do not know it, and the audit record gets a line that
/// says of when the accounts are. Blocks.
///
/// # Errors
/// When a security server runs there, when accounts or authority cannot be used, and what the disk says.
pub fn finish_restore(folder: &Path, made: &str) -> Result<(), SecurityError> {
    drop(open_cloud(folder)?);
    let head = accounts::audit_head(&Journal::open(&folder.join(ACCOUNTS_FILE))?)?;
    let now = Clock::start().now().unix_millis;
    let mut record = AuditLog::open(&folder.join(AUDIT_FOLDER), head, now)?;
    let note = format!("the accounts are those of {made}; what was changed between then and this line is undone");
    record.append(vec![AuditEvent {
        unix_millis: now,
        kind: AuditKind::Record,
        who: "security".into(),
        from: String::new(),
        what: "restore the accounts from a backup".into(),
        object: String::new(),
        outcome: AuditOutcome::Done,
        note,
    }])?;
    Ok(())
}
