//! What a job may read, and where: a ticket for each task, with the slices among its segments. Serves `run`. On every
//! node a job has the rights of its user, and only as long as they hold. A node never lets an SPE read other slices of
//! users.

use protocol::{
    JobId, NodeId, Now, Reason, Refusal, Rights, SliceId, limits,
    message::{access::AclReply, client_master::ClientReply, master_security::UserRights},
};

use crate::access::sessions::ClientSession;
use crate::{Master, catalog::trash::is_hidden_from};

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
            self.check_input(by, *slice)?;
        }
        let key = self.nodes.of_id(node).filter(|key| self.nodes.get(*key).is_up()).ok_or_else(|| {
            Refusal::new(Reason::Unavailable, format!("the node {node} cannot be reached now; use another"))
        })?;
        let node = self.nodes.get(key);
        let source = self.tickets.inputs(now, node, self.client_bearer(&self.client_at(client), node), job, slices);
        Ok(ClientReply::Acl(AclReply::Inputs(source.ticket)))
    }

    /// A job can write its input to the user's output: so running on a file needs the right to read it too.
    fn check_input(&self, by: &UserRights, slice: SliceId) -> Result<(), Refusal> {
        let gone = || {
            let message = format!("an input (slice {slice}) was changed while the job read it; run the job again");
            Refusal::new(Reason::VersionChanged { current: None }, message)
        };
        let id = self.names.file_of_slice(slice).filter(|_| !self.names.is_pending_removal(slice)).ok_or_else(gone)?;
        let path = self.names.path(id).filter(|path| !is_hidden_from(by, path)).ok_or_else(gone)?;
        self.check_rights_at(by, &path, Rights::READ.and(Rights::RUN))
    }
}
