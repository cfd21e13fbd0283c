//! What a job may read, and where: a ticket for each task, with the slices among its segments. Serves `run`. On every
//! node a job has the rights of its user, and only as long as they hold. A node never lets an SPE read other slices of
//! users.

use protocol::{
    JobId, NodeId, Now, Reason, Refusal, SliceId, limits,
    message::{access::AclReply, client_master::ClientReply},
};

use crate::{Master, access::sessions::ClientSession};

impl Master {
    /// The ticket for these slices at a node.
    pub(super) fn job_inputs(
        &self,
        now: Now,
        client: &ClientSession,
        job: JobId,
        node: &NodeId,
        slices: Vec<SliceId>,
    ) -> Result<ClientReply, Refusal> {
        let by = &client.rights;
        self.check_running(by, job)?;
        if slices.len() > limits::JOB_INPUTS_MAX {
            let message = format!("{} slices are too many; ask for {} at a time", slices.len(), limits::JOB_INPUTS_MAX);
            return Err(Refusal::new(Reason::Invalid, message));
        }
        for slice in &slices {
            self.catalog.check_input(by, *slice)?;
        }
        let key = self.fleet.nodes.of_id(node).filter(|key| self.fleet.nodes.get(*key).is_up()).ok_or_else(|| {
            Refusal::new(Reason::Unavailable, format!("the node {node} cannot be reached now; use another"))
        })?;
        let node = self.fleet.nodes.get(key);
        let source =
            self.access.tickets.inputs(now, node, self.client_bearer(&self.client_at(client), node), job, slices);
        Ok(ClientReply::Acl(AclReply::Inputs(source.ticket)))
    }
}
