//! One job under way: what the rules asked for and who is doing it. Mirrors `client::job::driver`, its conversations and
//! its steps.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    Digest, JobId, LeaseId, NodeId, Refusal, SectorPath, SliceId, Status,
    message::{
        client_master::{
            Admitted, ClientReply, ClientRequest, Condition, CreateRequest, EntryKind, JobRecord, JobState, Source,
        },
        spe::{
            AttemptId, BucketId, BucketPlace, DeliveryOrder, LoadOrder, Output, PartOrder, SegmentOrder, SegmentSource,
            SpeReply, SpeRequest, TaskOrder,
        },
        transfer::TransferRequest,
    },
};
use sphere::{
    Action, Assignment, BucketHome, Delivery, Event, Job, Outcome, Placement, SegmentPlace, SpeId, SphereError,
};

use super::sources;
use crate::{
    Sabotage,
    actor::{COMMIT_PATIENCE, PATIENCE, ask, output::JobPlanned, upload::create_request},
    calls::{CallId, CallReply, Wish},
    environment::Environment,
    invariants::job_output,
    model::path,
    queue::Life,
    role::Seat,
};

/// See the module.
pub(super) struct Running {
    id: JobId,
    job: Job,
    planned: JobPlanned,
    /// How often the journal had been lost when the job was admitted.
    losses: u32,
    /// The job's nodes when it was admitted.
    nodes: Vec<NodeId>,
    /// Where each is, with its newest ticket.
    sources: BTreeMap<NodeId, Source>,
    /// Reports in a row that were answered without a node.
    absences: BTreeMap<NodeId, u32>,
    spes: BTreeMap<SpeId, Spe>,
    calls: BTreeMap<CallId, Doing>,
    asked: BTreeMap<u64, Asked>,
    run: u32,
    /// What the present run has brought, by bucket.
    output: BTreeMap<u32, Digest>,
    report_due: Duration,
    end: Option<JobState>,
    is_over: bool,
}

struct Spe {
    node: NodeId,
    /// The node's process that it is a child of, once it is.
    life: Option<Life>,
    loaded: Option<u32>,
}

/// What a node is doing.
enum Doing {
    Opening(SpeId),
    Loading(SpeId, Box<TaskOrder>),
    RunningTask(SpeId, Box<TaskOrder>),
    Sealing(BucketId),
    Delivering(AttemptId),
    Fetching(BucketId),
    Publishing(BucketId, LeaseId),
}

/// What the master was asked.
enum Asked {
    Report,
    End,
    Locate(Box<Locating>),
    Create(BucketId, NodeId),
    Commit(BucketId, LeaseId),
    Nothing,
}

/// A task whose input lies elsewhere.
struct Locating {
    task: Assignment,
    found: BTreeMap<SliceId, Source>,
}

impl Running {
    pub(super) fn new(job: Job, planned: JobPlanned, admitted: Admitted, losses: u32) -> Self {
        let id = admitted.job;
        let sources = sources(admitted);
        Self {
            id,
            job,
            planned,
            losses,
            nodes: sources.keys().cloned().collect(),
            sources,
            absences: BTreeMap::new(),
            spes: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            run: 0,
            output: BTreeMap::new(),
            report_due: Duration::ZERO,
            end: None,
            is_over: false,
        }
    }

