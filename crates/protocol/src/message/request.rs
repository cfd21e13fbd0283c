//! Requests tied to their replies. All that must be decided about a request stands in its one paragraph, from its name
//! to the rights that it needs. The master and the client both read it there. This file never handles a request.

mod account_requests;
mod acl_requests;
mod admission_requests;
mod audit_requests;
mod cluster_requests;
mod event_requests;
mod job_requests;
mod mark_requests;
mod name_requests;
mod observation_requests;
mod once;
mod rebuild_requests;
mod trash_requests;
mod write_requests;

use std::fmt;

pub use self::{
    account_requests::{
        AccessKeyOwnerRequest, AccountsRequest, AddAccessKeyRequest, AddGroupRequest, AddTokenRequest,
        ChangeUserRequest, GroupsRequest, RemoveGroupRequest, RemoveUserRequest, RevokeSessionRequest,
        RevokeSessionsOfRequest, RevokeTokenRequest, SessionsRequest, SetMemberRequest, SetPasswordRequest,
        TokensRequest, UsersRequest, WhoAmIRequest,
    },
    acl_requests::{
        AclRequest, AddToAclRequest, ClearAclRequest, GetAclRequest, GiveToRequest, JobInputsRequest,
        RemoveFromAclRequest, SetAclRequest,
    },
    admission_requests::{
        AddTicketRequest, AdmissionVerb, AllowRequest, ApproveRequest, MachinesRequest, RejectRequest, StrikeRequest,
        WaitingMachinesRequest,
    },
    audit_requests::{AuditQuestion, VerifyAuditRequest},
    cluster_requests::{
        ConfirmClockRequest, HealthRequest, ImportRequest, LogoutRequest, NodesRequest, TopologyRequest,
    },
    event_requests::{EventsFrom, EventsRequest},
    job_requests::{
        AddLogsRequest, AdmitJobRequest, CancelJobRequest, DetachJobRequest, FindJobsRequest, GetHistoryRequest,
        GetLogsRequest, HistoryRequest, JobRequest, JobsRequest, ReportJobRequest, SubmitHistoryRequest,
    },
    mark_requests::{ChangeMarkRequest, MarksRequest},
    name_requests::{
        ChangeMetadataRequest, CopiesRequest, ListRequest, LocateRequest, MakeFolderRequest, PolicyRequest,
        RemoveContentRequest, RemoveRequest, RenameRequest, SetPolicyRequest, StatRequest, UsageRequest,
    },
    observation_requests::{
        LinkSeriesRequest, LinksRequest, LoadRequest, LoadSeriesRequest, MetricsRequest, MetricsSource, WorkRequest,
    },
    once::{OnceRequest, RequestId},
    rebuild_requests::{
        DismissRequest, FinishRebuildRequest, ForgetNodeRequest, RebuildRequest, RebuildStatusRequest, RecoverRequest,
    },
    trash_requests::{
        EmptyTrashRequest, QuotasRequest, RestoreRequest, SetQuotaRequest, TrashRequest, VersionsRequest,
    },
    write_requests::{
        AbandonRequest, BreakLeaseRequest, CommitRequest, CreateDatedRequest, CreateRequest, LeasesRequest,
        RenewRequest,
    },
};
pub use super::client_master::Call;
use super::{audit::AuditKind, client_reply::ClientReply};
use crate::{Rights, SectorPath, gmp::Class, path::JOB_NAME_PREFIX};

/// A request of a client, tied to its reply.
pub trait TypedRequest {
    /// What it is answered with, unless it is refused.
    type Reply;

    /// The reply in the master's answer; `None` where the answer belongs to another request.
    fn reply(answer: ClientReply) -> Option<Self::Reply>;

    /// All that must be decided about it.
    fn properties(&self) -> Properties<'_>;

    /// Whether this answer, or a refusal, belongs to it.
    fn is_answered_by(&self, answer: &ClientReply) -> bool {
        matches!(answer, ClientReply::Refused(_)) || Self::reply(answer.clone()).is_some()
    }
}

/// A request of a family, which travels in one variant of a client's request.
pub trait FamilyRequest {
    /// The family.
    type Family;

    /// The family's variant for it.
    fn into_family(self) -> Self::Family;
}

/// All that must be decided about a request. Begins with the strictest, so that whoever adds a request and forgets
/// something opens nothing.
#[derive(Debug)]
pub struct Properties<'a> {
    /// Its name, for people.
    pub name: &'static str,
    /// How urgent it is: what keeps a lease or a job alive never waits.
    pub class: Class,
    /// Whether sending it twice is the same as once.
    pub is_repeatable: bool,
    /// Whether it is a change that needs a number ([`OnceRequest`]) to be sent twice.
    pub is_once: bool,
    /// Whether it is answered while the names are being put together.
    pub is_answered_during_rebuild: bool,
    /// Whether the answer waits until all changes of names that it may tell of are saved.
    pub awaits_names: bool,
    /// What whoever asks must be, or have rights to: all of these.
    pub needs: Vec<Need<'a>>,
    /// Paths that it sees and that no need names.
    pub seen: Vec<&'a SectorPath>,
    /// Paths that it changes and that no need names.
    pub changed: Vec<&'a SectorPath>,
    /// What the audit record says of it.
    pub audit: AuditNote,
}

