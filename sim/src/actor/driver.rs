//! The user of jobs. It locates the input, has a job admitted, and does what the real rules ([`sphere::DriverCore`])
//! ask for, as `client::job` does, or leaves that to nodes. If a job fails it begins another, until one has ended well.
//! Only the output in its place decides that; a mere report of success never does.

mod detached_driver;
mod ending;
mod fetch;
mod orders;
mod pages;
mod running;
mod watch;

pub(crate) use detached_driver::DetachedDriver;
use pages::{HEAD, Writing, sync_copies};
use protocol::{
    JobId, RecordFraming, Refusal, SectorPath, limits,
    message::{
        client_master::{Admitted, ClientReply, ClientRequest, DriverKey, Entry, EntryKind, JobState},
        request::{AdmitJobRequest, DetachJobRequest, JobRequest, LocateRequest},
    },
    wire::codec,
};
use running::{Running, TICK, TICK_PERIOD};
use sphere::{DriverCore, FileLayout, InputFile, JobPlan, OutputFolder, SpeNodePlan};
use watch::OutputWatch;

use super::{
    asking::{PATIENCE, ask, later},
    output::{JobPlanned, RECORD_BYTES},
};
use crate::{
    environment::{
        Environment,
        calls::{CallId, CallReply},
        queue::Life,
    },
    model::path,
    role::MasterLink,
};

/// See the module.
pub(crate) struct Driver {
    planned: JobPlanned,
    /// The region and the paths of the input files.
    region: usize,
    paths: Vec<SectorPath>,
    phase: Phase,
    /// Jobs begun so far: each has an output of its own.
    begun: u32,
    /// Where the present job's output will be.
    watch: Option<OutputWatch>,
    /// The last tag given; each question has its own.
    tag: u64,
}

enum Phase {
    /// The input does not exist yet, or a moment has to pass.
    Waiting,
    Locating(u64, Vec<InputFile>),
    Admitting(u64, Vec<InputFile>),
    Running(Box<Running>),
    /// The head of a job for nodes to drive is being written.
    Writing(JobId, SectorPath, Box<Writing>),
    Detaching(JobId, u64),
    /// Nodes drive it; the master is asked for its state.
    Watching(JobId, Option<u64>),
    /// It has ended well, according to the nodes: its output must be there.
    Checking,
    AtRest,
}

impl Driver {
    pub(crate) fn new(planned: JobPlanned, region: usize, paths: Vec<SectorPath>) -> Self {
        Self { planned, region, paths, phase: Phase::Waiting, begun: 0, watch: None, tag: TICK }
    }

