//! Names: list, stat, make, rename, remove, restore and count; also their policies and quotas, and the state of nodes
//! and jobs (door 2 alone). It never moves a byte of a file.

use std::collections::BTreeMap;

use protocol::{
    JobId, Policy, SectorPath, SliceId, UserName,
    message::{
        client_master::{
            Entry, EntryKind, EntryStatus, FileVersion, Health, JobRecord, JobState, ListPage, NodeStatus, OpenLease,
            PolicyStatus, QuotaStatus, TrashItem, Usage,
        },
        history::{JobHistory, JobLogs},
        request::{
            BreakLeaseRequest, CancelJobRequest, ChangeMetadataRequest, ConfirmClockRequest, EmptyTrashRequest,
            FindJobsRequest, GetHistoryRequest, GetLogsRequest, HealthRequest, JobRequest, JobsRequest, LeasesRequest,
            ListRequest, MakeFolderRequest, NodesRequest, PolicyRequest, QuotasRequest, RemoveContentRequest,
            RemoveRequest, RenameRequest, RestoreRequest, SetPolicyRequest, SetQuotaRequest, StatRequest, TrashRequest,
            UsageRequest, VersionsRequest,
        },
    },
};

use crate::{Client, ClientError};

impl Client {
    /// All entries of a folder, by name. A file is listed as itself.
    ///
    /// # Errors
    /// [`Status::NotFound`](protocol::Status::NotFound) if nothing is at `path`.
    pub async fn list(&self, path: &SectorPath) -> Result<Vec<Entry>, ClientError> {
        self.list_all(path, false, false).await
    }

    /// All entries below a folder, depth first, by path. A file is listed as itself.
    pub async fn list_recursive(&self, path: &SectorPath) -> Result<Vec<Entry>, ClientError> {
        self.list_all(path, true, false).await
    }

    /// One page of a folder, after the entry `after`; for folders too large for [`list`](Self::list).
    pub async fn page(
        &self,
        folder: &SectorPath,
        recursive: bool,
        after: Option<SectorPath>,
    ) -> Result<ListPage, ClientError> {
        self.page_with(folder, recursive, after, false).await
    }

    /// What is at `path`, and its copies.
    pub async fn stat(&self, path: &SectorPath) -> Result<EntryStatus, ClientError> {
        self.ask(StatRequest(path.clone())).await
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
        self.ask(MakeFolderRequest { path: path.clone(), parents }).await
    }

    /// Changes keys of a file's user metadata, as long as its content is still `slice`. A key with `None` goes. The
    /// content stays, and so do its version and its date.
    ///
    /// # Errors
    /// `VersionChanged` if the file has another content by now, `IsFolder` for a folder.
    pub async fn change_metadata(
        &self,
        path: &SectorPath,
        slice: SliceId,
        changes: BTreeMap<String, Option<String>>,
    ) -> Result<Entry, ClientError> {
        self.ask(ChangeMetadataRequest { path: path.clone(), slice, changes }).await
    }

    /// Renames a file or folder, atomically, replacing a file at `to`.
    pub async fn rename(&self, from: &SectorPath, to: &SectorPath) -> Result<(), ClientError> {
        self.ask(RenameRequest { from: from.clone(), to: to.clone() }).await
    }

    /// Removes a file, or with `recursive` a folder and everything below it. It goes to its owner's trash.
    pub async fn remove(&self, path: &SectorPath, recursive: bool) -> Result<(), ClientError> {
        self.ask(RemoveRequest { path: path.clone(), recursive, now: false }).await
    }

    /// Removes a file, as long as its content is still `slice`. It goes to its owner's trash.
    ///
    /// # Errors
    /// `VersionChanged` if the file has another content by now, `IsFolder` for a folder.
    pub async fn remove_content(&self, path: &SectorPath, slice: SliceId) -> Result<(), ClientError> {
        self.ask(RemoveContentRequest { path: path.clone(), slice }).await
    }

    /// As [`remove`](Self::remove), but for good: for data that nobody would miss, or that must not take up space any
    /// longer.
    pub async fn remove_now(&self, path: &SectorPath, recursive: bool) -> Result<(), ClientError> {
        self.ask(RemoveRequest { path: path.clone(), recursive, now: true }).await
    }

    /// The writes that are under way, by path; of all users for administrators only.
    pub async fn leases(&self, all_users: bool) -> Result<Vec<OpenLease>, ClientError> {
        let mut leases: Vec<OpenLease> = Vec::new();
        loop {
            let request = LeasesRequest { all_users, after: leases.last().map(|lease| lease.path.clone()) };
            let page = self.ask(request).await?;
            let is_last = !page.more || page.leases.is_empty();
            leases.extend(page.leases);
            if is_last {
                return Ok(leases);
            }
        }
    }

    /// Ends the write of a path that is under way, one's own or, for administrators, anyone's. What was written is
    /// removed. A writer that is still there may begin again.
    ///
    /// # Errors
    /// `NotFound` if nobody writes there.
    pub async fn break_lease(&self, path: &SectorPath) -> Result<(), ClientError> {
        self.ask(BreakLeaseRequest(path.clone())).await
    }

    /// What can be restored, oldest first; of all users for administrators only.
    pub async fn trash(&self, all_users: bool) -> Result<Vec<TrashItem>, ClientError> {
        let mut items: Vec<TrashItem> = Vec::new();
        loop {
            let request = TrashRequest { all_users, after: items.last().map(|item| item.key) };
            let page = self.ask(request).await?;
            let is_last = !page.more || page.items.is_empty();
            items.extend(page.items);
            if is_last {
                return Ok(items);
            }
        }
    }