/// What whoever asks must be, or have a right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// To be logged in. What is shown, and of whom, is decided where it is done.
    Login,
    /// To hold the lease, run the job, or own the entry in the trash. Checked where that is found.
    Holder,
    /// To administer the cloud. The text says what for.
    Administrator(&'static str),
    /// These rights on what is at a path.
    On(&'a SectorPath, Rights),
    /// To make something at a path, or to replace what is there.
    Make(&'a SectorPath),
    /// To make a folder, which may be there already.
    MakeFolder(&'a SectorPath),
    /// To take something away from the first path, to the second.
    Move(&'a SectorPath, &'a SectorPath),
    /// To remove something with all that is in it.
    Remove {
        /// What.
        path: &'a SectorPath,
        /// Nothing goes to the trash.
        for_good: bool,
    },
}

/// What to record of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// `None`: only its refusal is recorded.
    pub kind: Option<AuditKind>,
    /// What is done.
    pub what: &'static str,
    /// To what.
    pub object: String,
    /// What is to be known of it besides, such as where to; may be empty.
    pub note: String,
}

impl<'a> Properties<'a> {
    /// An ordinary request that is not repeated, waits for names, and is refused during a rebuild.
    pub fn new(name: &'static str, need: Need<'a>) -> Self {
        Self {
            name,
            class: Class::Ordinary,
            is_repeatable: false,
            is_once: false,
            is_answered_during_rebuild: false,
            awaits_names: true,
            needs: vec![need],
            seen: Vec::new(),
            changed: Vec::new(),
            audit: AuditNote { kind: None, what: name, object: String::new(), note: String::new() },
        }
    }

    /// All paths that it sees without changing them.
    pub fn seen_paths(&self) -> impl Iterator<Item = &'a SectorPath> {
        let needed = self.needs.iter().filter_map(|need| match need {
            Need::On(path, rights) if *rights == Rights::READ => Some(*path),
            _ => None,
        });
        needed.chain(self.seen.iter().copied())
    }

    /// All paths that it changes, but for those that it removes.
    pub fn changed_paths(&self) -> impl Iterator<Item = &'a SectorPath> {
        let needed = self.needs.iter().flat_map(|need| match need {
            Need::On(path, rights) if *rights != Rights::READ => [Some(*path), None],
            Need::Make(path) | Need::MakeFolder(path) => [Some(*path), None],
            Need::Move(from, to) => [Some(*from), Some(*to)],
            _ => [None, None],
        });
        needed.flatten().chain(self.changed.iter().copied())
    }

    fn urgent(self) -> Self {
        Self { class: Class::Urgent, ..self }
    }

    fn repeatable(self) -> Self {
        self.repeatable_if(true)
    }

    fn repeatable_if(self, is_repeatable: bool) -> Self {
        Self { is_repeatable, ..self }
    }

    fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    fn during_rebuild(self) -> Self {
        Self { is_answered_during_rebuild: true, ..self }
    }

    /// Its answer does not come from names.
    fn without_names(self) -> Self {
        Self { awaits_names: false, ..self }
    }

    fn and_needs(mut self, needs: impl IntoIterator<Item = Need<'a>>) -> Self {
        self.needs.extend(needs);
        self
    }

    fn sees(mut self, path: &'a SectorPath) -> Self {
        self.seen.push(path);
        self
    }

    fn changes(mut self, path: &'a SectorPath) -> Self {
        self.changed.push(path);
        self
    }

    /// The audit record tells of it also where it is done.
    fn noted(self, kind: AuditKind, what: &'static str, object: impl fmt::Display) -> Self {
        Self { audit: AuditNote { kind: Some(kind), what, object: object.to_string(), note: String::new() }, ..self }
    }

    /// The audit record tells of it, unless a job does it with what it keeps beside its output.
    fn noted_as_removal(self, what: &'static str, path: &SectorPath, note: String) -> Self {
        let is_of_job = path.components().any(|name| name.starts_with(JOB_NAME_PREFIX));
        let noted = if is_of_job { self.refused_as(what, path) } else { self.noted(AuditKind::Removal, what, path) };
        Self { audit: AuditNote { note, ..noted.audit }, ..noted }
    }

    /// The audit record tells of it only where it is refused.
    fn refused_as(self, what: &'static str, object: impl fmt::Display) -> Self {
        Self { audit: AuditNote { kind: None, what, object: object.to_string(), note: String::new() }, ..self }
    }
}

