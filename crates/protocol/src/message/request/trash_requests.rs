//! Requests about the trash and quotas. Each is one paragraph: what it is, its reply, its properties. This file never
//! handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by};
use crate::{
    SectorPath, UserName,
    message::{
        audit::AuditKind,
        client_reply::{ClientReply, Entry, FileVersion, QuotaOf, QuotaPage, TrashKey, TrashPage},
    },
};

/// What was removed and can be restored, oldest first, a page at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashRequest {
    /// Of all users; only administrators may.
    pub all_users: bool,
    /// Only what comes after this (the last of the previous page).
    pub after: Option<TrashKey>,
}

impl TypedRequest for TrashRequest {
    answered_by!(TrashPage, ClientReply::Trash(page) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("trash", Need::all_users(self.all_users))
            .repeatable()
            .during_rebuild()
            .refused_as("look at trash", "")
    }
}

/// The content that was replaced at a path and can be had back, oldest first. Everyone sees what is their own, and
/// administrators all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionsRequest(pub SectorPath);

impl TypedRequest for VersionsRequest {
    answered_by!(Vec<FileVersion>, ClientReply::Versions(versions) => versions);

    fn properties(&self) -> Properties<'_> {
        Properties::new("versions", Need::Login).repeatable().during_rebuild().refused_as("look at versions", &self.0)
    }
}

/// Take something back from the trash: the entry as it is afterwards. Refused with
/// [`Exists`](crate::Reason::Exists) where its place is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreRequest {
    /// Where it was when it was removed (of several, the newest), or where it is in the trash.
    pub path: SectorPath,
    /// Where to put it; by default where it was.
    pub to: Option<SectorPath>,
}

impl TypedRequest for RestoreRequest {
    answered_by!(Entry, ClientReply::Entry(entry) => entry);

    fn properties(&self) -> Properties<'_> {
        Properties::new("restore", Need::Holder)
            .once()
            .and_needs(self.to.as_ref().map(Need::Make))
            .sees(&self.path)
            .noted_as_removal("restore", &self.path, self.to.as_ref().map(|to| format!("to {to}")).unwrap_or_default())
    }
}

/// Remove for good what is in one's trash. It is answered when it can no longer be restored; the bytes are removed in
/// the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyTrashRequest {
    /// Of all users; only administrators may.
    pub all_users: bool,
}

impl TypedRequest for EmptyTrashRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        let properties = Properties::new("empty trash", Need::all_users(self.all_users)).repeatable();
        match self.all_users {
            true => properties.noted(AuditKind::Admin, "empty trash of all users", ""),
            false => properties.noted(AuditKind::Removal, "empty trash", ""),
        }
    }
}

/// How much users and folders may keep, and do keep, a page at a time. Users other than administrators see only their
/// own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotasRequest {
    /// Only what comes after this (the last of the previous page).
    pub after: Option<QuotaOf>,
}

impl TypedRequest for QuotasRequest {
    answered_by!(QuotaPage, ClientReply::Quotas(page) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("quotas", Need::Login).repeatable().during_rebuild().refused_as("look at quotas", "")
    }
}

/// How much a user may keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetQuotaRequest {
    /// Who.
    pub user: UserName,
    /// Most bytes of the user's files, the trash included; `None`: unlimited.
    pub bytes: Option<u64>,
    /// Most files.
    pub files: Option<u64>,
}

impl TypedRequest for SetQuotaRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("set quota", Need::Administrator("set quotas")).repeatable().noted(
            AuditKind::Grant,
            "set quota",
            &self.user,
        )
    }
}
