//! Copies of the master's small rows at the nodes: folders, policies, quotas, nodes, removals that some node missed.
//! They come back if the master loses its disk (`docs/paths/rebuild.md`); files come back from their sidecars. Changes
//! are counted, and each node that is up gets those it lacks, in batches. It never sends a change that is not durable
//! yet. A copy of another journal is never replaced before the rebuild is complete: until then the older copy is the
//! better one.

use std::collections::BTreeSet;

use protocol::{
    FileId, Now,
    message::{node_master::Order, rebuild::MirrorRow, work::WorkFault},
};
use store::RowChange;

use crate::{
    Master,
    actions::{CONFLICTS_TABLE, JOURNAL_TABLE, MasterAction, NAMES_TABLE, OUTDATED_TABLE, POLICIES_TABLE, TRASH_TABLE},
    catalog::namespace::{self, file_key, parse_file_key},
    fleet::nodes::NodeKey,
    log::{
        journal_lineage::JUMP_MAX,
        journal_writes::Effect,
        metadata_mirror::{mirrored_table, table_of},
        rebuild::{is_archived_row, rebuild_rows::SEQUENCE_KEY, slice_key_of},
    },
    replicas::orders::OrderKind,
};

impl Master {
    /// Counts the changes of small rows among `changes` and adds the row that makes the count durable. Has nodes told
    /// once it is.
    pub(crate) fn mirror_changes(&mut self, changes: &mut Vec<RowChange>, effects: &mut Vec<Effect>) {
        let (mut kept, mut set_now) = (Vec::new(), BTreeSet::new());
        for change in changes.iter() {
            match change {
                RowChange::Set { table, key, value } if self.is_mirrored(table, key, Some(value)) => {
                    set_now.insert((*table, key));
                    kept.push(MirrorRow { table: (*table).into(), key: key.clone(), value: Some(value.clone()) });
                    kept.extend(self.entry_of(table, key).and_then(|id| self.pinned_row(id)));
                }
                // What this change makes and removes again is among the rows kept so far, and not at the nodes.
                RowChange::Remove { table, key }
                    if set_now.contains(&(*table, key)) || self.is_mirrored(table, key, None) =>
                {
                    kept.push(MirrorRow { table: (*table).into(), key: key.clone(), value: None });
                    kept.extend(self.entry_of(table, key).and_then(|id| self.unpinned_row(id)));
                }
                // The file was pinned by its content, or the slice in doubt has a name again: nothing would keep its
                // row up to date.
                RowChange::Set { table: table @ (NAMES_TABLE | CONFLICTS_TABLE), key, .. }
                    if self.log.mirror.has_row(table, key) =>
                {
                    kept.push(MirrorRow { table: (*table).into(), key: key.clone(), value: None });
                }
                _ => {}
            }
        }
        // A change of a file is counted though no kept row shows it. So a node that was away is known to have an older
        // copy than one that was not. And a restored journal is known to be older than what nodes have.
        let names_changed = changes.iter().any(|change| table_of(change) == NAMES_TABLE);
        if !kept.is_empty() || names_changed {
            self.count_change(kept, changes, effects);
            let touched = self.note_changed_rows(changes);
            changes.extend(touched);
        }
    }

    /// Sends nodes the rows they lack.
    pub(crate) fn send_mirror_updates(&mut self, now: Now) {
        if self.log.rebuild.is_running() {
            return;
        }
        for (key, keep) in self.log.mirror.next_updates(now.monotonic, self.log.rebuild.id, self.log.rebuild.generation)
        {
            self.order_now(key, OrderKind::UpdateMirror, Order::Mirror(keep));
        }
    }

    /// Sends nodes the rows they lack at once, without waiting for the next turn, before the master is stopped. Returns
    /// whether some node has still to answer.
    pub fn flush_mirror_updates(&mut self, now: Now) -> bool {
        self.send_mirror_updates(now);
        !self.log.rebuild.is_running()
            && self.log.mirror.is_any_behind(self.log.rebuild.id, self.log.rebuild.generation)
    }

