//! Requests about writing files: leases and their ends. Each is one paragraph: what it is, its reply, its properties.
//! This file never handles one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by};
use crate::{
    Digest, LeaseId, NodeId, RecordFraming, ResumeKey, SectorPath,
    message::{
        audit::AuditKind,
        client_reply::{ClientReply, Condition, Created, Entry, LeasePage},
    },
};

/// Begin to write a file, or to append to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateRequest {
    /// Where the file will be.
    pub path: SectorPath,
    /// How many bytes to expect; chooses a node with room.
    pub bytes_expected: Option<u64>,
    /// Copies wanted. Where `None`: as the replaced file says, otherwise as its folders say.
    pub copies: Option<u8>,
    /// Copies that must be synced before the commit is answered. Where `None`: as file, folders and cloud say.
    pub sync_copies: Option<u8>,
    /// Record format.
    pub records: RecordFraming,
    /// The user's own keys and values.
    pub user: BTreeMap<String, String>,
    /// What must hold of the path at commit.
    pub condition: Condition,
    /// Make missing parent folders.
    pub parents: bool,
    /// Write at this node (job output stays where it was made); otherwise the master chooses.
    pub at: Option<NodeId>,
    /// Identifies this upload over all its attempts. A later attempt continues where an earlier one broke off, and
    /// takes over the lease that the earlier one left.
    pub resume: Option<ResumeKey>,
    /// Append to the file's bytes: the new version is the old one followed by what is sent. Where there is no file, one
    /// is created.
    pub append: bool,
}

impl TypedRequest for CreateRequest {
    answered_by!(Created, ClientReply::Created(created) => created);

    fn properties(&self) -> Properties<'_> {
        // A later attempt at the same upload replaces an earlier one.
        Properties::new("create", Need::Make(&self.path))
            .refused_as("write", &self.path)
            .without_names()
            .repeatable_if(self.resume.is_some())
    }
}

/// Begin to write a file that has a date already: it was changed then, elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateDatedRequest {
    /// What to write.
    pub create: CreateRequest,
    /// When it was last changed, in milliseconds since the Unix epoch. The file gets this date, or the master's present
    /// one if that is earlier. Versions do not follow from it.
    pub modified_unix_millis: u64,
}

impl TypedRequest for CreateDatedRequest {
    answered_by!(Created, ClientReply::Created(created) => created);

    fn properties(&self) -> Properties<'_> {
        self.create.properties()
    }
}

/// Keep a lease alive while bytes flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewRequest(pub LeaseId);

impl TypedRequest for RenewRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("renew", Need::Holder)
            .urgent()
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("write", "")
    }
}

/// Publish what was written, once enough nodes have reported it synced. It is answered only then, or refused when the
/// lease ends before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRequest {
    /// The lease of the write.
    pub lease: LeaseId,
    /// Bytes written.
    pub bytes: u64,
    /// Their digest, as the node computed it and the client expects it.
    pub digest: Digest,
}

impl TypedRequest for CommitRequest {
    answered_by!(Entry, ClientReply::Entry(entry) => entry);

    fn properties(&self) -> Properties<'_> {
        Properties::new("commit", Need::Holder).refused_as("write", "")
    }
}

/// Give a write up; its bytes are removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonRequest(pub LeaseId);

impl TypedRequest for AbandonRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("abandon", Need::Holder).during_rebuild().refused_as("write", "")
    }
}

/// The open leases, by path, a page at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasesRequest {
    /// Of all users; only administrators may.
    pub all_users: bool,
    /// Only those after this path (the last of the previous page).
    pub after: Option<SectorPath>,
}

impl TypedRequest for LeasesRequest {
    answered_by!(LeasePage, ClientReply::Leases(page) => page);

    fn properties(&self) -> Properties<'_> {
        let need = match self.all_users {
            true => Need::Administrator("see the leases of all users"),
            false => Need::Login,
        };
        Properties::new("leases", need).repeatable().during_rebuild().without_names().refused_as("look at leases", "")
    }
}

/// End the lease on a path, so that someone else may write there. What was written under it is removed. Its holder may,
/// and administrators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakLeaseRequest(pub SectorPath);

impl TypedRequest for BreakLeaseRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("break lease", Need::Holder).during_rebuild().without_names().noted(
            AuditKind::Admin,
            "break the lease on",
            &self.0,
        )
    }
}
