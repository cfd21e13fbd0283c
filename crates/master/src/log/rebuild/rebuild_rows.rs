//! The rows of a rebuild: the journal's id and state, the nodes it knows, removals that some node missed, conflicts,
//! and earlier local changes. Never decides anything.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    JournalId, NodeId, Policy, SectorPath, SliceId, UserName, Version,
    message::rebuild::{Conflict, MirrorPosition, RebuildState},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use store::RowChange;

use super::{
    local_changes::{ChangedRows, LocalChanges, LocalFolder},
    outdated_paths::OutdatedPaths,
    stale_journal::Fork,
    unverified_incarnations::Incarnation,
};
use crate::{
    MasterError,
    actions::{CONFLICTS_TABLE, JOURNAL_TABLE, MEMBERS_TABLE, OUTDATED_TABLE, REMOVED_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    log::journal_lineage::Lineage,
};

/// All rows of a rebuild, decoded.
#[derive(Default)]
pub(super) struct RebuildRows {
    pub(super) state: Option<StateRow>,
    pub(super) sequence: u64,
    pub(super) members: BTreeSet<NodeId>,
    pub(super) tombstones: BTreeMap<SliceId, BTreeSet<NodeId>>,
    pub(super) outdated_paths: BTreeMap<SliceId, OutdatedPaths>,
    pub(super) conflicts: BTreeMap<SliceId, Conflict>,
    pub(super) local_changes: LocalChanges,
    /// Which life made which local change, by key.
    pub(super) local_change_incarnations: BTreeMap<Vec<u8>, u64>,
    pub(super) not_in_mirror: BTreeSet<SliceId>,
    pub(super) was_archived: BTreeSet<SliceId>,
    pub(super) overtaken: BTreeSet<SliceId>,
    pub(super) nodes_told: BTreeMap<NodeId, MirrorPosition>,
    pub(super) fork: Option<Fork>,
    pub(super) forks: Vec<Fork>,
    pub(super) incarnations: Vec<Incarnation>,
    pub(super) changed_rows: ChangedRows,
}

/// The journal's own row. Field order is the format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StateRow {
    pub(super) id: JournalId,
    pub(super) generation: u64,
    pub(super) state: RebuildState,
    pub(super) version_floor: Version,
    pub(super) restored_mirror: Option<(NodeId, MirrorPosition)>,
    pub(super) files: u64,
    pub(super) folders: u64,
}

impl RebuildRows {
    /// Reads the rows among `rows` that belong to a rebuild.
    pub(super) fn of(rows: &[StoredRow]) -> Result<Self, MasterError> {
        let mut read = Self::default();
        for row in rows {
            match row.table {
                JOURNAL_TABLE => read.take_journal_row(row)?,
                MEMBERS_TABLE => drop(read.members.insert(parse_member(&row.key).ok_or_else(|| damaged_row(row))?)),
                REMOVED_TABLE => drop(read.tombstones.insert(slice_of(row)?, value_of(row)?)),
                OUTDATED_TABLE => drop(read.outdated_paths.insert(slice_of(row)?, value_of(row)?)),
                CONFLICTS_TABLE => drop(read.conflicts.insert(slice_of(row)?, value_of(row)?)),
                _ => {}
            }
        }
        Ok(read)
    }

