//! Lives of a master in which not all known nodes have told what they know. Until they have, nobody can say whether the
//! journal is an old one that was put back. So what is changed in such a life is written down: where nodes show that the
//! journal is behind, that stands, and what the journal merely says gives way to what nodes know beyond it. A master that
//! is started again before all nodes have told goes on with what the lives before it wrote down.
//!
//! A backup from such a life says so too, and is no reason to believe that what was changed before it was taken is newer
//! than what nodes know. So each change has its life, and the copy that is taken says where the lines parted: before the
//! first life that it does not go back to.

use std::collections::BTreeSet;

use protocol::{Version, message::rebuild::MirrorPosition};
use serde::{Deserialize, Serialize};
use store::RowChange;

use super::{Rebuild, behind::Fork, rows};
use crate::{Master, actions::StoredRow, lineage};

/// Where such a life began. Field order is the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Life {
    /// The journal's last change before it.
    base: u64,
    /// Its first change.
    first: u64,
    /// The newest version that the journal had before it.
    version: Version,
}

impl Rebuild {
    /// The last such life before this one in which a version can have been given.
    pub(super) fn life_of(&self, version: Version) -> Option<u64> {
        self.lives.iter().rev().find(|life| version > life.version).map(|life| life.first)
    }
}

impl Master {
    /// Rows were changed: gives those that say so, as long as not all nodes have told.
    pub(crate) fn note_touched(&mut self, changes: &[RowChange]) -> Vec<RowChange> {
        let Some(life) = self.lineage.begun().filter(|_| !self.is_compared() && !self.rebuild.is_running()) else {
            return Vec::new();
        };
        self.rebuild.touched.add(changes, life).iter().map(|key| rows::touched(key, life)).collect()
    }

    /// This life's first change has a number: gives the row that says so, where not all nodes have told.
    pub(crate) fn note_life(&mut self, first: u64) -> Option<RowChange> {
        let rebuild = &mut self.rebuild;
        if rebuild.unheard.is_empty() || rebuild.is_running() {
            return None;
        }
        if rebuild.lives.len() >= LIVES_MAX {
            rebuild.lives.remove(0);
        }
        rebuild.lives.push(Life { base: rebuild.sequence_at_start, first, version: rebuild.version_at_start });
        Some(rows::lives(&rebuild.lives))
    }

    /// All nodes have told, or names are put together: nothing is to be written down any longer.
    pub(super) fn forget_lives(&mut self) -> Vec<RowChange> {
        let rebuild = &mut self.rebuild;
        let touched = std::mem::take(&mut rebuild.touched);
        let lives = (!std::mem::take(&mut rebuild.lives).is_empty()).then(|| rows::lives(&rebuild.lives));
        touched.keys().map(|key| rows::no_touched(&key)).chain(lives).collect()
    }

    /// The journal is behind. Takes down what was changed in such lives, and gives where the lines may have parted: before the
    /// first of them, until a copy says that it goes back to it.
    pub(super) fn part_lines(&mut self, this_life: Fork, last: u64) -> (Fork, Vec<RowChange>) {
        let (own, lives) = self.gather_own(false);
        let earlier = self.rebuild.lives.iter().filter(|life| life.base < this_life.base);
        let part = |life: &Life| Fork { base: life.base, life: Some((life.first, last)), ..this_life };
        let mut forks: Vec<_> = earlier.map(part).collect();
        forks.push(this_life);
        let rebuild = &mut self.rebuild;
        (rebuild.own, rebuild.own_lives) = (own, lives);
        let fork = forks.remove(0);
        rebuild.forks = forks;
        let mut changes: Vec<_> = rebuild.own_lives.iter().map(|(key, life)| rows::own_life(key, *life)).collect();
        changes.push(rows::forks(&rebuild.forks));
        (fork, changes)
    }

    /// A copy is taken, and says where the lines parted: where it goes back to what was before a life, and not to that
    /// life. What was changed in lives that it goes back to is no news to it.
    pub(super) fn find_parting(&mut self, mark: &MirrorPosition, stored: &[StoredRow]) -> Vec<RowChange> {
        let Some(fork) = self.rebuild.fork.filter(|_| !self.rebuild.forks.is_empty()) else { return Vec::new() };
        let knows = |sequence| lineage::copy_knows(mark, stored, fork.journal, Some(sequence));
        let parts = |fork: &Fork| knows(fork.base) && !fork.life.is_some_and(|(first, _)| knows(first));
        if parts(&fork) {
            return Vec::new();
        }
        let rebuild = &mut self.rebuild;
        let at = rebuild.forks.iter().position(parts).unwrap_or(rebuild.forks.len() - 1);
        let fork = rebuild.forks.remove(at);
        rebuild.forks.drain(..at);
        rebuild.fork = Some(fork);
        let first = fork.life.map_or(u64::MAX, |(first, _)| first);
        let known = rebuild.own_lives.extract_if(.., |_, life| *life < first).map(|(key, _)| key);
        let known: BTreeSet<_> = known.collect();
        rebuild.own.forget(&known);
        let mut changes = vec![rows::fork(&fork), rows::forks(&rebuild.forks)];
        changes.extend(known.iter().flat_map(|key| [rows::no_own_row(key.clone()), rows::no_own_life(key)]));
        changes
    }

    /// The names stand, or another line has shown: where lines may have parted is of no interest any more.
    pub(super) fn forget_forks(&mut self) -> Vec<RowChange> {
        let rebuild = &mut self.rebuild;
        let lives = std::mem::take(&mut rebuild.own_lives);
        let forks = (!std::mem::take(&mut rebuild.forks).is_empty()).then(|| rows::forks(&rebuild.forks));
        lives.keys().map(|key| rows::no_own_life(key)).chain(forks).collect()
    }
}

/// Lives that are told apart. More, and the oldest counts for what the journal says.
const LIVES_MAX: usize = 64;
