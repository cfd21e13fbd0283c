//! The fixed part of a file or folder, 88 bytes, stored for millions of entries. It only packs values and never
//! interprets them.

use protocol::{FileId, RecordFraming, SliceId};

use crate::catalog::compact_storage::{PooledString, Slot, SlotValue};

/// The record, stored for millions of entries. Numbers are cut into halves so that only its last byte is padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    id: [u32; 2],
    pub(super) slice: [u32; 4],
    pub(super) parent: Slot,
    pub(super) name_place: Slot,
    /// Milliseconds from the version to the last change of content: the version is a time too, normally the same.
    pub(super) modified_after_version: i32,
    /// A file's version; a folder's last change.
    pub(super) version: Narrow,
    /// A file's length; a folder's place in `folders`.
    pub(super) bytes: Narrow,
    pub(super) owner: u16,
    pub(super) format_bytes: u16,
    pub(super) digest: [u8; 32],
    pub(super) name_bytes: u8,
    pub(super) copies: u8,
    /// [`FOLDER`] and the other flags.
    pub(super) flags: u8,
}

/// A number below 2^48: bytes of a slice (at most 2^44), milliseconds until the year 10,000.
pub(super) type Narrow = [u16; 3];

impl Record {
    pub(super) fn of_folder(id: FileId, parent: Slot, name: PooledString) -> Self {
        Self {
            id: [(id.0 >> 32) as u32, id.0 as u32],
            slice: [0; 4],
            parent,
            name_place: name.place,
            modified_after_version: 0,
            version: [0; 3],
            bytes: [0; 3],
            owner: 0,
            format_bytes: 0,
            digest: [0; 32],
            name_bytes: name.bytes,
            copies: 0,
            flags: FOLDER,
        }
    }

    pub(super) fn id(&self) -> u64 {
        u64::from(self.id[0]) << 32 | u64::from(self.id[1])
    }

    pub(super) fn slice(&self) -> SliceId {
        SliceId(self.slice.iter().fold(0, |value, quarter| value << 32 | u128::from(*quarter)))
    }

    pub(super) fn version(&self) -> u64 {
        wide(self.version)
    }

    pub(super) fn text(&self) -> PooledString {
        PooledString { place: self.name_place, bytes: self.name_bytes }
    }

    pub(super) fn folder(&self) -> usize {
        wide(self.bytes) as usize
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8, is_set: bool) {
        self.flags = if is_set { self.flags | flag } else { self.flags & !flag };
    }

    pub(super) fn format(&self) -> RecordFraming {
        match () {
            () if self.is(FIXED) => RecordFraming::Fixed(self.format_bytes.into()),
            () if self.is(LINES) => match self.format_bytes {
                INDEX => RecordFraming::Index,
                PARQUET => RecordFraming::Parquet,
                _ => RecordFraming::Lines,
            },
            () => RecordFraming::File,
        }
    }
}

impl SlotValue for Record {
    fn vacant(next: Slot) -> Self {
        let record = Self::of_folder(FileId(0), next, PooledString { place: 0, bytes: 0 });
        Self { flags: VACANT, ..record }
    }

    fn next_vacant(&self) -> Option<Slot> {
        self.is(VACANT).then_some(self.parent)
    }
}

/// Flag and bytes of a record format; `None` if the bytes are too many.
pub(super) fn pack_format(records: RecordFraming) -> Option<(u8, u16)> {
    match records {
        RecordFraming::File => Some((0, 0)),
        RecordFraming::Fixed(bytes) => Some((FIXED, u16::try_from(bytes).ok()?)),
        RecordFraming::Lines => Some((LINES, 0)),
        RecordFraming::Index => Some((LINES, INDEX)),
        RecordFraming::Parquet => Some((LINES, PARQUET)),
    }
}

pub(super) fn narrow(value: u64) -> Option<Narrow> {
    (value >> 48 == 0).then_some([(value >> 32) as u16, (value >> 16) as u16, value as u16])
}

pub(super) fn wide(value: Narrow) -> u64 {
    value.iter().fold(0, |wide, part| wide << 16 | u64::from(*part))
}

pub(super) fn halves(slice: SliceId) -> [u32; 4] {
    [(slice.0 >> 96) as u32, (slice.0 >> 64) as u32, (slice.0 >> 32) as u32, slice.0 as u32]
}

/// It is a folder.
pub(super) const FOLDER: u8 = 1;
/// Version, length, time and record format are in the table of rare parts (`items`).
pub(super) const RARE: u8 = 2;
/// It has user metadata.
pub(super) const USER: u8 = 4;
/// The slot is free, and `parent` the next free one.
const VACANT: u8 = 8;
/// Its record format, if it is not `file`.
pub(super) const FIXED: u8 = 16;
pub(super) const LINES: u8 = 32;
/// In the bytes of a record format, with the flag [`LINES`]: formats without a flag of their own.
const INDEX: u16 = 1;
const PARQUET: u16 = 2;
/// It has its own list of rights.
pub(super) const ACL: u8 = 64;
const _: () = assert!(size_of::<Record>() == 88, "millions of them are kept");
