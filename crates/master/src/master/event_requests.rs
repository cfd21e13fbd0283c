//! Events: noted where something happens, saved with the rows of that change, and told to those who ask or wait. Serves
//! `docs/paths/events.md`. It never tells of what is not durable.

use protocol::{
    FileId, Now, Reason, Refusal, SectorPath, SliceId, UserName,
    disk::DiskState,
    message::{
        client_master::{ClientReply, FileContent, Health, JobState},
        cluster::Membership,
        events::{CloudEvent, EVENTS_WAIT_MILLIS_MAX, EventFields, EventKind},
        master_security::UserRights,
        request::{EventsFrom, EventsRequest},
    },
};

use crate::{
    Master,
    actions::SessionCaller,
    catalog::{memory_files::is_in_job_folder, quota_table::StorageUsage, trash::is_in_trash},
    fleet::nodes::NodeKey,
    log::events::{audience::Audience, event_loader::HEALTHY, event_log::StoredEvent, followers::Follower},
};

impl Master {
    /// Answers with events, or lets the request wait for some.
    pub(crate) fn events(
        &mut self,
        now: Now,
        from: SessionCaller,
        by: &UserRights,
        mut asked: EventsRequest,
    ) -> Option<ClientReply> {
        let page = self.events.log.page(by, &asked);
        self.events.gaps += u64::from(page.gap.is_some());
        if !page.events.is_empty() || page.gap.is_some() || page.more || asked.wait_millis == 0 {
            return Some(ClientReply::Events(page));
        }
        let wait = std::time::Duration::from_millis(asked.wait_millis.min(EVENTS_WAIT_MILLIS_MAX).into());
        asked.from = EventsFrom::After(page.last);
        let follower = Follower { caller: from, asked, deadline: now.monotonic + wait };
        self.events.followers.add(follower).map(|_| ClientReply::Events(page))
    }

    /// Events are durable: whoever waits is told.
    pub(crate) fn note_events_durable(&mut self, next: u64) {
        if self.events.log.note_durable(next) {
            self.events.followers.wake();
        }
    }

    /// Saves events that no other change has taken along, and answers some of those who wait.
    pub(crate) fn run_events(&mut self, now: Now) {
        if self.events.log.has_noted() {
            self.save(now, Vec::new(), Vec::new());
        }
        for follower in self.events.followers.take_ready(now.monotonic) {
            self.answer_follower(follower, false);
        }
    }

    /// Answers those who have waited long enough.
    pub(crate) fn expire_followers(&mut self, now: Now) {
        for follower in self.events.followers.take_expired(now.monotonic) {
            self.answer_follower(follower, true);
        }
    }

    fn answer_follower(&mut self, mut follower: Follower, is_over: bool) {
        // Whoever is not there any more hears nothing.
        let Some(client) = self.access.sessions.get(follower.caller.session) else { return };
        let page = self.events.log.page(&client.rights, &follower.asked);
        if page.events.is_empty() && page.gap.is_none() && !page.more && !is_over {
            follower.asked.from = EventsFrom::After(page.last);
            return self.events.followers.put_back(follower);
        }
        self.reply(follower.caller, ClientReply::Events(page));
    }

    /// A file is published.
    pub(crate) fn note_published(&mut self, now: Now, by: &UserName, file: FileId, was_there: bool) {
        let Some((path, content)) = self.catalog.names().path(file).zip(self.catalog.names().content(file)) else {
            return;
        };
        let kind = if was_there { EventKind::FileReplaced } else { EventKind::FilePublished };
        let audience = self.catalog.audience(file);
        self.note_path(now, kind, &path, of_content(by, &content), audience);
    }

    /// An entry was moved from where it was read by `former`; or it came from where a job gathers its output.
    pub(crate) fn note_renamed(
        &mut self,
        now: Now,
        by: &UserName,
        (id, was_there): (FileId, bool),
        from: &SectorPath,
        former: Audience,
    ) {
        let Some(path) = self.catalog.names().path(id) else { return };
        let usage = self.catalog.usage_below(id);
        let fields = EventFields {
            user: Some(by.clone()),
            bytes: Some(usage.bytes),
            count: Some(usage.files),
            ..EventFields::default()
        };
        match (is_inner(from), self.catalog.names().is_folder(id)) {
            (true, true) => {
                let audience = self.catalog.audience(id);
                self.note_path(now, EventKind::FolderPublished, &path, fields, audience);
            }
            (true, false) => self.note_published(now, by, id, was_there),
            (false, _) if !is_inner(&path) => {
                let fields = EventFields { from: Some(from.clone()), ..fields };
                let event = event(now, EventKind::EntryRenamed, path.to_string(), fields);
                self.events.log.note(StoredEvent { event, audience: self.catalog.audience(id), former: Some(former) });
            }
            (false, _) => {}
        }
    }

