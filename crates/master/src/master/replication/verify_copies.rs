//! Every copy of a file with the means to verify it. Serves `sector check`. Unlike [`Master::locate`] it includes
//! doubtful copies, and gives the state of each unreachable one. It never changes anything: a bad copy comes back as
//! its node's report.

use protocol::{
    Now, Refusal, SectorPath,
    message::client_master::{ClientReply, Copies, FoundCopy},
};

use crate::{
    Master,
    access::{sessions::ClientSession, tickets},
    catalog::namespace::{folder_refusal, not_found_refusal},
    replicas::replica_table::ReplicaState,
};

impl Master {
    /// A file and all its copies.
    pub(crate) fn copies_to_verify(
        &self,
        now: Now,
        client: &ClientSession,
        path: &SectorPath,
    ) -> Result<ClientReply, Refusal> {
        let id = self.catalog.names().get_file(path)?;
        let content = self.catalog.names().content(id).ok_or_else(|| folder_refusal(path))?;
        let mut copies = Vec::new();
        let at = self.client_at(client);
        for replica in self.replicas.table.of(content.slice).iter() {
            // A superfluous copy that is being removed has no status.
            let Some(status) = self.copy_status(replica) else { continue };
            let node = self.fleet.nodes.get(replica.node);
            let may_be_there = replica.state != ReplicaState::Corrupt { is_quarantined: true };
            let source = (may_be_there && node.is_reachable()).then(|| {
                let (of, file) = (self.client_bearer(&at, node), tickets::ticket_file(path, content.version));
                self.access.tickets.read(now, node, of, file, content.slice, content.bytes)
            });
            copies.push(FoundCopy { status, source });
        }
        copies.sort_by(|a, b| a.status.node.cmp(&b.status.node));
        let entry = self.entry(id).ok_or_else(|| not_found_refusal(path))?;
        Ok(ClientReply::Copies(Copies { entry, copies }))
    }
}