    /// Continues after a rest; its timer always runs.
    pub(crate) fn begin_round(&mut self) {
        self.phase = Phase::Waiting;
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::AtRest)
    }

    pub(crate) fn state(&self) -> String {
        match &self.phase {
            Phase::Waiting => "waits for the input".into(),
            Phase::Locating(..) => "locates the input".into(),
            Phase::Admitting(..) => "waits for admission".into(),
            Phase::Running(running) => running.state(),
            Phase::Writing(job, ..) | Phase::Detaching(job, _) => format!("leaves job {job} to nodes"),
            Phase::Watching(job, _) => format!("waits for job {job}"),
            Phase::Checking => "looks for its output".into(),
            Phase::AtRest => "is at rest".into(),
        }
    }

    pub(crate) fn logged_in(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if self.tag == TICK {
            self.tag += 1;
            later(env, master_link, TICK_PERIOD, TICK);
        }
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) {
        match &mut self.phase {
            Phase::Running(running) if tag != TICK && !self.watch.as_ref().is_some_and(|watch| watch.is_for(tag)) => {
                running.timer(env, master_link, &mut self.tag, tag);
            }
            Phase::Writing(_, _, writing) if tag != TICK => {
                let ended = writing.answered(env, master_link, &mut self.tag, tag, Err(()));
                self.written(env, master_link, ended);
            }
            _ if tag != TICK => return self.answered(env, master_link, tag, None),
            Phase::Waiting => self.begin(env, master_link),
            Phase::Running(running) => running.tick(env, master_link, &mut self.tag),
            Phase::Writing(_, _, writing) => writing.tick(env, master_link, &mut self.tag),
            Phase::Watching(job, asked @ None) if master_link.session.is_some() => {
                self.tag += 1;
                *asked = Some(self.tag);
                ask(env, master_link, &ClientRequest::Job(JobRequest(*job)), self.tag, PATIENCE);
            }
            _ => {}
        }
        if tag == TICK {
            self.look(env, master_link);
            later(env, master_link, TICK_PERIOD, TICK);
        }
        self.end_if_ended(env, master_link);
    }

    pub(crate) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: u64,
        reply: Option<ClientReply>,
    ) {
        if let Some(watch) = &mut self.watch
            && watch.is_for(tag)
        {
            let found = watch.answered(env, &self.planned, reply);
            return self.looked(env, found);
        }
        match &mut self.phase {
            Phase::Locating(wanted, found) if *wanted == tag => {
                let found = std::mem::take(found);
                self.located(env, master_link, found, reply);
            }
            Phase::Admitting(wanted, inputs) if *wanted == tag => {
                let inputs = std::mem::take(inputs);
                self.admitted(env, master_link, inputs, reply);
            }
            Phase::Running(running) => running.answered(env, master_link, &mut self.tag, tag, reply),
            Phase::Writing(_, _, writing) => {
                let ended = writing.answered(env, master_link, &mut self.tag, tag, Ok(reply));
                self.written(env, master_link, ended);
            }
            Phase::Detaching(job, wanted) if *wanted == tag => {
                // If no answer came, the job may be driven all the same.
                let is_refused = matches!(reply, Some(ClientReply::Refused(_)));
                self.phase = if is_refused { Phase::Waiting } else { Phase::Watching(*job, None) };
            }
            Phase::Watching(_, asked) if *asked == Some(tag) => {
                *asked = None;
                self.phase_after(env, reply);
            }
            _ => {}
        }
        self.end_if_ended(env, master_link);
    }

    pub(crate) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        call: CallId,
        reply: CallReply,
    ) {
        match &mut self.phase {
            Phase::Running(running) => running.call_answered(env, master_link, &mut self.tag, call, reply),
            Phase::Writing(_, _, writing) => {
                let ended = writing.call_answered(env, master_link, &mut self.tag, call, reply);
                self.written(env, master_link, ended);
            }
            _ => {}
        }
        self.end_if_ended(env, master_link);
    }

    pub(crate) fn conversations_broken(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        node: usize,
        life: Life,
    ) {
        if let Phase::Running(running) = &mut self.phase {
            running.conversations_broken(env, node, life);
        }
        self.end_if_ended(env, master_link);
    }

    /// Looks at the output's place from time to time, and repeatedly once it must be there.
    fn look(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        let must = matches!(self.phase, Phase::Checking);
        let may = matches!(self.phase, Phase::Running(_) | Phase::Watching(..)) && env.chance(8);
        let Some(watch) = &mut self.watch else { return };
        if must && !watch.counts(env) {
            // Nobody knows whether it was saved before the journal was lost.
            self.phase = Phase::Waiting;
        } else if must || may {
            watch.look(env, master_link, &mut self.tag, must);
        }
    }

    /// What is in the output's place, if known.
    fn looked(&mut self, env: &mut Environment, found: Option<Vec<Entry>>) {
        let (Phase::Checking, Some(entries)) = (&self.phase, found) else { return };
        self.phase = Phase::Waiting;
        if entries.is_empty() {
            return env.violate(crate::ViolationKind::Safety, "a job ended well, and its output is not there".into());
        }
        env.model.jobs_done += 1;
        for entry in entries {
            let EntryKind::File(file) = &entry.kind else { continue };
            let Some(content) = env.model.contents.find(file.digest) else { continue };
            env.model.outputs.push((entry.path.clone(), content));
            env.model.acknowledge(env.now.monotonic, &entry.path, content);
            if let Some(recovered) = &mut env.model.recovered {
                recovered.note_output(&entry.path, content, true);
            }
        }
    }

    /// The master reported the state of a job that nodes drive.
    fn phase_after(&mut self, env: &mut Environment, reply: Option<ClientReply>) {
        let state = match reply {
            Some(ClientReply::Jobs(records)) => records.first().map_or(JobState::Lost, |record| record.state),
            // A master that lost its journal knows no job.
            Some(ClientReply::Refused(_)) => JobState::Lost,
            _ => return,
        };
        match state {
            JobState::Running => {}
            JobState::Done => self.phase = Phase::Checking,
            state => {
                env.note(format_args!("a detached job ended so: {state:?}"));
                self.phase = Phase::Waiting;
            }
        }
    }

    /// The head of a detached job is written, or cannot be.
    fn written(&mut self, env: &mut Environment, master_link: &mut MasterLink, ended: Option<Result<(), Refusal>>) {
        let (Some(ended), Phase::Writing(job, journal, _)) = (ended, &self.phase) else { return };
        let (job, journal) = (*job, journal.clone());
        if ended.is_err() {
            self.phase = Phase::Waiting;
            return;
        }
        let mut key = || {
            let mut key = [0; 32];
            env.rng.fill(&mut key);
            DriverKey(key)
        };
        let keys = (0..limits::DRIVERS_MAX).map(|_| key()).collect();
        self.tag += 1;
        ask(env, master_link, &ClientRequest::DetachJob(DetachJobRequest { job, journal, keys }), self.tag, PATIENCE);
        self.phase = Phase::Detaching(job, self.tag);
    }

    fn begin(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if env.is_healing && env.model.jobs_done > 0 {
            self.phase = Phase::AtRest;
            return;
        }
        let is_there = match &env.model.recovered {
            Some(recovered) => self.paths.iter().all(|path| recovered.must_be_there(path)),
            None => env.model.regions[self.region]
                .certain()
                .is_some_and(|tree| self.paths.iter().all(|path| tree.file(path).is_some())),
        };
        if !is_there && env.is_healing && env.model.recovered.is_some() {
            // Nobody writes it again: its disks are lost with the journal, or it is found too late to count on.
            self.phase = Phase::AtRest;
        } else if is_there && master_link.session.is_some() {
            self.locate(env, master_link, Vec::new());
        }
    }

    fn locate(&mut self, env: &mut Environment, master_link: &mut MasterLink, found: Vec<InputFile>) {
        self.tag += 1;
        match self.paths.get(found.len()) {
            Some(path) => {
                ask(env, master_link, &ClientRequest::Locate(LocateRequest(path.clone())), self.tag, PATIENCE);
                self.phase = Phase::Locating(self.tag, found);
            }
            None => {
                self.begun += 1;
                let target = path(&format!("/out/{}", self.begun));
                let output = self.planned.is_published().then(|| target.clone());
                self.watch = output.clone().map(|target| OutputWatch::new(env, target));
                self.planned.is_tagged = env.chance(40);
                ask(
                    env,
                    master_link,
                    &ClientRequest::AdmitJob(AdmitJobRequest { title: "sort".into(), output }),
                    self.tag,
                    PATIENCE,
                );
                self.phase = Phase::Admitting(self.tag, found);
            }
        }
    }

    fn located(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        mut found: Vec<InputFile>,
        reply: Option<ClientReply>,
    ) {
        let Some(ClientReply::Located(located)) = reply else {
            self.phase = Phase::Waiting;
            return;
        };
        let EntryKind::File(content) = located.entry.kind else { return };
        found.push(InputFile {
            path: located.entry.path,
            slice: content.slice,
            bytes: content.bytes,
            records: RecordFraming::Fixed(RECORD_BYTES as u32),
            nodes: located.sources.into_iter().map(|source| source.node).collect(),
            layout: FileLayout::default(),
        });
        self.locate(env, master_link, found);
    }

    fn admitted(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        inputs: Vec<InputFile>,
        reply: Option<ClientReply>,
    ) {
        self.phase = Phase::Waiting;
        let Some(ClientReply::Admitted(admitted)) = reply else { return };
        let nodes: Vec<_> = admitted.nodes.iter().map(node_plan).collect();
        env.note(format_args!("job {} is admitted on {} nodes", admitted.job, nodes.len()));
        let plan = JobPlan { links: admitted.links.clone(), ..self.planned.plan(admitted.job) };
        let folder = self.watch.as_ref().and_then(|watch| OutputFolder::at(&watch.target, false));
        // A job that cannot work is refused now, and not by a driver that nobody listens to.
        match DriverCore::new(env.now, plan.clone(), inputs.clone(), &nodes) {
            Ok(driving) => {
                if let Some(folder) = &folder
                    && env.chance(60)
                {
                    return self.leave_to_nodes(env, master_link, &admitted, (plan, inputs, nodes, folder.clone()));
                }
                let running = Running::new(driving, self.planned.clone(), admitted, folder, None);
                self.phase = Phase::Running(Box::new(running));
            }
            Err(error) => env.note(format_args!("the job cannot begin: {error}")),
        }
    }

    /// Writes what nodes need to drive a job.
    fn leave_to_nodes(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        admitted: &Admitted,
        (plan, inputs, nodes, folder): (JobPlan, Vec<InputFile>, Vec<SpeNodePlan>, OutputFolder),
    ) {
        let Ok(journal) = folder.journal(admitted.job) else { return };
        let Ok(at) = journal.join(HEAD) else { return };
        let copies = sync_copies(nodes.len());
        let head: detached_driver::Head = (plan, inputs, nodes, folder, self.planned.is_tagged);
        let writing = Writing::begin(env, master_link, &mut self.tag, at, codec::encode(&head), copies);
        self.phase = Phase::Writing(admitted.job, journal, Box::new(writing));
    }

    fn end_if_ended(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if let Phase::Running(running) = &mut self.phase {
            running.go_on(env, master_link, &mut self.tag);
            if running.is_over() {
                let is_done = running.is_done() && self.watch.is_some();
                self.phase = if is_done { Phase::Checking } else { Phase::Waiting };
            }
        }
    }
}

fn node_plan(node: &protocol::message::client_master::SpeNode) -> SpeNodePlan {
    let (name, place) = (node.source.node.clone(), node.source.place.clone());
    SpeNodePlan { node: name, place, slots: node.slots, is_marked: node.is_marked }
}