impl<'a> Need<'a> {
    /// What is shown of all users is for administrators.
    fn all_users(all_users: bool) -> Self {
        if all_users { Self::Administrator("see the trash of all users") } else { Self::Login }
    }

    /// To decide who may do what with an entry.
    fn rights_of(path: &'a SectorPath) -> Self {
        match path.is_root() {
            true => Self::Administrator("say who may do what with the root folder `/`"),
            false => Self::On(path, Rights::ADMINISTER),
        }
    }
}

/// The reply of a request, and the answer that carries it.
macro_rules! answered_by {
    ($reply:ty, $answer:pat => $value:expr) => {
        type Reply = $reply;

        fn reply(answer: ClientReply) -> Option<$reply> {
            match answer {
                $answer => Some($value),
                _ => None,
            }
        }
    };
}

/// An enum of requests.
macro_rules! requests {
    ($(#[$meta:meta])* $name:ident { $($variant:ident($request:ty)),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[doc = concat!("See [`", stringify!($request), "`].")] $variant($request),)+
        }

        impl $name {
            /// All that must be decided about it.
            pub fn properties(&self) -> $crate::message::request::Properties<'_> {
                use $crate::message::request::TypedRequest as _;
                match self {
                    $(Self::$variant(request) => request.properties(),)+
                }
            }

            /// Whether this answer, or a refusal, belongs to it.
            pub fn is_answered_by(&self, answer: &$crate::message::client_reply::ClientReply) -> bool {
                use $crate::message::request::TypedRequest as _;
                match self {
                    $(Self::$variant(request) => request.is_answered_by(answer),)+
                }
            }
        }

        $(
            impl From<$request> for $name {
                fn from(request: $request) -> Self {
                    Self::$variant(request)
                }
            }
        )+
    };
}

/// A family of requests, which travel in one variant of a client's request.
macro_rules! request_family {
    ($(#[$meta:meta])* $name:ident { $($variant:ident($request:ty)),+ $(,)? }) => {
        $crate::message::request::requests! { $(#[$meta])* $name { $($variant($request)),+ } }

        $(
            impl $crate::message::request::FamilyRequest for $request {
                type Family = $name;

                fn into_family(self) -> $name {
                    $name::$variant(self)
                }
            }
        )+
    };
}

pub(crate) use answered_by;
pub(crate) use request_family;
pub(crate) use requests;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::message::client_master::ClientRequest;

    fn path(text: &str) -> SectorPath {
        SectorPath::parse(text).unwrap()
    }

    #[test]
    fn a_path_that_a_need_names_is_seen_or_changed_without_a_further_word() {
        let (a, b) = (path("/a"), path("/b"));
        let paths = |properties: Properties<'_>| {
            let all = |paths: Vec<&SectorPath>| paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            (all(properties.seen_paths().collect()), all(properties.changed_paths().collect()))
        };
        let told = |seen: &str, changed: &str| (seen.to_owned(), changed.to_owned());
        assert_eq!(paths(StatRequest(a.clone()).properties()), told("/a", ""));
        assert_eq!(paths(ClearAclRequest(a.clone()).properties()), told("", "/a"));
        assert_eq!(paths(RenameRequest { from: a.clone(), to: b.clone() }.properties()), told("", "/a /b /b"));
        assert_eq!(paths(RestoreRequest { path: a.clone(), to: Some(b.clone()) }.properties()), told("/a", "/b"));
        // What is removed has a rule of its own: in the trash it goes for good or not at all.
        let remove = RemoveRequest { path: a.clone(), recursive: false, now: true };
        assert_eq!(paths(remove.properties()), told("", ""));
        assert_eq!(remove.properties().needs, [Need::Remove { path: &a, for_good: true }]);
    }

    #[test]
    fn a_request_takes_its_own_reply_and_no_other() {
        let stat = ClientRequest::from(StatRequest(path("/a")));
        assert!(!stat.is_answered_by(&ClientReply::Done));
        assert!(ClientRequest::from(RenewRequest(crate::LeaseId(1))).is_answered_by(&ClientReply::Done));
        let refusal = crate::Refusal::new(crate::Reason::NotFound, "there is nothing");
        assert!(stat.is_answered_by(&ClientReply::Refused(refusal)));
        // A family's reply belongs to one of its requests, not to all.
        let users = ClientRequest::from(UsersRequest { after: None });
        let done = ClientReply::Accounts(crate::message::accounts::AccountsReply::Done);
        assert!(!users.is_answered_by(&done));
        assert!(ClientRequest::from(AddGroupRequest("astro".into())).is_answered_by(&done));
    }

    #[test]
    fn what_is_not_said_of_a_request_is_the_strictest() {
        let silent = Properties::new("a new one", Need::Login);
        assert!(!silent.is_repeatable && !silent.is_answered_during_rebuild && silent.awaits_names);
        assert_eq!(silent.class, Class::Ordinary);
    }
}
