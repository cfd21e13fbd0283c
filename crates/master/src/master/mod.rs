//! The master's rules, driven from outside. This file passes each message to the module responsible, and keeps the
//! order between saving and answering. Serves every path. It never does I/O or reads a clock, and draws random numbers
//! only from its seed.

mod clock;
mod event_requests;
pub(crate) mod jobs;
pub(crate) mod nodes;
pub(crate) mod observation;
pub(crate) mod rebuild;
pub(crate) mod replication;
mod requests;
pub(crate) mod sessions;
pub(crate) mod uploads;

use std::{collections::VecDeque, time::Duration};

use fastrand::Rng;
use protocol::{
    CredentialId, Now, Reason, Refusal, SessionId, Version,
    message::{
        client_master::{ClientReply, ClientRequest},
        request::{
            AbandonRequest, AdmitJobRequest, BreakLeaseRequest, CancelJobRequest, CommitRequest, ConfirmClockRequest,
            CopiesRequest, CreateDatedRequest, DetachJobRequest, EmptyTrashRequest, FindJobsRequest, HealthRequest,
            ImportRequest, JobRequest, JobsRequest, LeasesRequest, ListRequest, LocateRequest, LogoutRequest,
            MakeFolderRequest, MarksRequest, MetricsRequest, NodesRequest, OnceRequest, PolicyRequest, Properties,
            QuotasRequest, RemoveContentRequest, RemoveRequest, RenameRequest, RenewRequest, ReportJobRequest,
            RestoreRequest, SetPolicyRequest, SetQuotaRequest, StatRequest, TopologyRequest, TrashRequest,
            UsageRequest, VersionsRequest, WorkRequest,
        },
    },
};
use store::RowChange;

use crate::{
    access::{
        Access,
        audit::AuditQueue,
        duplicate_requests::{Answers, KnownRequest},
        sessions::{ClientSession, Peer},
        tickets::{SignTickets, TicketIssuer},
    },
    actions::{
        ANSWERS_TABLE, CLOCK_TABLE, CONFLICTS_TABLE, ClientJoin, HISTORIES_TABLE, JOBS_TABLE, JOURNAL_TABLE,
        LINEAGE_TABLE, LOGS_TABLE, MARKS_TABLE, MEMBERS_TABLE, MasterAction, MasterCompletion, MasterMessage,
        NODES_TABLE, NodeJoin, OUTDATED_TABLE, POLICIES_TABLE, QUOTAS_TABLE, REMOVED_TABLE, SessionCaller, StoredRow,
        TRASH_TABLE,
    },
    catalog::{
        Catalog,
        clock_guard::ClockGuard,
        namespace::{Namespace, damaged_row},
        policy_table::Policies,
        quota_table::Quotas,
        trash_table::Trash,
    },
    config::MasterConfig,
    error::MasterError,
    fleet::{Fleet, judgement::Judgement, nodes::Nodes},
    jobs::{Jobs, job_histories::JobHistories, job_logs::KeptLogs, job_table::JobTable},
    log::{
        Log,
        events::Events,
        journal_lineage::Lineage,
        journal_loader::JournalLoader,
        journal_writes::{Effect, JournalWrites, MASTER_DISK_FULL},
        metadata_mirror::MetadataMirror,
        rebuild::Rebuild,
    },
    replicas::{Replicas, sweeps::Sweep},
    writes::Writes,
};

