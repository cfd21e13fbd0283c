//! The journal of a detached job: its head and its pages, stored like any file. The product's rule
//! ([`sphere::PageWrite`]) decides what a refused page means; this file never does.

use protocol::Status;
use std::time::Duration;

use protocol::{
    Reason, Refusal, SectorPath,
    message::client_master::{ClientReply, Condition, CreateRequest},
    wire::codec,
};
use sphere::{JournalPage, PageWrite, PageWriteStep};

use super::fetch::Fetch;
use crate::{
    actor::upload::{Stage, Upload, create_request},
    environment::{
        Environment,
        calls::{CallId, CallReply},
    },
    model::Outcome,
    role::MasterLink,
};

/// The pages of a job, written one at a time.
pub(super) struct Pages {
    pub(super) folder: SectorPath,
    /// Copies of each page on disk before it counts as written.
    pub(super) sync_copies: u8,
    writing: Option<Writing>,
}

/// A file of the journal that is being written.
pub(super) struct Writing {
    path: SectorPath,
    bytes: Vec<u8>,
    sync_copies: u8,
    rules: PageWrite,
    step: Step,
}

enum Step {
    Putting(u64, Box<Upload>),
    /// A file of this name exists: for this reason the put was refused.
    Comparing(Refusal, Fetch),
    Pausing(Duration),
}

impl Pages {
    pub(super) fn new(folder: SectorPath, nodes: usize) -> Self {
        Self { folder, sync_copies: sync_copies(nodes), writing: None }
    }

    /// Begins to write a page.
    pub(super) fn write(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        last: &mut u64,
        page: &JournalPage,
    ) {
        let Ok(path) = page_path(&self.folder, page.number) else { return };
        self.writing =
            Some(Writing::begin(env, master_link, last, path, codec::encode(&page.entries), self.sync_copies));
    }

    /// An answer may have come for the page being written; returns how it ended.
    pub(super) fn go_on(
        &mut self,
        act: impl FnOnce(&mut Writing) -> Option<Result<(), Refusal>>,
    ) -> Option<Result<(), Refusal>> {
        let ended = act(self.writing.as_mut()?);
        if ended.is_some() {
            self.writing = None;
        }
        ended
    }
}

impl Writing {
    /// Puts a file at a free path.
    pub(super) fn begin(
        env: &mut Environment,
        master_link: &mut MasterLink,
        last: &mut u64,
        path: SectorPath,
        bytes: Vec<u8>,
        sync_copies: u8,
    ) -> Self {
        let step = put(env, master_link, last, &path, &bytes, sync_copies);
        Self { path, bytes, sync_copies, rules: PageWrite::new(env.now), step }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, env: &mut Environment, master_link: &mut MasterLink, last: &mut u64) {
        if let Step::Pausing(until) = &self.step
            && *until <= env.now.monotonic
        {
            self.step = put(env, master_link, last, &self.path, &self.bytes, self.sync_copies);
        }
    }

    /// A timer rang, or the master answered, or will not.
    pub(super) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        last: &mut u64,
        tag: u64,
        reply: Result<Option<ClientReply>, ()>,
    ) -> Option<Result<(), Refusal>> {
        match &mut self.step {
            Step::Putting(own, upload) if *own == tag => {
                let stage = match reply {
                    Ok(reply) => upload.answered(env, master_link, tag, reply),
                    Err(()) => upload.timer(env, master_link, tag),
                };
                self.put_goes(env, master_link, last, stage)
            }
            Step::Comparing(_, fetch) => {
                let turn = fetch.answered(env, master_link, tag, reply.ok().flatten());
                self.compared(env, turn)
            }
            _ => None,
        }
    }

    /// A node answered.
    pub(super) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        last: &mut u64,
        call: CallId,
        reply: CallReply,
    ) -> Option<Result<(), Refusal>> {
        match &mut self.step {
            Step::Putting(tag, upload) => {
                let stage = upload.call_answered(env, master_link, *tag, call, reply);
                self.put_goes(env, master_link, last, stage)
            }
            Step::Comparing(_, fetch) => {
                let turn = fetch.call_answered(env, master_link, call, reply);
                self.compared(env, turn)
            }
            Step::Pausing(_) => None,
        }
    }

    fn put_goes(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        last: &mut u64,
        stage: Stage,
    ) -> Option<Result<(), Refusal>> {
        let result = match stage {
            Stage::Goes | Stage::Commits => return None,
            Stage::Ended(Some(Outcome::Done)) => Ok(()),
            Stage::Ended(Some(Outcome::Refused(status))) => Err(Refusal::new(reason_of(status), "a page is refused")),
            Stage::Ended(_) => Err(Refusal::new(Reason::Unavailable, "a page could not be written")),
            Stage::Refused(refusal) => Err(refusal),
        };
        match self.rules.tried(env.now, result) {
            PageWriteStep::Compare(refusal) => {
                *last += 1;
                self.step = Step::Comparing(refusal, Fetch::begin(env, master_link, *last, self.path.clone()));
                None
            }
            turn => self.turned(env, turn),
        }
    }

    fn compared(&mut self, env: &mut Environment, turn: super::fetch::Turn) -> Option<Result<(), Refusal>> {
        let Step::Comparing(refusal, _) = &self.step else { return None };
        let is_same = turn?.map(|found| found == self.bytes);
        let turn = self.rules.found(env.now, refusal.clone(), is_same);
        self.turned(env, turn)
    }

    fn turned(&mut self, env: &mut Environment, turn: PageWriteStep) -> Option<Result<(), Refusal>> {
        match turn {
            PageWriteStep::Retry(pause) => {
                self.step = Step::Pausing(env.now.monotonic + pause);
                None
            }
            PageWriteStep::Compare(refusal) => Some(Err(refusal)),
            PageWriteStep::Ended(result) => Some(result),
        }
    }
}

fn put(
    env: &mut Environment,
    master_link: &mut MasterLink,
    last: &mut u64,
    path: &SectorPath,
    bytes: &[u8],
    sync_copies: u8,
) -> Step {
    *last += 1;
    let content = env.model.contents.add(bytes.to_vec());
    let request = create_request(path.clone(), bytes.len() as u64);
    let request = CreateRequest { condition: Condition::Absent, sync_copies: Some(sync_copies), ..request };
    let mut upload = Box::new(Upload::new(env, request, content));
    upload.begin(env, master_link, *last);
    Step::Putting(*last, upload)
}

/// The path of a page.
pub(super) fn page_path(folder: &SectorPath, number: u32) -> Result<SectorPath, protocol::path::PathError> {
    folder.join(&format!("{number:08}"))
}

/// As in `client::job::journal`: a page outlives the node that wrote it, if there is another.
pub(super) fn sync_copies(nodes: usize) -> u8 {
    if nodes > 1 { 2 } else { 1 }
}

/// The first slice of a journal.
pub(super) const HEAD: &str = "head";

/// A reason with this status: the driver looks only at the status.
fn reason_of(status: Status) -> Reason {
    match status {
        Status::Failed => Reason::Failed,
        Status::Usage => Reason::Invalid,
        Status::NotFound => Reason::NotFound,
        Status::Refused => Reason::NoRight,
        Status::Unavailable => Reason::Unavailable,
        Status::Corrupt => Reason::Corrupt,
        Status::Exists => Reason::Exists,
    }
}
