//! Names: list, stat, make, rename, remove, count (door 2 alone; no byte moves).

use protocol::{
    JobId, SectorPath,
    message::client_master::{
        ClientReply, ClientRequest, Entry, EntryKind, EntryStatus, Health, JobRecord, NodeStatus, Page, Usage,
    },
};

use crate::{Client, ClientError};

/// Asks and takes the one kind of reply that fits.
macro_rules! ask {
    ($client:expr, $name:literal, $request:expr, $pattern:pat => $value:expr) => {
        match $client.ask($request).await? {
            $pattern => Ok($value),
            _ => Err(ClientError::Unexpected { who: "master", request: $name }),
        }
    };
}

impl Client {
    /// All entries of a folder, by name. A file gives itself.
    ///
    /// # Errors
    /// [`Status::NotFound`](protocol::Status::NotFound) where nothing is at `path`.
    pub async fn list(&self, path: &SectorPath) -> Result<Vec<Entry>, ClientError> {
        self.list_all(path, false, false).await
    }

    /// All entries below a folder, depth first, by path. A file gives itself.
    pub async fn list_recursive(&self, path: &SectorPath) -> Result<Vec<Entry>, ClientError> {
        self.list_all(path, true, false).await
    }

    /// One page of a folder, after the entry `after`; for folders too large for [`list`](Self::list).
    pub async fn page(
        &self,
        folder: &SectorPath,
        recursive: bool,
        after: Option<SectorPath>,
    ) -> Result<Page, ClientError> {
        self.page_with(folder, recursive, after, false).await
    }

    /// What is at `path`, and its copies.
    pub async fn stat(&self, path: &SectorPath) -> Result<EntryStatus, ClientError> {
        ask!(self, "stat", ClientRequest::Stat(path.clone()), ClientReply::Status(status) => status)
    }

    /// Whether something is at `path`, and what.
    pub async fn find(&self, path: &SectorPath) -> Result<Option<Entry>, ClientError> {
        match self.stat(path).await {
            Ok(status) => Ok(Some(status.entry)),
            Err(error) if error.status() == protocol::Status::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a folder; with `parents` also those above it, any of which may exist already.
    pub async fn make_folder(&self, path: &SectorPath, parents: bool) -> Result<(), ClientError> {
        let request = ClientRequest::MakeFolder { path: path.clone(), parents };
        ask!(self, "make folder", request, ClientReply::Done => ())
    }

    /// Renames a file or folder, atomically, replacing a file at `to`.
    pub async fn rename(&self, from: &SectorPath, to: &SectorPath) -> Result<(), ClientError> {
        let request = ClientRequest::Rename { from: from.clone(), to: to.clone() };
        ask!(self, "rename", request, ClientReply::Done => ())
    }

    /// Removes a file, or with `recursive` a folder and all below it.
    pub async fn remove(&self, path: &SectorPath, recursive: bool) -> Result<(), ClientError> {
        let request = ClientRequest::Remove { path: path.clone(), recursive };
        ask!(self, "remove", request, ClientReply::Done => ())
    }

    /// Counts files, folders and bytes at and below `path`.
    pub async fn usage(&self, path: &SectorPath) -> Result<Usage, ClientError> {
        ask!(self, "usage", ClientRequest::Usage(path.clone()), ClientReply::Usage(usage) => usage)
    }

    /// The nodes of the cloud.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, ClientError> {
        ask!(self, "nodes", ClientRequest::Nodes, ClientReply::Nodes(nodes) => nodes)
    }

    /// Whether the cloud is well, and what is wrong if not.
    pub async fn health(&self) -> Result<Health, ClientError> {
        ask!(self, "health", ClientRequest::Health, ClientReply::Health(health) => health)
    }

    /// All jobs the master knows of, newest first.
    pub async fn jobs(&self) -> Result<Vec<JobRecord>, ClientError> {
        ask!(self, "jobs", ClientRequest::Jobs, ClientReply::Jobs(jobs) => jobs)
    }

    /// One job.
    pub async fn job(&self, job: JobId) -> Result<JobRecord, ClientError> {
        let jobs = ask!(self, "job", ClientRequest::Job(job), ClientReply::Jobs(jobs) => jobs)?;
        jobs.into_iter().next().ok_or(ClientError::Unexpected { who: "master", request: "job" })
    }

    /// Asks a job's driver to stop.
    pub async fn cancel_job(&self, job: JobId) -> Result<(), ClientError> {
        ask!(self, "cancel", ClientRequest::CancelJob(job), ClientReply::Done => ())
    }

    /// Every page of a listing.
    pub(crate) async fn list_all(
        &self,
        path: &SectorPath,
        recursive: bool,
        with_nodes: bool,
    ) -> Result<Vec<Entry>, ClientError> {
        let mut entries = Vec::new();
        let mut after = None;
        loop {
            let page = self.page_with(path, recursive, after, with_nodes).await?;
            entries.extend(page.entries);
            match (page.more, entries.last()) {
                (true, Some(last)) => after = Some(last.path.clone()),
                _ => return Ok(entries),
            }
        }
    }

    async fn page_with(
        &self,
        folder: &SectorPath,
        recursive: bool,
        after: Option<SectorPath>,
        with_nodes: bool,
    ) -> Result<Page, ClientError> {
        let request = ClientRequest::List { folder: folder.clone(), recursive, after, with_nodes };
        ask!(self, "list", request, ClientReply::Page(page) => page)
    }
}

/// Whether an entry is a folder.
pub fn is_folder(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Folder)
}
