//! Who may do what with names. (Paper, 2.3: "the master will check whether the user has access privileges for that
//! file".) Serves every request that names an entry: its [`Properties`] say what it needs. The rules are in
//! `docs/semantics.md`, the reasons in `docs/decisions/0013-rights.md`. Which rights an entry has from the folders
//! above it is in [`inherited_rights`]. A request never runs before [`check_rights`](Catalog::check_rights) has allowed
//! it.

mod inherited_rights;
mod visibility;

use protocol::{
    Acl, FileId, Reason, Refusal, Rights, SectorPath, SliceId, UserName,
    message::{
        access::{AclReply, AclStatus},
        client_master::ClientReply,
        master_security::UserRights,
        request::{Need, Properties},
    },
};
use store::RowChange;

use crate::catalog::{Catalog, namespace::ROOT, trash::is_hidden_from};

/// Whether `by` may act for `owner`: on a lease or a job.
pub(crate) fn acts_for(by: &UserRights, owner: &UserName) -> bool {
    by.admin || by.user == *owner
}

/// Refuses a user who is no administrator.
pub(crate) fn check_admin(by: &UserRights, what: &str) -> Result<(), Refusal> {
    if by.admin {
        return Ok(());
    }
    let message = format!("{} may not {what}; ask an administrator", by.user);
    Err(Refusal::new(Reason::NoRight, message))
}

impl Catalog {
    /// Refuses a request that `by` may not make.
    ///
    /// A user who owns the entry may do everything with it. So may the owner of a folder above it, up to and including
    /// the one whose list decides, but not the owner of the root. Folders above need not let anyone pass.
    pub(crate) fn check_rights(&self, by: &UserRights, asked: &Properties<'_>) -> Result<(), Refusal> {
        asked.needs.iter().try_for_each(|need| self.check_need(by, *need))
    }

    /// Refuses a need for which `by` has no right. A missing entry is not refused here if `by` may know that it is
    /// missing.
    pub(crate) fn check_need(&self, by: &UserRights, need: Need<'_>) -> Result<(), Refusal> {
        match need {
            Need::Login | Need::Holder => Ok(()),
            Need::Administrator(what) => check_admin(by, what),
            Need::On(path, wanted) => self.check_rights_at(by, path, wanted),
            Need::Make(path) => self.check_may_create(by, path),
            Need::MakeFolder(path) => match self.names.find(path) {
                Some(id) if self.may_know(by, id) || self.may_make_beside(by, id) => Ok(()),
                Some(_) => Err(hidden(by, path)),
                None => self.check_may_create(by, path),
            },
            Need::Move(from, to) => {
                check_not_root(from)?;
                // Otherwise a user who may only add to a folder could take out other users' entries.
                let stays = from.parent() == to.parent();
                self.check_rights_at(by, from, if stays { Rights::WRITE } else { Rights::WRITE.and(Rights::READ) })
            }
            Need::Remove { path, .. } => {
                check_not_root(path)?;
                self.check_rights_at(by, path, Rights::WRITE)?;
                self.check_all_below(by, path)
            }
        }
    }

    /// A job can write its input to the user's output: so running on a file needs the right to read it too.
    pub(crate) fn check_input(&self, by: &UserRights, slice: SliceId) -> Result<(), Refusal> {
        let gone = || {
            let message = format!("an input (slice {slice}) was changed while the job read it; run the job again");
            Refusal::new(Reason::VersionChanged { current: None }, message)
        };
        // What was replaced can be had back, but a job reads only what stands at its path.
        let is_gone = |id: &FileId| self.names.is_pending_removal(slice) || self.trash.replaced(*id).is_some();
        let id = self.names.file_of_slice(slice).filter(|id| !is_gone(id)).ok_or_else(gone)?;
        let path = self.names.path(id).filter(|path| !is_hidden_from(by, path)).ok_or_else(gone)?;
        self.check_rights_at(by, &path, Rights::READ.and(Rights::RUN))
    }

    /// Gives an entry to another user. Returns the entry, and its row if the owner has changed.
    pub(crate) fn give_to(&mut self, path: &SectorPath, owner: &UserName) -> Result<(FileId, Vec<RowChange>), Refusal> {
        let id = self.names.get(path)?;
        if path.is_root() {
            return Err(Refusal::new(
                Reason::NotPermitted,
                "the root folder `/` belongs to no one user; it cannot be given",
            ));
        }
        if self.names.owner(id) != Some(owner)
            && let Some(usage) = self.file_usage(id)
        {
            self.check_user_quota(path, owner, usage)?;
        }
        Ok((id, self.change_entry_owner(id, owner)))
    }

    /// What is said of an entry's rights, and what `by` may do with it.
    pub(crate) fn acl_reply(&self, by: &UserRights, id: FileId) -> ClientReply {
        let (effective, from) = self.effective_acl(id);
        ClientReply::Acl(AclReply::Status(AclStatus {
            path: self.names.path(id).unwrap_or_else(SectorPath::root),
            owner: self.names.owner(id).unwrap_or(&by.user).clone(),
            own: self.names.own_acl(id).cloned(),
            effective,
            from: from.and_then(|from| self.names.path(from)),
            mine: self.rights_on(by, id),
        }))
    }