    /// An entry was removed by a user, or by time. What it took, and who could read it, was looked up before.
    pub(crate) fn note_removed_entry(
        &mut self,
        now: Now,
        path: &SectorPath,
        by: Option<&UserName>,
        (usage, audience): (StorageUsage, Audience),
    ) {
        let fields = EventFields {
            user: by.cloned(),
            cause: by.is_none().then(|| "lifetime".to_owned()),
            bytes: Some(usage.bytes),
            count: Some(usage.files),
            ..EventFields::default()
        };
        self.note_path(now, EventKind::EntryRemoved, path, fields, audience);
    }

    /// An entry came back from the trash.
    pub(crate) fn note_restored(&mut self, now: Now, by: &UserName, id: FileId) {
        let Some(path) = self.catalog.names().path(id) else { return };
        let (usage, audience) = (self.catalog.usage_below(id), self.catalog.audience(id));
        let (bytes, count) = (Some(usage.bytes), Some(usage.files));
        let fields = EventFields { user: Some(by.clone()), bytes, count, ..EventFields::default() };
        self.note_path(now, EventKind::EntryRestored, &path, fields, audience);
    }

    /// A write was refused for its quota.
    pub(crate) fn note_over_quota(&mut self, now: Now, by: &UserName, path: &SectorPath, refusal: &Refusal) {
        if refusal.reason != Reason::QuotaExceeded {
            return;
        }
        if self.events.over_quota.len() >= TOLD_MAX {
            self.events.over_quota.clear();
        }
        if self.events.over_quota.insert(by.clone()) {
            let fields =
                EventFields { user: Some(by.clone()), cause: Some(refusal.message.clone()), ..EventFields::default() };
            let audience = Audience::Some(vec![by.clone()], protocol::Acl::default());
            self.note_path(now, EventKind::QuotaExceeded, path, fields, audience);
        }
    }

    /// A copy of a file is no longer good.
    pub(crate) fn note_copy_lost(&mut self, now: Now, slice: SliceId, key: NodeKey, cause: &str) {
        let Some(file) = self.catalog.names().file_of_slice(slice) else { return };
        let Some(path) = self.catalog.names().path(file).filter(|_| self.events.short_of_copies.len() < TOLD_MAX)
        else {
            return;
        };
        self.events.short_of_copies.insert(slice);
        let node = Some(self.fleet.nodes.get(key).id.clone());
        let fields = EventFields { node, cause: Some(cause.into()), ..EventFields::default() };
        let audience = self.catalog.audience(file);
        self.note_path(now, EventKind::CopyLost, &path, fields, audience);
    }

    /// A copy is gone from a node. Of a failed disk, the disk is told, and not each of its copies.
    pub(crate) fn note_copy_gone(&mut self, now: Now, slice: SliceId, key: NodeKey) {
        let has_all_disks = self.fleet.nodes.get(key).disks.iter().all(|disk| disk.state == DiskState::Ok);
        if has_all_disks && self.replicas.table.at(slice, key).is_some_and(|replica| replica.is_good()) {
            self.note_copy_lost(now, slice, key, "gone");
        }
    }

    /// A file has all its copies, or is none any more.
    pub(crate) fn note_copies_complete(&mut self, now: Now, slice: SliceId, copies: usize) {
        if self.events.short_of_copies.is_empty() || !self.events.short_of_copies.remove(&slice) {
            return;
        }
        let Some(file) = self.catalog.names().file_of_slice(slice) else { return };
        let Some(path) = self.catalog.names().path(file) else { return };
        let fields = EventFields { count: Some(copies as u64), ..EventFields::default() };
        let audience = self.catalog.audience(file);
        self.note_path(now, EventKind::CopiesRestored, &path, fields, audience);
    }

    /// Something happened to a node, which everyone may know as they may list the nodes.
    pub(crate) fn note_node(&mut self, now: Now, kind: EventKind, key: NodeKey, fields: EventFields) {
        let subject = self.fleet.nodes.get(key).id.to_string();
        self.note_open(now, kind, subject, fields);
    }