    fn take_journal_row(&mut self, row: &StoredRow) -> Result<(), MasterError> {
        match row.key.split_first() {
            _ if row.key == STATE_KEY => self.state = Some(value_of(row)?),
            _ if row.key == SEQUENCE_KEY => self.sequence = value_of(row)?,
            _ if row.key == FORK_KEY => self.fork = Some(value_of(row)?),
            _ if row.key == NODES_TOLD_KEY => self.nodes_told = value_of(row)?,
            _ if row.key == FORKS_KEY => self.forks = value_of(row)?,
            _ if row.key == INCARNATIONS_KEY => self.incarnations = value_of(row)?,
            Some((&CHANGED_ROW, touched)) => {
                self.changed_rows.load(touched, value_of(row)?).ok_or_else(|| damaged_row(row))?
            }
            Some((&LOCAL_INCARNATION, key)) => {
                self.local_change_incarnations.insert(key.to_vec(), value_of(row)?);
            }
            Some((&LOCAL_SLICE, slice)) => drop(self.local_changes.slices.insert(slice_in(slice, row)?)),
            Some((&NOT_IN_MIRROR, slice)) => drop(self.not_in_mirror.insert(slice_in(slice, row)?)),
            Some((&ARCHIVED, slice)) => drop(self.was_archived.insert(slice_in(slice, row)?)),
            Some((&OVERTAKEN, slice)) => drop(self.overtaken.insert(slice_in(slice, row)?)),
            Some((&OLD_LOCAL_FOLDER, path)) => {
                let (path, owner) = (path_of(path).ok_or_else(|| damaged_row(row))?, value_of(row)?);
                self.local_changes.folders.insert(path, LocalFolder { owner, acl: None });
            }
            Some((&LOCAL_FOLDER, path)) => {
                self.local_changes.folders.insert(path_of(path).ok_or_else(|| damaged_row(row))?, value_of(row)?);
            }
            Some((&LOCAL_POLICY, path)) => {
                self.local_changes
                    .policies
                    .insert(path_of(path).ok_or_else(|| damaged_row(row))?, value_of::<Policy>(row)?);
            }
            Some((&LOCAL_QUOTA, user)) => {
                let user = std::str::from_utf8(user).ok().and_then(|user| UserName::new(user).ok());
                self.local_changes.quotas.insert(user.ok_or_else(|| damaged_row(row))?, row.value.clone());
            }
            Some((&LOCAL_MEMBERSHIP, node)) => {
                self.local_changes
                    .memberships
                    .insert(parse_member(node).ok_or_else(|| damaged_row(row))?, value_of(row)?);
            }
            _ => return Err(damaged_row(row)),
        }
        Ok(())
    }
}

impl StateRow {
    /// The state of a new journal.
    pub(super) fn born(id: JournalId) -> Self {
        Self {
            id,
            generation: 1,
            state: RebuildState::New,
            version_floor: Version(0),
            restored_mirror: None,
            files: 0,
            folders: 0,
        }
    }

    pub(super) fn change(&self) -> RowChange {
        set(JOURNAL_TABLE, STATE_KEY.to_vec(), self)
    }
}

/// The journal's id and number, if the row with them can be read.
pub(crate) fn identity(rows: &[StoredRow]) -> Option<(JournalId, u64)> {
    let row = rows.iter().find(|row| row.table == JOURNAL_TABLE && row.key == STATE_KEY)?;
    let state: StateRow = decode_row(&row.value)?;
    Some((state.id, state.generation))
}

/// The row that gives a journal another id.
pub(crate) fn new_identity(id: JournalId, generation: u64, state: RebuildState) -> RowChange {
    StateRow { generation, state, ..StateRow::born(id) }.change()
}

/// The rows that mark a journal with these rows as restored. Names are then rebuilt from it and from what nodes know
/// beyond it, and no version it gave is given again.
///
/// # Errors
/// When a row cannot be read.
pub(crate) fn restored_identity(rows: &[StoredRow], id: JournalId) -> Result<Vec<RowChange>, MasterError> {
    let read = RebuildRows::of(rows)?;
    let Some(before) = read.state else {
        return Ok(vec![StateRow { state: RebuildState::Running, ..StateRow::born(id) }.change()]);
    };
    let state = StateRow {
        generation: before.generation.saturating_add(1),
        state: RebuildState::Running,
        version_floor: before.version_floor,
        ..StateRow::born(id)
    };
    let known = Lineage::load(before.id, read.sequence, rows)?.end(before.id, read.sequence);
    let was = Fork { journal: before.id, base: read.sequence, incarnation: None, merges: false };
    let aside = read.conflicts.values().filter(|conflict| conflict.is_archived);
    let aside = aside.map(|conflict| archived_row(conflict.metadata.header.slice));
    Ok([state.change(), known, fork_row(&was)].into_iter().chain(aside).collect())
}

