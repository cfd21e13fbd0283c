//! Publishes written files. Serves upload (`docs/paths`), and owns its promise. A commit is never answered before
//! enough nodes have synced the same bytes and the journal has the entry. Enough is the number the uploader asked for,
//! but no more than are up and may have one, and at least one. So a cloud of one node works, and one that has lost
//! nodes goes on. The missing copies are made when nodes come back; this file never sends bytes itself.

use std::time::Duration;

use protocol::{
    Digest, LeaseId, NodeId, Now, Reason, Refusal, SliceId, SliceMetadata,
    message::{
        client_master::{ClientReply, FileContent},
        master_security::UserRights,
    },
};

use crate::{
    Master,
    actions::SessionCaller,
    fleet::nodes::NodeKey,
    log::{journal_writes::Effect, rebuild::rebuild_rows},
    master::replication::replication_monitor::CopyStart,
    replicas::replica_table::ReplicaState,
    writes::lease_table::{Lease, PendingCommit, PublishedLease, SyncedCopy},
};

impl Master {
    /// Takes a commit request. [`advance_lease`](Self::advance_lease) answers it, now, when copies come in, or when the
    /// lease ends.
    pub(crate) fn commit(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        id: LeaseId,
        bytes: u64,
        digest: Digest,
    ) -> Result<Option<ClientReply>, Refusal> {
        // Asked again because the first answer was lost: the same answer, as long as it is still true.
        if let Some(&PublishedLease { file, slice, .. }) = self.writes.leases.published(id)
            && self.catalog.names().file_of_slice(slice) == Some(file)
        {
            return Ok(self.entry(file).map(ClientReply::Entry));
        }
        self.own_lease(by, id)?;
        if let Some(lease) = self.writes.leases.get_mut(id) {
            lease.commit = Some(PendingCommit { caller, written: SyncedCopy { bytes, digest } });
        }
        self.advance_lease(now, id);
        Ok(None)
    }

    /// Notes that a slice under a lease is synced at a node.
    pub(crate) fn note_lease_stored(&mut self, now: Now, key: NodeKey, metadata: &SliceMetadata) {
        let slice = metadata.header.slice;
        self.set_replica(slice, key, ReplicaState::Staged);
        let Some(lease) = self.writes.leases.of_slice(slice).and_then(|id| self.writes.leases.get_mut(id)) else {
            return;
        };
        lease.last_progress = now.monotonic;
        lease.stored.insert(key, SyncedCopy { bytes: metadata.bytes, digest: metadata.digest });
        let id = lease.id;
        self.stop_awaiting(id, key);
        // All bytes have left the client. The nodes further down the chain have them at hand and only need to sync.
        let patience = CHAIN_PATIENCE + Duration::from_secs(metadata.bytes / CHAIN_BYTES_PER_SECOND_MIN);
        self.writes.leases.set_chain_deadline(id, now.monotonic + patience);
        self.advance_lease(now, id);
    }

    /// Notes that the chain of a write does not reach a node. A copy is made elsewhere, or there in another way.
    pub(crate) fn note_forward_failed(&mut self, now: Now, slice: SliceId, to: &NodeId) {
        let Some((id, key)) = self.writes.leases.of_slice(slice).zip(self.fleet.nodes.of_id(to)) else { return };
        if self.stop_awaiting(id, key) {
            if let Some(lease) = self.writes.leases.get_mut(id) {
                lease.failed.push(key);
            }
            self.advance_lease(now, id);
        }
    }

    /// Stops waiting for chain nodes that have fallen far behind the others.
    pub(crate) fn expire_chains(&mut self, now: Now) {
        while let Some(id) = self.writes.leases.next_expired_chain(now.monotonic) {
            let Some(lease) = self.writes.leases.get(id) else { continue };
            for key in lease.awaited.clone() {
                tracing::warn!(lease = %id, node = %self.fleet.nodes.get(key).id, "a node of a chain does not report its copy");
                self.stop_awaiting(id, key);
                if let Some(lease) = self.writes.leases.get_mut(id) {
                    lease.failed.push(key);
                }
            }
            self.advance_lease(now, id);
        }
    }

    /// Stops waiting for bytes at a node that is lost.
    pub(crate) fn stop_awaiting_node(&mut self, key: NodeKey) {
        for id in self.writes.leases.awaiting(key) {
            self.stop_awaiting(id, key);
        }
    }

    /// Notes that bytes of a write are no longer on their way to a node; returns whether they were.
    fn stop_awaiting(&mut self, id: LeaseId, key: NodeKey) -> bool {
        let Some(lease) = self.writes.leases.get_mut(id) else { return false };
        let was_awaited = lease.awaited.remove(&key);
        if was_awaited {
            self.fleet.nodes.get_mut(key).end_upload(&lease.by.user, lease.bytes_promised);
        }
        was_awaited
    }

