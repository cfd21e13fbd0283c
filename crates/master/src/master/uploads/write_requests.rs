//! A client's write, up to the commit request: create, renew, abandon. Serves upload (`docs/paths`). It never publishes
//! anything: `lease_completion` does.

use std::collections::BTreeMap;

use protocol::{
    LeaseId, Now, Reason, RecordFraming, Refusal, SectorPath, SliceHeader, SliceId, limits,
    message::{
        client_master::{ClientReply, Condition, CreateRequest, Created, LeasePage, OpenLease, Source},
        master_security::UserRights,
        request::Need,
    },
};

use crate::{
    Master,
    access::{sessions::ClientSession, tickets::WriteFrom},
    catalog::{memory_files::check_memory_name, namespace::folder_refusal, rights::acts_for},
    master::{requests::metadata_requests::check_user_metadata, uploads::upload_targets::AppendBase},
    writes::lease_table::Lease,
};

impl Master {
    /// Grants the right to write a path, and names the node to write to and those that get the bytes from it. The client
    /// may say when the file was changed.
    pub(crate) fn create(
        &mut self,
        now: Now,
        client: &ClientSession,
        request: CreateRequest,
        modified_unix_millis: Option<u64>,
    ) -> Result<ClientReply, Refusal> {
        let (by, address) = (&client.rights, client.address);
        check_request(&request)?;
        let (base, condition) = self.append_base(&request);
        self.check_write(by, &request.path, request.parents, condition)?;
        if let Some(lease) = self.writes.leases.of_path(&request.path) {
            if !is_same_upload(lease, by, &request) {
                return Err(being_written(lease, now));
            }
            self.preempt_lease(now, lease.id);
        }
        if !self.writes.leases.has_room(&by.user) {
            let message = format!("{} writes {} files at once already", by.user, self.writes.leases.held_by(&by.user));
            return Err(Refusal::throttled(message, LEASE_RETRY_SECONDS));
        }
        let base_bytes = base.as_ref().map_or(0, |base| base.content.bytes);
        let bytes = request.bytes_expected.unwrap_or(0).saturating_add(base_bytes);
        check_length(bytes)?;
        let request = inheriting(request, base.as_ref());
        let path = &request.path;
        let there = self.catalog.names().find(path);
        let copies = self.policy_replication_at(path, request.copies).copies;
        let sync_copies = request
            .sync_copies
            .map_or_else(|| self.catalog.sync_copies_at(path, copies), |desired| desired.min(copies));
        let targets = self.choose_targets(now, by, &request, base.as_ref(), bytes, (copies, sync_copies))?;
        // A replaced file keeps its owner, whoever writes it, and its own policy and rights.
        let owner = there.and_then(|id| self.catalog.names().owner(id)).unwrap_or(&by.user).clone();
        let acl = there.and_then(|id| self.catalog.names().own_acl(id)).cloned();
        let own_copies = there.and_then(|id| self.catalog.names().content(id)).map_or(0, |content| content.copies);
        let more = match self.catalog.check_quotas_of_write(path, (&by.user, &owner), bytes, &self.writes.leases) {
            Ok(more) => more,
            Err(refusal) => {
                self.note_over_quota(now, &owner, &request.path, &refusal);
                return Err(refusal);
            }
        };
        let version = self.catalog.next_version(now);
        let header = SliceHeader {
            slice: SliceId(self.rng.u128(..)),
            path: request.path,
            version,
            owner,
            modified_unix_millis: self.catalog.date_of_write(now, version, modified_unix_millis),
            copies: request.copies.unwrap_or(own_copies),
            records: request.records,
            user: request.user,
            journal: self.log.rebuild.id,
            acl,
        };
        let id = LeaseId(self.rng.u64(..));
        let slice = header.slice;
        self.note_decided(slice);
        let base_slice = base.map(|base| base.slice);
        let mut chain = Vec::new();
        let at = self.client_at(client);
        for (place, target) in targets.iter().enumerate() {
            // Only the node that the client sends to keeps the received part of a broken upload. For an append no node
            // does: it would have to be known what the file was then.
            let resume = request.resume.filter(|_| place == 0 && base_slice.is_none());
            let from = WriteFrom { resume, base: base_slice };
            // The client shows the first ticket, and each node of the chain the next one's.
            let node = self.fleet.nodes.get(*target);
            let of = match place.checked_sub(1).and_then(|before| targets.get(before)) {
                Some(before) => self.node_bearer(&by.user, self.fleet.nodes.get(*before), node),
                None => self.client_bearer(&at, node),
            };
            chain.push(self.access.tickets.write(now, node, of, id, header.clone(), from));
            self.fleet.nodes.get_mut(*target).begin_upload(&by.user, bytes);
        }
        let local = self.fleet.nodes.get(targets[0]).local_for(address);
        let target = Source { local, ..chain.remove(0) };
        self.writes.leases.add(Lease {
            id,
            by: by.clone(),
            drives: client.drives,
            header,
            condition,
            parents: request.parents,
            sync_copies: usize::from(sync_copies),
            target: targets[0],
            awaited: targets.into_iter().collect(),
            bytes_promised: bytes,
            base_bytes,
            received_bytes: BTreeMap::new(),
            added_usage: more,
            last_progress: now.monotonic,
            chain_deadline: None,
            failed: Vec::new(),
            resume: request.resume,
            expires_at: now.monotonic + limits::LEASE_LIFE,
            stored: BTreeMap::new(),
            commit: None,
            is_overtaken: false,
        });
        tracing::debug!(%slice, lease = %id, node = %target.node, "a write may begin");
        Ok(ClientReply::Created(Created { lease: id, slice, target, chain, base_bytes }))
    }