/// The number of the last change of a small row, if this row says it; else 0.
pub(crate) fn sequence(row: &StoredRow) -> Result<u64, MasterError> {
    Ok(RebuildRows::of(std::slice::from_ref(row))?.sequence)
}

/// Checks that a row of a rebuild, or of a table unknown here, can be read.
pub(crate) fn check_row(row: &StoredRow) -> Result<(), MasterError> {
    RebuildRows::of(std::slice::from_ref(row)).map(drop)
}

/// The row of a known node.
pub(crate) fn member_row(id: &NodeId) -> RowChange {
    set(MEMBERS_TABLE, id.as_str().into(), &())
}

/// The node in such a row's key.
pub(crate) fn parse_member(key: &[u8]) -> Option<NodeId> {
    NodeId::new(std::str::from_utf8(key).ok()?).ok()
}

/// The row of a slice that some nodes still have to remove; none if there are no such nodes.
pub(crate) fn tombstone_row(slice: SliceId, nodes: &BTreeSet<NodeId>) -> RowChange {
    match nodes.is_empty() {
        true => RowChange::Remove { table: REMOVED_TABLE, key: slice_key(slice) },
        false => set(REMOVED_TABLE, slice_key(slice), nodes),
    }
}

/// Decodes such a row.
pub(crate) fn parse_tombstone(key: &[u8], value: &[u8]) -> Option<(SliceId, BTreeSet<NodeId>)> {
    Some((slice_key_of(key)?, decode_row(value)?))
}

/// The row of a slice that nodes hold under outdated paths.
pub(crate) fn outdated_row(slice: SliceId, outdated: &OutdatedPaths) -> RowChange {
    set(OUTDATED_TABLE, slice_key(slice), outdated)
}

/// Removes that row.
pub(crate) fn remove_outdated_row(slice: SliceId) -> RowChange {
    RowChange::Remove { table: OUTDATED_TABLE, key: slice_key(slice) }
}

/// Decodes such a row.
pub(crate) fn parse_outdated(row: &StoredRow) -> Option<(SliceId, OutdatedPaths)> {
    Some((slice_key_of(&row.key)?, decode_row(&row.value)?))
}

/// The slice in a row's key.
pub(crate) fn slice_key_of(key: &[u8]) -> Option<SliceId> {
    Some(SliceId(u128::from_be_bytes(key.try_into().ok()?)))
}

/// Whether the row of a conflict marks its slice as archived.
pub(crate) fn is_archived_row(value: &[u8]) -> bool {
    parse_conflict(value).is_some_and(|conflict| conflict.is_archived)
}

/// The conflict of a row.
pub(crate) fn parse_conflict(value: &[u8]) -> Option<Conflict> {
    decode_row(value)
}

/// The row of a conflict.
pub(crate) fn conflict_row(conflict: &Conflict) -> RowChange {
    set(CONFLICTS_TABLE, slice_key(conflict.metadata.header.slice), conflict)
}

/// Removes the row of a conflict.
pub(crate) fn remove_conflict_row(slice: SliceId) -> RowChange {
    RowChange::Remove { table: CONFLICTS_TABLE, key: slice_key(slice) }
}

/// The keys and values of the standing local changes.
pub(crate) fn local_change_entries(own: &LocalChanges) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + '_ {
    let of_path = |kind: u8, path: &SectorPath| local_change_key(kind, path.as_str().as_bytes());
    let slices =
        own.slices.iter().map(|slice| (local_change_key(LOCAL_SLICE, &slice.0.to_be_bytes()), encode_row(&())));
    let folders = own.folders.iter().map(move |(path, folder)| (of_path(LOCAL_FOLDER, path), encode_row(folder)));
    let policies = own.policies.iter().map(move |(path, policy)| (of_path(LOCAL_POLICY, path), encode_row(policy)));
    let quotas = own.quotas.iter();
    let quotas = quotas.map(|(user, value)| (local_change_key(LOCAL_QUOTA, user.as_str().as_bytes()), value.clone()));
    let standings = own.memberships.iter();
    let standings =
        standings.map(|(node, it)| (local_change_key(LOCAL_MEMBERSHIP, node.as_str().as_bytes()), encode_row(it)));
    slices.chain(folders).chain(policies).chain(quotas).chain(standings)
}

