//! What those who watch the cloud are told: the background work of master and nodes, and where metrics come from. Serves
//! `sector work` and `sector metrics`. It reads what the rooms know, and never changes anything.

use protocol::{
    NodeId, Now, Reason, Refusal,
    message::{
        client_master::{ClientReply, JobState, NodeState, Usage},
        cluster::Membership,
        master_security::SecurityRequest,
        node_master::{Ack, Order},
        request::MetricsSource,
        work::{WorkItem, WorkKind, WorkPage, WorkRow, WorkState},
    },
};

use crate::{
    Master,
    access::sessions::ClientSession,
    actions::{MasterAction, OrderOutcome, SessionCaller},
    replicas::{orders::OrderKind, replication_queue::ReplicationBacklog, sweeps::Sweep},
};

impl Master {
    /// Answers with a page of background work, now that the server around the rules has told its own.
    pub(crate) fn note_work_read(&mut self, now: Now, to: SessionCaller, after: Option<NodeId>, own: Vec<WorkItem>) {
        let page = self.work_page(now, after, own);
        self.reply(to, ClientReply::Work(page));
    }

    /// Has a role say what it counts.
    pub(crate) fn read_metrics(
        &mut self,
        from: SessionCaller,
        client: &ClientSession,
        of: MetricsSource,
    ) -> Result<Option<ClientReply>, Refusal> {
        match of {
            MetricsSource::Master => {
                self.actions.push_back(MasterAction::ReadMetrics { to: from });
                Ok(None)
            }
            MetricsSource::Security => self.forward_to_security(from, &client.rights.user, SecurityRequest::Metrics),
            MetricsSource::Node(node) => {
                let unknown = || Refusal::new(Reason::NotFound, format!("no node {node} is known; see `sector nodes`"));
                let key = self.fleet.nodes.of_id(&node).ok_or_else(unknown)?;
                if self.fleet.nodes.get(key).session.is_none() {
                    return Err(Refusal::new(Reason::Unavailable, format!("node {node} is lost")));
                }
                self.order_now(key, OrderKind::ReadMetrics(from), Order::ReadMetrics);
                Ok(None)
            }
        }
    }

    /// A node has said what it counts, or did not answer.
    pub(crate) fn note_node_metrics(&mut self, to: SessionCaller, outcome: OrderOutcome) {
        let reply = match outcome {
            OrderOutcome::Answered(Ack::Metrics(text)) => ClientReply::Metrics(text),
            OrderOutcome::Answered(Ack::Refused(refusal)) => ClientReply::Refused(refusal),
            OrderOutcome::Answered(Ack::Done) | OrderOutcome::Unanswered => {
                ClientReply::Refused(Refusal::new(Reason::Unavailable, "the node did not say what it counts"))
            }
        };
        self.reply(to, reply);
    }

    fn work_page(&self, now: Now, after: Option<NodeId>, own: Vec<WorkItem>) -> WorkPage {
        let mut page = WorkPage { rows: Vec::new(), next: None };
        if after.is_none() {
            let of_master = |item| WorkRow { node: None, unix_millis: now.unix_millis, item };
            page.rows.extend(self.own_work(now).into_iter().chain(own).map(of_master));
            page.rows.extend(self.driver_rows(now));
        }
        let nodes = self.fleet.nodes.by_name().map(|(_, node)| node).filter(|node| node.is_reachable());
        for node in nodes.filter(|node| after.as_ref().is_none_or(|after| node.id > *after)) {
            if page.rows.len() >= PAGE_ROWS_MAX {
                return page;
            }
            let (unix_millis, items) = &node.work;
            let row = |item| WorkRow { node: Some(node.id.clone()), unix_millis: *unix_millis, item };
            page.rows.extend(items.iter().cloned().map(row));
            page.next = Some(node.id.clone());
        }
        page.next = None;
        page
    }

    /// The work that the rules themselves do.
    pub(crate) fn own_work(&self, now: Now) -> Vec<WorkItem> {
        let mut items = vec![
            self.repair_work(now),
            self.reconcile_work(now),
            self.mirror_work(now),
            self.rebuild_work(now),
            self.purge_work(now),
            self.rebalance_work(),
            self.access.audit.work(now),
        ];
        let draining = self.fleet.nodes.by_name().filter(|(_, node)| node.membership == Membership::Draining);
        items.extend(draining.map(|(key, node)| WorkItem {
            subject: node.id.to_string(),
            // Slices in doubt stay until an administrator decides.
            state: if self.in_doubt_at(key) > 0 { WorkState::Blocked } else { WorkState::Running },
            left: Some(node.slice_count),
            ..WorkItem::idle(WorkKind::Drain)
        }));
        items
    }