    /// Renews a lease.
    pub(crate) fn renew(&mut self, now: Now, by: &UserRights, id: LeaseId) -> Result<ClientReply, Refusal> {
        let lease = self.own_lease(by, id)?;
        if let Some(refusal) = self.refuse_stalled(now, lease) {
            self.abort_lease_with(now, id, refusal.clone());
            return Err(refusal);
        }
        self.writes.leases.renew(id, now.monotonic + limits::LEASE_LIFE);
        Ok(ClientReply::Done)
    }

    /// Abandons a write.
    pub(crate) fn abandon(&mut self, now: Now, by: &UserRights, id: LeaseId) -> Result<ClientReply, Refusal> {
        self.own_lease(by, id)?;
        self.abort_lease(now, id);
        Ok(ClientReply::Done)
    }

    /// The open leases of a user, or of all, after a path.
    pub(crate) fn lease_list(
        &self,
        now: Now,
        by: &UserRights,
        all_users: bool,
        after: Option<&SectorPath>,
    ) -> ClientReply {
        let of_user = |lease: &&Lease| all_users || lease.by.user == by.user;
        let mut rest = self.writes.leases.after(after).filter(of_user);
        let leases = rest.by_ref().take(LEASES_SHOWN).map(|lease| OpenLease {
            path: lease.header.path.clone(),
            user: lease.by.user.clone(),
            job: lease.drives,
            node: self.fleet.nodes.get(lease.target).id.clone(),
            received_bytes: lease.received_bytes.get(&lease.target).copied().unwrap_or(0),
            expected_bytes: lease.bytes_promised,
            seconds_left: lease.seconds_left(now),
        });
        ClientReply::Leases(LeasePage { leases: leases.collect(), more: rest.next().is_some() })
    }

    /// Ends the lease on a path: what was written under it is removed, and others may write there.
    pub(crate) fn break_lease(&mut self, now: Now, by: &UserRights, path: &SectorPath) -> Result<ClientReply, Refusal> {
        let lease = self.writes.leases.of_path(path).filter(|lease| acts_for(by, &lease.by.user)).ok_or_else(|| {
            Refusal::new(Reason::NotFound, format!("nobody writes `{path}` now, or it is not yours to end"))
        })?;
        let (id, message) = (lease.id, format!("{} has ended this write of `{path}`", by.user));
        self.abort_lease_with(now, id, Refusal::new(Reason::LeaseEnded, message));
        Ok(ClientReply::Done)
    }