/// The key of a standing local change.
pub(crate) fn local_change_key(kind: u8, of: &[u8]) -> Vec<u8> {
    [&[kind], of].concat()
}

/// The key that earlier builds used for a standing folder.
pub(super) fn old_folder_key(path: &SectorPath) -> Vec<u8> {
    [&[OLD_LOCAL_FOLDER][..], path.as_str().as_bytes()].concat()
}

/// The row of a standing local change.
pub(super) fn local_change_row(key: Vec<u8>, value: Vec<u8>) -> RowChange {
    RowChange::Set { table: JOURNAL_TABLE, key, value }
}

/// Removes such a row.
pub(crate) fn remove_journal_row(key: Vec<u8>) -> RowChange {
    RowChange::Remove { table: JOURNAL_TABLE, key }
}

/// The row that records which life made the local change under this key.
pub(crate) fn local_incarnation_row(key: &[u8], life: u64) -> RowChange {
    set(JOURNAL_TABLE, [&[LOCAL_INCARNATION], key].concat(), &life)
}

/// Removes that row.
pub(crate) fn remove_local_incarnation(key: &[u8]) -> RowChange {
    remove_journal_row([&[LOCAL_INCARNATION], key].concat())
}

/// The row of a change by a life that had not heard all nodes.
pub(crate) fn changed_row(key: &[u8], life: u64) -> RowChange {
    set(JOURNAL_TABLE, [&[CHANGED_ROW], key].concat(), &life)
}

/// Removes that row.
pub(crate) fn remove_changed_row(key: &[u8]) -> RowChange {
    remove_journal_row([&[CHANGED_ROW], key].concat())
}

/// The row that records where the lives began that have not heard all nodes; none if there are no such lives.
pub(crate) fn incarnations_row(lives: &Vec<Incarnation>) -> RowChange {
    match lives.is_empty() {
        true => remove_journal_row(INCARNATIONS_KEY.to_vec()),
        false => set(JOURNAL_TABLE, INCARNATIONS_KEY.to_vec(), lives),
    }
}

/// The row of a pinned file that the taken copy does not mention.
pub(crate) fn not_in_mirror_row(slice: SliceId) -> RowChange {
    set(JOURNAL_TABLE, not_in_mirror_key(slice), &())
}

/// Removes that row.
pub(crate) fn remove_not_in_mirror(slice: SliceId) -> RowChange {
    RowChange::Remove { table: JOURNAL_TABLE, key: not_in_mirror_key(slice) }
}

/// The row of a slice that was archived already when a rebuild began.
pub(crate) fn archived_row(slice: SliceId) -> RowChange {
    set(JOURNAL_TABLE, local_change_key(ARCHIVED, &slice.0.to_be_bytes()), &())
}

/// Removes that row.
pub(crate) fn remove_archived_row(slice: SliceId) -> RowChange {
    remove_journal_row(local_change_key(ARCHIVED, &slice.0.to_be_bytes()))
}

/// The row of a slice that is being written while one with a newer version was published.
pub(crate) fn overtaken_row(slice: SliceId) -> RowChange {
    set(JOURNAL_TABLE, local_change_key(OVERTAKEN, &slice.0.to_be_bytes()), &())
}

/// Removes that row.
pub(crate) fn remove_overtaken_row(slice: SliceId) -> RowChange {
    remove_journal_row(local_change_key(OVERTAKEN, &slice.0.to_be_bytes()))
}

/// The row that records which journal this one was.
pub(crate) fn fork_row(fork: &Fork) -> RowChange {
    set(JOURNAL_TABLE, FORK_KEY.to_vec(), fork)
}

/// Removes that row.
pub(crate) fn remove_fork_row() -> RowChange {
    RowChange::Remove { table: JOURNAL_TABLE, key: FORK_KEY.to_vec() }
}

