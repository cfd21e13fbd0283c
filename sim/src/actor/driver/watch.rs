//! Watches the place of a job's output while the job runs, as in `invariants::job_output`. It must find nothing there,
//! or all of it, and never a part.

use protocol::{
    SectorPath, Status,
    message::{
        client_master::{ClientReply, ClientRequest, Entry, EntryKind},
        request::ListRequest,
    },
};

use crate::{
    ViolationKind,
    actor::{
        JobPlanned,
        asking::{PATIENCE, ask},
    },
    environment::Environment,
    invariants::job_output,
    role::MasterLink,
};

/// See the module.
pub(super) struct OutputWatch {
    pub(super) target: SectorPath,
    /// How often the journal had been lost when the job began: a master that lost it may have any part of the output.
    pub(super) losses: u32,
    /// The open question, and whether the output had to be there when it was asked.
    asked: Option<(u64, bool)>,
}

impl OutputWatch {
    pub(super) fn new(env: &Environment, target: SectorPath) -> Self {
        Self { target, losses: env.model.losses, asked: None }
    }

    /// Whether an observation still proves anything.
    pub(super) fn counts(&self, env: &Environment) -> bool {
        self.losses == env.model.losses
    }

    /// Looks, unless a look is in progress; `must`: the output has to be there.
    pub(super) fn look(&mut self, env: &mut Environment, master_link: &mut MasterLink, last: &mut u64, must: bool) {
        if self.asked.is_some() || master_link.session.is_none() {
            return;
        }
        *last += 1;
        self.asked = Some((*last, must));
        let folder = self.target.clone();
        let request = ClientRequest::List(ListRequest { folder, recursive: false, after: None, with_nodes: false });
        ask(env, master_link, &request, *last, PATIENCE);
    }

    /// Whether this answer is to its question.
    pub(super) fn is_for(&self, tag: u64) -> bool {
        self.asked.is_some_and(|(asked, _)| asked == tag)
    }

    /// What is in the place: the parts, if it exists; `None` without an answer.
    pub(super) fn answered(
        &mut self,
        env: &mut Environment,
        planned: &JobPlanned,
        reply: Option<ClientReply>,
    ) -> Option<Vec<Entry>> {
        let must = self.asked.take().is_some_and(|(_, must)| must);
        if !self.counts(env) {
            return None;
        }
        // A question asked before the end proves nothing about the present state.
        match reply {
            Some(ClientReply::Refused(refusal)) if refusal.status() == Status::NotFound => must.then(Vec::new),
            Some(ClientReply::Page(page)) => {
                if let Err(message) = check(env, planned, &page.entries) {
                    env.violate(ViolationKind::Safety, format!("{} was seen, and {message}", self.target));
                }
                must.then_some(page.entries)
            }
            _ => None,
        }
    }
}

fn check(env: &Environment, planned: &JobPlanned, entries: &[Entry]) -> Result<(), String> {
    let bytes = |entry: &Entry| match &entry.kind {
        EntryKind::File(file) => {
            let content = env.model.contents.find(file.digest).ok_or("it holds what no bucket held".to_owned())?;
            Ok(env.model.contents.get(content).bytes.to_vec())
        }
        EntryKind::Folder => Err("it holds a folder".to_owned()),
    };
    let parts: Vec<Vec<u8>> = entries.iter().map(bytes).collect::<Result<_, String>>()?;
    job_output::check(planned, &parts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{Reason, Refusal, SessionId};

    use super::*;
    use crate::{
        actor::output::JobPlanned,
        environment::queue::{Life, Participant},
    };

    #[test]
    fn what_was_asked_before_the_end_says_nothing_of_what_is_there_then() {
        let mut env = Environment::new(1, false, None);
        let planned = JobPlanned::draw(&mut env.rng);
        let mut master_link = MasterLink::new(Participant::Client(1), Life::default());
        master_link.session = Some(SessionId(1));
        let mut watch = OutputWatch::new(&env, SectorPath::parse("/out/1").unwrap());
        let mut last = 0;
        let nothing = || Some(ClientReply::Refused(Refusal::new(Reason::NotFound, String::new())));
        watch.look(&mut env, &mut master_link, &mut last, false);
        watch.look(&mut env, &mut master_link, &mut last, true);
        assert_eq!(watch.answered(&mut env, &planned, nothing()), None);
        watch.look(&mut env, &mut master_link, &mut last, true);
        assert!(watch.is_for(last));
        assert_eq!(watch.answered(&mut env, &planned, nothing()), Some(Vec::new()));
    }
}