/// The master. (Paper, 2.1: it "maintains the metadata of the files stored in the system, controls the running of all
/// slave nodes, and responds to users' requests".)
///
/// The caller reports each event, then polls actions until there are none. It calls
/// [`handle_timeout`](Self::handle_timeout) no later than [`next_timeout`](Self::next_timeout) says.
pub struct Master {
    pub(crate) config: MasterConfig,
    pub(crate) rng: Rng,
    pub(crate) catalog: Catalog,
    pub(crate) fleet: Fleet,
    pub(crate) replicas: Replicas,
    pub(crate) writes: Writes,
    pub(crate) access: Access,
    pub(crate) jobs: Jobs,
    pub(crate) log: Log,
    pub(crate) events: Events,
    pub(crate) actions: VecDeque<MasterAction>,
    /// No version that this master gave is as old as this.
    pub(crate) version_at_start: Version,
    /// When copies of older files may be made: until then nodes have time to come back.
    pub(crate) replication_begins: Duration,
    has_begun_replication: bool,
    next_tick: Duration,
    next_blocked_retry: Duration,
    /// Desired replication that a test sets for files by their paths.
    #[cfg(test)]
    pub(crate) test_replication: Option<TestReplication>,
}

/// See [`Master::test_replication`].
#[cfg(test)]
pub(crate) type TestReplication =
    fn(&Namespace, &protocol::SectorPath) -> Option<crate::replicas::desired_replication::DesiredReplication>;

impl Master {
    /// A master with the names and jobs in `rows`, in any order. All its random choices come from `seed`.
    ///
    /// # Errors
    /// When a row cannot be read, or the rows do not form one tree of names.
    pub fn new(
        now: Now,
        config: MasterConfig,
        seed: u64,
        signer: Box<dyn SignTickets + Send>,
        rows: impl IntoIterator<Item = StoredRow>,
    ) -> Result<Self, MasterError> {
        let mut loading = JournalLoader::new();
        for row in rows {
            loading.add_row(row.table, &row.key, &row.value)?;
        }
        Self::load(now, config, seed, signer, loading)
    }

    /// As [`new`](Self::new), from rows that were taken one at a time.
    ///
    /// # Errors
    /// When a row cannot be read, or the rows do not form one tree of names.
    pub fn load(
        now: Now,
        config: MasterConfig,
        seed: u64,
        signer: Box<dyn SignTickets + Send>,
        loading: JournalLoader,
    ) -> Result<Self, MasterError> {
        let mut rng = Rng::with_seed(seed);
        let (mut rebuild, sequence) = Rebuild::load(now, &config, &mut rng, &loading)?;
        let (mut jobs, mut policies, mut nodes) = (JobTable::default(), Policies::default(), Nodes::default());
        let (mut trash, mut quotas, mut histories) = (Trash::default(), Quotas::default(), JobHistories::default());
        let (mut answers, mut logs, mut judgement) = (Answers::default(), KeptLogs::default(), Judgement::default());
        for row in &loading.others {
            match row.table {
                JOBS_TABLE => jobs.load(now, row)?,
                HISTORIES_TABLE => histories.load(row)?,
                LOGS_TABLE => logs.load(row)?,
                MARKS_TABLE => judgement.marks.load(now, row)?,
                NODES_TABLE => nodes.load(now, row)?,
                POLICIES_TABLE => policies.load(row)?,
                TRASH_TABLE => trash.load(row)?,
                QUOTAS_TABLE => quotas.load(row)?,
                ANSWERS_TABLE => answers.load(now, row)?,
                CLOCK_TABLE | JOURNAL_TABLE | MEMBERS_TABLE | REMOVED_TABLE | OUTDATED_TABLE | CONFLICTS_TABLE
                | LINEAGE_TABLE => {}
                _ => return Err(damaged_row(row)),
            }
        }
        let (mut names, mut first_rows) = loading.names.finish(now)?;
        names.raise_version(rebuild.version_floor());
        rebuild.note_loaded(names.last_version());
        let lineage = Lineage::load(rebuild.id, sequence, &loading.others)?;
        if loading.others.iter().all(|row| row.table != JOURNAL_TABLE) {
            first_rows.push(rebuild.state_row());
        }
        let pinned = policies.entries().chain(trash.entries()).chain(rebuild.pinned(&names));
        let mirror = MetadataMirror::load(&names, pinned, &loading.others, sequence);
        let clock_row = loading.others.iter().find(|row| row.table == CLOCK_TABLE);
        let clock = ClockGuard::load(now, clock_row)?;
        let audit = AuditQueue::new(now, rng.u64(..));
        let version_at_start = names.last_version().max(Version(names.birth().0.saturating_sub(1)));
        let (events, events_row) = loading.events.finish(now, rebuild.id);
        first_rows.extend(events_row);
        let catalog = Catalog::new(config, names, (policies, trash, quotas), clock, rebuild.is_running());
        let mut master = Self {
            // Includes data older than an empty journal that nodes may bring.
            version_at_start,
            replication_begins: now.monotonic + config.replicate_after,
            has_begun_replication: false,
            next_tick: now.monotonic + TICK,
            next_blocked_retry: now.monotonic + BLOCKED_RETRY_AFTER,
            config,
            rng,
            catalog,
            fleet: Fleet { nodes, judgement, ..Fleet::default() },
            replicas: Replicas::default(),
            writes: Writes::default(),
            access: Access::new(TicketIssuer::new(now, signer), audit, answers),
            jobs: Jobs { table: jobs, histories, logs },
            log: Log { journal_writes: JournalWrites::default(), mirror, lineage, rebuild },
            events,
            actions: VecDeque::new(),
            #[cfg(test)]
            test_replication: None,
        };
        master.apply_marks();
        master.save(now, first_rows, Vec::new());
        // All files begin without copies; nodes report theirs when they join.
        master.replicas.sweeps.push_back(Sweep::All(0));
        Ok(master)
    }

