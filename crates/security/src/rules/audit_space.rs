//! How much room there is for the audit record, and when that is little. Serves door 3; never looks at a disk.

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
    pub(super) fn is_large(&self) -> bool {
        self.disk_bytes > 0 && self.record_bytes > self.disk_bytes / RECORD_SHARE
    }
}

/// What is left of the disk when strangers' refusals are only counted: years of what people do ...
const RESERVE_BYTES_MAX: u64 = 1 << 30;
/// ... or this part of a small disk.
const RESERVE_SHARE: u64 = 10;
/// The part of the disk that the record may take before someone should look after it.
const RECORD_SHARE: u64 = 4;
