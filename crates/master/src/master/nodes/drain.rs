//! Empties a node so that it can be taken away. Serves `sector node drain`. A leaving node gets no new slices. Its
//! slices count as [misplaced](crate::fleet::placement_constraints::PlacementViolation::DrainingNode), and replication moves
//! them as usual: first a copy elsewhere, then the removal. It never begins a drain that cannot end: if files would
//! find no other node, it says so at once.

use std::collections::BTreeMap;

use fastrand::Rng;
use protocol::{
    NodeId, Now, Reason, Refusal, SliceId,
    message::{
        client_master::ClientReply,
        cluster::{DrainRequest, Membership, MovePlan, PlannedMove},
        master_security::UserRights,
    },
};

use crate::{
    Master,
    actions::SessionCaller,
    catalog::rights::check_admin,
    fleet::{
        nodes::NodeKey,
        placement::{PlacementChoice, PlacementRequest, choose_node},
        placement_constraints::PlacementConstraints,
    },
    log::journal_writes::Effect,
    master::nodes::health::pluralized,
    replicas::sweeps::Sweep,
};

impl Master {
    /// Plans, begins or cancels a drain. The answer waits until the change survives a restart.
    pub(crate) fn drain(
        &mut self,
        now: Now,
        from: SessionCaller,
        by: &UserRights,
        request: &DrainRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        check_admin(by, "drain nodes")?;
        let id = &request.node;
        let key = self.node_named(id)?;
        if request.undo {
            self.set_membership(now, (from, by), key, Membership::Active, MovePlan::default());
            return Ok(None);
        }
        let plan = self.plan_drain(now, key);
        if request.dry_run {
            return Ok(Some(ClientReply::Plan(plan)));
        }
        if !plan.problems.is_empty() {
            let message = format!("node {id} cannot be drained: {}", plan.problems.join("; "));
            return Err(Refusal::new(Reason::Unavailable, message));
        }
        let standing = self.fleet.nodes.get(key).membership;
        let standing = if standing == Membership::Active { Membership::Draining } else { standing };
        self.set_membership(now, (from, by), key, standing, plan);
        Ok(None)
    }

    /// Notes which nodes are empty now.
    pub(crate) fn watch_drains(&mut self, now: Now) {
        let is_empty = |key: NodeKey| {
            let node = self.fleet.nodes.get(key);
            node.is_up() && node.slice_count == 0 && node.incoming == 0
        };
        let standing_now = |key: NodeKey| match self.fleet.nodes.get(key).membership {
            Membership::Draining if is_empty(key) => Some(Membership::Drained),
            // Slices that a job still left there are moved too.
            Membership::Drained if self.fleet.nodes.get(key).slice_count > 0 => Some(Membership::Draining),
            _ => None,
        };
        let keys = self.fleet.nodes.iter().map(|(key, _)| key);
        let changed: Vec<_> = keys.filter_map(|key| Some((key, standing_now(key)?))).collect();
        for (key, standing) in changed {
            tracing::info!(node = %self.fleet.nodes.get(key).id, ?standing, "a node that leaves");
            self.fleet.nodes.set_membership(key, standing);
            self.note_membership(now, key, None);
            let rows = self.fleet.nodes.row_change(key).into_iter().collect();
            self.save(now, rows, Vec::new());
            self.replicas.sweeps.push_back(Sweep::Node(key, 0));
        }
    }

    /// The node of this name.
    pub(crate) fn node_named(&self, id: &NodeId) -> Result<NodeKey, Refusal> {
        let unknown = || Refusal::new(Reason::NotFound, format!("there is no node {id}; `sector nodes` shows them"));
        self.fleet.nodes.of_id(id).ok_or_else(unknown)
    }

    fn set_membership(
        &mut self,
        now: Now,
        (from, by): (SessionCaller, &UserRights),
        key: NodeKey,
        standing: Membership,
        plan: MovePlan,
    ) {
        let was = self.fleet.nodes.get(key).membership;
        self.fleet.nodes.set_membership(key, standing);
        if was != standing {
            self.note_membership(now, key, Some(&by.user));
        }
        // Saved even if it changes nothing: that may only seem so with an old journal, and the latest request counts.
        // The save gives this life its number, under which the change is recorded next.
        let row = self.fleet.nodes.row_change(key).unwrap_or_else(|| self.fleet.nodes.saved_row(key));
        self.save(now, vec![row], Vec::new());
        let said = self.note_membership_change(key);
        self.save(now, said, vec![Effect::Reply(from, ClientReply::Plan(plan))]);
        self.replicas.sweeps.push_back(Sweep::Node(key, 0));
        self.retry_blocked_copies(true);
    }

