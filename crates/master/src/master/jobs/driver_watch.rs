//! Chooses the nodes that drive a detached job: one after the other, each until it falls silent. Serves `run --detach`
//! (path of a job, "The driver that survives"). A driver joins as a client in the name of the user who detached the
//! job, with a key made by that user's client. Every driver has another key, so its predecessor can neither write the
//! journal nor put the output in place. It never decides about the job, and never gives a key to two nodes.

use protocol::{
    JobId, NodeId, Now, Reason, Refusal, SectorPath, limits,
    message::{
        client_master::{ClientReply, DriverKey, JobState},
        cluster::Membership,
        master_security::HeldSession,
        node_master::DriveOrder,
        work::WorkFault,
    },
};

use crate::{
    Master,
    access::sessions::ClientSession,
    actions::{MasterAction, SessionCaller},
    catalog::rights::acts_for,
    fleet::nodes::NodeKey,
    jobs::{
        drivers::DetachedJob,
        job_table::{job_row, not_owner_refusal},
    },
    log::journal_writes::Effect,
    replicas::orders::QueuedWork,
};

impl Master {
    /// Has a node drive an admitted job.
    pub(crate) fn detach_job(
        &mut self,
        now: Now,
        caller: SessionCaller,
        client: &ClientSession,
        id: JobId,
        journal: SectorPath,
        keys: Vec<DriverKey>,
    ) -> Result<Option<ClientReply>, Refusal> {
        let job = self.jobs.table.get(id)?;
        if !acts_for(&client.rights, &job.record.user) {
            return Err(not_owner_refusal(&client.rights, &job.record));
        }
        if job.record.state != JobState::Running || job.detached.is_some() {
            let why = if job.detached.is_some() { "is driven by a node already" } else { "has ended" };
            return Err(Refusal::new(Reason::JobEnded, format!("the job {id} {why}")));
        }
        if keys.is_empty() || keys.len() > limits::DRIVERS_MAX {
            let message = format!("a detached job has 1 to {} drivers, not {}", limits::DRIVERS_MAX, keys.len());
            return Err(Refusal::new(Reason::Invalid, message));
        }
        let user = &job.record.user;
        let (detached, nodes) =
            (self.jobs.table.per_user(|job| job.detached.is_some()), self.fleet.nodes.up_count() as u64);
        if !detached.may_add(user, 1, nodes.max(1) * NODE_DRIVERS_MAX) {
            let message = format!("nodes drive {} detached jobs of {user} already", detached.has(user));
            return Err(Refusal::throttled(message, DRIVER_RETRY_SECONDS));
        }
        let by = client.held();
        if let Some(job) = self.jobs.table.get_mut(id) {
            job.detached =
                Some(DetachedJob { journal, keys, by, drivers: 0, node: None, is_heard: true, failed_starts: 0 });
        }
        if !self.replace_driver(now, id) {
            if let Some(job) = self.jobs.table.get_mut(id) {
                job.detached = None;
            }
            let message = "no node is up to drive the job; `sector nodes` shows them";
            return Err(Refusal::new(Reason::Unavailable, message));
        }
        self.save(now, Vec::new(), vec![Effect::Reply(caller, ClientReply::Done)]);
        Ok(None)
    }

    /// Gives a detached job its next driver, at another node than the last if there is one. False if that is not
    /// possible, now or ever.
    pub(crate) fn replace_driver(&mut self, now: Now, id: JobId) -> bool {
        let Ok(job) = self.jobs.table.get(id) else { return false };
        let Some(detached) = job.detached.as_ref().filter(|detached| (detached.drivers as usize) < detached.keys.len())
        else {
            return false;
        };
        let up = self.fleet.nodes.by_name().filter(|(_, node)| node.is_up() && node.membership != Membership::Drained);
        let up: Vec<NodeId> = up.map(|(_, node)| node.id.clone()).collect();
        let others: Vec<&NodeId> = up.iter().filter(|node| detached.node.as_ref() != Some(node)).collect();
        let Some(node) = self.rng.choice(others).cloned().or_else(|| up.first().cloned()) else {
            // A driver that comes soon may still take it over: the job stays where it is, and is checked again.
            return detached.drivers > 0;
        };
        for session in self.access.sessions.driving(id) {
            self.access.sessions.close(now, session);
            self.actions.push_back(MasterAction::CloseSession(session));
        }
        // The next driver writes the same parts of the output. It would have to wait until these leases end by
        // themselves.
        for lease in self.writes.leases.driving(id) {
            self.abort_lease(now, lease);
        }
        let Some(job) = self.jobs.table.get_mut(id) else { return false };
        job.last_report = now.monotonic;
        if let Some(silent) = job.record.driver.replace(node.clone()) {
            let fault = format!("the driver at node {silent} was not heard of");
            job.driver_fault = Some(WorkFault::new(now.unix_millis, &fault));
        }
        if let Some(detached) = &mut job.detached {
            detached.drivers += 1;
            detached.failed_starts = if detached.is_heard { 0 } else { detached.failed_starts + 1 };
            detached.is_heard = false;
            detached.node = Some(node.clone());
        }
        let (change, user) = (job_row(job), job.record.user.to_string());
        self.note_job(now, &user, "drive job", id.to_string(), format!("at node {node}"));
        self.save(now, vec![change], vec![Effect::StartDriver(id)]);
        true
    }

    /// The driver's number is durable: no other driver will have its key.
    pub(crate) fn start_driver(&mut self, id: JobId) {
        let node = self.jobs.table.get(id).ok().and_then(|job| job.record.driver.clone());
        if let Some(key) = node.and_then(|node| self.fleet.nodes.of_id(&node)) {
            self.replicas.orders.push(key, QueuedWork::Drive(id));
        }
    }

    /// What the node is told, if it is still the job's node.
    pub(crate) fn drive_order(&self, node: NodeKey, id: JobId) -> Option<DriveOrder> {
        let job = self.jobs.table.get(id).ok()?;
        let detached =
            job.detached.as_ref().filter(|detached| detached.node() == Some(&self.fleet.nodes.get(node).id))?;
        let (user, journal) = (job.record.user.clone(), detached.journal.clone());
        Some(DriveOrder { job: id, user, key: detached.key()?, journal })
    }

    /// The session of the user for whom a driver with this key joins.
    ///
    /// # Errors
    /// Refused for a key that is not that of the job's present driver, in the same words whatever is wrong.
    pub fn driver_session(&self, id: JobId, key: DriverKey) -> Result<HeldSession, Refusal> {
        let detached = self.jobs.table.get(id).ok().and_then(|job| job.detached.as_ref());
        detached.filter(|detached| detached.key() == Some(key)).map(|detached| detached.by.clone()).ok_or_else(|| {
            Refusal::new(Reason::JobEnded, format!("this is not the driver of the job {id}, or no more"))
        })
    }
}

/// Drivers at once for each node that is up; each is a process of some tens of megabytes. One user alone may have half.
const NODE_DRIVERS_MAX: u64 = 64;

/// Some drivers end within this time, in seconds.
const DRIVER_RETRY_SECONDS: u32 = 30;
