//! One upload, step by step (path: upload): create, send, commit; and the recovery from missing answers. People and
//! jobs' inputs both use it. It ends with what is certain, and never reports more than that.

use std::{rc::Rc, time::Duration};

use protocol::{
    LeaseId, Refusal, Status,
    message::{
        client_master::{ClientReply, ClientRequest, Condition, CreateRequest, Entry, EntryKind},
        request::{AbandonRequest, CommitRequest},
        transfer::TransferRequest,
    },
};

use super::asking::{COMMIT_PATIENCE, PATIENCE, WITHOUT_SESSION, ask, later};
use crate::{
    ViolationKind,
    environment::{
        Environment,
        calls::{CallId, CallReply},
    },
    invariants::versions,
    model::{ContentId, Outcome},
    role::MasterLink,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Upload {
    request: CreateRequest,
    /// The file's final content.
    content: ContentId,
    /// The bytes that are sent: all of it, or the appended part.
    sent: Rc<Vec<u8>>,
    /// Bytes that the file had before.
    base_bytes: u64,
    /// How often it may still be sent again under the same key.
    attempts_left: u32,
    /// When the lease was requested.
    began: Duration,
    step: Step,
    /// Commits asked for without an answer.
    unanswered: u32,
}

#[derive(Debug)]
enum Step {
    Creating,
    Writing(LeaseId, CallId),
    Committing(LeaseId),
    /// No answer to the commit came: it is repeated once there is a session.
    CommittingAgain(LeaseId),
    /// Given up: the answer to the abandoning shows the result of the commit.
    Abandoning(LeaseId),
    /// Given up before the commit: the answer does not matter.
    Leaving,
}

/// The state of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not finished.
    Goes,
    /// The next step is the commit: from now on others may see it.
    Commits,
    /// It ended with this outcome; `None` if no commit was ever sent.
    Ended(Option<Outcome>),
    /// The create was refused.
    Refused(Refusal),
}

impl Upload {
    /// An upload that has not begun.
    pub(crate) fn new(env: &Environment, request: CreateRequest, content: ContentId) -> Self {
        let sent = Rc::clone(&env.model.contents.get(content).bytes);
        let attempts_left = if request.resume.is_some() { RESUMED_MAX } else { 0 };
        let (base_bytes, began, step) = (0, Duration::ZERO, Step::Creating);
        Self { request, content, sent, base_bytes, attempts_left, began, step, unanswered: 0 }
    }

    /// An upload that appends `tail` to a file of `base_bytes` bytes, which then has `content`.
    pub(crate) fn append(request: CreateRequest, content: ContentId, tail: Vec<u8>, base_bytes: u64) -> Self {
        let (began, step) = (Duration::ZERO, Step::Creating);
        Self { request, content, sent: Rc::new(tail), base_bytes, attempts_left: 0, began, step, unanswered: 0 }
    }

    /// Asks for the right to write.
    pub(crate) fn begin(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) {
        self.began = env.now.monotonic;
        env.model.attempted.push((self.request.path.clone(), self.content));
        ask(env, master_link, &ClientRequest::Create(self.request.clone()), tag, PATIENCE);
    }