    /// How much of everything there is.
    pub fn figures(&self) -> MasterFigures {
        let health = self.replicas.queue.health();
        let under_way = self.replicas.orders.in_flight_count() as u64;
        let count = |state| self.fleet.nodes.by_name().filter(|(_, node)| node.state == state).count() as u64;
        let running = self.jobs.table.by_id.values().filter(|job| job.record.state == JobState::Running);
        MasterFigures {
            sessions: self.access.sessions.count() as u64,
            leases: self.writes.leases.count() as u64,
            usage: self.catalog.names().whole_usage(),
            unhealthy: [
                ("under-replicated", health.under_replicated),
                ("lost", health.lost + health.lost_in_memory),
                ("misplaced", health.misplaced),
                ("short-of-nodes", health.short_of_nodes),
            ],
            corrupt_copies: self.replicas.table.corrupt_count(),
            copies: (self.replicas.queue.copies_made, self.replicas.queue.backlog().running),
            orders: (under_way, (self.replicas.orders.open_count() as u64).saturating_sub(under_way)),
            nodes: [
                ("up", count(NodeState::Up)),
                ("joining", count(NodeState::Joining)),
                ("lost", count(NodeState::Lost)),
            ],
            jobs: running.count() as u64,
            trash_entries: self.catalog.trash().entries().count() as u64,
            audit_waiting: self.access.audit.waiting_count() as u64,
            marks: self.mark_counts(),
            events: self.events.log.written().iter().map(|(kind, count)| (kind.as_str(), *count)).collect(),
            event_followers: self.events.followers.count() as u64,
            event_gaps: self.events.gaps,
            rebuild_running: self.log.rebuild.is_running(),
            rebuild_nodes_missing: match self.log.rebuild.is_running() {
                true => self.log.rebuild.absent.len() as u64,
                false => 0,
            },
        }
    }

    fn repair_work(&self, now: Now) -> WorkItem {
        let queue = &self.replicas.queue;
        let ReplicationBacklog { running, queued, blocked, waiting, next_retry } = queue.backlog();
        let state = match () {
            () if running + queued > 0 => WorkState::Running,
            () if waiting > 0 && queue.last_fault.is_some() => WorkState::Failing,
            () if waiting > 0 => WorkState::Running,
            () if blocked > 0 => WorkState::Blocked,
            () => WorkState::Idle,
        };
        // Files that have to wait for their nodes first are told when that begins.
        let begins = Some(self.replication_begins).filter(|begins| *begins > now.monotonic);
        WorkItem {
            state,
            done: Some(queue.copies_made),
            left: Some(running + queued + blocked + waiting),
            last_fault: queue.last_fault.clone(),
            next_unix_millis: next_retry.or(begins).map(|at| now.unix_millis_at(at)),
            ..WorkItem::idle(WorkKind::Repair)
        }
    }

    fn reconcile_work(&self, now: Now) -> WorkItem {
        let left = self.replicas.orders.open_count() as u64;
        let is_running = self.has_sweeps() || left > 0;
        WorkItem {
            state: if is_running { WorkState::Running } else { WorkState::Idle },
            left: Some(left),
            next_unix_millis: self.replicas.orders.next_delayed().map(|at| now.unix_millis_at(at)),
            ..WorkItem::idle(WorkKind::Reconcile)
        }
    }

    fn mirror_work(&self, now: Now) -> WorkItem {
        let rebuild = &self.log.rebuild;
        let (done, left, retry_at) = self.log.mirror.progress(rebuild.id, rebuild.generation);
        let is_failing = retry_at.is_some_and(|at| at > now.monotonic);
        let state = match (left, is_failing) {
            (0, _) => WorkState::Idle,
            (_, true) => WorkState::Failing,
            (_, false) => WorkState::Running,
        };
        WorkItem {
            state,
            done: Some(done),
            left: Some(left),
            last_fault: self.log.mirror.last_fault.clone(),
            next_unix_millis: retry_at.filter(|_| is_failing).map(|at| now.unix_millis_at(at)),
            ..WorkItem::idle(WorkKind::Mirror)
        }
    }