    /// Where each slice would move if a node were drained now. Every slice gets a place, as if all were moved at once.
    fn plan_drain(&mut self, now: Now, key: NodeKey) -> MovePlan {
        // Hypothetical: every change made for the plan is undone.
        let (standing, folders) = (self.fleet.nodes.get(key).membership, self.fleet.colocation.clone());
        self.fleet.nodes.set_membership(key, Membership::Draining);
        let held = self.fleet.nodes.get(key).slice_count;
        let slices = self.replicas.table.all_held_by(key).take(PLANNED_MAX).collect::<Vec<_>>();
        let mut planning = Planning::default();
        for slice in slices {
            self.plan_slice(now, key, slice, &mut planning);
        }
        for (target, (_, bytes)) in &planning.moves {
            let node = self.fleet.nodes.get_mut(*target);
            node.promised_bytes = node.promised_bytes.saturating_sub(*bytes);
        }
        let plan = planning.finish(self, key, held);
        self.fleet.nodes.set_membership(key, standing);
        self.fleet.colocation = folders;
        plan
    }

    fn plan_slice(&mut self, now: Now, key: NodeKey, slice: SliceId, planning: &mut Planning) {
        planning.seen += 1;
        let is_good = self.replicas.table.at(slice, key).is_some_and(|replica| replica.is_good());
        let Some(bytes) = self.catalog.names().content_of_slice(slice).map(|content| content.bytes).filter(|_| is_good)
        else {
            return;
        };
        let Some(file) = self.catalog.names().file_of_slice(slice) else { return };
        let terms = self.constraints(now, file);
        let (holders, mut closed) = self.replica_holders(slice);
        let (staying, leaving): (Vec<_>, Vec<_>) =
            holders.into_iter().partition(|key| terms.is_fit(&self.fleet.nodes, *key));
        closed.extend(leaving);
        let fit = staying.len();
        planning.files += 1;
        planning.bytes += bytes;
        if fit >= terms.copies {
            // There are enough copies elsewhere: this one is only removed.
            return;
        }
        match choose_node(
            &self.fleet.nodes,
            &self.placement_request(bytes, &terms, &staying, &closed),
            &mut planning.rng,
        ) {
            PlacementChoice::Node(target) => {
                let node = self.fleet.nodes.get_mut(target);
                node.promised_bytes = node.promised_bytes.saturating_add(bytes);
                let (files, moved) = planning.moves.entry(target).or_default();
                (*files, *moved) = (*files + 1, *moved + bytes);
            }
            PlacementChoice::Busy | PlacementChoice::NoNode if terms.copies_possible(&self.fleet.nodes) <= fit => {
                planning.nodeless += 1
            }
            PlacementChoice::Busy | PlacementChoice::NoNode => planning.roomless += 1,
        }
    }

    fn placement_request<'a>(
        &self,
        bytes: u64,
        terms: &'a PlacementConstraints,
        holders: &'a [NodeKey],
        closed: &'a [NodeKey],
    ) -> PlacementRequest<'a> {
        PlacementRequest {
            bytes,
            user: None,
            reserve_bytes: self.config.reserve_bytes,
            constraints: terms,
            holders,
            ineligible: closed,
            avoided: &[],
            preferred: None,
            incoming_max: u32::MAX,
            may_wait: false,
        }
    }
}

/// A plan in the making.
struct Planning {
    rng: Rng,
    seen: u64,
    files: u64,
    bytes: u64,
    moves: BTreeMap<NodeKey, (u64, u64)>,
    /// Files that would have too few nodes.
    nodeless: u64,
    /// Files for which the other nodes have no room.
    roomless: u64,
}

impl Default for Planning {
    fn default() -> Self {
        // The same cloud gets the same plan, and the master's own random numbers are not consumed.
        let rng = Rng::with_seed(1);
        Self { rng, seen: 0, files: 0, bytes: 0, moves: BTreeMap::new(), nodeless: 0, roomless: 0 }
    }
}

impl Planning {
    fn finish(self, master: &Master, from: NodeKey, held: u64) -> MovePlan {
        // On a very full node only this many slices were examined; the rest are assumed to be like them.
        let scale = |count: u64| (u128::from(count) * u128::from(held) / u128::from(self.seen.max(1))) as u64;
        let mut problems = Vec::new();
        if self.nodeless > 0 {
            let count = scale(self.nodeless);
            let files = pluralized(count, "file wants", "files want");
            problems.push(format!(
                "{files} more copies than the nodes that would be left; add a node, or want fewer copies"
            ));
        }
        if self.roomless > 0 {
            let count = scale(self.roomless);
            let files = pluralized(count, "file", "files");
            problems.push(format!("for {files} the other nodes have no room; add a node, or remove files"));
        }
        let from = master.fleet.nodes.get(from).id.clone();
        let planned = self.moves.iter().map(|(to, (files, bytes))| PlannedMove {
            from: from.clone(),
            to: master.fleet.nodes.get(*to).id.clone(),
            files: *files,
            bytes: *bytes,
        });
        let moves = planned.collect();
        let (files, bytes) = (scale(self.files), scale(self.bytes));
        MovePlan { files, bytes, planned_files: self.files, moves, problems }
    }
}

/// Slices for which a plan looks for a place: some hundred milliseconds, and enough for a good estimate.
const PLANNED_MAX: usize = 20_000;
