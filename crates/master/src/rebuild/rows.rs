//! The rows of a rebuild: the journal's id and state, the nodes it knows, removals that someone missed, conflicts, and
//! what was written before. Never decides anything.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    JournalId, NodeId, Policy, SectorPath, SliceId, UserName, Version,
    message::rebuild::{Conflict, MirrorPosition, RebuildState},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use store::RowChange;

use super::{
    behind::Fork,
    outdated::Outdated,
    own::{Own, OwnFolder, Touched},
    unproven::Life,
};
use crate::{
    MasterError,
    actions::{CONFLICTS_TABLE, JOURNAL_TABLE, MEMBERS_TABLE, OUTDATED_TABLE, REMOVED_TABLE, StoredRow},
    keeping::SEQUENCE_KEY,
    lineage::Lineage,
    namespace::{damaged, decode_row, encode_row},
};

/// All rows of a rebuild, read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) state: Option<StateRow>,
    pub(super) sequence: u64,
    pub(super) members: BTreeSet<NodeId>,
    pub(super) removed: BTreeMap<SliceId, BTreeSet<NodeId>>,
    pub(super) outdated: BTreeMap<SliceId, Outdated>,
    pub(super) conflicts: BTreeMap<SliceId, Conflict>,
    pub(super) own: Own,
    /// Which life changed what of it, by key.
    pub(super) own_lives: BTreeMap<Vec<u8>, u64>,
    pub(super) unsaid: BTreeSet<SliceId>,
    pub(super) was_aside: BTreeSet<SliceId>,
    pub(super) fork: Option<Fork>,
    pub(super) forks: Vec<Fork>,
    pub(super) lives: Vec<Life>,
    pub(super) touched: Touched,
}

/// The journal's own row. Field order is the format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StateRow {
    pub(super) id: JournalId,
    pub(super) generation: u64,
    pub(super) state: RebuildState,
    pub(super) version_floor: Version,
    pub(super) copy: Option<(NodeId, MirrorPosition)>,
    pub(super) files: u64,
    pub(super) folders: u64,
}

impl Read {
    /// Reads those of `rows` that are a rebuild's.
    pub(super) fn of(rows: &[StoredRow]) -> Result<Self, MasterError> {
        let mut read = Self::default();
        for row in rows {
            match row.table {
                JOURNAL_TABLE => read.take_journal_row(row)?,
                MEMBERS_TABLE => drop(read.members.insert(member_of(&row.key).ok_or_else(|| damaged(row))?)),
                REMOVED_TABLE => drop(read.removed.insert(slice_of(row)?, value_of(row)?)),
                OUTDATED_TABLE => drop(read.outdated.insert(slice_of(row)?, value_of(row)?)),
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
            _ if row.key == FORKS_KEY => self.forks = value_of(row)?,
            _ if row.key == LIVES_KEY => self.lives = value_of(row)?,
            Some((&TOUCHED, touched)) => self.touched.load(touched, value_of(row)?).ok_or_else(|| damaged(row))?,
            Some((&OWN_LIFE, key)) => drop(self.own_lives.insert(key.to_vec(), value_of(row)?)),
            Some((&OWN_SLICE, slice)) => drop(self.own.slices.insert(slice_in(slice, row)?)),
            Some((&UNSAID, slice)) => drop(self.unsaid.insert(slice_in(slice, row)?)),
            Some((&WAS_ASIDE, slice)) => drop(self.was_aside.insert(slice_in(slice, row)?)),
            Some((&OWN_FOLDER_BEFORE, path)) => {
                let (path, owner) = (path_of(path).ok_or_else(|| damaged(row))?, value_of(row)?);
                self.own.folders.insert(path, OwnFolder { owner, acl: None });
            }
            Some((&OWN_FOLDER, path)) => {
                self.own.folders.insert(path_of(path).ok_or_else(|| damaged(row))?, value_of(row)?);
            }
            Some((&OWN_POLICY, path)) => {
                self.own.policies.insert(path_of(path).ok_or_else(|| damaged(row))?, value_of::<Policy>(row)?);
            }
            Some((&OWN_QUOTA, user)) => {
                let user = std::str::from_utf8(user).ok().and_then(|user| UserName::new(user).ok());
                self.own.quotas.insert(user.ok_or_else(|| damaged(row))?, row.value.clone());
            }
            Some((&OWN_STANDING, node)) => {
                self.own.standings.insert(member_of(node).ok_or_else(|| damaged(row))?, value_of(row)?);
            }
            _ => return Err(damaged(row)),
        }
        Ok(())
    }
}

impl StateRow {
    /// Of a journal that has just begun.
    pub(super) fn born(id: JournalId) -> Self {
        Self {
            id,
            generation: 1,
            state: RebuildState::New,
            version_floor: Version(0),
            copy: None,
            files: 0,
            folders: 0,
        }
    }