    /// A node's membership has changed.
    pub(crate) fn note_membership(&mut self, now: Now, key: NodeKey, by: Option<&UserName>) {
        let node = self.fleet.nodes.get(key);
        let state = match node.membership {
            Membership::Active => "active",
            Membership::Draining => "draining",
            Membership::Drained => "drained",
        };
        let (state, count) = (Some(state.to_owned()), Some(node.slice_count));
        self.note_node(
            now,
            EventKind::NodeDraining,
            key,
            EventFields { state, count, user: by.cloned(), ..EventFields::default() },
        );
    }

    /// A job has begun or ended.
    pub(crate) fn note_job_state(&mut self, now: Now, job: protocol::JobId, state: JobState, by: Option<&UserName>) {
        let Ok(owner) = self.jobs.table.owner(job).cloned() else { return };
        let (kind, cause) = match state {
            JobState::Running => (EventKind::JobBegun, None),
            JobState::Done => (EventKind::JobDone, None),
            JobState::Failed => (EventKind::JobFailed, None),
            JobState::Lost => (EventKind::JobFailed, Some("its driver was not heard of".to_owned())),
            JobState::Cancelled => (EventKind::JobCancelled, by.map(|by| format!("by {by}"))),
        };
        let fields = EventFields { user: Some(owner), cause, ..EventFields::default() };
        self.note_open(now, kind, job.to_string(), fields);
    }

    /// Looks now and then whether the cloud is healthy, and whether all files have their copies again.
    pub(crate) fn watch_health(&mut self, now: Now) {
        if now.monotonic < self.events.next_health_check {
            return;
        }
        self.events.next_health_check = now.monotonic + HEALTH_EVERY;
        let ClientReply::Health(Health { reasons, under_replicated, lost, .. }) = self.health(None) else { return };
        let is_settled = !self.has_sweeps() && now.monotonic >= self.replication_begins;
        if self.events.owes_all_restored && is_settled && under_replicated + lost == 0 {
            self.events.owes_all_restored = false;
            self.note_open(now, EventKind::CopiesRestored, "/".into(), EventFields::default());
        }
        if reasons.is_empty() != self.events.is_healthy {
            self.events.is_healthy = reasons.is_empty();
            let state = if self.events.is_healthy { HEALTHY } else { "unhealthy" };
            let fields = EventFields {
                state: Some(state.into()),
                cause: reasons.first().cloned(),
                count: Some(reasons.len() as u64),
                ..EventFields::default()
            };
            self.note_open(now, EventKind::HealthChanged, "cloud".into(), fields);
        }
    }

    fn note_path(&mut self, now: Now, kind: EventKind, path: &SectorPath, fields: EventFields, audience: Audience) {
        if !is_inner(path) {
            let event = event(now, kind, path.to_string(), fields);
            self.events.log.note(StoredEvent { event, audience, former: None });
        }
    }

    /// Something happened that every user may hear of.
    pub(crate) fn note_open(&mut self, now: Now, kind: EventKind, subject: String, fields: EventFields) {
        let event = event(now, kind, subject, fields);
        self.events.log.note(StoredEvent { event, audience: Audience::Everyone, former: None });
    }
}

/// Whether a path is no concern of users: the trash, or where a job keeps what is unfinished.
fn is_inner(path: &SectorPath) -> bool {
    is_in_trash(path) || is_in_job_folder(path)
}

fn of_content(by: &UserName, content: &FileContent) -> EventFields {
    EventFields {
        user: Some(by.clone()),
        version: Some(content.version),
        bytes: Some(content.bytes),
        digest: Some(content.digest),
        ..EventFields::default()
    }
}

/// An event whose number is given when it is saved.
fn event(now: Now, kind: EventKind, subject: String, mut fields: EventFields) -> CloudEvent {
    if let Some(cause) = &mut fields.cause {
        let mut end = cause.len().min(CAUSE_BYTES_MAX);
        while !cause.is_char_boundary(end) {
            end -= 1;
        }
        cause.truncate(end);
    }
    CloudEvent { number: 0, unix_millis: now.unix_millis, kind, subject, fields }
}

/// How often it is looked whether the cloud is healthy.
const HEALTH_EVERY: std::time::Duration = std::time::Duration::from_secs(5);
/// Longest sentence in an event, in bytes.
const CAUSE_BYTES_MAX: usize = 512;
/// Users over their quota, and files short of copies, that are remembered so that each is told once.
const TOLD_MAX: usize = 10_000;
