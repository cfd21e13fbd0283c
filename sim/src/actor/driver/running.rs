//! A running job: what the rules asked for and which node does it. It mirrors `client::job::driver`, its conversations
//! and its steps. It never decides what a job does next: the rules do.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    JobId, LeaseId, NodeId, Reason, RecordFraming, Refusal, SectorPath, SliceId,
    message::{
        client_master::{
            Admitted, ClientReply, ClientRequest, Condition, CreateRequest, EntryKind, JobRecord, JobState, Source,
        },
        request::{AbandonRequest, CommitRequest, RenameRequest, ReportJobRequest},
        spe::{AttemptId, BucketId, DeliveryOrder, SpeReply, SpeRequest, TaskOrder},
        transfer::TransferRequest,
    },
};
use sphere::{
    Assignment, BucketLocation, Delivery, DriverCore, Event, JobAction, OutputFolder, SegmentLocation, SpeId,
    refused_by_node,
};

use super::{ending::Ending, pages::Pages};
use crate::{
    Sabotage,
    actor::{
        asking::{COMMIT_PATIENCE, PATIENCE, ask},
        output::JobPlanned,
        upload::create_request,
    },
    environment::{
        Environment,
        calls::{CallId, CallReply, CallRequest},
        queue::Life,
    },
    model::path,
    role::MasterLink,
};

/// See the module.
pub(super) struct Running {
    pub(super) id: JobId,
    pub(super) core: DriverCore,
    pub(super) planned: JobPlanned,
    /// Where its output will be, if it becomes files.
    pub(super) folder: Option<OutputFolder>,
    /// Its journal, if another driver can take the job over.
    pub(super) pages: Option<Pages>,
    /// Where each node is, with its newest ticket.
    pub(super) sources: BTreeMap<NodeId, Source>,
    pub(super) spes: BTreeMap<SpeId, Spe>,
    calls: BTreeMap<CallId, PendingCall>,
    asked: BTreeMap<u64, PendingRequest>,
    /// Output that the present run has brought to the driver, by bucket.
    pub(super) output: BTreeMap<u32, Vec<u8>>,
    report_due: Duration,
    pub(super) ending: Ending,
    pub(super) is_done: bool,
}

pub(super) struct Spe {
    pub(super) node: NodeId,
    /// The node's process whose child it is, once it is one.
    life: Option<Life>,
    pub(super) loaded: Option<u32>,
}

/// A node's present work.
pub(super) enum PendingCall {
    Opening(SpeId),
    Loading(SpeId, Box<TaskOrder>),
    RunningTask(SpeId, Box<TaskOrder>),
    Sealing(BucketId),
    Delivering(AttemptId),
    Fetching(BucketId),
    Publishing(BucketId, LeaseId),
}

/// A question to the master.
pub(super) enum PendingRequest {
    Report,
    End,
    /// A step of the output commit.
    CommitStepDone,
    /// Which of the folders was listed.
    FolderListed(usize),
    Cleared,
    /// The journal is removed.
    JournalRemoved,
    Locate(Box<Locating>),
    /// The copies of an attempt's input, which it cannot read for this reason.
    Copies(AttemptId, Refusal),
    Create(BucketId, NodeId),
    Commit(BucketId, LeaseId),
    Nothing,
}

/// A task whose input lies elsewhere.
pub(super) struct Locating {
    pub(super) task: Assignment,
    pub(super) found: BTreeMap<SliceId, Source>,
}

impl Locating {
    /// The next slice to be located, and its path.
    pub(super) fn missing(&self) -> Option<(SliceId, SectorPath)> {
        self.task.segments.iter().find_map(|segment| match &segment.first.location {
            SegmentLocation::Remote { slice, .. } if !self.found.contains_key(slice) => {
                Some((*slice, segment.first.path.clone()))
            }
            _ => None,
        })
    }
}

