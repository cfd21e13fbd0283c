//! Chooses the nodes of an upload: the one that the client sends to, and those after it in the chain. The bytes pass
//! from node to node. Serves upload, and owns a rule: a write is refused only if no node has room. A policy that cannot
//! be met now is met later, by moving. It only chooses and never starts anything.

use protocol::{
    FileId, Now, Reason, Refusal, SectorPath, SliceId, Version,
    message::{
        client_master::{Condition, CreateRequest, FileContent},
        master_security::UserRights,
    },
};

use crate::{
    Master,
    fleet::{
        nodes::NodeKey,
        placement::{PlacementChoice, PlacementRequest, choose_node},
        placement_constraints::PlacementConstraints,
    },
    replicas::desired_replication::DesiredReplication,
};

/// The base of an appended file.
pub(crate) struct AppendBase {
    pub(crate) slice: SliceId,
    pub(crate) version: Version,
    pub(crate) content: FileContent,
}

impl Master {
    /// The content that a request appends to. Also what must still hold of the path: that it has this content, or none
    /// if it had none.
    pub(crate) fn append_base(&self, request: &CreateRequest) -> (Option<AppendBase>, Condition) {
        if !request.append {
            return (None, request.condition);
        }
        let content = self.catalog.names().find(&request.path).and_then(|file| self.catalog.names().content(file));
        let base = content.map(|content| AppendBase { slice: content.slice, version: content.version, content });
        let condition = match (request.condition, &base) {
            (Condition::Any, Some(base)) => Condition::Version(base.version),
            // Like `>>` in a shell: a missing file is created.
            (Condition::Any, None) => Condition::Absent,
            (asked, _) => asked,
        };
        (base, condition)
    }

    /// The nodes for a new slice of `bytes` bytes, with this many wanted and synced copies. The first is the one that
    /// the client sends to.
    pub(crate) fn choose_targets(
        &mut self,
        now: Now,
        by: &UserRights,
        request: &CreateRequest,
        base: Option<&AppendBase>,
        bytes: u64,
        copies: (u8, u8),
    ) -> Result<Vec<NodeKey>, Refusal> {
        let (copies, sync_copies) = (copies.0, usize::from(copies.1));
        let terms = self.constraints_at(now, &request.path, copies);
        let synced = self.fleet.nodes.writable_count(&terms.forbidden_sites, sync_copies).max(1);
        if let Some(base) = base {
            return self.choose_among_holders((by, base), request, &terms, bytes, synced);
        }
        if request.at.is_none()
            && let Some(node) = self.choose_resume_target(now, by, request, bytes)?
        {
            // Existing bytes cannot be passed on as frames; further copies are fetched when it is complete.
            return Ok(vec![node]);
        }
        let mut targets = vec![self.choose_target(now, by, request, copies, bytes)?];
        // Results of a job are published from where they were made, without frames that a chain could pass on.
        let chained = if request.at.is_some() { 1 } else { synced };
        while targets.len() < chained {
            let wanted = PlacementRequest {
                bytes,
                user: Some(&by.user),
                reserve_bytes: self.config.reserve_bytes,
                constraints: &terms,
                holders: &targets,
                ineligible: &[],
                avoided: &[],
                preferred: None,
                incoming_max: u32::MAX,
                may_wait: false,
            };
            let PlacementChoice::Node(next) = choose_node(&self.fleet.nodes, &wanted, &mut self.rng) else { break };
            targets.push(next);
        }
        Ok(targets)
    }

    /// The node where an earlier attempt of the same upload broke off, as long as it can continue there.
    fn choose_resume_target(
        &mut self,
        now: Now,
        by: &UserRights,
        request: &CreateRequest,
        bytes: u64,
    ) -> Result<Option<NodeKey>, Refusal> {
        let Some(key) = request.resume else { return Ok(None) };
        let Some(there) = self.writes.partial_uploads.node(&by.user, key) else { return Ok(None) };
        let node = self.fleet.nodes.get(there);
        if node.is_up() {
            // The received part already lies on the same disk: asking for room for all of it is on the safe side.
            let (reserve, in_memory) = (self.config.reserve_bytes, request.path.is_in_memory());
            let room = node.has_fair_room(Some(&by.user), bytes, reserve, in_memory);
            return Ok(room.then_some(there));
        }
        if self.writes.partial_uploads.is_worth_waiting(now.monotonic, &by.user, key) {
            let id = &self.fleet.nodes.get(there).id;
            let message =
                format!("node {id}, which has the first bytes of this upload, is away; try again in a moment");
            return Err(Refusal::new(Reason::Unavailable, message));
        }
        self.writes.partial_uploads.forget(&by.user, key);
        Ok(None)
    }

    /// Nodes that hold a good copy of the base and have room for the whole new version. The least busy comes first,
    /// then the farthest from it.
    fn choose_among_holders(
        &mut self,
        (by, base): (&UserRights, &AppendBase),
        request: &CreateRequest,
        terms: &PlacementConstraints,
        bytes: u64,
        count: usize,
    ) -> Result<Vec<NodeKey>, Refusal> {
        let replicas = self.replicas.table.of(base.slice);
        let fits = |key: &NodeKey| {
            let node = self.fleet.nodes.get(*key);
            let reserve = self.config.reserve_bytes;
            let has_room = node.has_fair_room(Some(&by.user), bytes, reserve, terms.is_in_memory);
            node.is_up() && terms.is_fit(&self.fleet.nodes, *key) && has_room
        };
        let mut holders: Vec<_> =
            replicas.iter().filter(|replica| replica.is_good()).map(|replica| replica.node).filter(fits).collect();
        holders.sort_by_cached_key(|key| {
            let node = self.fleet.nodes.get(*key);
            (node.load(), node.filled_bytes(), *key)
        });
        let Some(first) = holders.first().copied() else {
            let path = &request.path;
            let message = format!(
                "no node that can be reached has both a good copy of `{path}` and room for {bytes} bytes; \
                 see `sector stat {path}`"
            );
            return Err(Refusal::new(Reason::NoCopy, message));
        };
        let place = self.fleet.nodes.get(first).place.clone();
        // Stable: among equally distant ones the least busy stays first.
        holders[1..].sort_by_key(|key| std::cmp::Reverse(self.fleet.nodes.get(*key).place.distance(&place)));
        holders.truncate(count);
        Ok(holders)
    }

