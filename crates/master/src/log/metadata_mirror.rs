//! Which node has which of the small rows: folders, policies, quotas, nodes, removals that some node missed. Serves the
//! rebuild after a lost journal. Changes are counted, and each node that is up gets those it lacks. It never sends a
//! change that is not durable yet.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use protocol::{
    FileId, JournalId, limits,
    message::{
        rebuild::{MirrorBase, MirrorPosition, MirrorRow, MirrorUpdate},
        work::WorkFault,
    },
};
use store::RowChange;

use crate::{
    actions::{
        CONFLICTS_TABLE, LINEAGE_TABLE, MEMBERS_TABLE, NAMES_TABLE, NODES_TABLE, OUTDATED_TABLE, POLICIES_TABLE,
        QUOTAS_TABLE, REMOVED_TABLE, StoredRow, TRASH_TABLE,
    },
    catalog::namespace::Namespace,
    fleet::nodes::NodeKey,
    log::rebuild::is_archived_row,
};

/// The small rows, their changes, and how much of them each node has. Rows are opaque here, except for telling a folder
/// from a file.
#[derive(Debug, Default)]
pub(crate) struct MetadataMirror {
    /// The rows as they are in the journal now.
    rows: BTreeMap<(&'static str, Vec<u8>), Vec<u8>>,
    /// Changes being written to the journal, with their numbers.
    pending: VecDeque<(u64, Vec<MirrorRow>)>,
    /// The rows that these change: the last change of each, and whether the row exists after it.
    coming: BTreeMap<(&'static str, Vec<u8>), (u64, bool)>,
    /// The number of the newest change, durable or not.
    pub(crate) sequence: u64,
    /// The number of the newest durable change.
    durable: u64,
    /// Durable changes after `log_after`, in order.
    log: VecDeque<(u64, Vec<MirrorRow>)>,
    log_after: u64,
    log_rows: usize,
    pub(crate) peers: BTreeMap<NodeKey, MirrorPeer>,
    /// Which node last did not take its rows, and when.
    pub(crate) last_fault: Option<WorkFault>,
    /// The last whole copy that was cut into pages; nodes that join together share it.
    snapshot: Option<Arc<Snapshot>>,
}

/// A node to which rows are given.
#[derive(Debug, Default)]
pub(crate) struct MirrorPeer {
    /// Its position.
    mark: Option<MirrorPosition>,
    /// What is being sent to it.
    sending: Option<Sending>,
    /// The whole copy that it is being sent, and the next page.
    pub(crate) pages: Option<(Arc<Snapshot>, usize)>,
    retry_at: Duration,
}

/// The content of an order that is being sent.
#[derive(Debug)]
enum Sending {
    Changes(MirrorPosition),
    Page,
}

/// A whole copy in pages.
#[derive(Debug)]
pub(crate) struct Snapshot {
    mark: MirrorPosition,
    pages: Vec<Vec<MirrorRow>>,
}

impl MetadataMirror {
    /// The small rows of the journal: those of folders and of `pinned` files, and those among `others`. `sequence` is
    /// the number of their last change.
    pub(crate) fn load(
        names: &Namespace,
        pinned: impl Iterator<Item = FileId>,
        others: &[StoredRow],
        sequence: u64,
    ) -> Self {
        let set = |row| match row {
            RowChange::Set { table, key, value } => Some(((table, key), value)),
            RowChange::Remove { .. } => None,
        };
        let mut rows: BTreeMap<_, _> = names.folder_rows().filter_map(set).collect();
        rows.extend(pinned.filter_map(|id| set(names.row_of(id)?)));
        let is_small = |row: &&StoredRow| row.table != CONFLICTS_TABLE || is_archived_row(&row.value);
        let small = others.iter().filter(|row| mirrored_table(row.table).is_some()).filter(is_small);
        rows.extend(small.map(|row| ((row.table, row.key.clone()), row.value.clone())));
        Self { rows, sequence, durable: sequence, log_after: sequence, ..Self::default() }
    }

    /// Counts a change and keeps it until it is durable.
    pub(crate) fn add(&mut self, rows: Vec<MirrorRow>) -> u64 {
        self.sequence += 1;
        for row in &rows {
            if let Some(table) = mirrored_table(&row.table) {
                self.coming.insert((table, row.key.clone()), (self.sequence, row.value.is_some()));
            }
        }
        self.pending.push_back((self.sequence, rows));
        self.sequence
    }

    /// All changes up to `sequence` are durable.
    pub(crate) fn note_durable(&mut self, sequence: u64) {
        while self.pending.front().is_some_and(|(number, _)| *number <= sequence) {
            let Some((number, rows)) = self.pending.pop_front() else { return };
            for row in &rows {
                let Some(table) = mirrored_table(&row.table) else { continue };
                let key = (table, row.key.clone());
                if self.coming.get(&key).is_some_and(|(last, _)| *last == number) {
                    self.coming.remove(&key);
                }
                match &row.value {
                    Some(value) => drop(self.rows.insert(key, value.clone())),
                    None => drop(self.rows.remove(&key)),
                }
            }
            self.durable = number;
            // For changes without kept rows, the number of the last one is enough.
            match self.log.back_mut().filter(|(_, before)| rows.is_empty() && before.is_empty()) {
                Some(last) => last.0 = number,
                None => {
                    self.log_rows += rows.len() + 1;
                    self.log.push_back((number, rows));
                }
            }
            while self.log_rows > LOG_ROWS_MAX {
                let Some((number, rows)) = self.log.pop_front() else { return };
                self.log_rows -= rows.len() + 1;
                self.log_after = number;
            }
        }
    }

    /// The number of the newest change, durable or not.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the copy has this row, or will have it.
    pub(crate) fn has_row(&self, table: &'static str, key: &[u8]) -> bool {
        let key = (table, key.to_vec());
        self.coming.get(&key).map_or_else(|| self.rows.contains_key(&key), |(_, is_there)| *is_there)
    }

    /// From now on this node is sent the rows it lacks; it has `mark` already.
    pub(crate) fn add_peer(&mut self, node: NodeKey, mark: Option<MirrorPosition>) {
        self.peers.insert(node, MirrorPeer { mark, ..MirrorPeer::default() });
    }

    /// This node can be sent nothing for now.
    pub(crate) fn remove_peer(&mut self, node: NodeKey) {
        self.peers.remove(&node);
    }

    /// The next order for each node that lacks rows and has no order outstanding.
    pub(crate) fn next_updates(
        &mut self,
        now: Duration,
        id: JournalId,
        generation: u64,
    ) -> Vec<(NodeKey, MirrorUpdate)> {
        let mut orders = Vec::new();
        let mark = |sequence| MirrorPosition { journal: id, generation, sequence };
        let idle = self.peers.iter().filter(|(_, peer)| peer.sending.is_none() && now >= peer.retry_at);
        for key in idle.map(|(key, _)| *key).collect::<Vec<_>>() {
            let Some(peer) = self.peers.get(&key) else { continue };
            let has = peer.mark.filter(|has| *has == mark(has.sequence)).map(|has| has.sequence);
            let reaches = |sequence: &u64| (self.log_after..=self.durable).contains(sequence);
            if has == Some(self.durable) {
                continue;
            }
            let changes = has.filter(reaches).and_then(|has| Some((has, self.changes_after(has)?)));
            let (keep, sending, pages) = match changes {
                Some((sequence, (until, rows))) => {
                    let keep = MirrorUpdate { position: mark(until), base: MirrorBase::Change(sequence), rows };
                    (keep, Sending::Changes(mark(until)), None)
                }
                None => {
                    let usable = peer.pages.clone().filter(|(snapshot, _)| {
                        snapshot.mark == mark(snapshot.mark.sequence) && reaches(&snapshot.mark.sequence)
                    });
                    let (snapshot, page) = usable.unwrap_or_else(|| (self.snapshot(mark(self.durable)), 0));
                    let last = page + 1 == snapshot.pages.len();
                    let number = u32::try_from(page).unwrap_or(u32::MAX);
                    let rows = snapshot.pages[page].clone();
                    let keep =
                        MirrorUpdate { position: snapshot.mark, base: MirrorBase::Page { page: number, last }, rows };
                    (keep, Sending::Page, Some((snapshot, page)))
                }
            };
            if let Some(peer) = self.peers.get_mut(&key) {
                (peer.sending, peer.pages) = (Some(sending), pages);
            }
            orders.push((key, keep));
        }
        orders
    }

    /// Whether some node that receives rows has not confirmed all of them.
    pub(crate) fn is_any_behind(&self, id: JournalId, generation: u64) -> bool {
        let whole = MirrorPosition { journal: id, generation, sequence: self.durable };
        self.peers.values().any(|peer| peer.sending.is_some() || peer.mark != Some(whole))
    }

    /// How many nodes have all rows, and how many do not; and when the first that refused them is tried again.
    pub(crate) fn progress(&self, id: JournalId, generation: u64) -> (u64, u64, Option<Duration>) {
        let whole = Some(MirrorPosition { journal: id, generation, sequence: self.durable });
        let behind: Vec<_> = self.peers.values().filter(|peer| peer.mark != whole).collect();
        let retry_at = behind.iter().map(|peer| peer.retry_at).filter(|at| !at.is_zero()).min();
        ((self.peers.len() - behind.len()) as u64, behind.len() as u64, retry_at)
    }

    /// A node answered, or did not.
    pub(crate) fn note_answer(&mut self, now: Duration, node: NodeKey, is_done: bool) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        match (peer.sending.take(), is_done) {
            (Some(Sending::Changes(mark)), true) => peer.mark = Some(mark),
            (Some(Sending::Page), true) => {
                if let Some((snapshot, page)) = peer.pages.take() {
                    if page + 1 == snapshot.pages.len() {
                        peer.mark = Some(snapshot.mark);
                    } else {
                        peer.pages = Some((snapshot, page + 1));
                    }
                }
            }
            // Its content does not fit; a whole copy does.
            (_, false) => (peer.mark, peer.pages, peer.retry_at) = (None, None, now + RETRY_AFTER),
            (None, true) => {}
        }
    }

    /// The changes after this one, as many as fit one order; `None` if not even the first fits.
    fn changes_after(&self, sequence: u64) -> Option<(u64, Vec<MirrorRow>)> {
        let (mut until, mut bytes, mut rows) = (sequence, 0, Vec::new());
        let start = self.log.partition_point(|(number, _)| *number <= sequence);
        for (number, changed) in self.log.range(start..) {
            let more: usize = changed.iter().map(row_bytes).sum();
            // A change is never split: a node has it whole or not at all.
            if bytes + more > PAGE_BYTES_MAX {
                break;
            }
            (until, bytes) = (*number, bytes + more);
            rows.extend(changed.iter().cloned());
        }
        (until > sequence).then_some((until, rows))
    }

    fn snapshot(&mut self, mark: MirrorPosition) -> Arc<Snapshot> {
        if let Some(snapshot) = self.snapshot.as_ref().filter(|snapshot| snapshot.mark == mark) {
            return Arc::clone(snapshot);
        }
        let (mut pages, mut bytes) = (vec![Vec::new()], 0);
        for ((table, key), value) in &self.rows {
            let row = MirrorRow { table: (*table).to_owned(), key: key.clone(), value: Some(value.clone()) };
            if bytes > 0 && bytes + row_bytes(&row) > PAGE_BYTES_MAX {
                pages.push(Vec::new());
                bytes = 0;
            }
            bytes += row_bytes(&row);
            if let Some(page) = pages.last_mut() {
                page.push(row);
            }
        }
        let snapshot = Arc::new(Snapshot { mark, pages });
        self.snapshot = Some(Arc::clone(&snapshot));
        snapshot
    }
}

/// The table that a change is of.
pub(crate) fn table_of(change: &RowChange) -> &'static str {
    match change {
        RowChange::Set { table, .. } | RowChange::Remove { table, .. } => table,
    }
}

/// The kept table of this name.
pub(crate) fn mirrored_table(name: &str) -> Option<&'static str> {
    MIRRORED_TABLES.into_iter().find(|table| *table == name)
}

fn row_bytes(row: &MirrorRow) -> usize {
    // The table's name, lengths and a little more.
    32 + row.key.len() + row.value.as_ref().map_or(0, Vec::len)
}

/// Tables whose rows nodes keep. Of `names` these are only folders and pinned files; of `conflicts` only slices that
/// are kept without a name.
pub(crate) const MIRRORED_TABLES: [&str; 10] = [
    NAMES_TABLE,
    POLICIES_TABLE,
    TRASH_TABLE,
    QUOTAS_TABLE,
    NODES_TABLE,
    MEMBERS_TABLE,
    REMOVED_TABLE,
    OUTDATED_TABLE,
    CONFLICTS_TABLE,
    LINEAGE_TABLE,
];
/// Changed rows kept in memory, about 8 MiB: a node that missed more is given a whole copy.
const LOG_ROWS_MAX: usize = 65_536;
/// Bytes of rows in one order: half a GMP message, which leaves room for its other parts.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
/// Pause before a node that refused rows or did not answer is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(2);
