//! What every driver of a job decides, wherever it runs (path of a job, "The driver that survives"). It says when
//! events must be written down before anything more is asked, and what the master's answers mean for the job. It also
//! says how another driver takes the job over. It never talks to anyone: the driver carries out what it asks for, and
//! reports the results to it.

use std::{collections::BTreeMap, time::Duration};

use protocol::{NodeId, Now, Reason, Refusal, Status, message::history::JobHistory};

use crate::{
    Event, History, InputFile, Job, JobAction, JobClock, JobPlan, JournalEntry, JournalPage, Outcome, SpeNodePlan,
    SphereError, driver::journal_pages::JournalPages,
};

/// See the module.
#[derive(Debug)]
pub struct DriverCore {
    job: Job,
    time: JobClock,
    /// What becomes of the job's attempts, for people to read.
    history: History,
    /// The nodes that may run its SPEs.
    nodes: Vec<NodeId>,
    /// How many reports in a row were answered without naming a node.
    absences: BTreeMap<NodeId, u32>,
    /// The job's present run.
    epoch: u32,
    /// Its end, once it has come to that.
    ended: Option<Result<Outcome, SphereError>>,
    /// What is written down, if another driver is to be able to take the job over.
    pages: Option<JournalPages>,
    /// The page to be written next; the flag says whether one is being written.
    next_page: Option<JournalPage>,
    is_writing: bool,
    held: JournalHold,
}

/// What waits for the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JournalHold {
    Nothing,
    /// All actions, for the page that is begun once the one being written is done.
    ForNextPage,
    /// All actions, for the page that is being written.
    ForThisPage,
}

/// A job as its journal describes it. The events of the earlier drivers are given again to a job that begins in the
/// same way. The actions it asks for are discarded, since they were asked for then.
#[derive(Debug)]
pub struct Replay {
    core: DriverCore,
    /// The last time that the job was given.
    last: Duration,
}