    pub(super) fn change(&self) -> RowChange {
        set(JOURNAL_TABLE, STATE_KEY.to_vec(), self)
    }
}

/// The journal's id and number, where the row with them can be read.
pub(crate) fn identity(rows: &[StoredRow]) -> Option<(JournalId, u64)> {
    let row = rows.iter().find(|row| row.table == JOURNAL_TABLE && row.key == STATE_KEY)?;
    let state: StateRow = decode_row(&row.value)?;
    Some((state.id, state.generation))
}

/// The row that gives a journal another id.
pub(crate) fn new_identity(id: JournalId, generation: u64, state: RebuildState) -> RowChange {
    StateRow { generation, state, ..StateRow::born(id) }.change()
}

/// The rows that make a journal with these rows one that was put back: names are put together from it and from what nodes
/// know beyond it, and no version is given that it had given.
///
/// # Errors
/// When a row cannot be read.
pub(crate) fn restored_identity(rows: &[StoredRow], id: JournalId) -> Result<Vec<RowChange>, MasterError> {
    let read = Read::of(rows)?;
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
    let was = Fork { journal: before.id, base: read.sequence, life: None, merges: false };
    let aside = read.conflicts.values().filter(|conflict| conflict.is_archived);
    let aside = aside.map(|conflict| was_aside(conflict.metadata.header.slice));
    Ok([state.change(), known, fork(&was)].into_iter().chain(aside).collect())
}

/// The number of the last change of a small row, where this row says it; else 0.
pub(crate) fn sequence(row: &StoredRow) -> Result<u64, MasterError> {
    Ok(Read::of(std::slice::from_ref(row))?.sequence)
}

/// Whether a row of a rebuild, or of a table that is not known here, can be read.
pub(crate) fn check_row(row: &StoredRow) -> Result<(), MasterError> {
    Read::of(std::slice::from_ref(row)).map(drop)
}

/// The row of a node that is known.
pub(super) fn member(id: &NodeId) -> RowChange {
    set(MEMBERS_TABLE, id.as_str().into(), &())
}

/// The node that such a row's key names.
pub(super) fn member_of(key: &[u8]) -> Option<NodeId> {
    NodeId::new(std::str::from_utf8(key).ok()?).ok()
}

/// The row of a slice that some nodes still have to remove; none where there are no such nodes.
pub(super) fn removed(slice: SliceId, nodes: &BTreeSet<NodeId>) -> RowChange {
    match nodes.is_empty() {
        true => RowChange::Remove { table: REMOVED_TABLE, key: slice_key(slice) },
        false => set(REMOVED_TABLE, slice_key(slice), nodes),
    }
}

/// What such a row says.
pub(super) fn removed_of(key: &[u8], value: &[u8]) -> Option<(SliceId, BTreeSet<NodeId>)> {
    Some((slice_key_of(key)?, decode_row(value)?))
}

/// The row of a slice that nodes hold under paths which its file has no more.
pub(super) fn outdated(slice: SliceId, outdated: &Outdated) -> RowChange {
    set(OUTDATED_TABLE, slice_key(slice), outdated)
}

/// Takes that row away.
pub(super) fn not_outdated(slice: SliceId) -> RowChange {
    RowChange::Remove { table: OUTDATED_TABLE, key: slice_key(slice) }
}

/// What such a row says.
pub(super) fn outdated_of(row: &StoredRow) -> Option<(SliceId, Outdated)> {
    Some((slice_key_of(&row.key)?, decode_row(&row.value)?))
}

/// The slice that is a row's key.
pub(crate) fn slice_key_of(key: &[u8]) -> Option<SliceId> {
    Some(SliceId(u128::from_be_bytes(key.try_into().ok()?)))
}

/// The row of a conflict.
pub(super) fn conflict(conflict: &Conflict) -> RowChange {
    set(CONFLICTS_TABLE, slice_key(conflict.metadata.header.slice), conflict)
}

/// Takes the row of a conflict away.
pub(super) fn no_conflict(slice: SliceId) -> RowChange {
    RowChange::Remove { table: CONFLICTS_TABLE, key: slice_key(slice) }
}

/// The keys and values of what stands.
pub(super) fn own(own: &Own) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + '_ {
    let of_path = |kind: u8, path: &SectorPath| own_key(kind, path.as_str().as_bytes());
    let slices = own.slices.iter().map(|slice| (own_key(OWN_SLICE, &slice.0.to_be_bytes()), encode_row(&())));
    let folders = own.folders.iter().map(move |(path, folder)| (of_path(OWN_FOLDER, path), encode_row(folder)));
    let policies = own.policies.iter().map(move |(path, policy)| (of_path(OWN_POLICY, path), encode_row(policy)));
    let quotas = own.quotas.iter();
    let quotas = quotas.map(|(user, value)| (own_key(OWN_QUOTA, user.as_str().as_bytes()), value.clone()));
    let standings = own.standings.iter();
    let standings = standings.map(|(node, it)| (own_key(OWN_STANDING, node.as_str().as_bytes()), encode_row(it)));
    slices.chain(folders).chain(policies).chain(quotas).chain(standings)
}

