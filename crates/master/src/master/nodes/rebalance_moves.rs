//! Moves slices from fuller to emptier nodes, on request. Serves `sector rebalance`. The measure is how full a node is
//! for its size, not how many slices it has. It uses what repair leaves over: while any file lacks a copy or stands
//! wrong, no move begins. Link limits apply as for all copies. A restart of the master ends it: finished moves stay,
//! and the rest needs a new request. It never makes a file's spread worse, and leaves co-located folders where they
//! are.

use std::collections::BTreeMap;

use protocol::{
    Now, Refusal, SliceId,
    message::{
        client_master::ClientReply,
        cluster::{MovePlan, PlannedMove, RebalanceStatus, RebalanceVerb},
        master_security::UserRights,
    },
};

use crate::{
    Master,
    catalog::rights::check_admin,
    fleet::{
        nodes::NodeKey,
        rebalance::{Move, NodeFill, Rebalance},
    },
    master::replication::replication_monitor::CopyStart,
};

impl Master {
    /// Plans, begins, ends, or reports progress.
    pub(crate) fn rebalance(&mut self, by: &UserRights, verb: RebalanceVerb) -> Result<ClientReply, Refusal> {
        match verb {
            RebalanceVerb::Plan | RebalanceVerb::Status => {}
            RebalanceVerb::Begin => {
                check_admin(by, "rebalance the nodes")?;
                if !self.fleet.rebalance.running {
                    let moves = std::mem::take(&mut self.fleet.rebalance.moves);
                    self.fleet.rebalance = Rebalance { running: true, moves, is_woken: true, ..Rebalance::default() };
                }
            }
            RebalanceVerb::Stop => {
                check_admin(by, "stop rebalancing")?;
                self.fleet.rebalance.running = false;
            }
        }
        let levels = self.levels();
        let permille = |level: Option<&NodeFill>| level.map_or(0, |level| (level.fill() * 1_000.0) as u32);
        Ok(ClientReply::Rebalance(RebalanceStatus {
            running: self.fleet.rebalance.running,
            moved_files: self.fleet.rebalance.moved_files,
            moved_bytes: self.fleet.rebalance.moved_bytes,
            fill_least_permille: permille(levels.first()),
            fill_most_permille: permille(levels.last()),
            plan: self.plan_rebalance(levels),
        }))
    }

    /// Notes finished moves, and examines the nodes again.
    pub(crate) fn watch_rebalance(&mut self) {
        let has_left = |slice: SliceId, moving: &Move| {
            self.replicas.table.at(slice, moving.from).is_none_or(|replica| !replica.is_good())
        };
        let is_over = |slice: SliceId, moving: &Move| {
            let has_come = self.replicas.table.at(slice, moving.to).is_some();
            has_left(slice, moving) || (!has_come && self.replicas.queue.copy(slice, moving.to).is_none())
        };
        let over: Vec<_> =
            self.fleet.rebalance.moves.iter().filter(|(slice, moving)| is_over(**slice, moving)).collect();
        let over: Vec<_> = over.into_iter().map(|(slice, moving)| (*slice, has_left(*slice, moving))).collect();
        for (slice, has_left) in over {
            if let Some(moving) = self.fleet.rebalance.moves.remove(&slice).filter(|_| has_left) {
                self.fleet.rebalance.moved_files += 1;
                self.fleet.rebalance.moved_bytes += moving.bytes;
            }
        }
        self.fleet.rebalance.is_woken |= self.fleet.rebalance.running;
    }

    /// Begins further moves, if nothing more important has to be done.
    pub(crate) fn continue_rebalance(&mut self, now: Now) {
        if !self.fleet.rebalance.running || !std::mem::take(&mut self.fleet.rebalance.is_woken) || self.is_repairing() {
            return;
        }
        while self.fleet.rebalance.moves.len() < MOVES_MAX {
            match self.begin_move(now) {
                MoveSearch::Begun => {}
                MoveSearch::NotNow => return,
                MoveSearch::Even => {
                    if self.fleet.rebalance.moves.is_empty() {
                        tracing::info!(files = self.fleet.rebalance.moved_files, "the nodes are rebalanced");
                        self.fleet.rebalance.running = false;
                    }
                    return;
                }
            }
        }
    }

