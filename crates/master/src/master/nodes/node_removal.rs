//! Forgets a node that was drained or is lost for good. Serves `sector node remove`. A lost node that comes back after
//! all counts as new, and its slices are compared. One that was up when it was removed is not let in again by itself.
//! Unless it is forced, a removal never costs a file its last known copy.

use protocol::{
    Now, Reason, Refusal,
    message::{
        client_master::{ClientReply, NodeState},
        cluster::{Membership, NodeRemoval, RemoveNodeRequest},
        events::{EventFields, EventKind},
        master_security::UserRights,
    },
};

use crate::{
    Master,
    actions::SessionCaller,
    catalog::rights::check_admin,
    fleet::nodes::{NodeKey, Nodes},
    log::journal_writes::Effect,
    master::nodes::health::pluralized,
    replicas::sweeps::Sweep,
};

impl Master {
    /// Removes a node from the cloud, or says what would be lost. The answer waits until the removal survives a
    /// restart.
    pub(crate) fn remove_node(
        &mut self,
        now: Now,
        from: SessionCaller,
        by: &UserRights,
        request: &RemoveNodeRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        check_admin(by, "remove nodes")?;
        let id = &request.node;
        if request.undo {
            if !self.fleet.nodes.unbar(id) {
                return Err(Refusal::new(Reason::NotFound, format!("node {id} is not kept out; it may join")));
            }
            let effect = Effect::Reply(from, ClientReply::Removal(NodeRemoval::default()));
            self.save(now, vec![Nodes::remove_row(id)], vec![effect]);
            return Ok(None);
        }
        let key = self.node_named(id)?;
        let loss = self.loss_with(key);
        if request.dry_run {
            return Ok(Some(ClientReply::Removal(loss)));
        }
        if !request.force {
            self.check_removal(key, &loss)?;
        }
        let was_reachable = self.fleet.nodes.get(key).is_reachable();
        if was_reachable {
            self.mark_node_lost(now, key);
        }
        tracing::warn!(node = %id, forced = request.force, lost = loss.lost, "a node is removed");
        self.fleet.nodes.remove(key, was_reachable);
        let user = Some(by.user.clone());
        self.note_node(now, EventKind::NodeLeft, key, EventFields { user, ..EventFields::default() });
        let rows = vec![self.fleet.nodes.removal_change(key)];
        let reply = ClientReply::Removal(NodeRemoval { removed: true, ..loss });
        self.save(now, rows, vec![Effect::Reply(from, reply)]);
        self.forget_member(now, id);
        // Forgets its replicas; missing copies are made elsewhere.
        self.replicas.sweeps.push_back(Sweep::Node(key, 0));
        Ok(None)
    }

    fn check_removal(&self, key: NodeKey, loss: &NodeRemoval) -> Result<(), Refusal> {
        let node = self.fleet.nodes.get(key);
        let (id, refuse) = (&node.id, |message| Err(Refusal::new(Reason::InUse, message)));
        if node.state != NodeState::Lost && node.membership != Membership::Drained {
            return refuse(format!(
                "node {id} is in use; empty it with `sector node drain {id} --wait` first, or remove it with --force"
            ));
        }
        if loss.lost > 0 {
            let some: Vec<_> = loss.lost_paths.iter().take(NAMED_MAX).map(|path| format!("`{path}`")).collect();
            return refuse(format!(
                "node {id} has the only known copy of {} files ({}{}); start it again, or give them up with --force",
                loss.lost,
                some.join(", "),
                if loss.lost > some.len() as u64 { ", ..." } else { "" }
            ));
        }
        let unreachable = self.replicas.queue.health().lost;
        if !node.has_joined && unreachable > 0 {
            let (files, them) =
                (pluralized(unreachable, "file has", "files have"), if unreachable == 1 { "it" } else { "them" });
            return refuse(format!(
                "{files} no copy that can be reached, and node {id}, which was not heard of since the master was started, \
                 may have {them}; start it again, or give {them} up with --force"
            ));
        }
        Ok(())
    }

    /// What would be lost with a node. Walks over all slices that it holds.
    fn loss_with(&self, key: NodeKey) -> NodeRemoval {
        let mut loss = NodeRemoval::default();
        for slice in self.replicas.table.all_held_by(key) {
            let is_good = self.replicas.table.at(slice, key).is_some_and(|replica| replica.is_good());
            let Some(file) = self.catalog.names().file_of_slice(slice).filter(|_| is_good) else { continue };
            let is_other = |node: NodeKey| node != key && self.fleet.nodes.get(node).is_reachable();
            let replicas = self.replicas.table.of(slice);
            match replicas.iter().filter(|replica| replica.is_good() && is_other(replica.node)).count() {
                0 => {
                    loss.lost += 1;
                    if loss.lost_paths.len() < LISTED_MAX {
                        loss.lost_paths.extend(self.catalog.names().path(file));
                    }
                }
                others if others < usize::from(self.desired_replication(file).copies) => loss.fewer_copies += 1,
                _ => {}
            }
        }
        loss
    }
}

/// Most paths that an answer lists: a message has room for some hundred long ones.
const LISTED_MAX: usize = 200;
/// Paths named in a sentence.
const NAMED_MAX: usize = 3;