impl DriverCore {
    /// A job that begins now and has no journal: no other driver can take it over.
    ///
    /// # Errors
    /// A plan that cannot work.
    pub fn new(now: Now, plan: JobPlan, inputs: Vec<InputFile>, nodes: &[SpeNodePlan]) -> Result<Self, SphereError> {
        let time = JobClock::start_from(now, Duration::ZERO);
        let begun = time.at(now);
        Ok(Self {
            job: Job::new(begun, plan, inputs, nodes)?,
            time,
            history: History::new(begun),
            nodes: nodes.iter().map(|node| node.node.clone()).collect(),
            absences: BTreeMap::new(),
            epoch: 0,
            ended: None,
            pages: None,
            next_page: None,
            is_writing: false,
            held: JournalHold::Nothing,
        })
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The job's present run.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Gives the job an event, and notes it for the journal.
    pub fn handle_event(&mut self, now: Now, event: Event) {
        let now = self.time.at(now);
        if let Some(pages) = &mut self.pages {
            pages.note(JournalEntry { at: now.monotonic, event: Some(event.clone()) });
        }
        self.history.handle_event(now, &event);
        self.job.handle_event(now, event);
    }

    /// Tells the job that time has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        let now = self.time.at(now);
        if let Some(pages) = &mut self.pages {
            pages.note(JournalEntry { at: now.monotonic, event: None });
        }
        self.job.handle_timeout(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, on the monotonic clock of the driver's
    /// process.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.job.next_timeout().and_then(|at| self.time.due(at))
    }

    /// What the job wants done next; nothing while it waits for its journal. Its end is given only when the journal
    /// contains it.
    pub fn poll_action(&mut self, now: Now) -> Option<JobAction> {
        if self.held != JournalHold::Nothing {
            return None;
        }
        if let Some(ended) = self.ended.take() {
            return Some(JobAction::Finished(ended));
        }
        let action = self.job.poll_action()?;
        self.history.handle_action(self.time.at(now), &action);
        match action {
            // A driver that takes over from here must know that all is done.
            JobAction::Finished(ended) => {
                self.ended = Some(ended);
                self.hold(now);
                self.poll_action(now)
            }
            // To nodes that know of this run, older runs mean nothing: the next driver must know of it too.
            JobAction::BeginEpoch { epoch: run } => {
                self.epoch = run;
                self.hold(now);
                Some(action)
            }
            action => Some(action),
        }
    }

    /// The master is about to get a report on the job: a page is begun with it, if one is due.
    pub fn note_report(&mut self, now: Now) {
        let at = self.time.at(now).monotonic;
        if !self.is_writing && self.pages.as_ref().is_some_and(|pages| pages.is_due(at)) {
            self.begin_page();
        }
    }

    /// A page to be written now, by [`PageWrite`](crate::PageWrite); there is no other until it is written.
    pub fn next_page(&mut self) -> Option<JournalPage> {
        self.next_page.take()
    }

    /// The requested page is written.
    pub fn page_written(&mut self, now: Now) {
        self.is_writing = false;
        if self.held == JournalHold::ForNextPage {
            return self.hold(now);
        }
        self.set_held(now, JournalHold::Nothing);
    }

    /// The master answered a report: with the nodes of the job that it can use now, or with a refusal. A missing answer
    /// means nothing: the master may be away for a moment, and work goes on.
    pub fn handle_report_reply(&mut self, now: Now, answer: Result<&[NodeId], Refusal>) {
        match answer {
            Ok(present) => {
                for node in self.absent(present) {
                    self.handle_event(now, Event::NodeLost(node));
                }
            }
            Err(refusal) => match refusal.status() {
                Status::Failed => self.handle_event(now, Event::Cancelled(refusal)),
                // The user was logged out, or the master no longer knows the job.
                Status::Refused | Status::NotFound => self.handle_event(now, Event::JobRefused(refusal)),
                _ => {}
            },
        }
    }

    /// What became of the attempts, when the job has ended.
    pub fn finish_history(&mut self) -> JobHistory {
        self.history.finish()
    }

    /// Nodes of the job that the master has not named for some time. Once is not enough: a node that lost its session
    /// for a moment still has its buckets.
    fn absent(&mut self, present: &[NodeId]) -> Vec<NodeId> {
        let mut lost = Vec::new();
        for node in &self.nodes {
            let absences = self.absences.entry(node.clone()).or_default();
            *absences = if present.contains(node) { 0 } else { *absences + 1 };
            if *absences == ABSENCES_MAX {
                lost.push(node.clone());
            }
        }
        lost
    }

    /// Holds back all actions until every event so far is written down. Reports go on meanwhile; this may take long if
    /// a page's node is away.
    fn hold(&mut self, now: Now) {
        if self.is_writing {
            return self.set_held(now, JournalHold::ForNextPage);
        }
        self.begin_page();
        self.set_held(now, if self.is_writing { JournalHold::ForThisPage } else { JournalHold::Nothing });
    }

    fn begin_page(&mut self) {
        self.next_page = self.pages.as_mut().and_then(JournalPages::take);
        self.is_writing = self.next_page.is_some();
    }

    /// The job's time stands still while its actions are held back. What it has asked for, and nobody has received, is
    /// then not late afterwards.
    fn set_held(&mut self, now: Now, held: JournalHold) {
        self.held = held;
        if held == JournalHold::Nothing {
            self.time.resume(now);
        } else {
            self.time.stop(now);
        }
    }

    fn discard_actions(&mut self, now: Now) {
        while let Some(action) = self.job.poll_action() {
            self.history.handle_action(now, &action);
            match action {
                JobAction::BeginEpoch { epoch: run } => self.epoch = run,
                JobAction::Finished(result) => {
                    self.ended.get_or_insert(result);
                }
                _ => {}
            }
        }
    }
}

impl Replay {
    /// The job as it began.
    ///
    /// # Errors
    /// A plan that cannot work.
    pub fn new(plan: JobPlan, inputs: Vec<InputFile>, nodes: &[SpeNodePlan]) -> Result<Self, SphereError> {
        let begun = Now::default();
        let mut driving = DriverCore::new(begun, plan, inputs, nodes)?;
        driving.discard_actions(begun);
        Ok(Self { core: driving, last: begun.monotonic })
    }

    /// The next event that the job was given.
    pub fn apply(&mut self, told: JournalEntry) {
        let JournalEntry { at, event } = told;
        let now = Now { monotonic: at, ..Now::default() };
        match event {
            Some(event) => self.core.handle_event(now, event),
            None => self.core.handle_timeout(now),
        }
        self.core.discard_actions(now);
        self.last = at;
    }

    /// A driver takes the job over from here, where the journal has this many pages. New events are written after them.
    pub fn take_over(self, now: Now, pages: u32) -> DriverCore {
        let Self { core: mut driving, last } = self;
        driving.time = JobClock::start_from(now, last);
        driving.pages = Some(JournalPages::behind(pages, last));
        // A job that has ended only needs its output moved to its place.
        if driving.ended.is_none() {
            driving.handle_event(now, Event::DriverReplaced);
            driving.hold(now);
        }
        driving
    }
}

/// If a node refuses a request about a bucket, it does not have the bucket as it should. It was started again, and no
/// longer knows the job, or knows the bucket only by a late piece. Only a refusal by the master is final.
pub fn refused_by_node(refusal: Refusal) -> Refusal {
    match refusal.status() {
        Status::Refused => Refusal { reason: Reason::NotFound, ..refusal },
        _ => refusal,
    }
}

/// Reports in a row that must be answered without naming a node before it counts as lost.
const ABSENCES_MAX: u32 = 3;

#[cfg(test)]
mod tests;
