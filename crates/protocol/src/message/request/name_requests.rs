//! Requests about names: what is at a path, and changes of it. Each is one paragraph: what it is, its reply, its
//! properties. This file never handles one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by};
use crate::{
    Policy, Rights, SectorPath, SliceId,
    message::{
        audit::AuditKind,
        client_reply::{ClientReply, Copies, Entry, EntryStatus, ListPage, Located, PolicyStatus, Usage},
    },
};

/// Where a file can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocateRequest(pub SectorPath);

impl TypedRequest for LocateRequest {
    answered_by!(Located, ClientReply::Located(located) => located);

    fn properties(&self) -> Properties<'_> {
        Properties::new("locate", Need::On(&self.0, Rights::READ))
            .repeatable()
            .during_rebuild()
            .refused_as("read", &self.0)
    }
}

/// What is at a path, and its copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatRequest(pub SectorPath);

impl TypedRequest for StatRequest {
    answered_by!(EntryStatus, ClientReply::Status(status) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("stat", Need::On(&self.0, Rights::READ))
            .repeatable()
            .during_rebuild()
            .refused_as("look at", &self.0)
    }
}

/// One page of a folder, by name; of a file, itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// The folder.
    pub folder: SectorPath,
    /// Also what lies below its folders, depth first.
    pub recursive: bool,
    /// Only what comes after this path (the last of the previous page).
    pub after: Option<SectorPath>,
    /// Whether entries name the nodes that hold them.
    pub with_nodes: bool,
}

impl TypedRequest for ListRequest {
    answered_by!(ListPage, ClientReply::Page(page) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("list", Need::On(&self.folder, Rights::READ))
            .repeatable()
            .during_rebuild()
            .refused_as("list", &self.folder)
    }
}

/// Make a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeFolderRequest {
    /// The folder.
    pub path: SectorPath,
    /// Make missing parents too, and do not mind if it exists.
    pub parents: bool,
}

impl TypedRequest for MakeFolderRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("make folder", Need::MakeFolder(&self.path)).once().refused_as("make folder", &self.path)
    }
}

/// Rename a file or folder, atomically, replacing a file at `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenameRequest {
    /// What.
    pub from: SectorPath,
    /// Its new path; its parent must exist.
    pub to: SectorPath,
}

impl TypedRequest for RenameRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        let properties = match self.from == self.to {
            true => Properties::new("rename", Need::On(&self.from, Rights::WRITE)).once(),
            false => Properties::new("rename", Need::Move(&self.from, &self.to)).and_needs([Need::Make(&self.to)]),
        };
        properties.noted_as_removal("rename", &self.from, format!("to {}", self.to))
    }
}

/// Remove a file, or a folder. It goes to its owner's trash, from which it can be restored for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveRequest {
    /// What.
    pub path: SectorPath,
    /// Also a folder that is not empty.
    pub recursive: bool,
    /// For good: nothing goes to the trash.
    pub now: bool,
}

impl TypedRequest for RemoveRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("remove", Need::Remove { path: &self.path, for_good: self.now }).once().noted_as_removal(
            if self.now { "remove for good" } else { "remove" },
            &self.path,
            String::new(),
        )
    }
}

/// Remove a file, as long as its content is still this one. It goes to its owner's trash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveContentRequest {
    /// The file.
    pub path: SectorPath,
    /// The slice that its content must still be.
    pub slice: SliceId,
}

impl TypedRequest for RemoveContentRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("remove content", Need::Remove { path: &self.path, for_good: false }).once().noted_as_removal(
            "remove",
            &self.path,
            String::new(),
        )
    }
}

/// Files, folders and bytes at and below a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRequest(pub SectorPath);

impl TypedRequest for UsageRequest {
    answered_by!(Usage, ClientReply::Usage(usage) => usage);

    fn properties(&self) -> Properties<'_> {
        Properties::new("usage", Need::On(&self.0, Rights::READ))
            .repeatable()
            .during_rebuild()
            .refused_as("look at", &self.0)
    }
}

/// An entry's own policy for copies, lifetime and quota, and the effective one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRequest(pub SectorPath);

impl TypedRequest for PolicyRequest {
    answered_by!(PolicyStatus, ClientReply::Policy(policy) => policy);

    fn properties(&self) -> Properties<'_> {
        Properties::new("policy", Need::On(&self.0, Rights::READ))
            .repeatable()
            .during_rebuild()
            .refused_as("look at", &self.0)
    }
}

/// Replace an entry's own policy by this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPolicyRequest {
    /// The entry.
    pub path: SectorPath,
    /// Its own policy; what it leaves out is inherited.
    pub policy: Policy,
}

impl TypedRequest for SetPolicyRequest {
    answered_by!(PolicyStatus, ClientReply::Policy(policy) => policy);

    fn properties(&self) -> Properties<'_> {
        Properties::new("set policy", Need::On(&self.path, Rights::ADMINISTER)).repeatable().noted(
            AuditKind::Grant,
            "set policy",
            &self.path,
        )
    }
}

/// Change keys of a file's user metadata, as long as its content is still this one. The content itself stays, and so do
/// its version and the date of its last change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeMetadataRequest {
    /// The file.
    pub path: SectorPath,
    /// The slice that its content must still be.
    pub slice: SliceId,
    /// What each key is to be; `None`: it goes.
    pub changes: BTreeMap<String, Option<String>>,
}

impl TypedRequest for ChangeMetadataRequest {
    answered_by!(Entry, ClientReply::Entry(entry) => entry);

    fn properties(&self) -> Properties<'_> {
        Properties::new("change metadata", Need::On(&self.path, Rights::WRITE))
            .repeatable()
            .refused_as("change the metadata of", &self.path)
    }
}

/// Every copy of a file, each with a ticket for its verification where its node can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesRequest(pub SectorPath);

impl TypedRequest for CopiesRequest {
    answered_by!(Copies, ClientReply::Copies(copies) => copies);

    fn properties(&self) -> Properties<'_> {
        Properties::new("copies", Need::On(&self.0, Rights::READ))
            .repeatable()
            .during_rebuild()
            .refused_as("read", &self.0)
    }
}