    /// An answer came, or will not. Without one, the session has been given up.
    pub(crate) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: u64,
        reply: Option<ClientReply>,
    ) -> Stage {
        match (&self.step, reply) {
            (Step::Creating, Some(ClientReply::Created(created))) if created.base_bytes != self.base_bytes => {
                // A master that lost its journal may have restored an older content.
                if env.model.recovered.is_none() {
                    let (found, path) = (created.base_bytes, &self.request.path);
                    let message = format!("{found} bytes of {path} are appended to, it has {}", self.base_bytes);
                    env.violate(ViolationKind::Safety, message);
                }
                self.leave(env, master_link, created.lease, tag);
                Stage::Goes
            }
            (Step::Creating, Some(ClientReply::Created(created))) => {
                let bytes = Rc::clone(&self.sent);
                let node = created.target.node.as_str()[1..].parse().unwrap_or(usize::MAX);
                let request = TransferRequest::Write { ticket: created.target.ticket, chain: created.chain };
                let call = env.transfer((master_link.who, master_link.life), node, request, bytes);
                self.step = Step::Writing(created.lease, call);
                Stage::Goes
            }
            (Step::Creating, Some(ClientReply::Refused(refusal))) => Stage::Refused(refusal),
            (Step::Creating | Step::Leaving, _) => Stage::Ended(None),
            (Step::Committing(_), Some(ClientReply::Entry(entry))) => {
                self.check_entry(env, &entry);
                env.model.appended += u32::from(self.request.append);
                Stage::Ended(Some(Outcome::Done))
            }
            (Step::Committing(_), Some(ClientReply::Refused(refusal))) => {
                env.note(format_args!("{:?} commit refused: {refusal}", master_link.who));
                Stage::Ended(Some(self.outcome_of_refusal(env, &refusal)))
            }
            (Step::Committing(lease), _) => {
                self.unanswered += 1;
                let lease = *lease;
                let gives_up = self.unanswered > 3 || env.chance(40);
                self.step = if gives_up { Step::Abandoning(lease) } else { Step::CommittingAgain(lease) };
                later(env, master_link, WITHOUT_SESSION, tag);
                Stage::Goes
            }
            (Step::CommittingAgain(_), _) => Stage::Goes,
            // The lease existed: nothing had been published under it, and now nothing will be.
            (Step::Abandoning(_), Some(ClientReply::Done)) => Stage::Ended(Some(Outcome::NotDone)),
            (Step::Abandoning(_), Some(ClientReply::Refused(_))) => Stage::Ended(Some(Outcome::Unknown)),
            (Step::Abandoning(_), _) => {
                later(env, master_link, WITHOUT_SESSION, tag);
                Stage::Goes
            }
            (Step::Writing(..), _) => Stage::Goes,
        }
    }

    /// A timer that this upload had set rings.
    pub(crate) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) -> Stage {
        let (lease, again) = match self.step {
            Step::CommittingAgain(lease) => (lease, true),
            Step::Abandoning(lease) => (lease, false),
            // There was no session to ask in.
            _ => return self.answered(env, master_link, tag, None),
        };
        if master_link.session.is_none() {
            later(env, master_link, WITHOUT_SESSION, tag);
        } else if again {
            self.commit(env, master_link, lease, tag);
        } else {
            ask(env, master_link, &ClientRequest::Abandon(AbandonRequest(lease)), tag, PATIENCE);
        }
        Stage::Goes
    }

    /// The node has the bytes, or has not.
    pub(crate) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: u64,
        call: CallId,
        reply: CallReply,
    ) -> Stage {
        let Step::Writing(lease, own) = self.step else { return Stage::Goes };
        if own != call {
            return Stage::Goes;
        }
        let content = env.model.contents.get(self.content);
        let (bytes, digest) = (content.bytes.len() as u64, content.digest);
        match reply {
            CallReply::Stored { bytes: stored, digest: found } if (stored, found) == (bytes, digest) => {
                self.commit(env, master_link, lease, tag);
                Stage::Commits
            }
            // The old master's ticket, and at the node the slice that the new one took for the file's content.
            CallReply::Stored { .. } if self.request.append && env.model.recovered.is_some() => {
                self.leave(env, master_link, lease, tag);
                Stage::Goes
            }
            CallReply::Stored { .. } => {
                env.violate(
                    ViolationKind::Safety,
                    format!("a node stored other bytes than were sent for {}", self.request.path),
                );
                Stage::Ended(None)
            }
            // Sent again under the same key, which takes the lease over: the received part is not sent twice.
            _ if self.attempts_left > 0 && master_link.session.is_some() => {
                self.attempts_left -= 1;
                self.step = Step::Creating;
                ask(env, master_link, &ClientRequest::Create(self.request.clone()), tag, PATIENCE);
                Stage::Goes
            }
            _ => {
                self.leave(env, master_link, lease, tag);
                Stage::Goes
            }
        }
    }

    fn leave(&mut self, env: &mut Environment, master_link: &mut MasterLink, lease: LeaseId, tag: u64) {
        self.step = Step::Leaving;
        ask(env, master_link, &ClientRequest::Abandon(AbandonRequest(lease)), tag, PATIENCE);
    }

    fn commit(&mut self, env: &mut Environment, master_link: &mut MasterLink, lease: LeaseId, tag: u64) {
        let content = env.model.contents.get(self.content);
        let (bytes, digest) = (content.bytes.len() as u64, content.digest);
        self.step = Step::Committing(lease);
        ask(env, master_link, &ClientRequest::Commit(CommitRequest { lease, bytes, digest }), tag, COMMIT_PATIENCE);
    }

    fn check_entry(&self, env: &mut Environment, entry: &Entry) {
        versions::check(env, &self.request.path, entry, self.began);
        let content = env.model.contents.get(self.content);
        let is_it = matches!(&entry.kind, EntryKind::File(file)
            if file.digest == content.digest && file.bytes == content.bytes.len() as u64);
        // After an unanswered try, the file may have been renamed by now; its content cannot have changed.
        if !is_it || (self.unanswered == 0 && entry.path != self.request.path) {
            env.violate(
                ViolationKind::Safety,
                format!("a commit of {} was answered with {entry:?}", self.request.path),
            );
        }
    }

    fn outcome_of_refusal(&self, env: &mut Environment, refusal: &Refusal) -> Outcome {
        match refusal.status() {
            Status::Corrupt => {
                env.violate(ViolationKind::Safety, format!("a commit of {} was refused: {refusal}", self.request.path));
                Outcome::Unknown
            }
            // An earlier try may have been published; this answer only shows that the lease no longer exists.
            _ if self.unanswered > 0 => Outcome::Unknown,
            Status::NotFound | Status::Unavailable | Status::Refused => Outcome::NotDone,
            status => Outcome::Refused(status),
        }
    }
}

/// How often an upload is sent again under its key.
const RESUMED_MAX: u32 = 3;

/// A typical create request.
pub(crate) fn create_request(path: protocol::SectorPath, bytes: u64) -> CreateRequest {
    CreateRequest {
        path,
        bytes_expected: Some(bytes),
        copies: None,
        sync_copies: None,
        records: protocol::RecordFraming::File,
        user: std::collections::BTreeMap::new(),
        condition: Condition::Any,
        parents: true,
        at: None,
        resume: None,
        append: false,
    }
}
