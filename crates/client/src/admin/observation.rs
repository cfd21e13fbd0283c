//! Load, links, marks, background work and metrics of the whole cloud (door 2 alone). It never reads them at a node
//! itself: the master gathers them.

use protocol::{
    NodeId,
    message::{
        links::{LinkPage, LinkSeries},
        load::{LoadPage, LoadSeries},
        marks::{Mark, MarkChange, MarkSubject},
        request::{
            ChangeMarkRequest, LinkSeriesRequest, LinksRequest, LoadRequest, LoadSeriesRequest, MarksRequest,
            MetricsRequest, MetricsSource, WorkRequest,
        },
        work::WorkRow,
    },
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

    /// How busy every node is, or was so many seconds ago (at most a day): all pages in one. A node that did not report
    /// then has no sample.
    ///
    /// # Errors
    /// `Invalid` for what is longer ago than the master keeps.
    pub async fn load(&self, seconds_ago: u32) -> Result<LoadPage, ClientError> {
        let mut whole = self.ask(LoadRequest { seconds_ago, after: None }).await?;
        while let Some(after) = whole.next.take() {
            let page = self.ask(LoadRequest { seconds_ago, after: Some(after) }).await?;
            whole.nodes.extend(page.nodes);
            whole.next = page.next;
        }
        Ok(whole)
    }

    /// How busy a node was in the last seconds, at the finest resolution that is kept for so long.
    ///
    /// # Errors
    /// `NotFound` for an unknown node, `Invalid` for more than a day.
    pub async fn load_series(&self, node: NodeId, seconds: u32) -> Result<LoadSeries, ClientError> {
        self.ask(LoadSeriesRequest { node, seconds }).await
    }

    /// What goes over the links between sites, or went so many seconds ago (at most a day), each direction by itself:
    /// all pages in one. It is what nodes have measured while they moved files. Bytes between two clients are not in
    /// it, and the losses of what a client sends only the client knows.
    ///
    /// # Errors
    /// `Invalid` for what is longer ago than the master keeps.
    pub async fn links(&self, seconds_ago: u32) -> Result<LinkPage, ClientError> {
        let mut whole = self.ask(LinksRequest { seconds_ago, after: None }).await?;
        while let Some(after) = whole.next.take() {
            let page = self.ask(LinksRequest { seconds_ago, after: Some(after) }).await?;
            whole.links.extend(page.links);
            whole.next = page.next;
        }
        Ok(whole)
    }

    /// What went over the link from one site to another in the last seconds, at the finest resolution that is kept for
    /// so long.
    ///
    /// # Errors
    /// `NotFound` where nothing went over it within a day, `Invalid` for more than a day.
    pub async fn link_series(&self, from: &str, to: &str, seconds: u32) -> Result<LinkSeries, ClientError> {
        self.ask(LinkSeriesRequest { from: from.into(), to: to.into(), seconds }).await
    }

    /// What is marked as slow, and what administrators have decided about it.
    ///
    /// # Errors
    /// When the master cannot be reached.
    pub async fn marks(&self) -> Result<Vec<Mark>, ClientError> {
        self.ask(MarksRequest).await
    }

    /// Overrules what was measured.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `NotFound` for what the cloud does not have, or for clearing what is not
    /// marked.
    pub async fn change_mark(&self, subject: MarkSubject, change: MarkChange) -> Result<(), ClientError> {
        self.ask(ChangeMarkRequest { subject, change }).await
    }
}
