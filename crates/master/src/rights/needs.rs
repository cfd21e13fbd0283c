//! What each request needs: the one list of it. Never looks at names.

use protocol::{
    Rights, SectorPath,
    message::{access::AclRequest, client_master::ClientRequest, cluster::RebalanceVerb, rebuild::RebuildRequest},
};

/// What someone must be, or must have a right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// To be logged in; what is shown, and of whom, is decided where it is done.
    Login,
    /// To be who holds the lease, runs the job, or owns what is in the trash; looked at where that is found.
    Holder,
    /// To administer the cloud; it says what for.
    Administrator(&'static str),
    /// These rights on what is at a path.
    On(&'a SectorPath, Rights),
    /// To make something at a path, or to replace what is there.
    Make(&'a SectorPath),
    /// To make a folder, which may be there already.
    MakeFolder(&'a SectorPath),
    /// To take something from the first path away, to the second.
    Move(&'a SectorPath, &'a SectorPath),
    /// To remove something with all that is in it.
    Remove(&'a SectorPath),
}

/// All that a request needs. Without a wildcard, so that whoever adds a request says who may ask it.
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
        // What of it only administrators may ask is the security server's to say: it knows who is one now.
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
