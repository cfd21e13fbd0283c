//! A driver that a node has started for a detached job. It joins with its key, reads the journal, and takes the job
//! over by the product's rules ([`sphere::Replay`]). It dies with its node, or alone. It mirrors `Client::drive_job`,
//! and never begins a job of its own.

use std::time::Duration;

use protocol::{
    JobId, Reason, Refusal, Status,
    message::{
        client_master::{Admitted, ClientReply, ClientRequest, DriverKey, Entry, JobState},
        node_master::DriveOrder,
        request::{ListRequest, ReportJobRequest},
    },
    wire::codec,
};
use sphere::{InputFile, JobPlan, JournalEntry, OutputFolder, PageWrite, PageWriteStep, Replay, SpeNodePlan};

use super::{
    fetch::{Fetch, Turn},
    pages::{HEAD, Pages, page_path},
    running::{REPORT_PERIOD, Running, TICK, TICK_PERIOD, blank_record},
};
use crate::{
    actor::{
        JobPlanned,
        asking::{PATIENCE, ask, later},
    },
    environment::{
        Environment,
        calls::{CallId, CallReply},
        queue::Life,
    },
    role::MasterLink,
};

/// See the module.
pub(crate) struct DetachedDriver {
    order: DriveOrder,
    /// The node's process that started it.
    pub(crate) at: (usize, Life),
    planned: JobPlanned,
    step: Step,
    tag: u64,
}

/// The head of a job, as its journal has it.
pub(super) type Head = (JobPlan, Vec<InputFile>, Vec<SpeNodePlan>, OutputFolder, bool);

enum Step {
    Joining,
    Reading(Box<Reading>),
    /// Everything is read: it waits for fresh tickets.
    Admitting(Box<Reading>, u64),
    Running(Box<Running>),
    /// The journal cannot be read; the master is told so.
    Failing(u64),
    Over,
}

struct Reading {
    fetch: Fetch,
    rules: PageWrite,
    retry_at: Option<Duration>,
    /// A page is missing: the journal's folder is listed.
    listing: Option<u64>,
    /// The replayed part so far, and the rest of the head.
    told: Option<(Replay, OutputFolder, usize)>,
    pages: u32,
    report: (Option<u64>, Duration),
}

impl DetachedDriver {
    pub(crate) fn new(order: DriveOrder, at: (usize, Life), planned: JobPlanned) -> Self {
        Self { order, at, planned, step: Step::Joining, tag: TICK }
    }

