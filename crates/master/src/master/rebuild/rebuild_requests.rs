//! Operators' requests about a rebuild (`sector rebuild`). Every logged-in user may see its state; a user who is no
//! administrator never decides anything.

use protocol::{
    Now, Reason, Refusal, SectorPath, SliceId, limits,
    message::{
        client_master::ClientReply,
        master_security::UserRights,
        rebuild::{RebuildRequest, RebuildStatus},
        request::{DismissRequest, FinishRebuildRequest, ForgetNodeRequest, RebuildStatusRequest, RecoverRequest},
    },
};

use super::name_recovery::content_of;
use crate::{
    Master, actions::SessionCaller, fleet::nodes::NodeKey, log::journal_writes::Effect,
    master::nodes::health::pluralized,
};

impl Master {
    /// Answers a question or a request.
    pub(crate) fn handle_rebuild(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        request: RebuildRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        if !by.admin && !matches!(request, RebuildRequest::Status(_)) {
            let message = format!("{} is no administrator: only one may decide about a rebuild", by.user);
            return Err(Refusal::new(Reason::NoRight, message));
        }
        match request {
            RebuildRequest::Status(RebuildStatusRequest { after }) => {
                return Ok(Some(ClientReply::Rebuild(self.rebuild_status(by, after))));
            }
            RebuildRequest::Finish(FinishRebuildRequest) if self.log.rebuild.is_running() => self.finish_rebuild(now),
            RebuildRequest::Finish(FinishRebuildRequest) => {
                return Err(Refusal::new(Reason::NotFound, "no rebuild is under way: there is nothing to finish"));
            }
            RebuildRequest::Recover(RecoverRequest { slice, path }) => self.recover(now, slice, &path)?,
            RebuildRequest::Forget(ForgetNodeRequest(id)) => {
                if self.fleet.nodes.of_id(&id).is_some_and(|key| self.fleet.nodes.get(key).session.is_some()) {
                    return Err(Refusal::new(Reason::InUse, format!("node {id} is there; stop it first")));
                }
                if !self.log.rebuild.members.contains(&id) {
                    let message = format!("no node {id} is known; `sector rebuild status` names those that are");
                    return Err(Refusal::new(Reason::NotFound, message));
                }
                self.forget_member(now, &id);
            }
            RebuildRequest::Dismiss(DismissRequest(None)) => {
                for slice in self.log.rebuild.conflicts.keys().copied().collect::<Vec<_>>() {
                    self.dismiss(now, slice);
                }
            }
            RebuildRequest::Dismiss(DismissRequest(Some(slice))) => {
                self.in_doubt(slice)?;
                self.dismiss(now, slice);
            }
        }
        self.save(now, Vec::new(), vec![Effect::Reply(caller, ClientReply::Done)]);
        Ok(None)
    }

    /// What is wrong with the names, as sentences for `sector health`.
    pub(crate) fn rebuild_reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.log.rebuild.is_running() {
            reasons.push(self.rebuild_message());
        }
        let missing = self.missing_count();
        let in_doubt = self.log.rebuild.conflicts.len() - missing;
        if in_doubt > 0 {
            let slices = pluralized(in_doubt, "slice was", "slices were");
            reasons.push(format!("{slices} in doubt when the names were put together; see `sector rebuild status`"));
        }
        if missing > 0 {
            let names = pluralized(
                missing,
                "name had a file in the older journal, and no node has its bytes; see `sector rebuild status`, and dismiss \
                 it if it is not missed",
                "names had files in the older journal, and no node has their bytes; see `sector rebuild status`, and \
                 dismiss those that are not missed",
            );
            reasons.push(names);
        }
        reasons
    }

    /// Slices at a node that have no name and are kept until a person decides. Nothing moves them, since nobody can say
    /// what they are. A draining node waits for that decision.
    pub(crate) fn in_doubt_at(&self, node: NodeKey) -> usize {
        let aside = self.log.rebuild.conflicts.values().filter(|conflict| conflict.is_archived);
        aside.filter(|conflict| self.replicas.table.at(conflict.metadata.header.slice, node).is_some()).count()
    }

    /// The state of the rebuild. Slices in doubt, with their paths, are shown only to administrators.
    fn rebuild_status(&self, by: &UserRights, after: Option<SliceId>) -> RebuildStatus {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let rest: Vec<_> =
            self.log.rebuild.conflicts.range((from, std::ops::Bound::Unbounded)).filter(|_| by.admin).collect();
        let (mut conflicts, mut bytes) = (Vec::new(), 0);
        for (_, conflict) in &rest {
            bytes += protocol::wire::codec::encode(*conflict).len();
            if bytes > PAGE_BYTES_MAX && !conflicts.is_empty() {
                break;
            }
            conflicts.push((*conflict).clone());
        }
        let more = conflicts.len() < rest.len();
        let is_absent = |id: &&protocol::NodeId| self.log.rebuild.absent.contains(*id);
        RebuildStatus {
            state: self.log.rebuild.state,
            journal: self.log.rebuild.id,
            generation: self.log.rebuild.generation,
            reported: self.log.rebuild.members.iter().filter(|id| !is_absent(id)).cloned().collect(),
            missing: self.log.rebuild.missing_nodes(),
            copy: self.log.rebuild.restored_mirror.clone(),
            files: self.log.rebuild.files,
            folders: self.log.rebuild.folders,
            conflicts_total: self.log.rebuild.conflicts.len() as u64,
            conflicts,
            more,
        }
    }

    /// Gives an archived slice a name.
    fn recover(&mut self, now: Now, slice: SliceId, path: &SectorPath) -> Result<(), Refusal> {
        if self.log.rebuild.is_running() {
            return Err(self.rebuilding_refusal());
        }
        let metadata = self.in_doubt(slice)?;
        if !self.log.rebuild.is_archived(slice) {
            let message = format!("slice {slice} has a name; rename the file with `sector mv`");
            return Err(Refusal::new(Reason::Exists, message));
        }
        if self.catalog.names().find(path).is_some() {
            return Err(Refusal::new(Reason::Exists, format!("`{path}` exists already; name a free path")));
        }
        let (owner, modified) = (metadata.header.owner.clone(), metadata.header.modified_unix_millis);
        let content = content_of(&metadata);
        let change = self.catalog.put_entry(now, path, true, &owner, content, modified)?;
        let mut rows = change.rows;
        rows.extend(change.entry.map(|file| self.catalog.set_acl(file, metadata.header.acl)).unwrap_or_default());
        rows.extend(self.forget_conflict(slice));
        self.save(now, rows, vec![Effect::Reconcile(slice)]);
        Ok(())
    }

    fn dismiss(&mut self, now: Now, slice: SliceId) {
        let mut rows = if self.is_listed_missing(slice) { self.remove_missing(slice) } else { Vec::new() };
        rows.extend(self.forget_conflict(slice));
        self.save(now, rows, vec![Effect::Reconcile(slice)]);
    }

    fn in_doubt(&self, slice: SliceId) -> Result<protocol::SliceMetadata, Refusal> {
        let unknown = || {
            let message = format!("slice {slice} is not in doubt; `sector rebuild status` lists those that are");
            Refusal::new(Reason::NotFound, message)
        };
        self.log.rebuild.conflicts.get(&slice).map(|conflict| conflict.metadata.clone()).ok_or_else(unknown)
    }
}

/// Bytes of conflicts in one answer: half a GMP message, since one slice with the most user metadata has 68 KiB.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