    /// Opens the session of a client that was let in.
    pub fn open_client_session(&mut self, now: Now, session: SessionId, who: ClientJoin) {
        if who.user.credential != CredentialId(0) {
            self.recheck_session(session);
        }
        let evicted = self.access.sessions.open(now, session, who);
        self.actions.extend(evicted.map(MasterAction::CloseSession));
    }

    /// Opens the session of a node that was let in. It then reports its inventory.
    ///
    /// # Errors
    /// When there are too many nodes.
    pub fn open_node_session(&mut self, now: Now, session: SessionId, join: NodeJoin) -> Result<(), Refusal> {
        let (key, old) = self.fleet.nodes.join(now, session, join)?;
        let rows = self.fleet.nodes.row_change(key).into_iter().collect();
        self.save(now, rows, Vec::new());
        self.note_rejoined(now, key, old);
        self.run_pending(now);
        Ok(())
    }

    /// Notes that a session has ended.
    pub fn close_session(&mut self, now: Now, session: SessionId) {
        if self.access.sessions.close(now, session) {
            self.actions.push_back(MasterAction::CloseSession(session));
        } else if let Some(key) = self.fleet.nodes.of_session(session) {
            self.mark_node_lost(now, key);
        }
        self.run_pending(now);
    }

    /// Who is at the other end of a session; `None` for a session that is not open.
    pub fn peer(&self, session: SessionId) -> Option<Peer<'_>> {
        match self.access.sessions.get(session) {
            Some(client) => Some(Peer::Client(&client.rights)),
            None => self.fleet.nodes.of_session(session).map(|key| Peer::Node(&self.fleet.nodes.get(key).id)),
        }
    }

    /// Takes a message. It is dropped if its session is not open, or if its peer may not send it.
    pub fn handle_message(&mut self, now: Now, from: SessionCaller, message: MasterMessage) {
        match message {
            MasterMessage::Client(request) => {
                if let Some(client) = self.access.sessions.touch(now, from.session).cloned() {
                    self.handle_request(now, from, &client, request);
                }
            }
            MasterMessage::Node(report) => {
                if let Some(key) = self.fleet.nodes.of_session(from.session) {
                    self.handle_report(now, from, key, report);
                }
            }
        }
        self.run_pending(now);
    }

    /// Takes the result of a finished action.
    pub fn handle_completion(&mut self, now: Now, completion: MasterCompletion) {
        match completion {
            MasterCompletion::Saved { batch } => {
                for effect in self.log.journal_writes.finish(batch) {
                    self.apply(now, effect);
                }
            }
            MasterCompletion::OrderFinished { order, outcome } => self.note_order_finished(now, order, outcome),
            MasterCompletion::TopologyRead { to, topology } => self.note_topology(now, to, topology),
            MasterCompletion::WorkRead { to, after, own } => self.note_work_read(now, to, after, own),
            MasterCompletion::MetricsRead { to, text } => self.reply(to, ClientReply::Metrics(text)),
            MasterCompletion::AuditSent(brought) => self.note_audit_sent(now, brought),
            MasterCompletion::SecurityAnswered { to, reply } => self.note_security_answer(now, to, reply),
        }
        self.run_pending(now);
    }

    /// The journal's disk is full: a batch waits for room and is tried again. Until it is saved, changes are refused,
    /// and reads may tell of what waits.
    pub fn note_journal_full(&mut self) {
        for (to, reply) in self.log.journal_writes.note_full() {
            let refusal = match reply {
                ClientReply::Refused(refusal) => refusal,
                _ => Refusal::new(
                    Reason::NoSpace,
                    format!("{MASTER_DISK_FULL}; what was asked just now may be done once there is room"),
                ),
            };
            self.reply(to, ClientReply::Refused(refusal));
        }
    }

    /// Refuses a change while the journal's disk is full.
    fn refuse_while_full(&self, asked: &Properties<'_>) -> Option<Refusal> {
        let is_change = asked.is_once || !asked.is_answered_during_rebuild;
        (self.log.journal_writes.is_full() && is_change).then(|| Refusal::new(Reason::NoSpace, MASTER_DISK_FULL))
    }

    /// Does the work that is due. May be called at any time.
    pub fn handle_timeout(&mut self, now: Now) {
        self.expire_leases(now);
        if now.monotonic >= self.next_tick {
            let late = now.monotonic - self.next_tick;
            self.next_tick = now.monotonic + TICK;
            if late > TICK {
                // The master itself was away (a suspended or starved process): the peers' messages are still unread.
                self.fleet.nodes.discount_pause(now, late);
                self.jobs.table.discount_pause(now, late);
            }
            self.tick(now);
        }
        self.run_pending(now);
    }

    /// The next thing to do, if there is any.
    pub fn poll_action(&mut self) -> Option<MasterAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called, on the monotonic clock. If it lies in the past, at
    /// once.
    pub fn next_timeout(&self) -> Duration {
        if self.has_sweeps() {
            return Duration::ZERO;
        }
        let due = [self.writes.leases.next_expiry(), self.events.followers.next_round()];
        due.into_iter().flatten().fold(self.next_tick, Duration::min)
    }

    /// The names, for comparison with a model.
    pub fn names(&self) -> &Namespace {
        self.catalog.names()
    }

    fn handle_request(&mut self, now: Now, from: SessionCaller, client: &ClientSession, request: ClientRequest) {
        let by = &client.rights;
        let request = match request {
            ClientRequest::Once(OnceRequest { id, request }) => {
                match self.access.answers.begin(now, from, &by.user, id) {
                    KnownRequest::New => *request,
                    KnownRequest::UnderWay => return,
                    KnownRequest::Answered(reply) => return self.reply_saved(from, *reply),
                }
            }
            request => request,
        };
        let asked = request.properties();
        if let Some(refusal) = self.refuse_while_rebuilding(&asked).or_else(|| self.refuse_while_full(&asked)) {
            return self.reply_saved(from, ClientReply::Refused(refusal));
        }
        if let Err(refusal) = self.catalog.check_trash(by, &asked).and_then(|()| self.catalog.check_rights(by, &asked))
        {
            let noted = asked.audit;
            self.note_request(now, client, noted, Some(&refusal));
            return self.reply_saved(from, ClientReply::Refused(refusal));
        }
        let (noted, awaits_names) = (asked.audit, asked.awaits_names);
        let outcome = match request {
            ClientRequest::Create(create) => self.create(now, client, create, None).map(Some),
            ClientRequest::CreateDated(CreateDatedRequest { create, modified_unix_millis }) => {
                self.create(now, client, create, Some(modified_unix_millis)).map(Some)
            }
            ClientRequest::Renew(RenewRequest(lease)) => self.renew(now, by, lease).map(Some),
            ClientRequest::Commit(CommitRequest { lease, bytes, digest }) => {
                self.commit(now, from, by, lease, bytes, digest)
            }
            ClientRequest::Abandon(AbandonRequest(lease)) => self.abandon(now, by, lease).map(Some),
            ClientRequest::Leases(LeasesRequest { all_users, after }) => {
                Ok(Some(self.lease_list(now, by, all_users, after.as_ref())))
            }
            ClientRequest::BreakLease(BreakLeaseRequest(path)) => self.break_lease(now, by, &path).map(Some),
            ClientRequest::Locate(LocateRequest(path)) => self.locate(now, client, &path).map(Some),
            ClientRequest::Stat(StatRequest(path)) => self.stat(&path).map(Some),
            ClientRequest::List(ListRequest { folder, recursive, after, with_nodes }) => {
                self.list(by, &folder, recursive, after.as_ref(), with_nodes).map(Some)
            }
            ClientRequest::MakeFolder(MakeFolderRequest { path, parents }) => {
                self.make_folder(now, from, by, &path, parents)
            }
            ClientRequest::Rename(RenameRequest { from: old, to }) => self.rename(now, from, by, &old, &to),
            ClientRequest::Remove(RemoveRequest { path, recursive, now: for_good }) => {
                self.remove(now, from, by, &path, (recursive, for_good))
            }
            ClientRequest::Usage(UsageRequest(path)) => self.usage(by, &path).map(Some),
            ClientRequest::Nodes(NodesRequest) => Ok(Some(self.node_list(now))),
            ClientRequest::Health(HealthRequest) => Ok(Some(self.health(Some(by)))),
            ClientRequest::AdmitJob(AdmitJobRequest { title, output: _ }) => self.admit_job(now, from, client, &title),
            ClientRequest::ReportJob(ReportJobRequest(report)) => self.report_job(now, from, client, report),
            ClientRequest::DetachJob(DetachJobRequest { job, journal, keys }) => {
                self.detach_job(now, from, client, job, journal, keys)
            }
            ClientRequest::Jobs(JobsRequest) => {
                Ok(Some(self.job_list(by, &FindJobsRequest { user: None, state: None })))
            }
            ClientRequest::FindJobs(wanted) => Ok(Some(self.job_list(by, &wanted))),
            ClientRequest::Job(JobRequest(job)) => self.job(by, job).map(Some),
            ClientRequest::CancelJob(CancelJobRequest(job)) => self.cancel_job(now, from, by, job),
            ClientRequest::Policy(PolicyRequest(path)) => self.catalog.policy(&path).map(Some),
            ClientRequest::SetPolicy(SetPolicyRequest { path, policy }) => {
                self.set_policy(now, from, by, &path, policy)
            }
            ClientRequest::RemoveContent(RemoveContentRequest { path, slice }) => {
                let checked = self.check_content(&path, slice);
                checked.and_then(|_| self.remove(now, from, by, &path, (false, false)))
            }
            ClientRequest::ChangeMetadata(change) => self.change_metadata(now, from, change),
            ClientRequest::Trash(TrashRequest { all_users, after }) => {
                self.catalog.trash_list(by, all_users, after).map(Some)
            }
            ClientRequest::Versions(VersionsRequest(path)) => {
                Ok(Some(ClientReply::Versions(self.catalog.versions(by, &path))))
            }
            ClientRequest::Restore(RestoreRequest { path, to }) => self.restore(now, from, by, &path, to),
            ClientRequest::EmptyTrash(EmptyTrashRequest { all_users }) => self.empty_trash(now, from, by, all_users),
            ClientRequest::Quotas(QuotasRequest { after }) => Ok(Some(self.catalog.quota_list(by, after.as_ref()))),
            ClientRequest::SetQuota(SetQuotaRequest { user, bytes, files }) => {
                self.set_quota(now, from, by, &user, bytes, files)
            }
            ClientRequest::Rebuild(request) => self.handle_rebuild(now, from, by, request),
            ClientRequest::Import(ImportRequest { node }) => self.import(now, client, &node).map(Some),
            ClientRequest::Logout(LogoutRequest) => {
                self.log_out(now, from);
                Ok(None)
            }
            ClientRequest::Drain(drain) => self.drain(now, from, by, &drain),
            ClientRequest::RemoveNode(remove) => self.remove_node(now, from, by, &remove),
            ClientRequest::Rebalance(verb) => self.rebalance(by, verb).map(Some),
            ClientRequest::Topology(TopologyRequest { reload }) => self.handle_topology(from, by, reload),
            ClientRequest::Accounts(request) => self.handle_accounts(from, client, request),
            ClientRequest::Admission(verb) => self.handle_admission(from, client, verb),
            ClientRequest::Audit(question) => self.handle_audit(now, from, client, question),
            ClientRequest::Copies(CopiesRequest(path)) => self.copies_to_verify(now, client, &path).map(Some),
            ClientRequest::Acl(request) => self.handle_acl(now, from, client, request),
            ClientRequest::History(request) => self.handle_history(now, from, by, request),
            ClientRequest::Work(WorkRequest { after }) => {
                self.actions.push_back(MasterAction::ReadWork { to: from, after });
                Ok(None)
            }
            ClientRequest::Load(request) => self.load_page(now, &request).map(Some),
            ClientRequest::LoadSeries(request) => self.load_series(now, &request).map(Some),
            ClientRequest::Links(request) => self.link_page(now, &request).map(Some),
            ClientRequest::Events(request) => Ok(self.events(now, from, by, request)),
            ClientRequest::LinkSeries(request) => self.link_series(now, &request).map(Some),
            ClientRequest::Marks(MarksRequest) => Ok(Some(self.mark_list(now))),
            ClientRequest::ChangeMark(request) => self.change_mark(now, from, by, request),
            ClientRequest::Metrics(MetricsRequest { of }) => self.read_metrics(from, client, of),
            ClientRequest::Once(_) => Err(Refusal::new(Reason::Invalid, "a change has one number, not two")),
            ClientRequest::ConfirmClock(ConfirmClockRequest) => {
                self.confirm_clock(now, from);
                Ok(None)
            }
        };
        let refused = outcome.as_ref().err();
        self.note_request(now, client, noted, refused);
        match outcome {
            Ok(Some(reply)) if awaits_names => self.reply_saved(from, reply),
            Ok(Some(reply)) => self.reply(from, reply),
            Ok(None) => {}
            Err(refusal) => self.reply_saved(from, ClientReply::Refused(refusal)),
        }
    }

    /// Answers a client now.
    pub(crate) fn reply(&mut self, to: SessionCaller, reply: ClientReply) {
        let to = self.access.answers.finish(to, &reply);
        if to.request.is_some() {
            self.actions.push_back(MasterAction::Reply { to, reply });
        }
    }

    /// Answers a client once all earlier changes are durable. The answer may include another client's recent change,
    /// which a crash would undo.
    pub(crate) fn reply_saved(&mut self, to: SessionCaller, reply: ClientReply) {
        if self.log.journal_writes.is_full() {
            // Waiting would be for somebody who makes room.
            return self.reply(to, reply);
        }
        if let Some(Effect::Reply(to, reply)) = self.log.journal_writes.after_pending(Effect::Reply(to, reply)) {
            self.reply(to, reply);
        }
    }

    /// Saves rows; `effects` follow once they are durable. Without rows they follow the batches being saved already.
    pub(crate) fn save(&mut self, now: Now, mut changes: Vec<RowChange>, mut effects: Vec<Effect>) {
        if !changes.is_empty() {
            for effect in &effects {
                if let Effect::Reply(to, reply) = effect {
                    changes.extend(self.access.answers.save(now, *to, reply));
                }
            }
        }
        self.add_tombstones(&mut changes, &effects);
        self.drop_void_changes(&mut changes, &effects);
        self.mirror_changes(&mut changes, &mut effects);
        if self.events.log.has_noted() {
            let (rows, next) = self.events.log.take_rows();
            changes.extend(rows);
            effects.push(Effect::EventsDurable(next));
        }
        if !changes.is_empty() {
            let batch = self.log.journal_writes.begin(effects);
            self.actions.push_back(MasterAction::Save { batch, changes });
            return;
        }
        for effect in effects {
            if let Some(effect) = self.log.journal_writes.after_pending(effect) {
                self.apply(now, effect);
            }
        }
    }

    fn apply(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::Reply(to, reply) => self.reply(to, reply),
            Effect::Reconcile(slice) => {
                self.note_decided(slice);
                self.reconcile_slice(now, slice);
            }
            Effect::Supersede(old, new) => self.replicas.superseded.add(old, new),
            Effect::Moved(entry) => self.replicas.sweeps.push_back(Sweep::Moved(vec![(entry, None)])),
            Effect::ForgetJob(job) => self.forget_job(job),
            Effect::StartDriver(job) => self.start_driver(job),
            Effect::ChangesDurable(sequence) => self.log.mirror.note_durable(sequence),
            Effect::EventsDurable(next) => self.note_events_durable(next),
            Effect::InventoryTaken(node) => self.start_mirroring(now, node),
        }
    }

    /// The names were rebuilt: nodes get time to come before missing copies are made.
    pub(crate) fn delay_replication(&mut self, now: Now) {
        self.version_at_start = self.catalog.names().last_version();
        self.replication_begins = now.monotonic + self.config.replicate_after;
        self.has_begun_replication = false;
    }

    /// The follow-up work of any change: a step of the sweeps, copies, orders.
    pub(crate) fn run_pending(&mut self, now: Now) {
        self.sweep(now);
        if !self.log.rebuild.is_running() {
            self.begin_copies(now);
            self.continue_rebalance(now);
        }
        self.send_orders(now);
        self.run_events(now);
    }

    fn tick(&mut self, now: Now) {
        self.check_heartbeats(now);
        self.recheck_sessions(now);
        self.watch_clock(now);
        if !self.log.rebuild.is_running() {
            self.watch_drains(now);
            self.watch_rebalance();
            if self.may_expire(now) {
                self.begin_expiry(now);
            }
        }
        self.fleet.nodes.compare_speeds();
        self.divide_link_limits();
        self.judge(now);
        self.watch_jobs(now);
        self.roll_ticket_key(now);
        self.send_audit(now);
        self.watch_rebuild(now);
        self.send_mirror_updates(now);
        self.replicas.orders.requeue_due(now.monotonic);
        self.expire_chains(now);
        self.retry_failed_copies(now);
        self.end_idle_sessions(now);
        self.watch_health(now);
        self.expire_followers(now);
        if now.monotonic >= self.next_blocked_retry {
            self.next_blocked_retry = now.monotonic + BLOCKED_RETRY_AFTER;
            self.retry_blocked_copies(false);
            if !self.log.rebuild.is_running() {
                self.free_space_from_trash(now);
            }
            self.advance_leases(now);
            self.writes.partial_uploads.expire(now.monotonic);
        }
        if !self.has_begun_replication && now.monotonic >= self.replication_begins {
            self.has_begun_replication = true;
            self.replicas.sweeps.push_back(Sweep::All(0));
        }
    }
}

/// How often nodes, jobs and sessions are checked: far below every time limit that depends on it.
const TICK: Duration = Duration::from_millis(500);
/// How often files without a suitable node are tried again, since space may have become free.
const BLOCKED_RETRY_AFTER: Duration = Duration::from_secs(30);
