//! The end of a job. Its output gets its place by the product's rules ([`sphere::OutputCommit`]), leftovers are
//! removed, the master is told, and the journal goes. It mirrors `client::job::driver` (`conclude`), and never touches
//! an output after another driver has written.

use std::collections::VecDeque;

use protocol::{
    SectorPath, Status,
    message::{
        client_master::{ClientReply, ClientRequest, JobState},
        request::{ListRequest, RemoveRequest},
    },
};
use sphere::{CommitAction, Outcome, OutputCommit, OutputEntry, OutputSnapshot, SphereError};

use super::running::{PendingRequest, Running, refusal_of, unavailable};
use crate::{environment::Environment, invariants::job_output, role::MasterLink};

/// How far the end has come.
pub(super) enum Ending {
    /// It is still at work.
    NotYet,
    Committing(Box<OutputCommitting>),
    /// Entries that are still to be removed.
    Clearing(VecDeque<SectorPath>, JobState),
    Reporting(JobState),
    /// The journal is removed.
    RemovingJournal,
    Over,
}

/// The last step of the output.
pub(super) struct OutputCommitting {
    rules: OutputCommit,
    epoch: u32,
    seen: OutputSnapshot,
}

impl Running {
    /// The job has ended: nobody works for it any more.
    pub(super) fn finish(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        result: Result<Outcome, SphereError>,
    ) {
        self.hang_up_all(env);
        match (result, &self.folder) {
            (Ok(outcome), Some(folder)) => {
                env.note(format_args!("job {} has its output: {} parts", self.id, outcome.outputs.len()));
                self.check_counters(env);
                let rules = OutputCommit::new(env.now, &outcome, None, folder.may_remove_target());
                let revealing = OutputCommitting { rules, epoch: outcome.epoch, seen: OutputSnapshot::default() };
                self.ending = Ending::Committing(Box::new(revealing));
                self.commit_output(env, master_link, tag);
            }
            (Ok(_), None) => {
                self.check_counters(env);
                let parts: Vec<_> = std::mem::take(&mut self.output).into_values().collect();
                let found = job_output::check(&self.planned, &parts).err();
                found.into_iter().for_each(|message| env.violate(crate::ViolationKind::Safety, message));
                env.model.jobs_done += 1;
                self.clear(env, master_link, tag, JobState::Done);
            }
            (Err(error), _) => {
                env.note(format_args!("job {} failed: {error}", self.id));
                self.clear(env, master_link, tag, JobState::Failed);
            }
        }
    }

    /// Time has passed.
    pub(super) fn tick_ending(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64) {
        if let Ending::Committing(revealing) = &mut self.ending
            && revealing.rules.next_timeout().is_some_and(|due| due <= env.now.monotonic)
        {
            revealing.rules.handle_timeout(env.now);
            self.commit_output(env, master_link, tag);
        }
    }

    /// A step of the output commit was answered, or was not.
    pub(super) fn commit_step_done(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        reply: Option<ClientReply>,
    ) {
        let Ending::Committing(revealing) = &mut self.ending else { return };
        match reply {
            Some(ClientReply::Done) => revealing.rules.done(),
            reply => {
                let refusal = refusal_of(reply);
                env.note(format_args!("job {}: a step to the place is not answered well: {refusal}", self.id));
                revealing.rules.refused(env.now, refusal);
            }
        }
        self.commit_output(env, master_link, tag);
    }

    /// One of the three folders was listed.
    pub(super) fn folder_listed(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        which: usize,
        reply: Option<ClientReply>,
    ) {
        let Ending::Committing(revealing) = &mut self.ending else { return };
        let found = match reply {
            Some(ClientReply::Page(page)) => Some(page.entries.iter().map(OutputEntry::of).collect()),
            Some(ClientReply::Refused(refusal)) if refusal.status() == Status::NotFound => None,
            reply => {
                revealing.rules.refused(env.now, refusal_of(reply));
                return self.commit_output(env, master_link, tag);
            }
        };
        let seen = &mut revealing.seen;
        *[&mut seen.staging, &mut seen.gathered, &mut seen.target][which] = found;
        if which == 2 {
            let seen = std::mem::take(&mut revealing.seen);
            revealing.rules.handle_inspected(&seen);
            return self.commit_output(env, master_link, tag);
        }
        let run = revealing.epoch;
        self.look_into(env, master_link, tag, run, which + 1);
    }

