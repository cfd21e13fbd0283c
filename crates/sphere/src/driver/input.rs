//! Whether a task's input can be read now, judged by the master's answer about where a slice is. It never asks the
//! master itself.

use protocol::{
    Reason, Refusal, SliceId, Status,
    message::{
        client_master::{CopyState, CopyStatus, EntryKind, Located, Source},
        spe::AttemptId,
    },
};

use crate::Event;

/// Why an order for a task cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub enum OrderRefusal {
    /// It may be possible later.
    Retryable(Refusal),
    /// No copy of what is to be read can be reached now.
    InputUnavailable(Refusal),
    /// The input is no longer what the job was to read.
    Permanent(Refusal),
}

impl OrderRefusal {
    /// The event that the job is given for it.
    pub fn event(self, attempt: AttemptId) -> Event {
        match self {
            Self::Retryable(refusal) => Event::TaskFailed { attempt, refusal },
            Self::InputUnavailable(refusal) => Event::InputUnavailable { attempt, refusal },
            Self::Permanent(refusal) => Event::JobRefused(refusal),
        }
    }

    /// The master refused to say where the input is. What is missing or not allowed now will be so the next time too.
    pub fn from_master(refusal: Refusal) -> Self {
        match refusal.status() {
            Status::NotFound | Status::Refused => Self::Permanent(refusal),
            _ => Self::Retryable(refusal),
        }
    }

    /// No copy can be reached, for this reason, and these are all the copies. The input counts as unavailable only if
    /// that may change by itself: a node that has it is away, or a copy is being made. If all copies are bad or gone,
    /// it does not.
    pub fn from_copies(refusal: Refusal, copies: &[CopyStatus]) -> Self {
        let is_away = |copy: &CopyStatus| matches!(copy.state, CopyState::Stale | CopyState::Writing);
        if copies.iter().any(is_away) { Self::InputUnavailable(refusal) } else { Self::Retryable(refusal) }
    }
}

/// Where a slice can be read, at least one place, if it is still the content of its path.
///
/// # Errors
/// [`OrderRefusal::Permanent`] if the path has another content by now. [`OrderRefusal::InputUnavailable`] if the master
/// names no node: then [`OrderRefusal::from_copies`] decides.
pub fn sources_of(slice: SliceId, located: Located) -> Result<Vec<Source>, OrderRefusal> {
    let path = located.entry.path;
    if !matches!(&located.entry.kind, EntryKind::File(content) if content.slice == slice) {
        let message = format!("`{path}` was changed while the job read it; run the job again");
        return Err(OrderRefusal::Permanent(Refusal::new(Reason::VersionChanged { current: None }, message)));
    }
    if located.sources.is_empty() {
        let message = format!("no copy of `{path}` can be reached now");
        return Err(OrderRefusal::InputUnavailable(Refusal::new(Reason::Unavailable, message)));
    }
    Ok(located.sources)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{
        Digest, FileId, NodeId, Place, RecordFraming, UserName, Version,
        message::client_master::{Entry, FileContent},
    };

    use super::*;

    fn copy(state: CopyState) -> CopyStatus {
        CopyStatus { node: NodeId::new("a").unwrap(), place: Place::new("s", "r"), state }
    }

    /// A file whose slice is 7 and that no node has.
    fn nowhere() -> Located {
        let content = FileContent {
            slice: SliceId(7),
            version: Version(1),
            bytes: 20,
            digest: Digest([0; 32]),
            records: RecordFraming::File,
            copies: 1,
            user: std::collections::BTreeMap::new(),
        };
        let entry = Entry {
            path: "/x".parse().unwrap(),
            id: FileId(1),
            owner: UserName::new("u").unwrap(),
            modified_unix_millis: 0,
            kind: EntryKind::File(content),
            nodes: vec![],
            has_acl: false,
        };
        Located { entry, sources: vec![] }
    }

    #[test]
    fn a_copy_comes_back_by_itself_where_its_node_is_away_and_not_where_it_is_bad() {
        let judge = |states: &[CopyState]| {
            let copies: Vec<_> = states.iter().copied().map(copy).collect();
            OrderRefusal::from_copies(Refusal::new(Reason::Unavailable, "away"), &copies)
        };
        assert!(matches!(judge(&[CopyState::Corrupt, CopyState::Stale]), OrderRefusal::InputUnavailable(_)));
        assert!(matches!(judge(&[CopyState::Writing]), OrderRefusal::InputUnavailable(_)));
        assert!(matches!(judge(&[CopyState::Corrupt]), OrderRefusal::Retryable(_)), "nobody has a good one");
        assert!(matches!(judge(&[]), OrderRefusal::Retryable(_)));
    }

    #[test]
    fn a_file_that_was_overwritten_ends_the_job_instead_of_mixing_versions() {
        let refused = sources_of(SliceId(8), nowhere()).unwrap_err();
        assert!(matches!(refused, OrderRefusal::Permanent(refusal) if refusal.message.contains("`/x` was changed")));
        assert!(matches!(sources_of(SliceId(7), nowhere()), Err(OrderRefusal::InputUnavailable(_))));
    }

    #[test]
    fn what_is_missing_or_not_allowed_is_not_asked_for_again() {
        let judge = |status| OrderRefusal::from_master(Refusal::new(status, "no"));
        assert!(matches!(judge(Reason::NotFound), OrderRefusal::Permanent(_)));
        assert!(matches!(judge(Reason::NoRight), OrderRefusal::Permanent(_)));
        assert!(matches!(judge(Reason::Unavailable), OrderRefusal::Retryable(_)));
    }
}