    /// Chooses the node for a write of this many bytes.
    pub(crate) fn choose_target(
        &mut self,
        now: Now,
        by: &UserRights,
        request: &CreateRequest,
        copies: u8,
        bytes: u64,
    ) -> Result<NodeKey, Refusal> {
        if request.at.is_some() {
            return self.check_target(by, request, bytes);
        }
        let terms = self.constraints_at(now, &request.path, copies);
        // If the desired replication leaves no node with room, the file goes to any node with room, and is moved when
        // that changes. But it never goes to a forbidden site.
        let at_large = PlacementConstraints { allowed_nodes: None, wanted_sites: Vec::new(), ..terms.clone() };
        for terms in [&terms, &at_large] {
            let wanted = PlacementRequest {
                bytes,
                user: Some(&by.user),
                reserve_bytes: self.config.reserve_bytes,
                constraints: terms,
                holders: &[],
                ineligible: &[],
                avoided: &[],
                preferred: None,
                incoming_max: u32::MAX,
                may_wait: false,
            };
            if let PlacementChoice::Node(key) = choose_node(&self.fleet.nodes, &wanted, &mut self.rng) {
                return Ok(key);
            }
        }
        let path = &request.path;
        if let Some(too_much) = self.promised_elsewhere(by, &terms, path, bytes) {
            return Err(too_much);
        }
        let message = if self.fleet.nodes.up_count() == 0 {
            "no node is up; start one, or wait until those that were started have joined".to_owned()
        } else if self.fleet.nodes.writable_count(&terms.forbidden_sites, 1) == 0 {
            format!("no node may take `{path}`: all that are up are being drained, or at sites where it must not be")
        } else {
            let (room, reserve) = if terms.is_in_memory { ("room in memory", "") } else { ("room", " and a reserve") };
            format!("no node has {room} for `{path}` ({bytes} bytes{reserve}); add a node or remove files")
        };
        Err(Refusal::new(Reason::NoSpace, message))
    }

    /// The answer to a client if the only room is promised to open uploads of others, and when to try again. What the
    /// client itself writes, and copies that are being made, will stay.
    fn promised_elsewhere(
        &self,
        by: &UserRights,
        terms: &PlacementConstraints,
        path: &SectorPath,
        bytes: u64,
    ) -> Option<Refusal> {
        let reserve_bytes = self.config.reserve_bytes;
        let takers = self.fleet.nodes.iter().filter(|(_, node)| {
            node.is_up() && node.is_active() && !terms.forbidden_sites.contains(&node.site) && !terms.is_in_memory
        });
        let in_the_way = takers.filter_map(|(_, node)| node.promised_in_the_way(&by.user, bytes, reserve_bytes));
        let others = in_the_way.fold(0_u64, u64::saturating_add);
        if others == 0 {
            return None;
        }
        let message = format!(
            "no node has room for `{path}` ({bytes} bytes and a reserve) beside the {others} bytes that are promised to \
             writes of others"
        );
        Some(Refusal::throttled(message, ROOM_RETRY_SECONDS))
    }

    /// What is wanted of a file's copies.
    pub(crate) fn desired_replication(&self, file: FileId) -> DesiredReplication {
        #[cfg(test)]
        if let Some(desired) =
            self.test_replication.and_then(|wishes| wishes(self.catalog.names(), &self.catalog.names().path(file)?))
        {
            return desired;
        }
        self.policy_replication(file)
    }

    /// What is wanted of the copies of a file that does not exist yet, or will be replaced: as its folder says.
    pub(crate) fn desired_replication_at(&self, path: &SectorPath, copies: u8) -> DesiredReplication {
        #[cfg(test)]
        if let Some(desired) = self.test_replication.and_then(|wishes| wishes(self.catalog.names(), path)) {
            return desired;
        }
        self.policy_replication_at(path, Some(copies))
    }

    /// The node that the client itself names: a job's result already lies there.
    fn check_target(&self, by: &UserRights, request: &CreateRequest, bytes: u64) -> Result<NodeKey, Refusal> {
        let unavailable = |message: String| Err(Refusal::new(Reason::Unavailable, message));
        let Some(id) = &request.at else { return unavailable("no node was named".into()) };
        let unknown = || Refusal::new(Reason::NotFound, format!("there is no node {id}; `sector nodes` shows them"));
        let key = self.fleet.nodes.of_id(id).ok_or_else(unknown)?;
        let node = self.fleet.nodes.get(key);
        if !node.is_up() {
            return unavailable(format!("the node {id} cannot be reached now"));
        }
        let (reserve, in_memory) = (self.config.reserve_bytes, request.path.is_in_memory());
        if !node.has_fair_room(Some(&by.user), bytes, reserve, in_memory) {
            let room = if request.path.is_in_memory() { "room in memory" } else { "room" };
            return unavailable(format!("the node {id} has no {room} for {bytes} bytes"));
        }
        Ok(key)
    }
}

/// An abandoned write ends after as long, and its room is free again; in seconds.
const ROOM_RETRY_SECONDS: u32 = 60;
