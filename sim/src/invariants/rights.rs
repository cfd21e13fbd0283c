//! No user is told what they may not read, or changes what they may not, even during a rebuild. A permitted request is
//! not refused. (`docs/semantics.md`: rights; when the master is gone.) A check never changes anything in the cloud.

// Promise 13.

use std::time::Duration;

use protocol::{
    Rights, SectorPath, Status,
    message::{
        access::AclRequest,
        client_master::{ClientReply, ClientRequest},
        master_security::UserRights,
        request::{
            ClearAclRequest, CopiesRequest, CreateDatedRequest, GetAclRequest, ListRequest, LocateRequest,
            MakeFolderRequest, PolicyRequest, RemoveRequest, RenameRequest, SetAclRequest, SetPolicyRequest,
            StatRequest, TrashRequest, UsageRequest,
        },
    },
};

use crate::{ViolationKind, environment::Environment, model::path};

/// A question, or an attempted change, of a user who is no administrator.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) by: UserRights,
    pub(crate) since: Duration,
    pub(crate) request: ClientRequest,
}

/// The right that a request needs.
enum Needed<'a> {
    On(&'a SectorPath, Rights),
    /// Only administrators may.
    Administrator,
    /// Only the user's own part of it.
    Own,
}

impl Probe {
    pub(crate) fn new(env: &Environment, by: UserRights, request: ClientRequest) -> Self {
        Self { by, since: env.now.monotonic, request }
    }

    fn needed(&self) -> Needed<'_> {
        match &self.request {
            ClientRequest::Stat(StatRequest(path))
            | ClientRequest::Locate(LocateRequest(path))
            | ClientRequest::Usage(UsageRequest(path))
            | ClientRequest::Policy(PolicyRequest(path))
            | ClientRequest::Copies(CopiesRequest(path))
            | ClientRequest::List(ListRequest { folder: path, .. })
            | ClientRequest::Acl(AclRequest::Get(GetAclRequest(path))) => Needed::On(path, Rights::READ),
            ClientRequest::Create(create) | ClientRequest::CreateDated(CreateDatedRequest { create, .. }) => {
                Needed::On(&create.path, Rights::WRITE)
            }
            ClientRequest::Remove(RemoveRequest { path, .. })
            | ClientRequest::MakeFolder(MakeFolderRequest { path, .. })
            | ClientRequest::Rename(RenameRequest { from: path, .. }) => Needed::On(path, Rights::WRITE),
            ClientRequest::SetPolicy(SetPolicyRequest { path, .. })
            | ClientRequest::Acl(
                AclRequest::Set(SetAclRequest { path, .. }) | AclRequest::Clear(ClearAclRequest(path)),
            ) => Needed::On(path, Rights::ADMINISTER),
            ClientRequest::Restore(_) | ClientRequest::Trash(TrashRequest { all_users: false, .. }) => Needed::Own,
            _ => Needed::Administrator,
        }
    }
}

/// The master answered.
pub(crate) fn check(env: &mut Environment, probe: &Probe, reply: &ClientReply) {
    let by = &probe.by;
    let (is_granted, is_refused) = match reply {
        ClientReply::Refused(refusal) => (false, refusal.status() == Status::Refused),
        _ => (true, false),
    };
    match probe.needed() {
        Needed::On(path, wanted) => {
            if path.is_within(&self::path(TRASH)) {
                // A listing of the whole shows each user their own part.
                if is_granted && path.components().count() > 1 && !is_own(by, path) {
                    env.violate(ViolationKind::Safety, format!("{} was shown another's trash: {reply:?}", by.user));
                }
            } else if env.model.attributes.knows(path) {
                let rights = env.model.attributes.rights(by, path, probe.since, env.now.monotonic);
                if is_granted && !rights.iter().any(|rights| rights.has(wanted)) {
                    let message = format!("{} may not, and was not refused: {:?}: {reply:?}", by.user, probe.request);
                    env.violate(ViolationKind::Safety, message);
                }
                let must = rights.iter().all(|rights| rights.has(wanted)) && env.model.recovered.is_none();
                if is_refused && must && is_certain(env, by, path) {
                    let message = format!("{} may, and was refused: {:?}: {reply:?}", by.user, probe.request);
                    env.violate(ViolationKind::Safety, message);
                }
            }
        }
        Needed::Administrator if is_granted => {
            let message = format!("{} is no administrator, and was not refused: {:?}", by.user, probe.request);
            env.violate(ViolationKind::Safety, message);
        }
        Needed::Own if is_granted && matches!(probe.request, ClientRequest::Restore(_)) => {
            env.violate(ViolationKind::Safety, format!("{} restored what is another's: {reply:?}", by.user));
        }
        Needed::Administrator | Needed::Own => {}
    }
    check_shown(env, probe, reply);
}

/// The entries named in a list.
fn check_shown(env: &mut Environment, probe: &Probe, reply: &ClientReply) {
    let by = &probe.by;
    let now = env.now.monotonic;
    let may_see = |path: &SectorPath| {
        if path.is_within(&self::path(TRASH)) {
            return *path == self::path(TRASH) || is_own(by, path);
        }
        let estate = &env.model.attributes;
        let rights = || estate.rights(by, path, probe.since, now);
        !estate.knows(path) || rights().iter().any(|rights| rights.has(Rights::READ))
    };
    let wrong = match reply {
        ClientReply::Page(page) => page.entries.iter().map(|entry| &entry.path).find(|path| !may_see(path)),
        ClientReply::Trash(page) => page.items.iter().find(|item| item.user != by.user).map(|item| &item.at),
        _ => None,
    };
    if let Some(path) = wrong {
        let message = format!("{} was shown {path}, and may not read it: {:?}", by.user, probe.request);
        env.violate(ViolationKind::Safety, message);
    }
}

/// Whether a path is a folder that certainly exists.
fn is_certain(env: &Environment, by: &UserRights, path: &SectorPath) -> bool {
    let estate = &env.model.attributes;
    let Some(folder) = estate.folders.iter().rfind(|folder| path.is_within(&folder.path)) else { return false };
    let there = env.model.regions[folder.region].certain().is_some_and(|tree| tree.0.contains_key(&folder.path));
    // The maker of a folder owns the files in it; that does not hold for missing entries.
    there && (folder.path == *path || folder.maker != by.user)
}

/// Whether a path lies in the user's own trash.
fn is_own(by: &UserRights, path: &SectorPath) -> bool {
    path.components().nth(1) == Some(by.user.as_str())
}

/// Folder of removed entries that can be restored.
const TRASH: &str = "/.trash";
