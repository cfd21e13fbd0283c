//! Requests about writing files: leases and their ends. Each is one paragraph: what it is, its reply, its properties.
//! This file never handles one.

use serde::{Deserialize, Serialize};

use super::{Call, Need, Properties, answered_by};
use crate::{
    Digest, LeaseId,
    message::client_master::{ClientReply, CreateRequest, Created, Entry},
};

impl Call for CreateRequest {
    answered_by!(Created, ClientReply::Created(created) => created);

    fn properties(&self) -> Properties<'_> {
        // A later attempt at the same upload replaces an earlier one.
        Properties::new("create", Need::Make(&self.path))
            .refused_as("write", &self.path)
            .without_names()
            .repeatable_if(self.resume.is_some())
    }
}

/// Keep a lease alive while bytes flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewRequest(pub LeaseId);

impl Call for RenewRequest {
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

impl Call for CommitRequest {
    answered_by!(Entry, ClientReply::Entry(entry) => entry);

    fn properties(&self) -> Properties<'_> {
        Properties::new("commit", Need::Holder).refused_as("write", "")
    }
}

/// Give a write up; its bytes are removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonRequest(pub LeaseId);

impl Call for AbandonRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("abandon", Need::Holder).during_rebuild().refused_as("write", "")
    }
}
