//! Door 2: what a client asks its master. What the master answers is in [`client_reply`](super::client_reply). File
//! bytes never travel here: they go to the nodes with the tickets given here.

pub use super::{
    client_reply::{
        Admitted, ClientReply, Condition, Copies, CopyState, CopyStatus, Created, DriverKey, Entry, EntryKind,
        EntryStatus, FileContent, FileVersion, FoundCopy, Health, JobRecord, JobState, LeasePage, ListPage, Located,
        NEARLY_FULL_WHEN_LEFT, NodeState, NodeStatus, OpenLease, PolicyStatus, QuotaOf, QuotaPage, QuotaStatus,
        SiteLink, Source, SpeNode, StageRecord, TrashItem, TrashKey, TrashPage, Usage, is_nearly_full,
    },
    request::CreateRequest,
};
use super::{
    cluster::{DrainRequest, RebalanceVerb, RemoveNodeRequest},
    request::{
        AbandonRequest, AccountsRequest, AclRequest, AdmissionVerb, AdmitJobRequest, AuditQuestion, BreakLeaseRequest,
        CancelJobRequest, ChangeMarkRequest, ChangeMetadataRequest, CommitRequest, ConfirmClockRequest, CopiesRequest,
        CreateDatedRequest, DetachJobRequest, EmptyTrashRequest, EventsRequest, FamilyRequest, FindJobsRequest,
        HealthRequest, HistoryRequest, ImportRequest, JobRequest, JobsRequest, LeasesRequest, LinkSeriesRequest,
        LinksRequest, ListRequest, LoadRequest, LoadSeriesRequest, LocateRequest, LogoutRequest, MakeFolderRequest,
        MarksRequest, MetricsRequest, NodesRequest, OnceRequest, PolicyRequest, QuotasRequest, RebuildRequest,
        RemoveContentRequest, RemoveRequest, RenameRequest, RenewRequest, ReportJobRequest, RestoreRequest,
        SetPolicyRequest, SetQuotaRequest, StatRequest, TopologyRequest, TrashRequest, TypedRequest, UsageRequest,
        VersionsRequest, WorkRequest, requests,
    },
};

/// A request that a client can send: it is, or belongs to, one of [`ClientRequest`].
pub trait Call: TypedRequest + Into<ClientRequest> {}

impl<R: TypedRequest + Into<ClientRequest>> Call for R {}

requests! {
    /// A client's request. Each is a type of its own that says what it is answered with, unless it is refused
    /// ([`Call`]). The order is the wire format: new ones go last.
    ClientRequest {
        Create(CreateRequest),
        Renew(RenewRequest),
        Commit(CommitRequest),
        Abandon(AbandonRequest),
        Locate(LocateRequest),
        Stat(StatRequest),
        List(ListRequest),
        MakeFolder(MakeFolderRequest),
        Rename(RenameRequest),
        Remove(RemoveRequest),
        Usage(UsageRequest),
        Nodes(NodesRequest),
        Health(HealthRequest),
        AdmitJob(AdmitJobRequest),
        ReportJob(ReportJobRequest),
        Jobs(JobsRequest),
        Job(JobRequest),
        CancelJob(CancelJobRequest),
        Logout(LogoutRequest),
        Drain(DrainRequest),
        RemoveNode(RemoveNodeRequest),
        Rebalance(RebalanceVerb),
        Topology(TopologyRequest),
        Policy(PolicyRequest),
        SetPolicy(SetPolicyRequest),
        Trash(TrashRequest),
        Restore(RestoreRequest),
        EmptyTrash(EmptyTrashRequest),
        Quotas(QuotasRequest),
        SetQuota(SetQuotaRequest),
        Copies(CopiesRequest),
        Rebuild(RebuildRequest),
        Import(ImportRequest),
        Accounts(AccountsRequest),
        Acl(AclRequest),
        Admission(AdmissionVerb),
        Audit(AuditQuestion),
        DetachJob(DetachJobRequest),
        History(HistoryRequest),
        ConfirmClock(ConfirmClockRequest),
        Once(OnceRequest),
        Work(WorkRequest),
        Metrics(MetricsRequest),
        Leases(LeasesRequest),
        BreakLease(BreakLeaseRequest),
        CreateDated(CreateDatedRequest),
        Load(LoadRequest),
        LoadSeries(LoadSeriesRequest),
        FindJobs(FindJobsRequest),
        Versions(VersionsRequest),
        Links(LinksRequest),
        LinkSeries(LinkSeriesRequest),
        Marks(MarksRequest),
        ChangeMark(ChangeMarkRequest),
        Events(EventsRequest),
        ChangeMetadata(ChangeMetadataRequest),
        RemoveContent(RemoveContentRequest),
    }
}

impl<R: FamilyRequest> From<R> for ClientRequest
where
    Self: From<R::Family>,
{
    fn from(request: R) -> Self {
        Self::from(request.into_family())
    }
}