    /// A leftover is gone, or stays.
    pub(super) fn cleared(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64) {
        let Ending::Clearing(left, state) = &mut self.ending else { return };
        let state = *state;
        match left.pop_front() {
            Some(path) => {
                let request = ClientRequest::Remove(RemoveRequest { path, recursive: true, now: true });
                self.ask(env, master_link, tag, &request, PendingRequest::Cleared);
            }
            None => {
                self.ending = Ending::Reporting(state);
                self.report(env, master_link, tag, state, PendingRequest::End);
            }
        }
    }

    /// The master knows that the job has ended, or will not.
    pub(super) fn end_reported(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        reply: Option<ClientReply>,
    ) {
        let Ending::Reporting(state) = self.ending else { return };
        match (reply, &self.pages) {
            // Not known to the master: told again, so that the nodes forget the job.
            (None, _) => self.report(env, master_link, tag, state, PendingRequest::End),
            (Some(_), Some(pages)) => {
                let request =
                    ClientRequest::Remove(RemoveRequest { path: pages.folder.clone(), recursive: true, now: true });
                self.ending = Ending::RemovingJournal;
                self.ask(env, master_link, tag, &request, PendingRequest::JournalRemoved);
            }
            (Some(_), None) => self.ending = Ending::Over,
        }
    }

    /// Progress of the job can no longer be recorded. If another driver has written, nothing is touched.
    pub(super) fn lose(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64, status: Status) {
        env.note(format_args!("job {}: its journal is not this driver's any more: {status:?}", self.id));
        self.hang_up_all(env);
        if status == Status::Exists {
            self.ending = Ending::Over;
        } else {
            self.clear(env, master_link, tag, JobState::Failed);
        }
    }

    fn clear(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64, state: JobState) {
        self.is_done = state == JobState::Done;
        let left = self.folder.as_ref().and_then(|folder| folder.leftovers(self.id, self.core.epoch()).ok());
        self.ending = Ending::Clearing(left.unwrap_or_default().into(), state);
        self.cleared(env, master_link, tag);
    }

    fn commit_output(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64) {
        let (Ending::Committing(revealing), Some(folder)) = (&mut self.ending, &self.folder) else { return };
        let (id, run) = (self.id, revealing.epoch);
        match revealing.rules.poll_action() {
            None => {}
            Some(CommitAction::Finished(Ok(()))) => {
                env.note(format_args!("job {id} has put its output into its place"));
                self.clear(env, master_link, tag, JobState::Done);
            }
            Some(CommitAction::Finished(Err(refusal))) => {
                env.note(format_args!("job {id} cannot give its output its place: {refusal}"));
                self.clear(env, master_link, tag, JobState::Failed);
            }
            Some(CommitAction::Inspect) => self.look_into(env, master_link, tag, run, 0),
            Some(action) => match folder.request(id, run, &action) {
                Ok(Some(change)) => self.ask(env, master_link, tag, &change.into(), PendingRequest::CommitStepDone),
                _ => revealing.rules.refused(env.now, unavailable("this is not done here")),
            },
        }
    }

    fn look_into(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        run: u32,
        which: usize,
    ) {
        let Some(Ok(folders)) = self.folder.as_ref().map(|folder| folder.inspected_folders(self.id, run)) else {
            return;
        };
        let folder = folders[which].clone();
        let request = ClientRequest::List(ListRequest { folder, recursive: false, after: None, with_nodes: false });
        self.ask(env, master_link, tag, &request, PendingRequest::FolderListed(which));
    }

    fn check_counters(&self, env: &mut Environment) {
        job_output::check_counters(env, &self.planned, &self.core.job().stage_counters());
    }
}