impl Running {
    pub(super) fn new(
        driving: DriverCore,
        planned: JobPlanned,
        admitted: Admitted,
        folder: Option<OutputFolder>,
        pages: Option<Pages>,
    ) -> Self {
        let id = admitted.job;
        Self {
            id,
            core: driving,
            planned,
            folder,
            pages,
            sources: sources(admitted),
            spes: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            output: BTreeMap::new(),
            report_due: Duration::ZERO,
            ending: Ending::NotYet,
            is_done: false,
        }
    }

    /// Whether the job has ended and the master was told, or could not be.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.ending, Ending::Over)
    }

    /// Whether it has an output.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn state(&self) -> String {
        format!("runs job {}: {:?}", self.id, self.core.job().progress())
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64) {
        let is_working = matches!(self.ending, Ending::NotYet);
        if is_working && self.core.next_timeout().is_some_and(|due| due <= env.now.monotonic) {
            self.core.handle_timeout(env.now);
        }
        if let Some(pages) = &mut self.pages {
            pages.go_on(|writing| {
                writing.tick(env, master_link, tag);
                None
            });
        }
        self.tick_ending(env, master_link, tag);
        let is_out = self.asked.values().any(|asked| matches!(asked, PendingRequest::Report));
        // Also while the output gets its place: a driver that waits for the master does not count as lost meanwhile.
        let is_told = is_working || matches!(self.ending, Ending::Committing(_));
        if is_told && env.now.monotonic >= self.report_due && !is_out && master_link.session.is_some() {
            self.report_due = env.now.monotonic + REPORT_PERIOD;
            self.core.note_report(env.now);
            self.report(env, master_link, tag, JobState::Running, PendingRequest::Report);
        }
    }

    /// Performs the actions of the rules.
    pub(super) fn go_on(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64) {
        while matches!(self.ending, Ending::NotYet)
            && let Some(action) = self.core.poll_action(env.now)
        {
            match action {
                JobAction::StartSpe { spe, node } => self.start_spe(env, master_link, spe, node),
                JobAction::DropSpe(spe) => self.drop_spe(env, spe),
                JobAction::RunTask(task) => {
                    self.prepare(env, master_link, tag, Box::new(Locating { task, found: BTreeMap::new() }));
                }
                JobAction::Seal { node, order } => {
                    let bucket = order.bucket;
                    self.step(env, master_link, &node, bucket, SpeRequest::Seal(order), PendingCall::Sealing(bucket));
                }
                JobAction::Deliver(delivery) => self.deliver(env, master_link, &delivery),
                JobAction::Fetch { node, bucket } => {
                    self.step(
                        env,
                        master_link,
                        &node,
                        bucket,
                        SpeRequest::Fetch(bucket),
                        PendingCall::Fetching(bucket),
                    );
                }
                JobAction::Publish { node, bucket, records } => {
                    self.publish(env, master_link, tag, node, bucket, records)
                }
                JobAction::BeginEpoch { epoch: run } => {
                    env.note(format_args!("job {} begins run {run}", self.id));
                    self.output.clear();
                }
                JobAction::Finished(result) => self.finish(env, master_link, tag, result),
            }
        }
        if let Some(page) = self.core.next_page()
            && let Some(pages) = &mut self.pages
        {
            pages.write(env, master_link, tag, &page);
        }
    }

    /// A timer rang that belongs to nothing else.
    pub(super) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, last: &mut u64, tag: u64) {
        if self.asked.contains_key(&tag) {
            return self.answered(env, master_link, last, tag, None);
        }
        let ended = self
            .pages
            .as_mut()
            .and_then(|pages| pages.go_on(|writing| writing.answered(env, master_link, last, tag, Err(()))));
        self.page_ended(env, master_link, last, ended);
    }

    fn page_ended(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        ended: Option<Result<(), Refusal>>,
    ) {
        match ended {
            None => {}
            Some(Ok(())) => self.core.page_written(env.now),
            Some(Err(refusal)) if matches!(self.ending, Ending::NotYet) => {
                self.lose(env, master_link, tag, refusal.status())
            }
            Some(Err(_)) => {}
        }
    }

    fn publish(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        node: NodeId,
        bucket: BucketId,
        records: RecordFraming,
    ) {
        let Some(Ok(name)) = self.folder.as_ref().map(|folder| folder.part(self.id, bucket.epoch, bucket.bucket))
        else {
            return self.refuse(env, bucket, unavailable("the job has no output folder"));
        };
        self.note_places(env, bucket);
        let name = if env.sabotage == Some(Sabotage::OutputGoesAstray) { path(ASTRAY) } else { name };
        let mut request = CreateRequest { records, at: Some(node.clone()), ..create_request(name, 0) };
        request.bytes_expected = None;
        request.condition = Condition::Any;
        self.ask(env, master_link, tag, &ClientRequest::Create(request), PendingRequest::Create(bucket, node));
    }

    /// An answer of the master came, or will not.
    pub(super) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        last: &mut u64,
        tag: u64,
        reply: Option<ClientReply>,
    ) {
        match self.asked.remove(&tag) {
            Some(PendingRequest::Report) => self.reported(env, reply),
            Some(PendingRequest::End) => self.end_reported(env, master_link, last, reply),
            Some(PendingRequest::CommitStepDone) => self.commit_step_done(env, master_link, last, reply),
            Some(PendingRequest::FolderListed(which)) => self.folder_listed(env, master_link, last, which, reply),
            Some(PendingRequest::Cleared) => self.cleared(env, master_link, last),
            Some(PendingRequest::JournalRemoved) => self.ending = Ending::Over,
            Some(PendingRequest::Locate(locating)) => self.located(env, master_link, last, locating, reply),
            Some(PendingRequest::Copies(attempt, refusal)) => self.copies_told(env, attempt, refusal, reply),
            Some(PendingRequest::Create(bucket, node)) => match reply {
                Some(ClientReply::Created(created)) => {
                    let request = SpeRequest::Publish { bucket, ticket: created.target.ticket };
                    self.step(env, master_link, &node, bucket, request, PendingCall::Publishing(bucket, created.lease));
                }
                reply => self.refuse(env, bucket, refusal_of(reply)),
            },
            Some(PendingRequest::Commit(bucket, lease)) => match reply {
                Some(ClientReply::Entry(entry)) => {
                    if let EntryKind::File(content) = &entry.kind {
                        self.core.handle_event(env.now, Event::PublishedAs { bucket, slice: content.slice });
                        self.commit_early(env, master_link, last);
                    }
                }
                reply => {
                    self.ask(
                        env,
                        master_link,
                        last,
                        &ClientRequest::Abandon(AbandonRequest(lease)),
                        PendingRequest::Nothing,
                    );
                    self.refuse(env, bucket, refusal_of(reply));
                }
            },
            Some(PendingRequest::Nothing) => {}
            None => {
                let ended = self
                    .pages
                    .as_mut()
                    .and_then(|pages| pages.go_on(|writing| writing.answered(env, master_link, last, tag, Ok(reply))));
                self.page_ended(env, master_link, last, ended);
            }
        }
    }

    /// An answer of a node came.
    pub(super) fn call_answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        call: CallId,
        reply: CallReply,
    ) {
        let Some(doing) = self.calls.remove(&call) else {
            let ended = self
                .pages
                .as_mut()
                .and_then(|pages| pages.go_on(|writing| writing.call_answered(env, master_link, tag, call, reply)));
            return self.page_ended(env, master_link, tag, ended);
        };
        let word = match reply {
            CallReply::Message(word) => Ok(*word),
            CallReply::Ready(life) => return self.spe_ready(env, &doing, life),
            CallReply::Refused(refusal) => Err(refusal),
            _ => Err(unavailable("the conversation broke")),
        };
        let now = env.now;
        match (doing, word) {
            (PendingCall::Opening(spe), word) => {
                let refusal = word.err().unwrap_or_else(|| unavailable("no SPE"));
                self.core.handle_event(now, Event::SpeLost { spe, refusal });
            }
            (PendingCall::Loading(spe, order), Ok(SpeReply::Loaded)) => {
                if let Some(known) = self.spes.get_mut(&spe) {
                    known.loaded = Some(order.attempt.stage);
                    self.send_message(
                        env,
                        master_link,
                        spe,
                        SpeRequest::Run((*order).clone()),
                        PendingCall::RunningTask(spe, order),
                    );
                }
            }
            (PendingCall::RunningTask(_, order), Ok(SpeReply::Finished(result))) => {
                self.core.handle_event(now, Event::TaskFinished { attempt: order.attempt, result });
            }
            (PendingCall::Loading(_, order) | PendingCall::RunningTask(_, order), word) => {
                let attempt = order.attempt;
                let event = match word {
                    Ok(SpeReply::FunctionFailed(error)) => Event::FunctionFailed { attempt, error },
                    Ok(SpeReply::OutOfMemory(error)) => Event::OutOfMemory { attempt, error },
                    Ok(SpeReply::Refused(refusal)) | Err(refusal) => Event::TaskFailed { attempt, refusal },
                    Ok(_) => Event::TaskFailed { attempt, refusal: unavailable("it said something else") },
                };
                env.note(format_args!("job: {event:?}"));
                self.core.handle_event(now, event);
            }
            (PendingCall::Sealing(bucket), Ok(SpeReply::Sealed { bytes, order })) => {
                self.core.handle_event(now, Event::Sealed { bucket, bytes, order });
            }
            (PendingCall::Fetching(bucket), Ok(SpeReply::Bytes(bytes))) => {
                if bucket.epoch == self.core.epoch() {
                    self.output.insert(bucket.bucket, bytes);
                }
                self.core.handle_event(now, Event::Fetched(bucket));
            }
            (PendingCall::Delivering(attempt), Ok(SpeReply::Delivered)) => {
                env.model.delivered_again += 1;
                self.core.handle_event(now, Event::Delivered(attempt));
            }
            (PendingCall::Delivering(attempt), word) => {
                let refusal = word.err().unwrap_or_else(|| unavailable("it said something else"));
                env.note(format_args!("job: the delivery of {attempt:?} is refused: {refusal}"));
                self.core.handle_event(now, Event::DeliveryRefused { attempt, refusal });
            }
            (PendingCall::Publishing(bucket, lease), Ok(SpeReply::Published { bytes, digest })) => {
                let commit = ClientRequest::Commit(CommitRequest { lease, bytes, digest });
                self.ask(env, master_link, tag, &commit, PendingRequest::Commit(bucket, lease));
            }
            (PendingCall::Publishing(bucket, lease), word) => {
                self.ask(
                    env,
                    master_link,
                    tag,
                    &ClientRequest::Abandon(AbandonRequest(lease)),
                    PendingRequest::Nothing,
                );
                self.refuse(
                    env,
                    bucket,
                    word.err().map_or_else(|| unavailable("it said something else"), refused_by_node),
                );
            }
            (PendingCall::Sealing(bucket) | PendingCall::Fetching(bucket), word) => {
                self.refuse(
                    env,
                    bucket,
                    word.err().map_or_else(|| unavailable("it said something else"), refused_by_node),
                );
            }
        }
    }

    /// A node's process has died, and its idle SPEs with it.
    pub(super) fn conversations_broken(&mut self, env: &mut Environment, node: usize, life: Life) {
        let name = crate::role::node_id(node);
        let broken: Vec<SpeId> =
            self.spes.iter().filter(|(_, spe)| spe.node == name && spe.life == Some(life)).map(|(id, _)| *id).collect();
        for spe in broken {
            self.core.handle_event(env.now, Event::SpeLost { spe, refusal: unavailable("its node died") });
        }
    }

    fn start_spe(&mut self, env: &mut Environment, master_link: &MasterLink, spe: SpeId, node: NodeId) {
        let Some(source) = self.sources.get(&node) else {
            return self.core.handle_event(env.now, Event::SpeLost { spe, refusal: unavailable("no ticket") });
        };
        let request = TransferRequest::Spe { ticket: source.ticket.clone() };
        let wish = CallRequest::Transfer(request, std::rc::Rc::default());
        let call = env.call((master_link.who, master_link.life), crate::role::node_number(&node), wish);
        self.calls.insert(call, PendingCall::Opening(spe));
        self.spes.insert(spe, Spe { node, life: None, loaded: None });
    }

    fn spe_ready(&mut self, env: &mut Environment, doing: &PendingCall, life: Life) {
        if let PendingCall::Opening(spe) = doing
            && let Some(known) = self.spes.get_mut(spe)
        {
            known.life = Some(life);
            self.core.handle_event(env.now, Event::SpeReady(*spe));
        }
    }

    fn drop_spe(&mut self, env: &mut Environment, spe: SpeId) {
        self.spes.remove(&spe);
        let is_its = |doing: &PendingCall| match doing {
            PendingCall::Opening(of) | PendingCall::Loading(of, _) | PendingCall::RunningTask(of, _) => *of == spe,
            _ => false,
        };
        let calls: Vec<_> = self.calls.iter().filter(|(_, doing)| is_its(doing)).map(|(call, _)| *call).collect();
        for call in calls {
            self.calls.remove(&call);
            env.hang_up(call);
        }
    }

    /// Has a node send retained output again.
    fn deliver(&mut self, env: &mut Environment, master_link: &MasterLink, delivery: &Delivery) {
        let Delivery { node, attempt, locations: homes } = delivery;
        let place =
            |(number, home): &(u32, BucketLocation)| Some((*number, self.place((master_link.who, node), home, true)?));
        let places = homes.iter().map(place).collect::<Option<_>>();
        let (Some(places), Some(source)) = (places, self.sources.get(node)) else {
            let (attempt, refusal) = (*attempt, unavailable("no ticket"));
            return self.core.handle_event(env.now, Event::DeliveryRefused { attempt, refusal });
        };
        let request = Box::new(SpeRequest::Deliver(DeliveryOrder { attempt: *attempt, targets: places }));
        let wish = CallRequest::Message { ticket: source.ticket.clone(), life: None, conversation: 0, request };
        let call = env.call((master_link.who, master_link.life), crate::role::node_number(node), wish);
        self.calls.insert(call, PendingCall::Delivering(*attempt));
    }

    /// Sends a message to an SPE.
    pub(super) fn send_message(
        &mut self,
        env: &mut Environment,
        master_link: &MasterLink,
        spe: SpeId,
        request: SpeRequest,
        doing: PendingCall,
    ) {
        let Some((node, life)) = self.spes.get(&spe).map(|spe| (spe.node.clone(), spe.life)) else { return };
        let Some(source) = self.sources.get(&node) else { return };
        let (ticket, conversation) = (source.ticket.clone(), spe.0);
        let wish = CallRequest::Message { ticket, life, conversation, request: Box::new(request) };
        let call = env.call((master_link.who, master_link.life), crate::role::node_number(&node), wish);
        self.calls.insert(call, doing);
    }

    /// Gives an order to a bucket.
    fn step(
        &mut self,
        env: &mut Environment,
        master_link: &MasterLink,
        node: &NodeId,
        bucket: BucketId,
        request: SpeRequest,
        doing: PendingCall,
    ) {
        let Some(source) = self.sources.get(node) else {
            return self.refuse(env, bucket, unavailable("no ticket"));
        };
        let wish = CallRequest::Message {
            ticket: source.ticket.clone(),
            life: None,
            conversation: 0,
            request: Box::new(request),
        };
        let call = env.call((master_link.who, master_link.life), crate::role::node_number(node), wish);
        self.calls.insert(call, doing);
    }

    fn refuse(&mut self, env: &mut Environment, bucket: BucketId, refusal: Refusal) {
        env.note(format_args!("job: bucket {} of stage {} is refused: {refusal}", bucket.bucket, bucket.stage));
        self.core.handle_event(env.now, Event::BucketRefused { bucket, refusal });
    }

    fn reported(&mut self, env: &mut Environment, reply: Option<ClientReply>) {
        let is_working = matches!(self.ending, Ending::NotYet);
        match reply {
            Some(ClientReply::Admitted(admitted)) => {
                let present = sources(admitted);
                let names: Vec<_> = present.keys().cloned().collect();
                self.sources.extend(present);
                if is_working {
                    self.core.handle_report_reply(env.now, Ok(&names));
                }
            }
            Some(ClientReply::Refused(refusal)) if is_working => self.core.handle_report_reply(env.now, Err(refusal)),
            _ => {}
        }
    }

    /// All conversations end.
    pub(super) fn hang_up_all(&mut self, env: &mut Environment) {
        self.spes.clear();
        for call in std::mem::take(&mut self.calls).into_keys() {
            env.hang_up(call);
        }
    }

    /// A part of the output will be written: these are the paths at which it may then be. Only the bucket knows its
    /// content.
    fn note_places(&self, env: &mut Environment, bucket: BucketId) {
        let Some(folder) = &self.folder else { return };
        let name = sphere::part_name(bucket.bucket);
        let (Ok(folders), Ok(part)) =
            (folder.inspected_folders(self.id, bucket.epoch), folder.part(self.id, bucket.epoch, bucket.bucket))
        else {
            return;
        };
        let places = folders.iter().filter_map(|folder| folder.join(&name).ok()).collect();
        env.model.publishing.insert(part, places);
    }

    /// The action of a sabotaged driver as soon as it has a part.
    fn commit_early(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: &mut u64) {
        if env.sabotage == Some(Sabotage::OutputIsRevealedEarly)
            && let Some(folder) = &self.folder
            && let Ok(from) = folder.staging(self.id, self.core.epoch())
        {
            let request = ClientRequest::Rename(RenameRequest { from, to: folder.target().clone() });
            self.ask(env, master_link, tag, &request, PendingRequest::Nothing);
        }
    }

    pub(super) fn report(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        state: JobState,
        asked: PendingRequest,
    ) {
        let job = self.core.job();
        let (stages, counters) = (job.stage_records().to_vec(), job.stage_counters());
        let record = JobRecord { stages, counters, ..blank_record(self.id, state) };
        self.ask(env, master_link, tag, &ClientRequest::ReportJob(ReportJobRequest(record)), asked);
    }

    pub(super) fn ask(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        request: &ClientRequest,
        asked: PendingRequest,
    ) {
        *tag += 1;
        self.asked.insert(*tag, asked);
        let patience = if matches!(request, ClientRequest::Commit(_)) { COMMIT_PATIENCE } else { PATIENCE };
        ask(env, master_link, request, *tag, patience);
    }
}

