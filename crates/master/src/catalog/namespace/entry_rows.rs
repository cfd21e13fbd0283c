//! An entry as a row of the journal: key = file id in network byte order, value = a version byte, then postcard
//! (`docs/formats-on-disk.md`). Row versions are independent of the build's protocol version. This build writes
//! versions 2 and 3 (which has a list of rights) and also reads version 1. Serves every change of names and the start
//! of the master. Never decides what may change.

use std::collections::BTreeMap;

use protocol::{Acl, Digest, FileId, RecordFraming, SliceId, Version, message::client_master::FileContent};
use serde::{Deserialize, Serialize};
use store::RowChange;

use super::{NO_PARENT_ID, Namespace, ROOT};
use crate::{
    actions::{NAMES_TABLE, StoredRow, VERSIONS_TABLE},
    catalog::compact_storage::{Slot, TEXT_BYTES_MAX},
    error::MasterError,
};

/// An item as read from a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadItem<'a> {
    pub(super) parent: FileId,
    pub(super) name: &'a str,
    pub(super) owner: &'a str,
    pub(super) modified_unix_millis: u64,
    /// `None` for a folder.
    pub(super) content: Option<FileContent>,
    /// Its own list of rights.
    pub(super) acl: Option<Acl>,
}

impl Namespace {
    /// The row that holds the item `id` as it is now; none if there is no such item.
    pub(crate) fn row_of(&self, id: FileId) -> Option<RowChange> {
        self.row(self.items.find(id)?).pop()
    }

    /// The rows of all folders, including those that were cut off.
    pub(crate) fn folder_rows(&self) -> impl Iterator<Item = RowChange> + '_ {
        (0..self.items.end()).filter(|slot| self.items.is_folder(*slot)).flat_map(|slot| self.row(slot))
    }

    /// The row that holds an item as it is now; none if there is no such item.
    pub(super) fn row(&self, slot: Slot) -> Vec<RowChange> {
        let (Some(id), Some(owner)) = (self.items.id(slot), self.items.owner(slot)) else { return Vec::new() };
        let parent = match self.items.parent(slot).and_then(|parent| self.items.id(parent)) {
            Some(parent) => parent,
            None if slot == self.root => ROOT,
            None => NO_PARENT_ID,
        };
        let content = self.items.content(slot);
        let modified_unix_millis = self.items.modified_unix_millis(slot);
        let row = ItemRow {
            parent: parent.0,
            name: self.items.name(slot),
            owner: owner.as_str(),
            what: match &content {
                None => What::Folder { modified_unix_millis },
                Some(content) => What::File(ContentRow::of(content, modified_unix_millis)),
            },
        };
        let value = match self.items.acl(slot) {
            None => encode_row(&row),
            Some(acl) => encode_extended_row(&(row, acl)),
        };
        vec![RowChange::Set { table: NAMES_TABLE, key: key(id), value }]
    }
}

/// The change that takes an item's row away.
pub(crate) fn remove_row(id: FileId) -> RowChange {
    RowChange::Remove { table: NAMES_TABLE, key: key(id) }
}

/// Whether the value of a row is a folder's, including one that was cut off.
pub(crate) fn is_folder_row(value: &[u8]) -> bool {
    parse_value(value).is_some_and(|item| item.content.is_none())
}

/// Reads a row back; `None` if it is none.
pub(super) fn parse<'a>(key: &[u8], value: &'a [u8]) -> Option<(FileId, ReadItem<'a>)> {
    let id = FileId(u64::from_be_bytes(key.try_into().ok()?));
    let item = parse_value(value)?;
    (item.name.len() <= TEXT_BYTES_MAX).then_some((id, item))
}

fn parse_value(value: &[u8]) -> Option<ReadItem<'_>> {
    let (version, body) = value.split_first()?;
    match *version {
        VERSION => from_postcard::<ItemRow<'_>>(body).map(ItemRow::read),
        VERSION_EXTENDED => {
            let (row, acl) = from_postcard::<(ItemRow<'_>, Acl)>(body)?;
            Some(ReadItem { acl: Some(acl), ..row.read() })
        }
        VERSION_1 => from_postcard::<ItemRow1<'_>>(body).map(ItemRow1::read),
        _ => None,
    }
}

/// The change that records that a file of this version was removed, and none of a larger one.
pub(super) fn removed_version(version: u64) -> RowChange {
    RowChange::Set { table: VERSIONS_TABLE, key: Vec::new(), value: encode_row(&version) }
}

/// Reads that back; `None` if it is none.
pub(super) fn parse_removed_version(value: &[u8]) -> Option<u64> {
    decode_row(value)
}

/// A value of any of the master's tables: version, then postcard.
pub(crate) fn encode_row<T: Serialize>(row: &T) -> Vec<u8> {
    encode_as(VERSION, row)
}

/// The same for a row with something that rows of version 2 do not have.
pub(crate) fn encode_extended_row<T: Serialize>(row: &T) -> Vec<u8> {
    encode_as(VERSION_EXTENDED, row)
}

fn encode_as<T: Serialize>(version: u8, row: &T) -> Vec<u8> {
    // Stored types hold only what postcard can encode, and a `Vec` cannot be full.
    #[allow(clippy::expect_used)]
    postcard::to_extend(row, vec![version]).expect("the stored types are encodable")
}

/// Reads rows written by [`encode_row`], and by builds with rows of version 1 in the same layout. `None` for another
/// version and for anything that is not a row.
pub(crate) fn decode_row<T: serde::de::DeserializeOwned>(value: &[u8]) -> Option<T> {
    match value.split_first()? {
        (&(VERSION | VERSION_1), body) => from_postcard(body),
        _ => None,
    }
}