    /// The list that holds for an entry, which grants these rights too.
    ///
    /// # Errors
    /// A sentence where that are too many entries.
    pub(crate) fn acl_with(&self, id: FileId, more: &Acl) -> Result<Acl, String> {
        self.effective_acl(id).0.with(more)
    }

    /// Whether a user may know that this entry exists: anyone who may read it, or list its folder.
    fn may_know(&self, by: &UserRights, id: FileId) -> bool {
        let readable = |id| self.rights_on(by, id).has(Rights::READ);
        readable(id) || self.names.parent(id).is_some_and(readable)
    }

    fn may_make_beside(&self, by: &UserRights, id: FileId) -> bool {
        self.names.parent(id).is_some_and(|folder| self.rights_on(by, folder).has(Rights::WRITE))
    }

    fn check_rights_at(&self, by: &UserRights, path: &SectorPath, wanted: Rights) -> Result<(), Refusal> {
        let Some(id) = self.names.find(path) else { return self.check_missing(by, path) };
        let rights = self.rights_on(by, id);
        if rights.has(wanted) {
            return Ok(());
        }
        if !self.may_know(by, id) {
            return Err(hidden(by, path));
        }
        let lacking = LACKING.iter().find(|(right, _)| wanted.has(*right) && !rights.has(*right));
        Err(self.lacking(by, id, path, lacking.map_or("change it", |(_, verb)| verb)))
    }

    /// Whether a user may be told that nothing is at a path.
    fn check_missing(&self, by: &UserRights, path: &SectorPath) -> Result<(), Refusal> {
        let (nearest, _) = self.names.deepest_existing(path);
        if self.rights_on(by, nearest).has(Rights::READ) { Ok(()) } else { Err(hidden(by, path)) }
    }

    /// Whether an entry may be created, or replaced, at a path.
    fn check_may_create(&self, by: &UserRights, path: &SectorPath) -> Result<(), Refusal> {
        let (nearest, missing) = self.names.deepest_existing(path);
        if missing == 0 && !path.is_root() {
            return self.check_rights_at(by, path, Rights::WRITE);
        }
        let rights = self.rights_on(by, nearest);
        // Nothing is created below a file. Only users who may know of the file are told so.
        let wanted = if self.names.is_folder(nearest) { Rights::WRITE } else { Rights::READ };
        if rights.has(wanted) {
            return Ok(());
        }
        if !rights.has(Rights::READ) {
            return Err(hidden(by, path));
        }
        let folder = self.names.path(nearest).unwrap_or_else(SectorPath::root);
        Err(self.lacking(by, nearest, &folder, "make anything in it"))
    }

    /// Whether every entry below a folder that has its own list may be removed too.
    fn check_all_below(&self, by: &UserRights, path: &SectorPath) -> Result<(), Refusal> {
        let Some(id) = self.names.find(path).filter(|_| !by.admin && !self.names.has_no_acls()) else { return Ok(()) };
        let is_kept = |below: &FileId| !self.rights_on(by, *below).has(Rights::WRITE);
        if !self.names.own_acls_below(id).iter().any(is_kept) {
            return Ok(());
        }
        let message = format!(
            "in the folder `{path}` lies something with rights of its own that {} may not remove; ask an administrator",
            by.user
        );
        Err(Refusal::new(Reason::NoRight, message))
    }

    fn lacking(&self, by: &UserRights, id: FileId, path: &SectorPath, verb: &str) -> Refusal {
        if id == ROOT {
            let message = format!("{} may not {verb}: it is the root folder `/`; ask an administrator", by.user);
            return Refusal::new(Reason::NoRight, message);
        }
        let owner = self.names.owner(id).map_or_else(String::new, ToString::to_string);
        let what = if self.names.is_folder(id) { "the folder " } else { "" };
        let message =
            format!("{what}`{path}` belongs to {owner}: {} may not {verb}; ask {owner} or an administrator", by.user);
        Refusal::new(Reason::NoRight, message)
    }
}

/// The answer about a path if a user may not even know whether it exists: the same for every name.
fn hidden(by: &UserRights, path: &SectorPath) -> Refusal {
    let message = format!(
        "{} may not see what is at `{path}`; ask an administrator, or who named it to you, for the right to read",
        by.user
    );
    Refusal::new(Reason::NoRight, message)
}

fn check_not_root(path: &SectorPath) -> Result<(), Refusal> {
    if path.is_root() {
        return Err(Refusal::new(Reason::NotPermitted, "the root folder `/` can be neither changed nor removed"));
    }
    Ok(())
}

/// What a user cannot do without a right.
const LACKING: [(Rights, &str); 4] = [
    (Rights::WRITE, "change it"),
    (Rights::READ, "read it"),
    (Rights::RUN, "run jobs on it"),
    (Rights::ADMINISTER, "say who may do what with it"),
];