    /// Whether the job has ended and the master was told, or could not be.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn state(&self) -> String {
        format!("runs job {}: {:?}", self.id, self.job.progress())
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, env: &mut Environment, seat: &mut Seat, tag: &mut u64) {
        self.job.handle_timeout(env.now);
        let is_out = self.asked.values().any(|asked| matches!(asked, Asked::Report));
        if self.end.is_none() && env.now.monotonic >= self.report_due && !is_out && seat.session.is_some() {
            self.report_due = env.now.monotonic + REPORT_PERIOD;
            self.report(env, seat, tag, JobState::Running, Asked::Report);
        }
    }

    /// Does what the rules want done.
    pub(super) fn go_on(&mut self, env: &mut Environment, seat: &mut Seat, tag: &mut u64) {
        while let Some(action) = self.job.poll_action() {
            match action {
                Action::StartSpe { spe, node } => self.start_spe(env, seat, spe, node),
                Action::DropSpe(spe) => self.drop_spe(env, spe),
                Action::RunTask(task) => {
                    self.prepare(env, seat, tag, Box::new(Locating { task, found: BTreeMap::new() }));
                }
                Action::Seal { node, order } => {
                    let bucket = order.bucket;
                    self.step(env, seat, &node, bucket, SpeRequest::Seal(order), Doing::Sealing(bucket));
                }
                Action::Deliver(delivery) => self.deliver(env, seat, &delivery),
                Action::Fetch { node, bucket } => {
                    self.step(env, seat, &node, bucket, SpeRequest::Fetch(bucket), Doing::Fetching(bucket));
                }
                Action::Publish { node, bucket, records } => {
                    let name = path(&format!("/out/{}-{}/part-{:05}", self.id, bucket.run, bucket.bucket));
                    self.note_attempt(env, &name);
                    let name = if env.sabotage == Some(Sabotage::OutputGoesAstray) { path(ASTRAY) } else { name };
                    let mut request = CreateRequest { records, at: Some(node.clone()), ..create_request(name, 0) };
                    request.bytes_expected = None;
                    request.condition = Condition::Any;
                    self.ask(env, seat, tag, &ClientRequest::Create(request), Asked::Create(bucket, node));
                }
                Action::BeginRun { run } => {
                    env.note(format_args!("job {} begins run {run}", self.id));
                    self.run = run;
                    self.output.clear();
                }
                Action::Finished(result) => self.finish(env, seat, tag, result),
            }
        }
    }

    /// An answer of the master came, or will not.
    pub(super) fn answered(
        &mut self,
        env: &mut Environment,
        seat: &mut Seat,
        last: &mut u64,
        tag: u64,
        reply: Option<ClientReply>,
    ) {
        match self.asked.remove(&tag) {
            Some(Asked::Report) => self.reported(env, reply),
            Some(Asked::End) => match (reply, self.end) {
                // Not known to the master: told again, so that the nodes forget the job.
                (None, Some(state)) => self.report(env, seat, last, state, Asked::End),
                _ => self.is_over = true,
            },
            Some(Asked::Locate(locating)) => self.located(env, seat, last, locating, reply),
            Some(Asked::Create(bucket, node)) => match reply {
                Some(ClientReply::Created(created)) => {
                    let request = SpeRequest::Publish { bucket, ticket: created.target.ticket };
                    self.step(env, seat, &node, bucket, request, Doing::Publishing(bucket, created.lease));
                }
                reply => self.refuse(env, bucket, refusal_of(reply)),
            },
            Some(Asked::Commit(bucket, lease)) => match reply {
                Some(ClientReply::Entry(entry)) => {
                    if let EntryKind::File(content) = &entry.kind {
                        self.delivered(env, bucket, content.digest, Event::Published(bucket));
                    }
                }
                reply => {
                    self.ask(env, seat, last, &ClientRequest::Abandon(lease), Asked::Nothing);
                    self.refuse(env, bucket, refusal_of(reply));
                }
            },
            Some(Asked::Nothing) | None => {}
        }
    }

    /// An answer of a node came.
    pub(super) fn call_answered(
        &mut self,
        env: &mut Environment,
        seat: &mut Seat,
        tag: &mut u64,
        call: CallId,
        reply: CallReply,
    ) {
        let Some(doing) = self.calls.remove(&call) else { return };
        let word = match reply {
            CallReply::Word(word) => Ok(*word),
            CallReply::Ready(life) => return self.spe_ready(env, &doing, life),
            CallReply::Refused(refusal) => Err(refusal),
            _ => Err(unavailable("the conversation broke")),
        };
        let now = env.now;
        match (doing, word) {
            (Doing::Opening(spe), word) => {
                let refusal = word.err().unwrap_or_else(|| unavailable("no SPE"));
                self.job.handle_event(now, Event::SpeLost { spe, refusal });
            }
            (Doing::Loading(spe, order), Ok(SpeReply::Loaded)) => {
                if let Some(known) = self.spes.get_mut(&spe) {
                    known.loaded = Some(order.attempt.stage);
                    self.speak(env, seat, spe, SpeRequest::Run((*order).clone()), Doing::RunningTask(spe, order));
                }
            }
            (Doing::RunningTask(_, order), Ok(SpeReply::Finished(result))) => {
                self.job.handle_event(now, Event::TaskFinished { attempt: order.attempt, result });
            }
            (Doing::Loading(_, order) | Doing::RunningTask(_, order), word) => {
                let attempt = order.attempt;
                let event = match word {
                    Ok(SpeReply::FunctionFailed(error)) => Event::FunctionFailed { attempt, error },
                    Ok(SpeReply::OutOfMemory(error)) => Event::OutOfMemory { attempt, error },
                    Ok(SpeReply::Refused(refusal)) | Err(refusal) => Event::TaskFailed { attempt, refusal },
                    Ok(_) => Event::TaskFailed { attempt, refusal: unavailable("it said something else") },
                };
                env.note(format_args!("job: {event:?}"));
                self.job.handle_event(now, event);
            }
            (Doing::Sealing(bucket), Ok(SpeReply::Sealed { bytes, order })) => {
                self.job.handle_event(now, Event::Sealed { bucket, bytes, order });
            }
            (Doing::Fetching(bucket), Ok(SpeReply::Bytes(bytes))) => {
                self.delivered(env, bucket, crate::model::digest_of(&bytes), Event::Fetched(bucket));
            }
            (Doing::Delivering(attempt), Ok(SpeReply::Delivered)) => {
                env.book.delivered_again += 1;
                self.job.handle_event(now, Event::Delivered(attempt));
            }
            (Doing::Delivering(attempt), word) => {
                let refusal = word.err().unwrap_or_else(|| unavailable("it said something else"));
                env.note(format_args!("job: the delivery of {attempt:?} is refused: {refusal}"));
                self.job.handle_event(now, Event::DeliveryRefused { attempt, refusal });
            }
            (Doing::Publishing(bucket, lease), Ok(SpeReply::Published { bytes, digest })) => {
                let commit = ClientRequest::Commit { lease, bytes, digest };
                self.ask(env, seat, tag, &commit, Asked::Commit(bucket, lease));
            }
            (Doing::Publishing(bucket, lease), word) => {
                self.ask(env, seat, tag, &ClientRequest::Abandon(lease), Asked::Nothing);
                self.refuse(env, bucket, word.err().unwrap_or_else(|| unavailable("it said something else")));
            }
            (Doing::Sealing(bucket) | Doing::Fetching(bucket), word) => {
                self.refuse(env, bucket, word.err().unwrap_or_else(|| unavailable("it said something else")));
            }
        }
    }

    /// A node's process has died, and its idle SPEs with it.
    pub(super) fn conversations_broken(&mut self, env: &mut Environment, node: usize, life: Life) {
        let name = crate::role::node_id(node);
        let broken: Vec<SpeId> =
            self.spes.iter().filter(|(_, spe)| spe.node == name && spe.life == Some(life)).map(|(id, _)| *id).collect();
        for spe in broken {
            self.job.handle_event(env.now, Event::SpeLost { spe, refusal: unavailable("its node died") });
        }
    }

    fn start_spe(&mut self, env: &mut Environment, seat: &Seat, spe: SpeId, node: NodeId) {
        let Some(source) = self.sources.get(&node) else {
            return self.job.handle_event(env.now, Event::SpeLost { spe, refusal: unavailable("no ticket") });
        };
        let request = TransferRequest::Spe { ticket: source.ticket.clone() };
        let wish = Wish::Transfer(request, std::rc::Rc::default());
        let call = env.call((seat.who, seat.life), crate::role::node_number(&node), wish);
        self.calls.insert(call, Doing::Opening(spe));
        self.spes.insert(spe, Spe { node, life: None, loaded: None });
    }

    fn spe_ready(&mut self, env: &mut Environment, doing: &Doing, life: Life) {
        if let Doing::Opening(spe) = doing
            && let Some(known) = self.spes.get_mut(spe)
        {
            known.life = Some(life);
            self.job.handle_event(env.now, Event::SpeReady(*spe));
        }
    }

    fn drop_spe(&mut self, env: &mut Environment, spe: SpeId) {
        self.spes.remove(&spe);
        let is_its = |doing: &Doing| match doing {
            Doing::Opening(of) | Doing::Loading(of, _) | Doing::RunningTask(of, _) => *of == spe,
            _ => false,
        };
        let calls: Vec<_> = self.calls.iter().filter(|(_, doing)| is_its(doing)).map(|(call, _)| *call).collect();
        for call in calls {
            self.calls.remove(&call);
            env.hang_up(call);
        }
    }

    /// Finds what a task's segments need, one slice after the other, then gives the task to its SPE.
    fn prepare(&mut self, env: &mut Environment, seat: &mut Seat, tag: &mut u64, locating: Box<Locating>) {
        let missing = locating.task.segments.iter().find_map(|segment| match &segment.first.place {
            SegmentPlace::Remote { slice, .. } if !locating.found.contains_key(slice) => {
                Some(segment.first.path.clone())
            }
            _ => None,
        });
        match missing {
            Some(path) => self.ask(env, seat, tag, &ClientRequest::Locate(path), Asked::Locate(locating)),
            None => self.give(env, seat, *locating),
        }
    }

    fn located(
        &mut self,
        env: &mut Environment,
        seat: &mut Seat,
        tag: &mut u64,
        mut locating: Box<Locating>,
        reply: Option<ClientReply>,
    ) {
        let source = match reply {
            Some(ClientReply::Located(located)) => match located.entry.kind {
                EntryKind::File(content) => located.sources.into_iter().next().map(|source| (content.slice, source)),
                EntryKind::Folder => None,
            },
            _ => None,
        };
        match source {
            Some((slice, source)) => {
                locating.found.insert(slice, source);
                self.prepare(env, seat, tag, locating);
            }
            None => {
                let (attempt, refusal) = (locating.task.attempt, unavailable("no copy can be reached"));
                self.job.handle_event(env.now, Event::InputAway { attempt, refusal });
            }
        }
    }

    fn give(&mut self, env: &mut Environment, seat: &Seat, locating: Locating) {
        let Locating { task, found } = locating;
        let Some(spe) = self.spes.get(&task.spe) else { return };
        let Some(order) = self.order(&task, &found) else {
            let refusal = unavailable("the master gave no ticket");
            return self.job.handle_event(env.now, Event::TaskFailed { attempt: task.attempt, refusal });
        };
        let order = Box::new(order);
        if spe.loaded == Some(task.attempt.stage) {
            self.speak(env, seat, task.spe, SpeRequest::Run((*order).clone()), Doing::RunningTask(task.spe, order));
        } else {
            let load = SpeRequest::Load(LoadOrder::plain(self.planned.function(task.attempt.stage)));
            self.speak(env, seat, task.spe, load, Doing::Loading(task.spe, order));
        }
    }

    fn order(&self, task: &Assignment, found: &BTreeMap<SliceId, Source>) -> Option<TaskOrder> {
        let output = match &task.output {
            Placement::Local => Output::Local,
            Placement::Buckets(homes) => {
                let is_wanted = |number: u32| task.wanted.as_ref().is_none_or(|wanted| wanted.contains(&number));
                let place = |(number, home)| self.place(home, is_wanted(number));
                Output::Buckets((0..).zip(homes.iter()).map(place).collect::<Option<_>>()?)
            }
        };
        let mut segments = Vec::new();
        for segment in &task.segments {
            let first = &segment.first;
            let source = match &first.place {
                SegmentPlace::Local(slice) => SegmentSource::Local(*slice),
                SegmentPlace::Bucket(bucket) => SegmentSource::Bucket(*bucket),
                SegmentPlace::Remote { slice, .. } => {
                    SegmentSource::Remote { slice: *slice, from: Box::new(found.get(slice)?.clone()) }
                }
            };
            let first = PartOrder::plain(source, first.path.clone(), first.from, first.until, first.records);
            segments.push(SegmentOrder::alone(segment.segment, first));
        }
        // The simulated SPE stands behind the rules of jobs, not behind the node's door.
        Some(TaskOrder { attempt: task.attempt, segments, output, inputs: None })
    }

    fn place(&self, home: &BucketHome, is_wanted: bool) -> Option<BucketPlace> {
        let source = self.sources.get(&home.node)?;
        let (address, ticket, site) = (source.address, source.ticket.clone(), source.place.site.clone());
        let (node, making) = (home.node.clone(), home.making);
        Some(BucketPlace { node, address, distance: None, ticket, site, making, is_wanted })
    }

    /// Has a node send again what it kept.
    fn deliver(&mut self, env: &mut Environment, seat: &Seat, delivery: &Delivery) {
        let Delivery { node, attempt, homes } = delivery;
        let place = |(number, home): &(u32, BucketHome)| Some((*number, self.place(home, true)?));
        let places = homes.iter().map(place).collect::<Option<_>>();
        let (Some(places), Some(source)) = (places, self.sources.get(node)) else {
            let (attempt, refusal) = (*attempt, unavailable("no ticket"));
            return self.job.handle_event(env.now, Event::DeliveryRefused { attempt, refusal });
        };
        let request = Box::new(SpeRequest::Deliver(DeliveryOrder { attempt: *attempt, places }));
        let wish = Wish::Word { ticket: source.ticket.clone(), life: None, conversation: 0, request };
        let call = env.call((seat.who, seat.life), crate::role::node_number(node), wish);
        self.calls.insert(call, Doing::Delivering(*attempt));
    }

    /// Says a word to an SPE.
    fn speak(&mut self, env: &mut Environment, seat: &Seat, spe: SpeId, request: SpeRequest, doing: Doing) {
        let Some((node, life)) = self.spes.get(&spe).map(|spe| (spe.node.clone(), spe.life)) else { return };
        let Some(source) = self.sources.get(&node) else { return };
        let (ticket, conversation) = (source.ticket.clone(), spe.0);
        let wish = Wish::Word { ticket, life, conversation, request: Box::new(request) };
        let call = env.call((seat.who, seat.life), crate::role::node_number(&node), wish);
        self.calls.insert(call, doing);
    }

    /// Gives an order to a bucket.
    fn step(
        &mut self,
        env: &mut Environment,
        seat: &Seat,
        node: &NodeId,
        bucket: BucketId,
        request: SpeRequest,
        doing: Doing,
    ) {
        let Some(source) = self.sources.get(node) else {
            return self.refuse(env, bucket, unavailable("no ticket"));
        };
        let wish =
            Wish::Word { ticket: source.ticket.clone(), life: None, conversation: 0, request: Box::new(request) };
        let call = env.call((seat.who, seat.life), crate::role::node_number(node), wish);
        self.calls.insert(call, doing);
    }

    fn refuse(&mut self, env: &mut Environment, bucket: BucketId, refusal: Refusal) {
        env.note(format_args!("job: bucket {} of stage {} is refused: {refusal}", bucket.bucket, bucket.stage));
        self.job.handle_event(env.now, Event::BucketRefused { bucket, refusal });
    }

    fn delivered(&mut self, env: &mut Environment, bucket: BucketId, digest: Digest, event: Event) {
        if bucket.run == self.run {
            self.output.insert(bucket.bucket, digest);
        }
        self.job.handle_event(env.now, event);
    }

    fn reported(&mut self, env: &mut Environment, reply: Option<ClientReply>) {
        match reply {
            Some(ClientReply::Admitted(admitted)) => {
                let present = sources(admitted);
                for node in &self.nodes {
                    let absences = self.absences.entry(node.clone()).or_default();
                    *absences = if present.contains_key(node) { 0 } else { *absences + 1 };
                    if *absences == ABSENCES_MAX {
                        self.job.handle_event(env.now, Event::NodeLost(node.clone()));
                    }
                }
                self.sources.extend(present);
            }
            Some(ClientReply::Refused(refusal)) => {
                let event = match refusal.status {
                    Status::Failed => Event::Cancelled(refusal),
                    _ => Event::JobRefused(refusal),
                };
                self.job.handle_event(env.now, event);
            }
            _ => {}
        }
    }

    fn finish(&mut self, env: &mut Environment, seat: &mut Seat, tag: &mut u64, result: Result<Outcome, SphereError>) {
        let spes: Vec<_> = self.spes.keys().copied().collect();
        spes.into_iter().for_each(|spe| self.drop_spe(env, spe));
        for call in std::mem::take(&mut self.calls).into_keys() {
            env.hang_up(call);
        }
        let state = match result {
            Ok(outcome) => {
                env.note(format_args!("job {} is done: {} parts", self.id, outcome.outputs.len()));
                job_output::check(env, &self.planned, &self.output, &self.job.stage_counters());
                env.book.jobs_done += 1;
                self.remember_output(env, &outcome);
                JobState::Done
            }
            Err(error) => {
                env.note(format_args!("job {} failed: {error}", self.id));
                JobState::Failed
            }
        };
        self.end = Some(state);
        self.report(env, seat, tag, state, Asked::End);
    }

    /// A part of the output will be written there: which one, only the bucket knows.
    fn note_attempt(&self, env: &mut Environment, at: &SectorPath) {
        for expected in &self.planned.expected {
            let content = env.book.contents.add(expected.clone());
            env.book.attempted.push((at.clone(), content));
        }
    }

    /// From now on the published files are to be kept like anyone's.
    fn remember_output(&self, env: &mut Environment, outcome: &Outcome) {
        if !self.planned.is_published() {
            return;
        }
        for (output, expected) in outcome.outputs.iter().zip(&self.planned.expected) {
            let name = format!("/out/{}-{}/part-{:05}", self.id, outcome.run, output.bucket.bucket);
            let content = env.book.contents.add(expected.clone());
            env.book.outputs.push((path(&name), content));
            let is_of_this_master = self.losses == env.book.losses;
            if let Some(recovered) = &mut env.book.recovered {
                recovered.note_output(&path(&name), content, is_of_this_master);
            }
        }
    }

    fn report(&mut self, env: &mut Environment, seat: &mut Seat, tag: &mut u64, state: JobState, asked: Asked) {
        let record = JobRecord {
            job: self.id,
            user: crate::role::user(),
            title: String::new(),
            state,
            started_unix_millis: 0,
            stages: self.job.stage_records().to_vec(),
            errors: Vec::new(),
            error_slice: None,
            counters: self.job.stage_counters(),
            driver: None,
        };
        self.ask(env, seat, tag, &ClientRequest::ReportJob(record), asked);
    }

    fn ask(&mut self, env: &mut Environment, seat: &mut Seat, tag: &mut u64, request: &ClientRequest, asked: Asked) {
        *tag += 1;
        self.asked.insert(*tag, asked);
        let patience = if matches!(request, ClientRequest::Commit { .. }) { COMMIT_PATIENCE } else { PATIENCE };
        ask(env, seat, request, *tag, patience);
    }
}

fn unavailable(sentence: &str) -> Refusal {
    Refusal::new(Status::Unavailable, sentence)
}

fn refusal_of(reply: Option<ClientReply>) -> Refusal {
    match reply {
        Some(ClientReply::Refused(refusal)) => refusal,
        _ => unavailable("the master did not answer"),
    }
}

/// Where a sabotaged driver writes, and tells nobody.
const ASTRAY: &str = "/astray";
/// As in `client::job::driver`.
const REPORT_PERIOD: Duration = Duration::from_secs(1);
const ABSENCES_MAX: u32 = 3;
