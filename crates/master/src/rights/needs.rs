//! The needs of each request, in one list. Never looks at names.

use protocol::{
    Rights, SectorPath,
    message::{access::AclRequest, client_master::ClientRequest, cluster::RebalanceVerb, rebuild::RebuildRequest},
};

/// What a user must be, or must have a right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// To be logged in; the code of the request decides what is shown, and of which users.
    Login,
    /// To hold the lease, run the job, or own the entry in the trash; checked where that is found.
    Holder,
    /// To be an administrator; the text says what for.
    Administrator(&'static str),
    /// These rights on the entry at a path.
    On(&'a SectorPath, Rights),
    /// To create an entry at a path, or to replace the one that is there.
    Make(&'a SectorPath),
    /// To make a folder, which may exist already.
    MakeFolder(&'a SectorPath),
    /// To move an entry from the first path to the second.
    Move(&'a SectorPath, &'a SectorPath),
    /// To remove an entry with all its content.
    Remove(&'a SectorPath),
}

/// All needs of a request. The match has no wildcard, so a new request cannot be added without its needs.
pub(super) fn needs(request: &ClientRequest) -> Vec<Need<'_>> {
    match request {
        ClientRequest::Create(create) => vec![Need::Make(&create.path)],
        ClientRequest::Locate(path)
        | ClientRequest::Stat(path)
        | ClientRequest::Usage(path)
        | ClientRequest::Policy(path)
        | ClientRequest::Copies(path)
        | ClientRequest::List { folder: path, .. } => vec![Need::On(path, Rights::READ)],
        ClientRequest::MakeFolder { path, .. } => vec![Need::MakeFolder(path)],
        ClientRequest::Rename { from, to } if from == to => vec![Need::On(from, Rights::WRITE)],
        ClientRequest::Rename { from, to } => vec![Need::Move(from, to), Need::Make(to)],
        ClientRequest::Remove { path, .. } => vec![Need::Remove(path)],
        ClientRequest::SetPolicy { path, .. } => vec![Need::On(path, Rights::ADMINISTER)],
        ClientRequest::Restore { to: Some(to), .. } => vec![Need::Holder, Need::Make(to)],
        ClientRequest::AdmitJob { output: Some(path), .. } => vec![Need::Make(path)],
        ClientRequest::Restore { to: None, .. }
        | ClientRequest::Renew(_)
        | ClientRequest::Commit { .. }
        | ClientRequest::Abandon(_)
        | ClientRequest::ReportJob(_)
        | ClientRequest::DetachJob { .. }
        | ClientRequest::CancelJob(_)
        | ClientRequest::History(_)
        | ClientRequest::Acl(AclRequest::Inputs { .. }) => vec![Need::Holder],
        // The security server decides which of these need an administrator: it knows who is one now.
        ClientRequest::Accounts(_) | ClientRequest::Admission(_) => vec![Need::Login],
        ClientRequest::AdmitJob { output: None, .. }
        | ClientRequest::Nodes
        | ClientRequest::Health
        | ClientRequest::Jobs
        | ClientRequest::Job(_)
        | ClientRequest::Logout
        | ClientRequest::Rebalance(RebalanceVerb::Plan | RebalanceVerb::Status)
        | ClientRequest::Topology { reload: false }
        | ClientRequest::Trash { all_users: false, .. }
        | ClientRequest::EmptyTrash { all_users: false }
        | ClientRequest::Quotas { .. }
        | ClientRequest::Rebuild(RebuildRequest::Status { .. }) => vec![Need::Login],
        ClientRequest::Trash { all_users: true, .. } | ClientRequest::EmptyTrash { all_users: true } => {
            vec![Need::Administrator("see the trash of all users")]
        }
        ClientRequest::ConfirmClock => vec![Need::Administrator("say that the clock is right")],
        ClientRequest::Drain(_) => vec![Need::Administrator("drain nodes")],
        ClientRequest::RemoveNode(_) => vec![Need::Administrator("remove nodes")],
        ClientRequest::Rebalance(RebalanceVerb::Begin) => vec![Need::Administrator("rebalance the nodes")],
        ClientRequest::Rebalance(RebalanceVerb::Stop) => vec![Need::Administrator("stop rebalancing")],
        ClientRequest::Topology { reload: true } => vec![Need::Administrator("read the topology again")],
        ClientRequest::SetQuota { .. } => vec![Need::Administrator("set quotas")],
        ClientRequest::Import { .. } => vec![Need::Administrator("import files from a node's disk")],
        ClientRequest::Rebuild(
            RebuildRequest::Finish
            | RebuildRequest::Recover { .. }
            | RebuildRequest::Dismiss(_)
            | RebuildRequest::Forget(_),
        ) => vec![Need::Administrator("decide about a rebuild")],
        ClientRequest::Audit(_) => vec![Need::Administrator("look at the audit record")],
        ClientRequest::Acl(AclRequest::Get(path)) => vec![Need::On(path, Rights::READ)],
        ClientRequest::Acl(AclRequest::GiveTo { .. }) => vec![Need::Administrator("give files to another user")],
        ClientRequest::Acl(
            AclRequest::Set { path, .. } | AclRequest::Remove { path, .. } | AclRequest::Clear(path),
        ) => vec![if path.is_root() {
            Need::Administrator("say who may do what with the root folder `/`")
        } else {
            Need::On(path, Rights::ADMINISTER)
        }],
    }
}
