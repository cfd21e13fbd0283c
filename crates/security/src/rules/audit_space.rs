//! What is wrong with the security server itself, for people: room for the audit record. A master asks now and then and
//! says it in the cloud's health. Serves door 3; never looks at a disk.

use std::fmt::Write;

use super::Security;

/// How much room there is where the audit record lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditSpace {
    /// Bytes that the disk can still take.
    pub free_bytes: u64,
    /// Bytes of the disk in all; 0 where that is not known.
    pub disk_bytes: u64,
    /// Bytes of the audit record.
    pub record_bytes: u64,
}

impl AuditSpace {
    /// Whether what is left is kept for what the known do, and for the accounts themselves.
    pub fn is_low(&self) -> bool {
        self.disk_bytes > 0 && self.free_bytes < RESERVE_BYTES_MAX.min(self.disk_bytes / RESERVE_SHARE)
    }

    /// Whether the record should be looked after, though there is room.
    fn is_large(&self) -> bool {
        self.disk_bytes > 0 && self.record_bytes > self.disk_bytes / RECORD_SHARE
    }
}

impl Security {
    /// Takes how much room there is.
    pub fn note_audit_space(&mut self, room: AuditSpace) {
        self.audit_space = room;
        self.audit_buffer.note_space(room.is_low());
    }

    /// What is wrong, one sentence each.
    pub(super) fn health(&self) -> Vec<String> {
        let AuditSpace { free_bytes, record_bytes, .. } = self.audit_space;
        let mut reason = if self.audit_space.is_low() {
            format!(
                "the disk of the security server has {free_bytes} bytes left, which are kept for logins and grants: refusals \
                 of strangers are only counted"
            )
        } else if self.audit_space.is_large() {
            format!("the audit record takes {record_bytes} bytes, a large share of the security server's disk")
        } else {
            return Vec::new();
        };
        // Writing to a `String` cannot fail.
        let _ = write!(reason, "; make room there, or move the oldest files of its `audit/` away");
        vec![reason]
    }
}

/// What is left of the disk when strangers' refusals are only counted: years of what people do ...
const RESERVE_BYTES_MAX: u64 = 1 << 30;
/// ... or this part of a small disk.
const RESERVE_SHARE: u64 = 10;
/// The part of the disk that the record may take before someone should look after it.
const RECORD_SHARE: u64 = 4;
