//! Questions and attempts of a user about the estate, including forbidden ones. Serves the snoop. An attempt to change
//! something is made only if it must be refused; a permitted change is never drawn here.

use protocol::{
    Acl, Policy, SectorPath, UserName,
    message::{
        access::AclRequest,
        client_master::ClientRequest,
        request::{
            CopiesRequest, EmptyTrashRequest, GetAclRequest, GiveToRequest, ListRequest, LocateRequest,
            MakeFolderRequest, PolicyRequest, RemoveRequest, RenameRequest, RestoreRequest, SetAclRequest,
            SetPolicyRequest, SetQuotaRequest, StatRequest, TrashRequest, UsageRequest,
        },
    },
};

use super::upload::create_request;
use crate::{
    environment::Environment,
    model::{Region, path},
};

/// A question about something of the estate, from a user who may not be allowed to ask it.
pub(super) fn draw_question(env: &mut Environment, by: &UserName) -> ClientRequest {
    let at = draw_place(env);
    match env.rng.u8(..12) {
        0..2 => ClientRequest::Stat(StatRequest(at)),
        2..4 => ClientRequest::Locate(LocateRequest(at)),
        4 => ClientRequest::Usage(UsageRequest(at)),
        5 => ClientRequest::Policy(PolicyRequest(at)),
        6 => ClientRequest::Acl(AclRequest::Get(GetAclRequest(at))),
        7 => ClientRequest::Copies(CopiesRequest(at)),
        8 => ClientRequest::Trash(TrashRequest { all_users: false, after: None }),
        9 => {
            let others: Vec<_> = env.model.attributes.quotas.keys().filter(|user| *user != by).cloned().collect();
            let other = others.get(env.rng.usize(..others.len().max(1)));
            let folder = path(&other.map_or_else(|| "/.trash".to_owned(), |other| format!("/.trash/{other}")));
            let folder = if env.rng.bool() { path("/.trash") } else { folder };
            ClientRequest::List(ListRequest { folder, recursive: true, after: None, with_nodes: false })
        }
        _ => {
            let folder = if env.rng.u8(..3) == 0 { SectorPath::root() } else { at };
            ClientRequest::List(ListRequest { folder, recursive: env.rng.bool(), after: None, with_nodes: false })
        }
    }
}

/// An attempt at an action reserved for administrators, or for users with an explicit right.
pub(super) fn draw_attempt(env: &mut Environment, by: &UserName, is_stranger: bool) -> ClientRequest {
    let at = draw_place(env);
    // Everyone may create entries in the root: the folders must exist.
    let estate = &env.model.attributes;
    let stands = |region: &Region| region.certain().is_some_and(|tree| tree.0.contains_key(&region.root));
    let stand = estate.folders.iter().all(|folder| stands(&env.model.regions[folder.region]));
    let may_try = is_stranger && stand && env.model.recovered.is_none();
    let lot = env.rng.u8(if may_try { 0..11 } else { 0..4 });
    match lot {
        0 => ClientRequest::SetQuota(SetQuotaRequest { user: by.clone(), bytes: None, files: None }),
        1 => ClientRequest::Trash(TrashRequest { all_users: true, after: None }),
        2 => ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: true }),
        3 => ClientRequest::Acl(AclRequest::GiveTo(GiveToRequest { path: at, owner: by.clone() })),
        4 => ClientRequest::Remove(RemoveRequest { path: at, recursive: true, now: true }),
        5 => ClientRequest::MakeFolder(MakeFolderRequest { path: path(&format!("{at}/strange")), parents: true }),
        6 => ClientRequest::Rename(RenameRequest { from: at, to: path("/taken") }),
        7 => ClientRequest::SetPolicy(SetPolicyRequest {
            path: at,
            policy: Policy { copies: Some(1), ..Policy::default() },
        }),
        8 => ClientRequest::Acl(AclRequest::Set(SetAclRequest { path: at, acl: Acl::everyone_reads() })),
        9 => ClientRequest::Restore(RestoreRequest { path: at, to: Some(path("/taken")) }),
        _ => ClientRequest::Create(create_request(at, 1)),
    }
}

/// A folder of the estate, or a file in it.
fn draw_place(env: &mut Environment) -> SectorPath {
    let Some(folder) = draw_folder(env, None) else { return SectorPath::root() };
    let folder = &env.model.attributes.folders[folder];
    let (at, region) = (folder.path.clone(), folder.region);
    let tree = env.model.regions[region].possible()[0].clone();
    let files: Vec<_> = tree.files().map(|(path, _)| path).filter(|path| path.is_within(&at)).cloned().collect();
    match env.rng.u8(..8) {
        0..3 => at,
        3 => path(&format!("{at}/nothing")),
        _ => files.get(env.rng.usize(..files.len().max(1))).cloned().unwrap_or(at),
    }
}

/// A folder of the estate, or of one region of it.
pub(super) fn draw_folder(env: &mut Environment, region: Option<usize>) -> Option<usize> {
    let folders = env.model.attributes.folders.iter().enumerate();
    let meant = folders.filter(|(_, folder)| region.is_none_or(|region| folder.region == region));
    let numbers: Vec<_> = meant.map(|(number, _)| number).collect();
    numbers.get(env.rng.usize(..numbers.len().max(1))).copied()
}