    /// The contents that were replaced at a path and can be had back, oldest first: one's own, and for administrators
    /// all. Each is a file of the trash, which [`restore`](Self::restore) and [`copy`](Self::copy) take.
    ///
    /// # Errors
    /// `NotFound` if nothing is at `path`, and nothing of it was replaced.
    pub async fn versions(&self, path: &SectorPath) -> Result<Vec<FileVersion>, ClientError> {
        let versions = self.ask(VersionsRequest(path.clone())).await?;
        if versions.is_empty() {
            self.stat(path).await?;
        }
        Ok(versions)
    }

    /// Restores something from the trash, to where it was or to `to`. It is named by where it was (of several, the
    /// newest is taken) or by its path in the trash. Gives the resulting entry.
    ///
    /// # Errors
    /// `Exists` if something is in its place.
    pub async fn restore(&self, path: &SectorPath, to: Option<&SectorPath>) -> Result<Entry, ClientError> {
        self.ask(RestoreRequest { path: path.clone(), to: to.cloned() }).await
    }

    /// Removes for good what could be restored; of all users for administrators only.
    pub async fn empty_trash(&self, all_users: bool) -> Result<(), ClientError> {
        self.ask(EmptyTrashRequest { all_users }).await
    }

    /// Confirms that the master's clock is right although it jumped, so that expired data is removed again;
    /// administrators only.
    pub async fn confirm_clock(&self) -> Result<(), ClientError> {
        self.ask(ConfirmClockRequest).await
    }

    /// An entry's own policy about copies, lifetime and quota, and the effective one.
    pub async fn policy(&self, path: &SectorPath) -> Result<PolicyStatus, ClientError> {
        self.ask(PolicyRequest(path.clone())).await
    }

    /// Sets the policy of an entry, in place of its own policy before.
    pub async fn set_policy(&self, path: &SectorPath, policy: Policy) -> Result<PolicyStatus, ClientError> {
        self.ask(SetPolicyRequest { path: path.clone(), policy }).await
    }

    /// How much users and folders keep, and may keep. Users who are not administrators see their own.
    pub async fn quotas(&self) -> Result<Vec<QuotaStatus>, ClientError> {
        let mut quotas: Vec<QuotaStatus> = Vec::new();
        loop {
            let request = QuotasRequest { after: quotas.last().map(|quota| quota.of.clone()) };
            let page = self.ask(request).await?;
            let is_last = !page.more || page.quotas.is_empty();
            quotas.extend(page.quotas);
            if is_last {
                return Ok(quotas);
            }
        }
    }

    /// Sets how much a user may keep; `None`: no limit. For administrators.
    pub async fn set_quota(&self, user: &UserName, bytes: Option<u64>, files: Option<u64>) -> Result<(), ClientError> {
        self.ask(SetQuotaRequest { user: user.clone(), bytes, files }).await
    }

    /// Counts files, folders and bytes at and below `path`.
    pub async fn usage(&self, path: &SectorPath) -> Result<Usage, ClientError> {
        self.ask(UsageRequest(path.clone())).await
    }

    /// The nodes of the cloud.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, ClientError> {
        self.ask(NodesRequest).await
    }

    /// Whether the cloud is healthy, and what is wrong if not.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.ask(HealthRequest).await
    }

    /// All jobs that the master knows, newest first.
    pub async fn jobs(&self) -> Result<Vec<JobRecord>, ClientError> {
        self.ask(JobsRequest).await
    }

    /// The jobs of a user, or those in a state, or both, newest first.
    pub async fn find_jobs(
        &self,
        user: Option<UserName>,
        state: Option<JobState>,
    ) -> Result<Vec<JobRecord>, ClientError> {
        self.ask(FindJobsRequest { user, state }).await
    }

    /// One job.
    pub async fn job(&self, job: JobId) -> Result<JobRecord, ClientError> {
        self.ask(JobRequest(job)).await
    }

    /// What became of a job's attempts, when it has ended.
    ///
    /// # Errors
    /// `NotFound` if that is not known (any more), `Refused` for a job of somebody else.
    pub async fn job_history(&self, job: JobId) -> Result<JobHistory, ClientError> {
        self.ask(GetHistoryRequest(job)).await
    }

    /// What a job's functions have printed so far, by stage and segment, within the bounds of a job's log
    /// ([`JOB_LOG_BYTES_MAX`](protocol::limits::JOB_LOG_BYTES_MAX)).
    ///
    /// # Errors
    /// `NotFound` for a job that is not known (any more), `Refused` for one of somebody else.
    pub async fn job_logs(&self, job: JobId) -> Result<JobLogs, ClientError> {
        self.ask(GetLogsRequest(job)).await
    }

    /// Asks a job's driver to stop.
    pub async fn cancel_job(&self, job: JobId) -> Result<(), ClientError> {
        self.ask(CancelJobRequest(job)).await
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
            let last = page.next.or_else(|| entries.last().map(|last: &Entry| last.path.clone()));
            match (page.more, last) {
                (true, Some(last)) => after = Some(last),
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
    ) -> Result<ListPage, ClientError> {
        self.ask(ListRequest { folder: folder.clone(), recursive, after, with_nodes }).await
    }
}

/// Whether an entry is a folder.
pub fn is_folder(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Folder)
}