/// Reads rows written by [`encode_extended_row`]; `None` for another version and for anything that is not a row.
pub(crate) fn decode_extended_row<T: serde::de::DeserializeOwned>(value: &[u8]) -> Option<T> {
    match value.split_first()? {
        (&VERSION_EXTENDED, body) => from_postcard(body),
        _ => None,
    }
}

/// The key of an entry in any table that has one row per entry.
pub(crate) fn file_key(id: FileId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// Reads a key written by [`file_key`].
pub(crate) fn parse_file_key(key: &[u8]) -> Option<FileId> {
    key.try_into().ok().map(|bytes| FileId(u64::from_be_bytes(bytes)))
}

/// The error for a row that cannot be read.
pub(crate) fn damaged_row(row: &StoredRow) -> MasterError {
    MasterError::Row { table: row.table, key: row.key.iter().map(|byte| format!("{byte:02x}")).collect() }
}

fn from_postcard<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(body) {
        Ok((row, [])) => Some(row),
        _ => None,
    }
}

fn key(id: FileId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// The stored form of an item. Field and variant order is the format.
#[derive(Serialize, Deserialize)]
struct ItemRow<'a> {
    parent: u64,
    name: &'a str,
    owner: &'a str,
    #[serde(borrow)]
    what: What<'a>,
}

#[derive(Serialize, Deserialize)]
enum What<'a> {
    Folder {
        modified_unix_millis: u64,
    },
    #[serde(borrow)]
    File(ContentRow<'a>),
}

#[derive(Serialize, Deserialize)]
struct ContentRow<'a> {
    /// As 16 bytes: a random number only grows in a variable-length encoding.
    slice: [u8; 16],
    version: u64,
    /// Normally 0.
    modified_after_version: i64,
    bytes: u64,
    digest: [u8; 32],
    records: RecordsRow,
    copies: u8,
    #[serde(borrow)]
    user: Vec<(&'a str, &'a str)>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum RecordsRow {
    File,
    Fixed(u32),
    Lines,
    Index,
    Parquet,
}

impl<'a> ItemRow<'a> {
    fn read(self) -> ReadItem<'a> {
        let (modified_unix_millis, content) = match self.what {
            What::Folder { modified_unix_millis } => (modified_unix_millis, None),
            What::File(content) => {
                let modified = content.version.wrapping_add_signed(content.modified_after_version);
                (modified, Some(content.read()))
            }
        };
        let parent = FileId(self.parent);
        ReadItem { parent, name: self.name, owner: self.owner, modified_unix_millis, content, acl: None }
    }
}

impl<'a> ContentRow<'a> {
    fn of(content: &'a FileContent, modified_unix_millis: u64) -> Self {
        Self {
            slice: content.slice.0.to_be_bytes(),
            version: content.version.0,
            modified_after_version: modified_unix_millis.wrapping_sub(content.version.0).cast_signed(),
            bytes: content.bytes,
            digest: content.digest.0,
            records: content.records.into(),
            copies: content.copies,
            user: content.user.iter().map(|(key, value)| (&**key, &**value)).collect(),
        }
    }

    fn read(self) -> FileContent {
        FileContent {
            slice: SliceId(u128::from_be_bytes(self.slice)),
            version: Version(self.version),
            bytes: self.bytes,
            digest: Digest(self.digest),
            records: self.records.into(),
            copies: self.copies,
            user: self.user.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }
}

/// The stored form of version 1, which is read but not written.
#[derive(Deserialize)]
struct ItemRow1<'a> {
    parent: u64,
    name: &'a str,
    owner: &'a str,
    modified_unix_millis: u64,
    #[serde(borrow)]
    content: Option<ContentRow1<'a>>,
}

#[derive(Deserialize)]
struct ContentRow1<'a> {
    slice: u128,
    version: u64,
    bytes: u64,
    digest: [u8; 32],
    records: RecordsRow,
    copies: u8,
    #[serde(borrow)]
    user: BTreeMap<&'a str, &'a str>,
}

impl<'a> ItemRow1<'a> {
    fn read(self) -> ReadItem<'a> {
        let content = self.content.map(|content| FileContent {
            slice: SliceId(content.slice),
            version: Version(content.version),
            bytes: content.bytes,
            digest: Digest(content.digest),
            records: content.records.into(),
            copies: content.copies,
            user: content.user.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        });
        let (parent, modified_unix_millis) = (FileId(self.parent), self.modified_unix_millis);
        ReadItem { parent, name: self.name, owner: self.owner, modified_unix_millis, content, acl: None }
    }
}

impl From<RecordFraming> for RecordsRow {
    fn from(records: RecordFraming) -> Self {
        match records {
            RecordFraming::File => Self::File,
            RecordFraming::Fixed(bytes) => Self::Fixed(bytes),
            RecordFraming::Lines => Self::Lines,
            RecordFraming::Index => Self::Index,
            RecordFraming::Parquet => Self::Parquet,
        }
    }
}

impl From<RecordsRow> for RecordFraming {
    fn from(records: RecordsRow) -> Self {
        match records {
            RecordsRow::File => Self::File,
            RecordsRow::Fixed(bytes) => Self::Fixed(bytes),
            RecordsRow::Lines => Self::Lines,
            RecordsRow::Index => Self::Index,
            RecordsRow::Parquet => Self::Parquet,
        }
    }
}

/// The version of rows that is written.
const VERSION: u8 = 2;
/// The version of rows with more: as version 2, followed by the list of rights of a name, or by what was replaced.
const VERSION_EXTENDED: u8 = 3;
/// The version before, in which names had another layout and jobs the same.
const VERSION_1: u8 = 1;
