//! Background work and metrics of the whole cloud, for administrators (door 2 alone). It never reads them at a node
//! itself: the master gathers them.

use protocol::message::{
    request::{MetricsRequest, MetricsSource, WorkRequest},
    work::WorkRow,
};

use crate::{Client, ClientError};

impl Client {
    /// All background work: the master's, and what each reachable node last reported.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators.
    pub async fn work(&self) -> Result<Vec<WorkRow>, ClientError> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.ask(WorkRequest { after }).await?;
            rows.extend(page.rows);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(rows),
            }
        }
    }

    /// What a role counts, in the text format of Prometheus.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `NotFound` for an unknown node, `Unavailable` where it does not answer.
    pub async fn metrics(&self, of: MetricsSource) -> Result<String, ClientError> {
        self.ask(MetricsRequest { of }).await
    }
}