    /// Searches the fullest nodes for one slice that an emptier one can take.
    fn begin_move(&mut self, now: Now) -> MoveSearch {
        let levels = self.levels();
        let mut waits = false;
        for donor in levels.iter().rev() {
            let is_uneven = levels.first().is_some_and(|least| donor.fill() - least.fill() > SLACK);
            if !is_uneven {
                break;
            }
            if self.fleet.rebalance.exhausted.contains(&donor.key) {
                continue;
            }
            if self.fleet.nodes.get(donor.key).outgoing >= NODE_MOVES_MAX {
                waits = true;
                continue;
            }
            match self.move_from(now, donor, &levels) {
                MoveSearch::Begun => return MoveSearch::Begun,
                MoveSearch::NotNow => waits = true,
                MoveSearch::Even => drop(self.fleet.rebalance.exhausted.insert(donor.key)),
            }
        }
        if waits { MoveSearch::NotNow } else { MoveSearch::Even }
    }

    /// Whether files that lack copies wait for them, or get them now.
    fn is_repairing(&self) -> bool {
        let moves = &self.fleet.rebalance.moves;
        !self.replicas.queue.is_idle()
            || self.replicas.queue.copies_where(|_, _| true).iter().any(|(slice, _)| !moves.contains_key(slice))
    }

    /// Examines some of a node's slices. [`MoveSearch::Even`] if all have been examined in vain.
    fn move_from(&mut self, now: Now, donor: &NodeFill, levels: &[NodeFill]) -> MoveSearch {
        let from = self.fleet.rebalance.cursors.get(&donor.key).copied().unwrap_or(0);
        let (slices, next) = self.replicas.table.held_by(donor.key, from, SEEN_MAX);
        let mut waits = false;
        for slice in &slices {
            match self.move_slice(now, *slice, donor, levels) {
                // The same ones are examined again: moving slices are skipped.
                MoveSearch::Begun => return MoveSearch::Begun,
                MoveSearch::NotNow => waits = true,
                MoveSearch::Even => {}
            }
        }
        match next {
            // Slices that must wait are examined again; the others are done.
            _ if waits => MoveSearch::NotNow,
            Some(next) => {
                self.fleet.rebalance.cursors.insert(donor.key, next);
                MoveSearch::NotNow
            }
            None => MoveSearch::Even,
        }
    }

    fn move_slice(&mut self, now: Now, slice: SliceId, donor: &NodeFill, levels: &[NodeFill]) -> MoveSearch {
        let Some(file) = self.catalog.names().file_of_slice(slice) else { return MoveSearch::Even };
        let Some(bytes) = self.catalog.names().content(file).map(|content| content.bytes) else {
            return MoveSearch::Even;
        };
        let is_busy = self.fleet.rebalance.moves.contains_key(&slice) || !self.replicas.queue.targets(slice).is_empty();
        let (holders, closed) = self.replica_holders(slice);
        let is_sure = self.certain_holders(slice).len() == holders.len() && holders.contains(&donor.key);
        if is_busy
            || !is_sure
            || !closed.is_empty()
            || bytes == 0
            || self.desired_replication(file).colocated_folder.is_some()
        {
            return MoveSearch::Even;
        }
        let terms = self.constraints(now, file);
        let cost = terms.cost(&self.fleet.nodes, &holders);
        let mut waits = false;
        for taker in levels.iter().take(TAKERS_MAX) {
            let node = self.fleet.nodes.get(taker.key);
            let is_lower = taker.fill_with(bytes.into()) <= donor.fill_with(-i128::from(bytes));
            let room = node.room_bytes() >= bytes.saturating_add(self.config.reserve_bytes);
            let after: Vec<_> = holders.iter().map(|key| if *key == donor.key { taker.key } else { *key }).collect();
            if !is_lower || !room || holders.contains(&taker.key) || terms.cost(&self.fleet.nodes, &after) > cost {
                continue;
            }
            if node.incoming >= NODE_MOVES_MAX {
                waits = true;
                continue;
            }
            match self.begin_copy_to(now, slice, bytes, taker.key, &[], Some(NODE_MOVES_MAX)) {
                CopyStart::Started => {
                    self.fleet.rebalance.moves.insert(slice, Move { from: donor.key, to: taker.key, bytes });
                    return MoveSearch::Begun;
                }
                CopyStart::Busy | CopyStart::LinkFull => waits = true,
                CopyStart::NoNode => {}
            }
        }
        if waits { MoveSearch::NotNow } else { MoveSearch::Even }
    }

