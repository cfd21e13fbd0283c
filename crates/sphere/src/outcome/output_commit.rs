//! The last step of a job: its output is moved to its place, whole and with nothing else in it. Any number of drivers
//! may do this at the same time. Each step can succeed for only one of them, and the others can see that it is done. It
//! never makes anything again: the job does that, before.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use protocol::{Now, Reason, Refusal, SliceId, Status};

use crate::Outcome;

/// The steps that bring a job's output to its place.
///
/// The parts were published into a hidden folder, which may hold more than the job's output. The report of a part may
/// have been lost, and its bucket then made again with other records or none. A commit that nobody is waiting for may
/// also still arrive. So the folder is first renamed to where no commit goes. Then whatever is not part of the outcome
/// is removed, and only then is the folder renamed to its place.
///
/// | event | what follows |
/// |---|---|
/// | a rename failed, or its answer was lost | the folders are inspected: if the place holds a part of this job, all is done, whichever driver did it |
/// | a part is missing, or another file has its name | the job fails: nobody but its drivers writes there |
/// | the master is away | the folders are inspected again after a pause, for some minutes |
#[derive(Debug)]
pub struct OutputCommit {
    /// Length and slice of each part, by the name of its file.
    parts: BTreeMap<String, (u64, Option<SliceId>)>,
    /// The name of the error slice, if the output has one.
    errors: Option<String>,
    /// Whether an empty folder in the place may be removed.
    may_remove_target: bool,
    begun: Duration,
    due: VecDeque<CommitAction>,
    asked: Option<CommitAction>,
    /// When the folders are inspected again.
    paused_until: Option<Duration>,
    /// What was refused last, and why: asked for once more it would be refused again.
    refused: Option<(CommitAction, Refusal)>,
    is_over: bool,
}

/// What is to be done next, one action at a time: each is answered before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitAction {
    /// Rename the hidden folder to the gathered one. Answered by [`done`](OutputCommit::done) or
    /// [`refused`](OutputCommit::refused), like all others but `Inspect`.
    Gather,
    /// List the folders. Answered by [`handle_inspected`](OutputCommit::handle_inspected) or `refused`.
    Inspect,
    /// Write the error slice into the gathered folder.
    WriteErrors,
    /// Remove this entry of the gathered folder, with all that it holds.
    Remove(String),
    /// Remove the empty folder that is in the output's place.
    RemoveEmptyTarget,
    /// Rename the gathered folder to the output's place.
    Rename,
    /// The last action: the output has its place, or the reason why it has none.
    Finished(Result<(), Refusal>),
}

/// What lies in the folders, each `None` if it does not exist. They are to be listed in this order, in which the output
/// moves: otherwise it might be missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputSnapshot {
    /// Where the parts are published.
    pub staging: Option<Vec<OutputEntry>>,
    /// Where no commit goes.
    pub gathered: Option<Vec<OutputEntry>>,
    /// The output's place; a file there is listed as itself.
    pub target: Option<Vec<OutputEntry>>,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputEntry {
    /// Its name in the folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its content; `None` for a folder.
    pub slice: Option<SliceId>,
}

impl OutputCommit {
    /// Brings the output of `outcome` to its place. `errors` is the name of the error slice, if there is one.
    /// `may_make_room` says whether an empty folder was in the place when the job began.
    pub fn new(now: Now, outcome: &Outcome, errors: Option<String>, may_make_room: bool) -> Self {
        let part = |output: &crate::OutputBucket| (part_name(output.bucket.bucket), (output.bytes, output.slice));
        Self {
            parts: outcome.outputs.iter().map(part).collect(),
            errors,
            may_remove_target: may_make_room,
            begun: now.monotonic,
            due: VecDeque::from([CommitAction::Gather]),
            asked: None,
            paused_until: None,
            refused: None,
            is_over: false,
        }
    }

    /// The next action; `None` while an answer or the [time](Self::next_timeout) is awaited.
    pub fn poll_action(&mut self) -> Option<CommitAction> {
        if self.asked.is_some() || self.is_over {
            return None;
        }
        let action = self.due.pop_front()?;
        match action {
            CommitAction::Finished(_) => self.is_over = true,
            _ => self.asked = Some(action.clone()),
        }
        Some(action)
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, on the monotonic clock.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.paused_until
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.paused_until.is_some_and(|until| until <= now.monotonic) {
            self.paused_until = None;
            self.due = VecDeque::from([CommitAction::Inspect]);
        }
    }