/// The key of something that stands.
pub(super) fn own_key(kind: u8, of: &[u8]) -> Vec<u8> {
    [&[kind], of].concat()
}

/// The key under which builds before wrote a folder that stands.
pub(super) fn own_folder_key_before(path: &SectorPath) -> Vec<u8> {
    [&[OWN_FOLDER_BEFORE][..], path.as_str().as_bytes()].concat()
}

/// The row of something that stands.
pub(super) fn own_row(key: Vec<u8>, value: Vec<u8>) -> RowChange {
    RowChange::Set { table: JOURNAL_TABLE, key, value }
}

/// Takes such a row away.
pub(super) fn no_own_row(key: Vec<u8>) -> RowChange {
    RowChange::Remove { table: JOURNAL_TABLE, key }
}

/// The row that says which life changed what stands under this key.
pub(super) fn own_life(key: &[u8], life: u64) -> RowChange {
    set(JOURNAL_TABLE, [&[OWN_LIFE], key].concat(), &life)
}

/// Takes that row away.
pub(super) fn no_own_life(key: &[u8]) -> RowChange {
    no_own_row([&[OWN_LIFE], key].concat())
}

/// The row of something that a life changed which had not heard all nodes.
pub(super) fn touched(key: &[u8], life: u64) -> RowChange {
    set(JOURNAL_TABLE, [&[TOUCHED], key].concat(), &life)
}

/// Takes that row away.
pub(super) fn no_touched(key: &[u8]) -> RowChange {
    no_own_row([&[TOUCHED], key].concat())
}

/// The row that says where the lives began that have not heard all nodes; none where there are no such lives.
pub(super) fn lives(lives: &Vec<Life>) -> RowChange {
    match lives.is_empty() {
        true => no_own_row(LIVES_KEY.to_vec()),
        false => set(JOURNAL_TABLE, LIVES_KEY.to_vec(), lives),
    }
}

