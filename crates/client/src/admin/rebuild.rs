//! How the names were put together after the master's journal was lost, and what an administrator decides about it
//! (door 2 alone; path: `docs/paths/rebuild.md`).

use protocol::{
    NodeId, SectorPath, SliceId,
    message::{
        rebuild::RebuildStatus,
        request::{DismissRequest, FinishRebuildRequest, ForgetNodeRequest, RebuildStatusRequest, RecoverRequest},
    },
};

use crate::{Client, ClientError};

impl Client {
    /// How a rebuild is, with all its conflicts.
    ///
    /// # Errors
    /// When the master cannot be asked.
    pub async fn rebuild_status(&self) -> Result<RebuildStatus, ClientError> {
        let mut status = self.ask(RebuildStatusRequest { after: None }).await?;
        while status.more {
            let after = status.conflicts.last().map(|conflict| conflict.metadata.header.slice);
            let page = self.ask(RebuildStatusRequest { after }).await?;
            status.more = page.more && !page.conflicts.is_empty();
            status.conflicts.extend(page.conflicts);
        }
        Ok(status)
    }

    /// Waits for no further node.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `NotFound` where nothing is being rebuilt.
    pub async fn finish_rebuild(&self) -> Result<(), ClientError> {
        self.ask(FinishRebuildRequest).await
    }

    /// Gives a slice that was set aside a name.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `NotFound` for a slice that is not in doubt, `Exists` where the path is
    /// taken.
    pub async fn recover_slice(&self, slice: SliceId, path: &SectorPath) -> Result<(), ClientError> {
        self.ask(RecoverRequest { slice, path: path.clone() }).await
    }

    /// Takes a conflict off the list, all of them where `None`; slices that were set aside are removed.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `NotFound` for a slice that is not in doubt.
    pub async fn dismiss_conflict(&self, slice: Option<SliceId>) -> Result<(), ClientError> {
        self.ask(DismissRequest(slice)).await
    }

    /// Says that a node will never come back.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators and for a node that is there, `NotFound` for one that is not known.
    pub async fn forget_node(&self, node: &NodeId) -> Result<(), ClientError> {
        self.ask(ForgetNodeRequest(node.clone())).await
    }
}