    /// Notes that a copy under a lease is bad.
    pub(crate) fn note_lease_corrupt(&mut self, now: Now, key: NodeKey, id: LeaseId) {
        if let Some(lease) = self.writes.leases.get_mut(id) {
            lease.stored.remove(&key);
        }
        self.advance_lease(now, id);
    }

    /// Takes the next step of the lease's write: more synced copies, or publishing.
    pub(crate) fn advance_lease(&mut self, now: Now, id: LeaseId) {
        let Some(lease) = self.writes.leases.get(id) else { return };
        if let Some(commit) = lease.commit
            && let Some((node, found)) = lease.stored.iter().find(|(_, stored)| **stored != commit.written)
        {
            let message = format!(
                "`{}` was written as {} bytes with digest {}, but node {} stored {} bytes with digest {}; \
                 write it again",
                lease.header.path,
                commit.written.bytes,
                commit.written.digest,
                self.fleet.nodes.get(*node).id,
                found.bytes,
                found.digest
            );
            self.abort_lease_with(now, id, Refusal::new(Reason::Corrupt, message));
            return;
        }
        let (slice, needed) = (lease.header.slice, self.copies_needed(lease));
        let synced = self.copies_synced(lease);
        let Some(bytes) = lease.stored.values().next().map(|stored| stored.bytes) else { return };
        if lease.commit.is_some() && synced >= needed {
            return self.publish(now, id);
        }
        if synced == 0 {
            return;
        }
        let under_way = lease.awaited.len() + self.replicas.queue.targets(slice).len();
        for _ in synced + under_way..needed {
            if self.begin_copy(now, slice, bytes, true) != CopyStart::Started {
                break;
            }
        }
    }

    /// Checks all writes again: nodes came or went.
    pub(crate) fn advance_leases(&mut self, now: Now) {
        for id in self.writes.leases.with_bytes() {
            self.advance_lease(now, id);
        }
    }

    /// Ends the expired leases, and removes what was written under them.
    pub(crate) fn expire_leases(&mut self, now: Now) {
        while let Some(id) = self.writes.leases.next_expired(now.monotonic) {
            let Some(lease) = self.writes.leases.get(id) else { return };
            let (path, needed, synced) = (&lease.header.path, self.copies_needed(lease), self.copies_synced(lease));
            let message = format!(
                "only {synced} of {needed} nodes have synced `{path}` in time; check `sector nodes` and write it again, \
                 or ask for fewer synced copies"
            );
            self.abort_lease_with(now, id, Refusal::new(Reason::Unavailable, message));
        }
    }

    /// Ends a lease without publishing; its bytes are removed wherever they are.
    pub(crate) fn abort_lease(&mut self, now: Now, id: LeaseId) {
        let message = "the write was given up before it was published";
        self.abort_lease_with(now, id, Refusal::new(Reason::LeaseEnded, message));
    }

    /// Ends a lease because its writer comes again: the former holder is gone, or no longer counts.
    pub(crate) fn preempt_lease(&mut self, now: Now, id: LeaseId) {
        let message = "the same file was put to the same path again, and that upload took this one's place";
        self.abort_lease_with(now, id, Refusal::new(Reason::LeaseEnded, message));
    }

    pub(crate) fn abort_lease_with(&mut self, now: Now, id: LeaseId, refusal: Refusal) {
        let Some(lease) = self.take_lease(id) else { return };
        // The part that the target has is kept there. If the target has everything, it is a slice, and removed as one.
        if let Some(key) = lease.resume
            && !lease.stored.contains_key(&lease.target)
        {
            self.writes.partial_uploads.remember(now.monotonic, &lease.by.user, key, lease.target);
        }
        self.replicas.queue.forget(lease.header.slice);
        self.reconcile_slice(now, lease.header.slice);
        self.forget_overtaken(now, &lease);
        if let Some(commit) = lease.commit {
            self.reply(commit.caller, ClientReply::Refused(refusal));
        }
    }

    fn take_lease(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.writes.leases.remove(id)?;
        for key in &lease.awaited {
            self.fleet.nodes.get_mut(*key).end_upload(&lease.by.user, lease.bytes_promised);
        }
        Some(lease)
    }

