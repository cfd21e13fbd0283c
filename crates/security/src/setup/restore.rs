//! What is done with accounts that were restored from a backup (`docs/paths/backup.md`). The audit record says that a
//! restore happened. It is unknown what was revoked after the backup was made. So login sessions, tickets for machines
//! and approvals, which can all be obtained again, are never restored.

use std::path::Path;

use net::clock::Clock;
use protocol::message::audit::{AuditEvent, AuditKind, AuditOutcome};
use store::Journal;

use crate::{
    SecurityError,
    accounts::{
        self, SESSIONS,
        machines::{APPROVALS, TICKETS},
    },
    audit::{AUDIT_FOLDER, AuditLog},
    setup::{ACCOUNTS_FILE, open_cloud},
};

/// Whether rows of a table are restored.
pub fn is_restored(table: &str) -> bool {
    ![SESSIONS, TICKETS, APPROVALS].contains(&table)
}

/// Finishes the restore of a security server in its folder. Accounts and authority are read as at a start, and the
/// server's own certificate is issued anew if the accounts do not know it. The audit record gets a line that says from
/// when the accounts are. Blocks.
///
/// # Errors
/// When a security server runs there, when accounts or authority cannot be used, and errors of the disk.
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