    /// The key that it shows to the master.
    pub(crate) fn key(&self) -> (JobId, DriverKey) {
        (self.order.job, self.order.key)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.step, Step::Over)
    }

    pub(crate) fn state(&self) -> String {
        match &self.step {
            Step::Joining => format!("is to drive job {}", self.order.job),
            Step::Reading(_) | Step::Admitting(..) => format!("reads the journal of job {}", self.order.job),
            Step::Running(running) => running.state(),
            Step::Failing(_) => format!("gives up job {}", self.order.job),
            Step::Over => "drives no more".into(),
        }
    }

    pub(crate) fn logged_in(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if !matches!(self.step, Step::Joining) {
            return;
        }
        let Ok(head) = self.order.journal.join(HEAD) else { return };
        self.tag += 1;
        let fetch = Fetch::begin(env, master_link, self.tag, head);
        let rules = PageWrite::new(env.now);
        let report = (None, Duration::ZERO);
        let reading = Reading { fetch, rules, retry_at: None, listing: None, told: None, pages: 0, report };
        self.step = Step::Reading(Box::new(reading));
        later(env, master_link, TICK_PERIOD, TICK);
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) {
        match &mut self.step {
            Step::Running(running) if tag == TICK => running.tick(env, master_link, &mut self.tag),
            Step::Running(running) => running.timer(env, master_link, &mut self.tag, tag),
            Step::Reading(reading) if tag == TICK => {
                reading.tick(env, master_link, &mut self.tag, self.order.job);
            }
            Step::Admitting(..) | Step::Failing(_) if tag == TICK => {}
            _ => return self.answered(env, master_link, tag, None),
        }
        self.go_on(env, master_link);
        if tag == TICK && !self.is_over() {
            later(env, master_link, TICK_PERIOD, TICK);
        }
    }

    pub(crate) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: u64,
        reply: Option<ClientReply>,
    ) {
        match &mut self.step {
            Step::Running(running) => running.answered(env, master_link, &mut self.tag, tag, reply),
            Step::Reading(reading) if reading.report.0 == Some(tag) => {
                reading.report.0 = None;
                if let Some(ClientReply::Refused(refusal)) = reply {
                    env.note(format_args!("a driver of job {} is not wanted: {refusal}", self.order.job));
                    self.step = Step::Over;
                }
            }
            Step::Reading(reading) if reading.listing == Some(tag) => {
                reading.listing = None;
                let page = reading.pages;
                let is_end =
                    |entries: &[Entry]| PageWrite::is_end(page, entries.iter().filter_map(|it| it.path.name()));
                match reply {
                    Some(ClientReply::Page(listed)) if is_end(&listed.entries) => self.admit(env, master_link),
                    Some(ClientReply::Refused(refusal)) => self.retry(env, master_link, refusal),
                    _ => self.retry(env, master_link, Refusal::new(Reason::Unavailable, "a page is not there")),
                }
            }
            Step::Reading(reading) => {
                let turn = reading.fetch.answered(env, master_link, tag, reply);
                self.read(env, master_link, turn);
            }
            Step::Admitting(_, own) if *own == tag => match reply {
                Some(ClientReply::Admitted(admitted)) => self.take_over(env, admitted),
                Some(ClientReply::Refused(_)) => self.step = Step::Over,
                _ => self.admit(env, master_link),
            },
            Step::Failing(own) if *own == tag => self.step = Step::Over,
            Step::Admitting(..) | Step::Failing(_) | Step::Joining | Step::Over => {}
        }
        self.go_on(env, master_link);
    }

    pub(crate) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        call: CallId,
        reply: CallReply,
    ) {
        match &mut self.step {
            Step::Running(running) => running.call_answered(env, master_link, &mut self.tag, call, reply),
            Step::Reading(reading) => {
                let turn = reading.fetch.call_answered(env, master_link, call, reply);
                self.read(env, master_link, turn);
            }
            _ => {}
        }
        self.go_on(env, master_link);
    }

    pub(crate) fn conversations_broken(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        node: usize,
        life: Life,
    ) {
        if let Step::Running(running) = &mut self.step {
            running.conversations_broken(env, node, life);
        }
        self.go_on(env, master_link);
    }

    /// It is dead, or shut out.
    pub(crate) fn end(&mut self) {
        self.step = Step::Over;
    }

    fn go_on(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if let Step::Running(running) = &mut self.step {
            running.go_on(env, master_link, &mut self.tag);
            if running.is_over() {
                self.step = Step::Over;
            }
        }
    }

    /// A file of the journal came, or did not.
    fn read(&mut self, env: &mut Environment, master_link: &mut MasterLink, turn: Turn) {
        let (Some(result), Step::Reading(reading)) = (turn, &mut self.step) else { return };
        match result {
            Ok(bytes) if reading.told.is_none() => match codec::decode::<Head>(&bytes) {
                Ok((plan, inputs, nodes, folder, is_tagged)) => {
                    self.planned.is_tagged = is_tagged;
                    let Ok(replay) = Replay::new(plan, inputs, &nodes) else { return self.end() };
                    reading.told = Some((replay, folder, nodes.len()));
                }
                Err(error) => {
                    return env.violate(crate::ViolationKind::Safety, format!("a journal has no head: {error}"));
                }
            },
            Ok(bytes) => match (codec::decode::<Vec<JournalEntry>>(&bytes), &mut reading.told) {
                (Ok(page), Some((replay, ..))) => {
                    page.into_iter().for_each(|told| replay.apply(told));
                    reading.pages += 1;
                }
                _ => return env.violate(crate::ViolationKind::Safety, "a page of a journal cannot be read".into()),
            },
            Err(refusal) if refusal.status() == Status::NotFound && reading.told.is_some() => {
                self.tag += 1;
                reading.listing = Some(self.tag);
                let folder = self.order.journal.clone();
                let request =
                    ClientRequest::List(ListRequest { folder, recursive: false, after: None, with_nodes: false });
                return ask(env, master_link, &request, self.tag, PATIENCE);
            }
            Err(refusal) => return self.retry(env, master_link, refusal),
        }
        reading.begin(env, master_link, &mut self.tag, &self.order);
    }

    /// A file of the journal cannot be read, and is tried again as long as the rules allow.
    fn retry(&mut self, env: &mut Environment, master_link: &mut MasterLink, refusal: Refusal) {
        let Step::Reading(reading) = &mut self.step else { return };
        match reading.rules.judge(env.now, Err(PageWrite::must_be_there(refusal))) {
            PageWriteStep::Retry(pause) => reading.retry_at = Some(env.now.monotonic + pause),
            PageWriteStep::Ended(Err(refusal)) if PageWrite::is_out_of_reach(&refusal) => {
                self.give_up(env, master_link)
            }
            _ => self.end(),
        }
    }

    /// It cannot read the journal. If another driver found the same before, the job has failed.
    fn give_up(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        self.tag += 1;
        // The product's driver takes this from the job's errors.
        let is_first = env.model.unread.insert(self.order.job);
        let state = if is_first { JobState::Running } else { JobState::Failed };
        let report = ClientRequest::ReportJob(ReportJobRequest(blank_record(self.order.job, state)));
        ask(env, master_link, &report, self.tag, PATIENCE);
        self.step = Step::Failing(self.tag);
    }

    fn admit(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let (Step::Reading(reading) | Step::Admitting(reading, _)) = std::mem::replace(&mut self.step, Step::Over)
        else {
            return;
        };
        self.tag += 1;
        let report = ClientRequest::ReportJob(ReportJobRequest(blank_record(self.order.job, JobState::Running)));
        ask(env, master_link, &report, self.tag, PATIENCE);
        self.step = Step::Admitting(reading, self.tag);
    }

    fn take_over(&mut self, env: &mut Environment, admitted: Admitted) {
        let Step::Admitting(reading, _) = std::mem::replace(&mut self.step, Step::Over) else { return };
        let Reading { told: Some((replay, folder, nodes)), pages, .. } = *reading else { return };
        env.note(format_args!("job {} is taken over behind {pages} pages", self.order.job));
        env.model.taken_over += u32::from(pages > 0);
        let driving = replay.take_over(env.now, pages);
        let journal = Pages::new(self.order.journal.clone(), nodes);
        let running = Running::new(driving, self.planned.clone(), admitted, Some(folder), Some(journal));
        self.step = Step::Running(Box::new(running));
    }
}

impl Reading {
    fn tick(&mut self, env: &mut Environment, master_link: &mut MasterLink, last: &mut u64, job: JobId) {
        if self.retry_at.is_some_and(|at| at <= env.now.monotonic) {
            self.retry_at = None;
            *last += 1;
            let path = self.fetch.path().clone();
            self.fetch = Fetch::begin(env, master_link, *last, path);
        }
        // A long journal takes a while to read, and the master would believe this driver gone.
        if self.report.0.is_none() && self.report.1 <= env.now.monotonic && master_link.session.is_some() {
            *last += 1;
            self.report = (Some(*last), env.now.monotonic + REPORT_PERIOD);
            let report = ClientRequest::ReportJob(ReportJobRequest(blank_record(job, JobState::Running)));
            ask(env, master_link, &report, *last, PATIENCE);
        }
    }

    /// Begins to read the next page.
    fn begin(&mut self, env: &mut Environment, master_link: &mut MasterLink, last: &mut u64, order: &DriveOrder) {
        let Ok(path) = page_path(&order.journal, self.pages) else { return };
        *last += 1;
        self.fetch = Fetch::begin(env, master_link, *last, path);
        self.rules = PageWrite::new(env.now);
    }
}