    /// The lease `id`, if `by` may use it.
    pub(crate) fn own_lease(&self, by: &UserRights, id: LeaseId) -> Result<&Lease, Refusal> {
        let lease = self.writes.leases.get(id).ok_or_else(|| {
            Refusal::new(Reason::NotFound, format!("there is no lease {id}, or it has ended; write the file again"))
        })?;
        if !acts_for(by, &lease.by.user) {
            let message = format!("the lease {id} belongs to {}: {} may not use it", lease.by.user, by.user);
            return Err(Refusal::new(Reason::NoRight, message));
        }
        Ok(lease)
    }

    /// Whether `by` may publish a file at a path as things are now. Checked before a write, so that nobody uploads in
    /// vain, and again when it is published.
    pub(crate) fn check_write(
        &self,
        by: &UserRights,
        path: &SectorPath,
        parents: bool,
        condition: Condition,
    ) -> Result<(), Refusal> {
        self.catalog.check_need(by, Need::Make(path))?;
        let (nearest, missing) = self.catalog.names().deepest_existing(path);
        if missing == 0 {
            let content = self.catalog.names().content(nearest).ok_or_else(|| folder_refusal(path))?;
            return match condition {
                Condition::Any => Ok(()),
                Condition::Absent => Err(Refusal::new(Reason::Exists, format!("`{path}` exists already"))),
                Condition::Version(wanted) if wanted == content.version => Ok(()),
                Condition::Version(wanted) => Err(Refusal::new(
                    Reason::VersionChanged { current: Some(content.version) },
                    format!(
                        "`{path}` has version {} by now, not {wanted}; read it again before you replace it",
                        content.version
                    ),
                )),
            };
        }
        self.catalog.names().check_parent(path, parents)?;
        match condition {
            Condition::Any | Condition::Absent => Ok(()),
            Condition::Version(wanted) => Err(Refusal::new(
                Reason::NotFound,
                format!("there is no file `{path}` any more, so it does not have version {wanted}"),
            )),
        }
    }
}

/// Leases on a page of the list.
const LEASES_SHOWN: usize = 500;

/// Refuses requests that make no sense whatever the names are.
fn check_request(request: &CreateRequest) -> Result<(), Refusal> {
    let usage = |message: String| Err(Refusal::new(Reason::Invalid, message));
    for copies in [request.copies, request.sync_copies].into_iter().flatten() {
        if copies == 0 || copies > limits::COPIES_MAX {
            return usage(format!("{copies} copies cannot be kept; ask for 1 to {}", limits::COPIES_MAX));
        }
    }
    check_memory_name(&request.path)?;
    if request.records == RecordFraming::Fixed(0) {
        return usage("records of 0 bytes make no sense; give their length in bytes".into());
    }
    check_user_metadata(&request.user)?;
    check_length(request.bytes_expected.unwrap_or(0))
}

fn check_length(bytes: u64) -> Result<(), Refusal> {
    if bytes > limits::SLICE_BYTES_MAX {
        let message = format!("a file of {bytes} bytes is too large; cut it into files of at most 16 TiB");
        return Err(Refusal::new(Reason::Invalid, message));
    }
    Ok(())
}

/// The request, completed with the properties that an appended file keeps.
fn inheriting(request: CreateRequest, base: Option<&AppendBase>) -> CreateRequest {
    let Some(AppendBase { content, .. }) = base else { return request };
    CreateRequest {
        records: content.records,
        user: if request.user.is_empty() { content.user.clone() } else { request.user },
        ..request
    }
}

/// Whether a lease belongs to an earlier attempt at the same upload.
fn is_same_upload(lease: &Lease, by: &UserRights, request: &CreateRequest) -> bool {
    lease.resume.is_some() && lease.resume == request.resume && lease.by.user == by.user
}

fn being_written(lease: &Lease, now: Now) -> Refusal {
    let seconds = lease.seconds_left(now);
    let (path, user) = (&lease.header.path, &lease.by.user);
    Refusal::new(
        Reason::LeaseHeld { seconds },
        format!(
            "`{path}` is being written by {user} (lease {}, for {seconds} s unless renewed); wait or write elsewhere",
            lease.id
        ),
    )
}

/// Some of a user's many writes have ended within this time, in seconds.
const LEASE_RETRY_SECONDS: u32 = 10;