/// The row of a file that is pinned, and of which the copy that was taken says nothing.
pub(super) fn unsaid(slice: SliceId) -> RowChange {
    set(JOURNAL_TABLE, unsaid_key(slice), &())
}

/// Takes that row away.
pub(super) fn no_unsaid(slice: SliceId) -> RowChange {
    RowChange::Remove { table: JOURNAL_TABLE, key: unsaid_key(slice) }
}

/// The row of a slice that was kept aside already when a rebuild began.
pub(super) fn was_aside(slice: SliceId) -> RowChange {
    set(JOURNAL_TABLE, own_key(WAS_ASIDE, &slice.0.to_be_bytes()), &())
}

/// Takes that row away.
pub(super) fn was_not_aside(slice: SliceId) -> RowChange {
    no_own_row(own_key(WAS_ASIDE, &slice.0.to_be_bytes()))
}

/// The row that says which journal this one was.
pub(super) fn fork(fork: &Fork) -> RowChange {
    set(JOURNAL_TABLE, FORK_KEY.to_vec(), fork)
}

/// Takes that row away.
pub(super) fn no_fork() -> RowChange {
    RowChange::Remove { table: JOURNAL_TABLE, key: FORK_KEY.to_vec() }
}

/// The row that says in which later lives the lines may have parted; none where there are no such lives.
pub(super) fn forks(forks: &Vec<Fork>) -> RowChange {
    match forks.is_empty() {
        true => no_own_row(FORKS_KEY.to_vec()),
        false => set(JOURNAL_TABLE, FORKS_KEY.to_vec(), forks),
    }
}

fn set<T: Serialize>(table: &'static str, key: Vec<u8>, value: &T) -> RowChange {
    RowChange::Set { table, key, value: encode_row(value) }
}

fn value_of<T: DeserializeOwned>(row: &StoredRow) -> Result<T, MasterError> {
    decode_row(&row.value).ok_or_else(|| damaged(row))
}

fn slice_of(row: &StoredRow) -> Result<SliceId, MasterError> {
    slice_in(&row.key, row)
}

/// The slice that a part of a row's key names.
fn slice_in(key: &[u8], row: &StoredRow) -> Result<SliceId, MasterError> {
    slice_key_of(key).ok_or_else(|| damaged(row))
}

fn unsaid_key(slice: SliceId) -> Vec<u8> {
    own_key(UNSAID, &slice.0.to_be_bytes())
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
pub(super) const OWN_SLICE: u8 = 0x01;
/// As `OWN_FOLDER`, of a build that wrote down the owner alone.
const OWN_FOLDER_BEFORE: u8 = 0x02;
/// First byte of the key of a folder that was made or changed before a rebuild began.
pub(super) const OWN_FOLDER: u8 = 0x03;
/// First byte of the key of a path whose policy was set before a rebuild began.
pub(super) const OWN_POLICY: u8 = 0x04;
/// First byte of the key of a user whose quota was set before a rebuild began.
pub(super) const OWN_QUOTA: u8 = 0x05;
/// First byte of the key of a file that is pinned by another copy or a sidecar alone.
const UNSAID: u8 = 0x06;
/// First byte of the key of something that was changed in a life that had not heard all nodes.
const TOUCHED: u8 = 0x07;
/// First byte of the key that says which life changed what stands.
const OWN_LIFE: u8 = 0x08;
/// First byte of the key of a slice that was kept aside already when a rebuild began.
const WAS_ASIDE: u8 = 0x09;
/// First byte of the key of a node of which somebody said before a rebuild began whether it leaves.
pub(super) const OWN_STANDING: u8 = 0x0a;
/// The row that says where the lives began that have not heard all nodes.
const LIVES_KEY: &[u8] = b"lives";
/// The row that says in which lives the line may have parted, after the first of them.
const FORKS_KEY: &[u8] = b"forks";
/// The row that says which journal this one was, before nodes showed that it was behind.
const FORK_KEY: &[u8] = b"fork";