/// The record of a job about which a driver reports nothing else.
pub(super) fn blank_record(job: JobId, state: JobState) -> JobRecord {
    JobRecord {
        job,
        user: crate::model::administrator(),
        title: String::new(),
        state,
        started_unix_millis: 0,
        stages: Vec::new(),
        errors: Vec::new(),
        error_slice: None,
        counters: Vec::new(),
        driver: None,
    }
}

pub(super) fn unavailable(message: &str) -> Refusal {
    Refusal::new(Reason::Unavailable, message)
}

pub(super) fn refusal_of(reply: Option<ClientReply>) -> Refusal {
    match reply {
        Some(ClientReply::Refused(refusal)) => refusal,
        _ => unavailable("the master did not answer"),
    }
}

/// Where a sabotaged driver writes without telling anyone.
const ASTRAY: &str = "/astray";
/// The nodes of an admission, by name.
fn sources(admitted: Admitted) -> BTreeMap<NodeId, Source> {
    admitted.nodes.into_iter().map(|node| (node.source.node.clone(), node.source)).collect()
}

/// The tag of the timer that always runs.
pub(super) const TICK: u64 = 0;
/// The period of that timer.
pub(super) const TICK_PERIOD: Duration = Duration::from_millis(200);
/// As in `client::job::driver`.
pub(super) const REPORT_PERIOD: Duration = Duration::from_secs(1);
