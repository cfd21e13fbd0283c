//! Whoever looks at the place of a job's output while the job runs: it must find nothing there, or all of it, as in
//! `invariants::job_output`.

use protocol::{
    SectorPath, Status,
    message::client_master::{ClientReply, ClientRequest, Entry, EntryKind},
};

use crate::{
    Kind,
    actor::{JobPlanned, PATIENCE, ask},
    environment::Environment,
    invariants::job_output,
    role::Seat,
};

/// See the module.
pub(super) struct Watch {
    pub(super) target: SectorPath,
    /// How often the journal had been lost when the job began: a master that lost it may have any part of the output.
    pub(super) losses: u32,
    tag: Option<u64>,
}

impl Watch {
    pub(super) fn new(env: &Environment, target: SectorPath) -> Self {
        Self { target, losses: env.book.losses, tag: None }
    }

    /// Whether what is seen still says something.
    pub(super) fn counts(&self, env: &Environment) -> bool {
        self.losses == env.book.losses
    }

    /// Looks, unless that is under way.
    pub(super) fn look(&mut self, env: &mut Environment, seat: &mut Seat, last: &mut u64) {
        if self.tag.is_some() || seat.session.is_none() {
            return;
        }
        *last += 1;
        self.tag = Some(*last);
        let folder = self.target.clone();
        let request = ClientRequest::List { folder, recursive: false, after: None, with_nodes: false };
        ask(env, seat, &request, *last, PATIENCE);
    }

    /// Whether this answer is to its question.
    pub(super) fn is_for(&self, tag: u64) -> bool {
        self.tag == Some(tag)
    }

    /// What lies in the place: the parts, where it is there; `None` where nobody has said.
    pub(super) fn answered(
        &mut self,
        env: &mut Environment,
        planned: &JobPlanned,
        reply: Option<ClientReply>,
    ) -> Option<Vec<Entry>> {
        self.tag = None;
        if !self.counts(env) {
            return None;
        }
        match reply {
            Some(ClientReply::Refused(refusal)) if refusal.status == Status::NotFound => Some(Vec::new()),
            Some(ClientReply::Page(page)) => {
                if let Err(sentence) = check(env, planned, &page.entries) {
                    env.violate(Kind::Safety, format!("{} was seen, and {sentence}", self.target));
                }
                Some(page.entries)
            }
            _ => None,
        }
    }
}

fn check(env: &Environment, planned: &JobPlanned, entries: &[Entry]) -> Result<(), String> {
    let bytes = |entry: &Entry| match &entry.kind {
        EntryKind::File(file) => {
            let content = env.book.contents.find(file.digest).ok_or("it holds what no bucket held".to_owned())?;
            Ok(env.book.contents.get(content).bytes.to_vec())
        }
        EntryKind::Folder => Err("it holds a folder".to_owned()),
    };
    let parts: Vec<Vec<u8>> = entries.iter().map(bytes).collect::<Result<_, String>>()?;
    job_output::check(planned, &parts)
}