    /// Makes the written slice the content of its path, in memory now and for everyone once it is saved.
    fn publish(&mut self, now: Now, id: LeaseId) {
        let Some(lease) = self.take_lease(id) else { return };
        let Some(commit) = lease.commit else { return };
        match self.put_written(now, &lease, commit.written) {
            Ok(()) => tracing::debug!(slice = %lease.header.slice, "a slice is published"),
            Err(refusal) => {
                tracing::debug!(slice = %lease.header.slice, %refusal, "a slice is not published");
                self.reconcile_slice(now, lease.header.slice);
                self.forget_overtaken(now, &lease);
                self.reply_saved(commit.caller, ClientReply::Refused(refusal));
            }
        }
    }

    /// A write ended without being published.
    fn forget_overtaken(&mut self, now: Now, lease: &Lease) {
        let row = lease.is_overtaken.then(|| rebuild_rows::remove_overtaken_row(lease.header.slice));
        self.save(now, row.into_iter().collect(), Vec::new());
    }

    fn put_written(&mut self, now: Now, lease: &Lease, written: SyncedCopy) -> Result<(), Refusal> {
        let header = &lease.header;
        if self.log.rebuild.is_running() {
            return Err(self.rebuilding_refusal());
        }
        self.check_write(&lease.by, &header.path, lease.parents, lease.condition)?;
        // Other open writes count when they are published: the first to publish gets the room.
        if let Err(refusal) = self.catalog.check_quotas(&header.path, &header.owner, written.bytes) {
            self.note_over_quota(now, &header.owner, &header.path, &refusal);
            return Err(refusal);
        }
        let there = self.catalog.names().find(&header.path).and_then(|id| self.catalog.names().content(id));
        let was_there = there.is_some();
        if let Some(newer) = there.filter(|content| content.version > header.version) {
            return Err(Refusal::new(
                Reason::VersionChanged { current: Some(newer.version) },
                format!("`{}` was replaced by version {} while it was being written", header.path, newer.version),
            ));
        }
        let content = FileContent {
            slice: header.slice,
            version: header.version,
            bytes: written.bytes,
            digest: written.digest,
            records: header.records,
            copies: header.copies,
            user: header.user.clone(),
        };
        let modified = header.modified_unix_millis;
        // What is appended to is all in the new content.
        let old = if lease.base_bytes == 0 { self.content_to_keep(&header.path) } else { None };
        let mut change = self.catalog.put_entry(now, &header.path, lease.parents, &header.owner, content, modified)?;
        let Some(file) = change.entry else { return Ok(()) };
        self.catalog.keep_replaced(now, &lease.by.user, old, &mut change);
        self.note_published(now, &lease.by.user, file, was_there);
        self.events.over_quota.remove(&header.owner);
        self.note_missed_changes_of_touched(&mut change);
        // Should the journal lose the end of an older one, its version alone would not show that.
        let overtaken = self.writes.leases.overtake(header.version);
        change.rows.extend(overtaken.into_iter().map(rebuild_rows::overtaken_row));
        change.rows.extend(lease.is_overtaken.then(|| rebuild_rows::remove_overtaken_row(header.slice)));
        if let Some(key) = lease.resume {
            self.writes.partial_uploads.forget(&lease.by.user, key);
        }
        self.writes.leases.remember_published(PublishedLease {
            by: lease.by.user.clone(),
            lease: lease.id,
            file,
            slice: header.slice,
        });
        let mut effects = Vec::new();
        if let (Some(commit), Some(entry)) = (lease.commit, self.entry(file)) {
            effects.push(Effect::Reply(commit.caller, ClientReply::Entry(entry)));
        }
        effects.extend(change.freed.iter().map(|old| Effect::Supersede(*old, header.slice)));
        effects.push(Effect::Reconcile(header.slice));
        effects.extend(change.freed.into_iter().chain(change.touched).map(Effect::Reconcile));
        self.save(now, change.rows, effects);
        Ok(())
    }

    fn copies_needed(&self, lease: &Lease) -> usize {
        let forbidden = self.desired_replication_at(&lease.header.path, lease.header.copies).sites_forbidden;
        let forbidden: Vec<_> = forbidden.iter().filter_map(|site| self.fleet.nodes.sites().of_name(site)).collect();
        self.fleet.nodes.writable_count(&forbidden, lease.sync_copies).max(1)
    }

    /// Reachable nodes that have synced the bytes.
    fn copies_synced(&self, lease: &Lease) -> usize {
        lease.stored.keys().filter(|node| self.fleet.nodes.get(**node).is_reachable()).count()
    }
}

/// How long the other nodes of a chain may take for their sync after the first has reported its own. It allows for a
/// few slow syncs ...
const CHAIN_PATIENCE: Duration = Duration::from_secs(10);
/// ... and for the bytes that a slow disk may still hold in memory, in bytes per second.
const CHAIN_BYTES_PER_SECOND_MIN: u64 = 64 << 20;
