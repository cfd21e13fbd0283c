//! One download, step by step (path: download): locate, read from the first source that can serve it, and compare
//! answers and bytes with the truth. A bad answer is a broken promise; a missing answer never is.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use protocol::{
    Digest, SectorPath, SliceId, Status,
    message::{
        client_master::{ClientReply, ClientRequest, EntryKind, Source},
        request::LocateRequest,
        transfer::TransferRequest,
    },
};

use crate::{
    environment::{
        Environment,
        calls::{CallId, CallReply},
    },
    invariants::bytes,
    role::MasterLink,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) path: SectorPath,
    since: Duration,
    /// Whether every copy has to be read.
    is_thorough: bool,
    slice: SliceId,
    digest: Digest,
    bytes: u64,
    sources: VecDeque<Source>,
    call: Option<CallId>,
    copies_read: u32,
    copies_missed: u32,
    last: String,
}

/// The state of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Goes,
    /// The bytes came, and were right; or there is no such file.
    Ended,
    /// No source gave the bytes (or, for a thorough reading, not all did), and why.
    Failed(String),
}

impl Reading {
    /// Begins now to read a file.
    pub(crate) fn new(env: &Environment, path: SectorPath, is_thorough: bool) -> Self {
        Self {
            path,
            since: env.now.monotonic,
            is_thorough,
            slice: SliceId(0),
            digest: Digest([0; 32]),
            bytes: 0,
            sources: VecDeque::new(),
            call: None,
            copies_read: 0,
            copies_missed: 0,
            last: "the master names no node".into(),
        }
    }

    /// The question to the master.
    pub(crate) fn request(&self) -> ClientRequest {
        ClientRequest::Locate(LocateRequest(self.path.clone()))
    }

    /// The master answered.
    pub(crate) fn located(&mut self, env: &mut Environment, master_link: &MasterLink, reply: ClientReply) -> Turn {
        match reply {
            ClientReply::Located(located) => {
                let EntryKind::File(content) = located.entry.kind else {
                    return Turn::Failed("a folder was located".into());
                };
                if !bytes::check_seen(env, &self.path, Some(content.digest), self.since) {
                    return Turn::Ended;
                }
                (self.slice, self.digest, self.bytes) = (content.slice, content.digest, content.bytes);
                self.sources = located.sources.into();
                self.ask_next(env, master_link)
            }
            ClientReply::Refused(refusal) if matches!(refusal.status(), Status::NotFound | Status::Exists) => {
                bytes::check_seen(env, &self.path, None, self.since);
                Turn::Ended
            }
            other => Turn::Failed(format!("{other:?}")),
        }
    }

    /// A node answered.
    pub(crate) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &MasterLink,
        call: CallId,
        reply: CallReply,
    ) -> Turn {
        if self.call != Some(call) {
            return Turn::Goes;
        }
        self.call = None;
        match reply {
            CallReply::Bytes(read) => {
                bytes::check_read(env, &self.path, &read, self.digest);
                self.copies_read += 1;
                if !self.is_thorough {
                    return Turn::Ended;
                }
            }
            CallReply::Refused(refusal) => {
                self.copies_missed += 1;
                self.last = refusal.message;
            }
            _ => {
                self.copies_missed += 1;
                self.last = "the conversation broke".into();
            }
        }
        self.ask_next(env, master_link)
    }

    /// Copies that the master named but that could not be read.
    pub(crate) fn copies_missed(&self) -> u32 {
        self.copies_missed
    }

    fn ask_next(&mut self, env: &mut Environment, master_link: &MasterLink) -> Turn {
        match self.sources.pop_front() {
            Some(source) => {
                let node = source.node.as_str()[1..].parse().unwrap_or(usize::MAX);
                let request =
                    TransferRequest::Read { ticket: source.ticket, slice: self.slice, from: 0, until: self.bytes };
                self.call = Some(env.transfer((master_link.who, master_link.life), node, request, Rc::default()));
                Turn::Goes
            }
            None if self.is_thorough && self.copies_read > 0 => Turn::Ended,
            None => Turn::Failed(std::mem::take(&mut self.last)),
        }
    }
}
