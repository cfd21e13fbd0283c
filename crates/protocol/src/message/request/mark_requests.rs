//! Requests about what is marked as slow. Each is one paragraph: what it is, its reply, its properties. This file never
//! handles one.

use serde::{Deserialize, Serialize};

use super::{AuditNote, Need, Properties, TypedRequest, answered_by};
use crate::message::{
    audit::AuditKind,
    client_reply::ClientReply,
    marks::{Mark, MarkChange, MarkSubject},
};

/// What is marked as slow, and what administrators have decided about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarksRequest;

impl TypedRequest for MarksRequest {
    answered_by!(Vec<Mark>, ClientReply::Marks(marks) => marks);

    fn properties(&self) -> Properties<'_> {
        Properties::new("marks", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at marks", "")
    }
}

/// An administrator overrules what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeMarkRequest {
    /// About what.
    pub subject: MarkSubject,
    /// What to do.
    pub change: MarkChange,
}

impl TypedRequest for ChangeMarkRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        let named = Properties::new("change mark", Need::Administrator("change marks")).repeatable().during_rebuild();
        let noted = named.without_names().noted(AuditKind::Admin, self.change.verb(), &self.subject);
        let (MarkChange::Add(note) | MarkChange::Ignore(note)) = &self.change else { return noted };
        Properties { audit: AuditNote { note: note.clone(), ..noted.audit }, ..noted }
    }
}