    /// The requested action is done.
    pub fn done(&mut self) {
        match self.asked.take() {
            Some(CommitAction::Gather) => self.due = VecDeque::from([CommitAction::Inspect]),
            Some(CommitAction::Rename) => self.end(Ok(())),
            _ => {}
        }
    }

    /// The requested action was not done, or it is unknown whether it was.
    pub fn refused(&mut self, now: Now, refusal: Refusal) {
        let Some(action) = self.asked.take() else { return };
        match (&action, refusal.status()) {
            (_, Status::Unavailable) => {
                if now.monotonic.saturating_sub(self.begun) >= PATIENCE {
                    return self.end(Err(refusal));
                }
                self.due.clear();
                self.paused_until = Some(now.monotonic + PAUSE);
            }
            // Another driver, or an earlier try, was first.
            (CommitAction::Remove(_) | CommitAction::RemoveEmptyTarget, Status::NotFound) => {}
            (CommitAction::Inspect, _) => self.end(Err(refusal)),
            _ => {
                self.refused = Some((action, refusal));
                self.due = VecDeque::from([CommitAction::Inspect]);
            }
        }
    }

    /// The contents of the folders.
    pub fn handle_inspected(&mut self, seen: &OutputSnapshot) {
        if self.asked.take() != Some(CommitAction::Inspect) {
            return;
        }
        // The rename is one step, and only this job has these slices. So one of them in the place shows that all were
        // there.
        if seen.target.iter().flatten().any(|file| self.is_part(file)) {
            return self.end(Ok(()));
        }
        match (&seen.gathered, &seen.staging) {
            (Some(gathered), _) => self.prepare(gathered, seen.target.as_deref()),
            (None, Some(_)) => self.ask_for(CommitAction::Gather),
            (None, None) => {
                let message = "the finished output of the job was removed before it got its place; run the job again";
                self.end(Err(Refusal::new(Reason::NotFound, message)));
            }
        }
    }

    /// Asks for everything that is left to do.
    fn prepare(&mut self, gathered: &[OutputEntry], place: Option<&[OutputEntry]>) {
        let is_lacking = |name: &&String| !gathered.iter().any(|file| file.name == **name && self.is_part(file));
        if let Some(lacking) = self.parts.keys().find(is_lacking) {
            let message = format!(
                "`{lacking}` of the job's output was removed or replaced before the output got its place; run the job again"
            );
            return self.end(Err(Refusal::new(Reason::Failed, message)));
        }
        let is_stray =
            |file: &&OutputEntry| !self.parts.contains_key(&file.name) && self.errors.as_ref() != Some(&file.name);
        let strays: Vec<_> = gathered.iter().filter(is_stray).map(|file| file.name.clone()).collect();
        if self.errors.is_some() {
            self.ask_for(CommitAction::WriteErrors);
        }
        for stray in strays {
            self.ask_for(CommitAction::Remove(stray));
        }
        match place {
            None => {}
            Some([]) if self.may_remove_target => self.ask_for(CommitAction::RemoveEmptyTarget),
            Some(_) => {
                let message = "something was put where the job's output was to be while the job ran; run it again";
                return self.end(Err(Refusal::new(Reason::Exists, message)));
            }
        }
        self.ask_for(CommitAction::Rename);
    }

    /// Asks for an action, unless it was refused just now: nothing has changed since.
    fn ask_for(&mut self, action: CommitAction) {
        match &self.refused {
            Some((refused, refusal)) if *refused == action => {
                let refusal = refusal.clone();
                self.end(Err(refusal));
            }
            _ if matches!(self.due.back(), Some(CommitAction::Finished(_))) => {}
            _ => self.due.push_back(action),
        }
    }

    fn end(&mut self, result: Result<(), Refusal>) {
        self.paused_until = None;
        self.due = VecDeque::from([CommitAction::Finished(result)]);
    }

    /// Whether a file is what the job published under its name.
    fn is_part(&self, file: &OutputEntry) -> bool {
        self.parts.get(&file.name).is_some_and(|(bytes, slice)| {
            file.bytes == *bytes && file.slice.is_some_and(|found| slice.is_none_or(|slice| slice == found))
        })
    }
}

/// The name of the file of an output bucket.
pub fn part_name(bucket: u32) -> String {
    format!("part-{bucket:05}")
}

/// How long the master may be away: a machine is restarted in less.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Pause before the folders are inspected again.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