    /// Takes a node's answer to an order to keep rows.
    pub(crate) fn note_mirror_ack(&mut self, now: Now, node: NodeKey, is_done: bool) {
        self.log.mirror.note_answer(now.monotonic, node, is_done);
        if !is_done {
            let fault = format!("node {} did not take its rows", self.fleet.nodes.get(node).id);
            self.log.mirror.last_fault = Some(WorkFault::new(now.unix_millis, &fault));
        }
        // Further pages need not wait for the next tick.
        let has_more = self.log.mirror.peers.get(&node).is_some_and(|peer| peer.pages.is_some());
        if is_done && has_more {
            self.send_mirror_updates(now);
        }
    }

    /// Gives a node an order that concerns no slice and waits for nothing.
    pub(crate) fn order_now(&mut self, node: NodeKey, ordered: OrderKind, body: Order) {
        let Some(session) = self.fleet.nodes.get(node).session else { return };
        let order = self.replicas.orders.send(node, ordered);
        self.actions.push_back(MasterAction::Order { session, order, body });
    }

    fn count_change(&mut self, mut kept: Vec<MirrorRow>, changes: &mut Vec<RowChange>, effects: &mut Vec<Effect>) {
        if self.log.lineage.first_change().is_none() {
            let jump = self.rng.u64(1..=JUMP_MAX);
            let (first, row) = self.log.lineage.begin(self.log.rebuild.id, self.log.mirror.sequence, jump);
            self.log.mirror.sequence = first - 1;
            kept.extend(mirrored_row(&row));
            changes.push(row);
            changes.extend(self.note_incarnation(first));
        }
        let sequence = self.log.mirror.add(kept);
        let value = namespace::encode_row(&sequence);
        changes.push(RowChange::Set { table: JOURNAL_TABLE, key: SEQUENCE_KEY.to_vec(), value });
        effects.push(Effect::ChangesDurable(sequence));
    }

    fn is_mirrored(&self, table: &'static str, key: &[u8], value: Option<&[u8]>) -> bool {
        match (table, value) {
            (NAMES_TABLE, Some(value)) => {
                namespace::is_folder_row(value) || parse_file_key(key).is_some_and(|id| self.is_pinned(id))
            }
            (CONFLICTS_TABLE, Some(value)) => is_archived_row(value),
            (NAMES_TABLE | CONFLICTS_TABLE, None) => self.log.mirror.has_row(table, key),
            _ => mirrored_table(table).is_some(),
        }
    }

    /// Whether a table names an entry by its id, which no sidecar has. Then its row is kept, even if it is a file.
    pub(crate) fn is_pinned(&self, id: FileId) -> bool {
        self.catalog.policies().get(id).is_some()
            || self.catalog.trash().inherited(id).is_some()
            || self.log.rebuild.pins(|| Some(self.catalog.names().content(id)?.slice))
    }

    /// The entry that a row is about, of a table that pins files.
    fn entry_of(&self, table: &str, key: &[u8]) -> Option<FileId> {
        match table {
            POLICIES_TABLE | TRASH_TABLE => parse_file_key(key),
            OUTDATED_TABLE => self.catalog.names().file_of_slice(slice_key_of(key)?),
            _ => None,
        }
    }

    /// The row of a file that is pinned now.
    fn pinned_row(&self, id: FileId) -> Option<MirrorRow> {
        if self.catalog.names().is_folder(id) {
            return None;
        }
        match self.catalog.names().row_of(id)? {
            RowChange::Set { key, value, .. } => Some(MirrorRow { table: NAMES_TABLE.into(), key, value: Some(value) }),
            RowChange::Remove { .. } => None,
        }
    }

    /// Removes the row of a file that is no longer pinned: nothing would keep it up to date.
    fn unpinned_row(&self, id: FileId) -> Option<MirrorRow> {
        let key = file_key(id);
        let is_left =
            !self.catalog.names().is_folder(id) && !self.is_pinned(id) && self.log.mirror.has_row(NAMES_TABLE, &key);
        is_left.then(|| MirrorRow { table: NAMES_TABLE.into(), key, value: None })
    }
}

fn mirrored_row(change: &RowChange) -> Option<MirrorRow> {
    let RowChange::Set { table, key, value } = change else { return None };
    Some(MirrorRow { table: (*table).into(), key: key.clone(), value: Some(value.clone()) })
}