    fn rebuild_work(&self, now: Now) -> WorkItem {
        let rebuild = &self.log.rebuild;
        if !rebuild.is_running() {
            return WorkItem { state: WorkState::Off, ..WorkItem::idle(WorkKind::Rebuild) };
        }
        let left = rebuild.absent.len();
        WorkItem {
            state: WorkState::Running,
            done: Some(rebuild.members.len().saturating_sub(left) as u64),
            left: Some(left as u64),
            next_unix_millis: Some(now.unix_millis_at(rebuild.ends)),
            ..WorkItem::idle(WorkKind::Rebuild)
        }
    }

    fn purge_work(&self, now: Now) -> WorkItem {
        let is_running = self.replicas.sweeps.iter().any(|sweep| matches!(sweep, Sweep::Expire(_)));
        let state = match () {
            () if is_running => WorkState::Running,
            () if !self.log.rebuild.is_running() && self.may_expire(now) => WorkState::Idle,
            // The clock is in doubt, or names are: then nothing is removed by time.
            () => WorkState::Blocked,
        };
        // What was emptied ended long ago, so that it goes before all else: it goes now.
        let next_unix_millis = self.catalog.next_end().map(|end| end.max(now.unix_millis));
        WorkItem { state, next_unix_millis, ..WorkItem::idle(WorkKind::TrashPurge) }
    }

    fn rebalance_work(&self) -> WorkItem {
        let rebalance = &self.fleet.rebalance;
        let state = if rebalance.running { WorkState::Running } else { WorkState::Off };
        WorkItem { state, done: Some(rebalance.moved_files), ..WorkItem::idle(WorkKind::Rebalance) }
    }

    /// The drivers of detached jobs, each at its node.
    fn driver_rows(&self, now: Now) -> impl Iterator<Item = WorkRow> + '_ {
        let running = self.jobs.table.by_id.values().filter(|job| job.record.state == JobState::Running);
        running.filter_map(move |job| {
            let detached = job.detached.as_ref()?;
            let (mut done, mut segments) = (0, 0);
            for stage in &job.record.stages {
                (done, segments) = (done + stage.done + stage.failed, segments + stage.segments);
            }
            let item = WorkItem {
                subject: job.record.job.to_string(),
                state: if detached.is_heard { WorkState::Running } else { WorkState::Blocked },
                done: Some(done),
                left: Some(segments.saturating_sub(done)),
                last_fault: job.driver_fault.clone(),
                ..WorkItem::idle(WorkKind::JobDriver)
            };
            Some(WorkRow { node: job.record.driver.clone(), unix_millis: now.unix_millis, item })
        })
    }
}

/// How much of everything there is, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterFigures {
    /// Sessions of clients.
    pub sessions: u64,
    /// Files being written.
    pub leases: u64,
    /// All files and folders.
    pub usage: Usage,
    /// Files by what is wrong with them.
    pub unhealthy: [(&'static str, u64); 4],
    /// Copies found corrupt and not yet replaced.
    pub corrupt_copies: u64,
    /// Copies made since the start, and those being made.
    pub copies: (u64, u64),
    /// Orders under way, and work that waits.
    pub orders: (u64, u64),
    /// Nodes by state.
    pub nodes: [(&'static str, u64); 3],
    /// Jobs that run.
    pub jobs: u64,
    /// Removed entries that can be restored.
    pub trash_entries: u64,
    /// Events that wait for the audit record.
    pub audit_waiting: u64,
    /// Nodes, disks and links that are marked as slow.
    pub marks: [(&'static str, u64); 3],
    /// Events written since the start, by kind.
    pub events: Vec<(&'static str, u64)>,
    /// Readers that wait for the next event.
    pub event_followers: u64,
    /// Answers since the start that told a reader of a gap.
    pub event_gaps: u64,
    /// Whether the names are being rebuilt.
    pub rebuild_running: bool,
    /// Nodes that a rebuild waits for.
    pub rebuild_nodes_missing: u64,
}

/// Rows after which a page ends with the node that it has begun: some 100 KB.
const PAGE_ROWS_MAX: usize = 1_000;
