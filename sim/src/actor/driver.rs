//! The driver of jobs: locates the input, has a job admitted, and does what the real rules ([`sphere::Job`]) ask for, as
//! `client::job` does. When a job fails it begins another, until one has ended well.

mod running;

use std::collections::BTreeMap;

use protocol::{
    RecordFormat, SectorPath,
    message::client_master::{Admitted, ClientReply, ClientRequest, EntryKind},
};
use sphere::{InputFile, Job, JobPlan, Layout, SpeNodePlan};

use super::{
    PATIENCE, ask, later,
    output::{JobPlanned, RECORD_BYTES},
};
use crate::{
    calls::{CallId, CallReply},
    environment::Environment,
    queue::Life,
    role::Seat,
};
use running::Running;

/// See the module.
pub(crate) struct Driver {
    planned: JobPlanned,
    /// The region and the paths of the input files.
    region: usize,
    paths: Vec<SectorPath>,
    phase: Phase,
    /// The last tag given; each question has its own.
    tag: u64,
}

enum Phase {
    /// The input is not there yet, or a moment has to pass.
    Waiting,
    Locating(u64, Vec<InputFile>),
    Admitting(u64, Vec<InputFile>),
    Running(Box<Running>),
    AtRest,
}

impl Driver {
    pub(crate) fn new(planned: JobPlanned, region: usize, paths: Vec<SectorPath>) -> Self {
        Self { planned, region, paths, phase: Phase::Waiting, tag: TICK }
    }

    /// Goes on after a rest; its timer rings always.
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
            Phase::AtRest => "is at rest".into(),
        }
    }

    pub(crate) fn logged_in(&mut self, env: &mut Environment, seat: &mut Seat) {
        if self.tag == TICK {
            self.tag += 1;
            later(env, seat, TICK_PERIOD, TICK);
        }
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, seat: &mut Seat, tag: u64) {
        if tag != TICK {
            return self.answered(env, seat, tag, None);
        }
        match &mut self.phase {
            Phase::Waiting => self.begin(env, seat),
            Phase::Running(running) => running.tick(env, seat, &mut self.tag),
            Phase::Locating(..) | Phase::Admitting(..) | Phase::AtRest => {}
        }
        self.end_if_ended(env, seat);
        later(env, seat, TICK_PERIOD, TICK);
    }

    pub(crate) fn answered(&mut self, env: &mut Environment, seat: &mut Seat, tag: u64, reply: Option<ClientReply>) {
        match &mut self.phase {
            Phase::Locating(wanted, found) if *wanted == tag => {
                let found = std::mem::take(found);
                self.located(env, seat, found, reply);
            }
            Phase::Admitting(wanted, inputs) if *wanted == tag => {
                let inputs = std::mem::take(inputs);
                self.admitted(env, inputs, reply);
            }
            Phase::Running(running) => running.answered(env, seat, &mut self.tag, tag, reply),
            _ => {}
        }
        self.end_if_ended(env, seat);
    }

    pub(crate) fn call_answered(&mut self, env: &mut Environment, seat: &mut Seat, call: CallId, reply: CallReply) {
        if let Phase::Running(running) = &mut self.phase {
            running.call_answered(env, seat, &mut self.tag, call, reply);
        }
        self.end_if_ended(env, seat);
    }

    pub(crate) fn conversations_broken(&mut self, env: &mut Environment, seat: &mut Seat, node: usize, life: Life) {
        if let Phase::Running(running) = &mut self.phase {
            running.conversations_broken(env, node, life);
        }
        self.end_if_ended(env, seat);
    }

    fn begin(&mut self, env: &mut Environment, seat: &mut Seat) {
        if env.is_healing && env.book.jobs_done > 0 {
            self.phase = Phase::AtRest;
            return;
        }
        let is_there = match &env.book.recovered {
            Some(recovered) => self.paths.iter().all(|path| recovered.must_be_there(path)),
            None => env.book.regions[self.region]
                .certain()
                .is_some_and(|tree| self.paths.iter().all(|path| tree.file(path).is_some())),
        };
        if is_there && seat.session.is_some() {
            self.locate(env, seat, Vec::new());
        }
    }

    fn locate(&mut self, env: &mut Environment, seat: &mut Seat, found: Vec<InputFile>) {
        self.tag += 1;
        match self.paths.get(found.len()) {
            Some(path) => {
                ask(env, seat, &ClientRequest::Locate(path.clone()), self.tag, PATIENCE);
                self.phase = Phase::Locating(self.tag, found);
            }
            None => {
                ask(env, seat, &ClientRequest::AdmitJob { title: "sort".into(), output: None }, self.tag, PATIENCE);
                self.phase = Phase::Admitting(self.tag, found);
            }
        }
    }

    fn located(
        &mut self,
        env: &mut Environment,
        seat: &mut Seat,
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
            records: RecordFormat::Fixed(RECORD_BYTES as u32),
            nodes: located.sources.into_iter().map(|source| source.node).collect(),
            layout: Layout::default(),
        });
        self.locate(env, seat, found);
    }

    fn admitted(&mut self, env: &mut Environment, inputs: Vec<InputFile>, reply: Option<ClientReply>) {
        self.phase = Phase::Waiting;
        let Some(ClientReply::Admitted(admitted)) = reply else { return };
        let nodes: Vec<_> = admitted.nodes.iter().map(node_plan).collect();
        env.note(format_args!("job {} is admitted on {} nodes", admitted.job, nodes.len()));
        let plan = JobPlan { links: admitted.links.clone(), ..self.planned.plan(admitted.job) };
        match Job::new(env.now, plan, inputs, &nodes) {
            Ok(job) => {
                self.phase =
                    Phase::Running(Box::new(Running::new(job, self.planned.clone(), admitted, env.book.losses)))
            }
            Err(error) => env.note(format_args!("the job cannot begin: {error}")),
        }
    }

    fn end_if_ended(&mut self, env: &mut Environment, seat: &mut Seat) {
        if let Phase::Running(running) = &mut self.phase {
            running.go_on(env, seat, &mut self.tag);
            if running.is_over() {
                self.phase = Phase::Waiting;
            }
        }
    }
}

fn node_plan(node: &protocol::message::client_master::SpeNode) -> SpeNodePlan {
    let (name, place) = (node.source.node.clone(), node.source.place.clone());
    SpeNodePlan { node: name, place, slots: node.slots, is_marked: node.is_marked }
}

/// The nodes of an admission, by name.
fn sources(admitted: Admitted) -> BTreeMap<protocol::NodeId, protocol::message::client_master::Source> {
    admitted.nodes.into_iter().map(|node| (node.source.node.clone(), node.source)).collect()
}

/// The tag of the timer that always rings.
const TICK: u64 = 0;
/// How often it does.
const TICK_PERIOD: std::time::Duration = std::time::Duration::from_millis(200);
