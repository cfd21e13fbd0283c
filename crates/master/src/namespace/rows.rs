//! An entry as a row of the journal: key = file id in network byte order, value = a version byte, then postcard. Serves
//! every change of names and the start of the master. Never decides what may change.

use protocol::{FileId, UserName, message::client_master::FileContent};
use serde::{Deserialize, Serialize};
use store::RowChange;

use super::{Item, ItemKind, Namespace};
use crate::{
    actions::{NAMES_TABLE, StoredRow, VERSIONS_TABLE},
    error::MasterError,
};

/// The stored form of an item. Field and variant order is the format.
#[derive(Serialize, Deserialize)]
struct ItemRow {
    parent: FileId,
    name: String,
    owner: UserName,
    modified_unix_millis: u64,
    content: Option<FileContent>,
}

impl Namespace {
    /// The row that holds the item `id` as it is now; none when there is no such item.
    pub(super) fn row(&self, id: FileId) -> Vec<RowChange> {
        let Some(item) = self.items.get(&id) else { return Vec::new() };
        let row = ItemRow {
            parent: item.parent,
            name: item.name.to_string(),
            owner: item.owner.clone(),
            modified_unix_millis: item.modified_unix_millis,
            content: match &item.kind {
                ItemKind::Folder(_) => None,
                ItemKind::File(content) => Some((**content).clone()),
            },
        };
        vec![RowChange::Set { table: NAMES_TABLE, key: key(id), value: encode_row(&row) }]
    }
}

/// The change that takes an item's row away.
pub(super) fn removal(id: FileId) -> RowChange {
    RowChange::Remove { table: NAMES_TABLE, key: key(id) }
}

/// Reads a row back.
pub(super) fn parse(row: &StoredRow) -> Result<(FileId, Item), MasterError> {
    let key: [u8; 8] = row.key.as_slice().try_into().map_err(|_| damaged(row))?;
    let read: ItemRow = decode_row(&row.value).ok_or_else(|| damaged(row))?;
    let kind = match read.content {
        None => ItemKind::Folder(std::collections::BTreeMap::new()),
        Some(content) => ItemKind::File(Box::new(content)),
    };
    let item = Item {
        parent: read.parent,
        name: read.name.into(),
        owner: read.owner,
        modified_unix_millis: read.modified_unix_millis,
        kind,
    };
    Ok((FileId(u64::from_be_bytes(key)), item))
}

/// The change that says that a file of this version was removed, and none of a larger one.
pub(super) fn removed_version(version: u64) -> RowChange {
    RowChange::Set { table: VERSIONS_TABLE, key: Vec::new(), value: encode_row(&version) }
}

/// Reads that back.
pub(super) fn parse_removed_version(row: &StoredRow) -> Result<u64, MasterError> {
    decode_row(&row.value).ok_or_else(|| damaged(row))
}

/// A value of any of the master's tables: version, then postcard.
pub(crate) fn encode_row<T: Serialize>(row: &T) -> Vec<u8> {
    protocol::wire::codec::encode(row)
}

/// Reads what [`encode_row`] wrote; `None` for another version and for anything that is not a row.
pub(crate) fn decode_row<T: serde::de::DeserializeOwned>(value: &[u8]) -> Option<T> {
    protocol::wire::codec::decode(value).ok()
}

/// The error for a row that cannot be read.
pub(crate) fn damaged(row: &StoredRow) -> MasterError {
    MasterError::Row { table: row.table, key: row.key.iter().map(|byte| format!("{byte:02x}")).collect() }
}

fn key(id: FileId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}