    /// The participating nodes, the emptiest first.
    fn levels(&self) -> Vec<NodeFill> {
        let mut leaving: BTreeMap<NodeKey, u64> = BTreeMap::new();
        for moving in self.fleet.rebalance.moves.values() {
            *leaving.entry(moving.from).or_default() += moving.bytes;
        }
        let mut levels: Vec<NodeFill> = self
            .fleet
            .nodes
            .iter()
            .filter(|(_, node)| node.is_up() && node.is_active())
            .filter_map(|(key, node)| {
                let leaving_bytes = leaving.get(&key).copied().unwrap_or(0);
                Some(NodeFill {
                    key,
                    filled_bytes: node.filled_bytes().saturating_sub(leaving_bytes),
                    capacity_bytes: node.capacity_bytes()?,
                })
            })
            .collect();
        levels.sort_by(|a, b| a.fill().total_cmp(&b.fill()).then(a.key.cmp(&b.key)));
        levels
    }

    /// The moves that would make all nodes equally full.
    fn plan_rebalance(&self, levels: Vec<NodeFill>) -> MovePlan {
        let mut plan = MovePlan::default();
        let is_even = match (levels.first(), levels.last()) {
            (Some(least), Some(most)) => most.fill() - least.fill() <= SLACK,
            _ => true,
        };
        if is_even {
            return plan;
        }
        let filled: u128 = levels.iter().map(|level| u128::from(level.filled_bytes)).sum();
        let capacity: u128 = levels.iter().map(|level| u128::from(level.capacity_bytes)).sum::<u128>().max(1);
        // The part of each node above or below the common level.
        let fair = |level: &NodeFill| (filled * u128::from(level.capacity_bytes) / capacity) as u64;
        let mut lacking: Vec<_> =
            levels.iter().map(|level| (level.key, fair(level).saturating_sub(level.filled_bytes))).collect();
        for donor in levels.iter().rev() {
            let mut above = donor.filled_bytes.saturating_sub(fair(donor));
            let node = self.fleet.nodes.get(donor.key);
            let slice_bytes = (donor.filled_bytes / node.slice_count.max(1)).max(1);
            for (taker, lack) in lacking.iter_mut().filter(|(_, lack)| *lack > 0) {
                let bytes = above.min(*lack);
                if bytes == 0 {
                    break;
                }
                (above, *lack) = (above - bytes, *lack - bytes);
                let (from, to) = (node.id.clone(), self.fleet.nodes.get(*taker).id.clone());
                let files = bytes.div_ceil(slice_bytes);
                plan.files += files;
                plan.bytes += bytes;
                plan.moves.push(PlannedMove { from, to, files, bytes });
            }
        }
        plan
    }
}

/// The result of a search for a slice to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveSearch {
    /// A move has begun.
    Begun,
    /// There may be one a little later.
    NotNow,
    /// There is none.
    Even,
}

/// How unevenly full nodes may be: three percent. With less, bytes would move for as long as files come and go.
const SLACK: f64 = 0.03;

/// Running moves at once.
const MOVES_MAX: usize = 64;

/// Moves that one node gives, or takes, at once: half of what repair may.
const NODE_MOVES_MAX: u32 = 2;

/// Slices examined at once.
const SEEN_MAX: usize = 64;

/// Emptier nodes tried for a slice.
const TAKERS_MAX: usize = 8;
