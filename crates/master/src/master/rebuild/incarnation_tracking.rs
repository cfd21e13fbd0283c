//! Lives of a master in which not all known nodes have reported. Until they have, the journal may be a restored old
//! one. So changes of such a life are recorded. If nodes show that the journal is stale, these stand, and the rest of
//! the journal gives way to the nodes' newer knowledge. A restart before all nodes have reported continues the records.
//! A change made before a backup of such a life never counts as newer than the nodes' knowledge just for being
//! recorded.

use std::collections::BTreeSet;

use protocol::message::rebuild::MirrorPosition;
use store::RowChange;

use crate::{
    Master,
    actions::StoredRow,
    log::{
        journal_lineage,
        rebuild::{rebuild_rows, stale_journal::Fork, unverified_incarnations::Incarnation},
    },
};

impl Master {
    /// Rows were changed: returns the rows that record it, while not all nodes have reported.
    pub(crate) fn note_changed_rows(&mut self, changes: &[RowChange]) -> Vec<RowChange> {
        let Some(life) =
            self.log.lineage.first_change().filter(|_| !self.has_all_reports() && !self.log.rebuild.is_running())
        else {
            return Vec::new();
        };
        self.log
            .rebuild
            .changed_rows
            .add(changes, life)
            .iter()
            .map(|key| rebuild_rows::changed_row(key, life))
            .collect()
    }

    /// This life's first change has a number: returns the row that records it, while not all nodes have reported.
    pub(crate) fn note_incarnation(&mut self, first: u64) -> Option<RowChange> {
        let rebuild = &mut self.log.rebuild;
        if rebuild.unreported_nodes.is_empty() || rebuild.is_running() {
            return None;
        }
        if rebuild.incarnations.len() >= INCARNATIONS_MAX {
            rebuild.incarnations.remove(0);
        }
        rebuild.incarnations.push(Incarnation {
            base: rebuild.sequence_at_start,
            first,
            version: rebuild.version_at_start,
        });
        Some(rebuild_rows::incarnations_row(&rebuild.incarnations))
    }

    /// All nodes have reported, or a rebuild runs: nothing has to be recorded any longer.
    pub(super) fn forget_incarnations(&mut self) -> Vec<RowChange> {
        let rebuild = &mut self.log.rebuild;
        let touched = std::mem::take(&mut rebuild.changed_rows);
        let lives = (!std::mem::take(&mut rebuild.incarnations).is_empty())
            .then(|| rebuild_rows::incarnations_row(&rebuild.incarnations));
        touched.keys().map(|key| rebuild_rows::remove_changed_row(&key)).chain(lives).collect()
    }

    /// The journal is stale. Records the changes of such lives, and returns where the lines may have forked. That is
    /// before the first of them, until a copy shows that it goes back to it.
    pub(super) fn record_forks(&mut self, this_life: Fork, last: u64) -> (Fork, Vec<RowChange>) {
        let (own, lives) = self.collect_local_changes(false);
        let earlier = self.log.rebuild.incarnations.iter().filter(|life| life.base < this_life.base);
        let part = |life: &Incarnation| Fork { base: life.base, incarnation: Some((life.first, last)), ..this_life };
        let mut forks: Vec<_> = earlier.map(part).collect();
        forks.push(this_life);
        let rebuild = &mut self.log.rebuild;
        (rebuild.local_changes, rebuild.local_change_incarnations) = (own, lives);
        let fork = forks.remove(0);
        rebuild.forks = forks;
        let mut changes: Vec<_> = rebuild
            .local_change_incarnations
            .iter()
            .map(|(key, life)| rebuild_rows::local_incarnation_row(key, *life))
            .collect();
        changes.push(rebuild_rows::forks_row(&rebuild.forks));
        (fork, changes)
    }

    /// A copy is taken and shows where the lines forked: it goes back to the state before a life, but not to that life.
    /// Changes of lives that it goes back to are not new to it.
    pub(super) fn locate_fork(&mut self, mark: &MirrorPosition, stored: &[StoredRow]) -> Vec<RowChange> {
        let Some(fork) = self.log.rebuild.fork else { return Vec::new() };
        let knows = |sequence| journal_lineage::mirror_contains(mark, stored, fork.journal, Some(sequence));
        let parts = |fork: &Fork| knows(fork.base) && !fork.incarnation.is_some_and(|(first, _)| knows(first));
        if self.log.rebuild.forks.is_empty() {
            let is_known = |life: &mut u64| *life == OLDER_THAN_REBUILD;
            return if knows(fork.base) { self.forget_known_changes(is_known) } else { Vec::new() };
        }
        if parts(&fork) {
            return Vec::new();
        }
        let rebuild = &mut self.log.rebuild;
        let at = rebuild.forks.iter().position(parts).unwrap_or(rebuild.forks.len() - 1);
        let fork = rebuild.forks.remove(at);
        rebuild.forks.drain(..at);
        rebuild.fork = Some(fork);
        let first = fork.incarnation.map_or(u64::MAX, |(first, _)| first);
        let mut changes = vec![rebuild_rows::fork_row(&fork), rebuild_rows::forks_row(&rebuild.forks)];
        changes.extend(self.forget_known_changes(|life| *life < first));
        changes
    }

    /// Changes of these lives are not new to the copy that is taken.
    fn forget_known_changes(&mut self, is_known: impl Fn(&mut u64) -> bool) -> Vec<RowChange> {
        let known = self.log.rebuild.local_change_incarnations.extract_if(.., |_, life| is_known(life));
        let known: BTreeSet<_> = known.map(|(key, _)| key).collect();
        self.log.rebuild.local_changes.forget(&known);
        let rows = |key: &Vec<u8>| {
            [rebuild_rows::remove_journal_row(key.clone()), rebuild_rows::remove_local_incarnation(key)]
        };
        known.iter().flat_map(rows).collect()
    }

    /// The journal is stale, and comes from the time of a rebuild. Nobody changes anything then, so the local changes
    /// are no newer than its last change. A copy that knows that change knows all of them.
    pub(super) fn age_local_changes(&mut self) -> Vec<RowChange> {
        let rebuild = &mut self.log.rebuild;
        let keys: Vec<_> = rebuild_rows::local_change_entries(&rebuild.local_changes).map(|(key, _)| key).collect();
        rebuild.local_change_incarnations = keys.iter().map(|key| (key.clone(), OLDER_THAN_REBUILD)).collect();
        keys.iter().map(|key| rebuild_rows::local_incarnation_row(key, OLDER_THAN_REBUILD)).collect()
    }

    /// The rebuild has ended, or another line has shown: the possible forks no longer matter.
    pub(super) fn forget_forks(&mut self) -> Vec<RowChange> {
        let rebuild = &mut self.log.rebuild;
        let lives = std::mem::take(&mut rebuild.local_change_incarnations);
        let forks = (!std::mem::take(&mut rebuild.forks).is_empty()).then(|| rebuild_rows::forks_row(&rebuild.forks));
        lives.keys().map(|key| rebuild_rows::remove_local_incarnation(key)).chain(forks).collect()
    }
}

/// The life of changes made before a rebuild, in a backup taken during it.
const OLDER_THAN_REBUILD: u64 = 0;

/// Lives that are told apart. Beyond that, the oldest counts as part of the journal.
const INCARNATIONS_MAX: usize = 64;