/// The row that records which nodes were told of by copies that tell of nothing else; none if there are no such nodes.
pub(crate) fn nodes_told_row(told: &BTreeMap<NodeId, MirrorPosition>) -> RowChange {
    match told.is_empty() {
        true => remove_journal_row(NODES_TOLD_KEY.to_vec()),
        false => set(JOURNAL_TABLE, NODES_TOLD_KEY.to_vec(), told),
    }
}

/// The row that records in which later lives the lines may have forked; none if there are no such lives.
pub(crate) fn forks_row(forks: &Vec<Fork>) -> RowChange {
    match forks.is_empty() {
        true => remove_journal_row(FORKS_KEY.to_vec()),
        false => set(JOURNAL_TABLE, FORKS_KEY.to_vec(), forks),
    }
}

fn set<T: Serialize>(table: &'static str, key: Vec<u8>, value: &T) -> RowChange {
    RowChange::Set { table, key, value: encode_row(value) }
}

fn value_of<T: DeserializeOwned>(row: &StoredRow) -> Result<T, MasterError> {
    decode_row(&row.value).ok_or_else(|| damaged_row(row))
}

fn slice_of(row: &StoredRow) -> Result<SliceId, MasterError> {
    slice_in(&row.key, row)
}

/// The slice in a part of a row's key.
fn slice_in(key: &[u8], row: &StoredRow) -> Result<SliceId, MasterError> {
    slice_key_of(key).ok_or_else(|| damaged_row(row))
}

fn not_in_mirror_key(slice: SliceId) -> Vec<u8> {
    local_change_key(NOT_IN_MIRROR, &slice.0.to_be_bytes())
}

fn slice_key(slice: SliceId) -> Vec<u8> {
    slice.0.to_be_bytes().to_vec()
}

fn path_of(key: &[u8]) -> Option<SectorPath> {
    SectorPath::parse(std::str::from_utf8(key).ok()?).ok()
}

/// The row with the journal's id.
const STATE_KEY: &[u8] = b"state";
/// First byte of the key of a slice that was written before a rebuild began. No other key begins so.
pub(crate) const LOCAL_SLICE: u8 = 0x01;
/// As `LOCAL_FOLDER`, from a build that recorded only the owner.
const OLD_LOCAL_FOLDER: u8 = 0x02;
/// First byte of the key of a folder that was made or changed before a rebuild began.
pub(crate) const LOCAL_FOLDER: u8 = 0x03;
/// First byte of the key of a path whose policy was set before a rebuild began.
pub(crate) const LOCAL_POLICY: u8 = 0x04;
/// First byte of the key of a user whose quota was set before a rebuild began.
pub(crate) const LOCAL_QUOTA: u8 = 0x05;
/// First byte of the key of a file that only another copy or a sidecar pins.
const NOT_IN_MIRROR: u8 = 0x06;
/// First byte of the key of a row changed in a life that had not heard all nodes.
const CHANGED_ROW: u8 = 0x07;
/// First byte of the key that records which life made a standing local change.
const LOCAL_INCARNATION: u8 = 0x08;
/// First byte of the key of a slice that was archived already when a rebuild began.
const ARCHIVED: u8 = 0x09;
/// First byte of the key of a node whose membership an operator set before a rebuild began.
pub(crate) const LOCAL_MEMBERSHIP: u8 = 0x0a;
/// With the bytes of a slice that is being written while one with a newer version was published.
const OVERTAKEN: u8 = 0x0b;
/// The row that records where the lives began that have not heard all nodes.
const INCARNATIONS_KEY: &[u8] = b"lives";
/// The row that records in which lives the line may have forked, after the first of them.
const NODES_TOLD_KEY: &[u8] = b"nodes told";

const FORKS_KEY: &[u8] = b"forks";
/// The row that records which journal this one was, before nodes showed that it was stale.
const FORK_KEY: &[u8] = b"fork";
/// The row that counts changes of small rows.
pub(crate) const SEQUENCE_KEY: &[u8] = b"sequence";
