//! Fetches a small file's bytes: locates it, then reads from the first source that can serve it. It never writes.

use std::{collections::VecDeque, rc::Rc};

use protocol::{
    Reason, Refusal, SectorPath, SliceId,
    message::{
        client_master::{ClientReply, ClientRequest, EntryKind, Source},
        request::LocateRequest,
        transfer::TransferRequest,
    },
};

use crate::{
    actor::asking::{PATIENCE, ask},
    environment::{
        Environment,
        calls::{CallId, CallReply},
    },
    role::{MasterLink, node_number},
};

/// See the module.
pub(super) struct Fetch {
    path: SectorPath,
    tag: u64,
    slice: SliceId,
    bytes: u64,
    sources: VecDeque<Source>,
    call: Option<CallId>,
}

/// The state of the fetch: not finished, or ended with the bytes, or without.
pub(super) type Turn = Option<Result<Vec<u8>, Refusal>>;

impl Fetch {
    /// Asks where the file is.
    pub(super) fn begin(env: &mut Environment, master_link: &mut MasterLink, tag: u64, path: SectorPath) -> Self {
        ask(env, master_link, &ClientRequest::Locate(LocateRequest(path.clone())), tag, PATIENCE);
        Self { path, tag, slice: SliceId(0), bytes: 0, sources: VecDeque::new(), call: None }
    }

    /// The master answered, or will not.
    pub(super) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &MasterLink,
        tag: u64,
        reply: Option<ClientReply>,
    ) -> Turn {
        if tag != self.tag {
            return None;
        }
        match reply {
            Some(ClientReply::Located(located)) => {
                let EntryKind::File(content) = located.entry.kind else { return no_copy("it is a folder") };
                (self.slice, self.bytes) = (content.slice, content.bytes);
                self.sources = located.sources.into();
                self.next(env, master_link)
            }
            Some(ClientReply::Refused(refusal)) => Some(Err(refusal)),
            _ => no_copy("the master did not answer"),
        }
    }

    /// A node answered.
    pub(super) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &MasterLink,
        call: CallId,
        reply: CallReply,
    ) -> Turn {
        if self.call != Some(call) {
            return None;
        }
        self.call = None;
        match reply {
            CallReply::Bytes(bytes) if bytes.len() as u64 == self.bytes => Some(Ok(bytes)),
            _ => self.next(env, master_link),
        }
    }

    /// The file.
    pub(super) fn path(&self) -> &SectorPath {
        &self.path
    }

    fn next(&mut self, env: &mut Environment, master_link: &MasterLink) -> Turn {
        let Some(source) = self.sources.pop_front() else { return no_copy("no copy can be read now") };
        let request = TransferRequest::Read { ticket: source.ticket, slice: self.slice, from: 0, until: self.bytes };
        self.call =
            Some(env.transfer((master_link.who, master_link.life), node_number(&source.node), request, Rc::default()));
        None
    }
}

fn no_copy(why: &str) -> Turn {
    Some(Err(Refusal::new(Reason::Unavailable, why)))
}
