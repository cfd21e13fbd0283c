//! The driver of one job. It asks the rules ([`sphere::DriverCore`]) what to do, has tasks of the runtime do it, and
//! gives the results to the rules. It reports to the master every second, which keeps the job admitted and brings fresh
//! tickets. Events of a detached job are also written down, so that another driver can take over. It never decides
//! about the job: the rules say what to retry, where, when to give up, and what must be written down first.

use std::{collections::BTreeMap, convert::Infallible, future::pending, sync::Arc, time::Duration};

use net::clock::Clock;
use protocol::{
    Reason, Refusal, Status,
    message::{
        client_master::{Admitted, Entry, EntryKind, JobRecord, JobState, SiteLink, SpeNode},
        history::JobHistory,
        request::{AddLogsRequest, ReportJobRequest, SubmitHistoryRequest},
        spe::BucketId,
    },
};
use sphere::{
    Assignment, DriverCore, Event, InputFile, Job, JobAction, Outcome, OutputFolder, Replay, SpeId, SpeNodePlan,
    SphereError,
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};

use super::{
    JobOutcome, JobOutput, JobProgress, JobSpec, bucket_orders,
    context::{Context, DriverEvent, blank_record},
    error_slice,
    journal::{self, Journal},
    node_connections::NodeConnections,
    output, output_commit,
    printed_logs::PrintedLogs,
    refusals::refusal,
    side_files::PinnedFile,
    spe::SpeConversation,
};
use crate::{Client, ClientError};

/// The driver of one job; see the module. When it is dropped, all its tasks end and all its connections close.
pub(super) struct Driver<P> {
    context: Arc<Context>,
    spec: JobSpec,
    /// The nodes that may run its SPEs.
    nodes: Vec<SpeNodePlan>,
    /// What is known of the links between their sites.
    links: Vec<SiteLink>,
    progress: P,
    clock: Clock,
    /// Where the job's events are written down, if another driver is to be able to take it over.
    journal: Option<Journal>,
    /// The page of it that is being written.
    pages: JoinSet<Result<(), ClientError>>,
    events: mpsc::Receiver<DriverEvent>,
    event_sender: mpsc::Sender<DriverEvent>,
    /// Connections with SPEs, and how each is given its next task and is ended.
    conversations: JoinSet<()>,
    spes: BTreeMap<SpeId, (mpsc::Sender<Assignment>, AbortHandle)>,
    /// Orders about buckets of the current run.
    bucket_orders: JoinSet<()>,
    /// The report that is under way.
    reports: JoinSet<Result<Admitted, ClientError>>,
    /// What functions printed, and the master has not been told.
    logs: PrintedLogs,
    /// The part of it that is being told.
    log_reports: JoinSet<()>,
    /// What the current run has published.
    published: BTreeMap<BucketId, Entry>,
    fetched: BTreeMap<u32, Vec<u8>>,
}

impl<P: FnMut(&JobProgress) + Send> Driver<P> {
    pub(super) fn new(
        client: Client,
        spec: JobSpec,
        side: Vec<Vec<PinnedFile>>,
        folder: Option<OutputFolder>,
        admitted: Admitted,
        progress: P,
    ) -> Self {
        let context = Context {
            connections: NodeConnections::new(client.carriers().clone(), Arc::clone(client.holder()), &admitted.nodes),
            job: admitted.job,
            functions: spec.stages.iter().map(|stage| stage.function.clone()).zip(side).collect(),
            folder,
            copies: spec.copies,
            sync_copies: spec.sync_copies,
            client,
        };
        let (news_sender, news) = mpsc::channel(EVENTS_MAX);
        Self {
            context: Arc::new(context),
            spec,
            nodes: admitted.nodes.iter().map(node_plan).collect(),
            links: admitted.links,
            progress,
            clock: Clock::start(),
            journal: None,
            pages: JoinSet::new(),
            events: news,
            event_sender: news_sender,
            conversations: JoinSet::new(),
            spes: BTreeMap::new(),
            bucket_orders: JoinSet::new(),
            reports: JoinSet::new(),
            logs: PrintedLogs::default(),
            log_reports: JoinSet::new(),
            published: BTreeMap::new(),
            fetched: BTreeMap::new(),
        }
    }

    /// Runs the job to its end, with or without success, and leaves nothing but its output.
    pub(super) async fn run(mut self, inputs: Vec<InputFile>) -> Result<JobOutcome, ClientError> {
        let plan = self.spec.plan(self.context.job, std::mem::take(&mut self.links));
        let mut driving = match DriverCore::new(self.clock.now(), plan, inputs, &self.nodes) {
            Ok(driving) => driving,
            Err(error) => {
                let blank = blank_record(&self.context.client, self.context.job, &self.spec, JobState::Failed);
                let record = JobRecord { errors: vec![error.to_string()], ..blank };
                self.report_end(JobHistory::default(), &record).await;
                return Err(error.refusal().into());
            }
        };
        let ended = self.drive(&mut driving).await?;
        self.conclude(&mut driving, ended).await
    }

    /// Takes a job over in the state after this many pages of its journal, and runs it to its end. An error that is not
    /// the job's own means that another driver has it, and nothing was changed.
    pub(super) async fn take_over(mut self, journal: Journal, replay: Replay, pages: u32) -> Result<(), ClientError> {
        self.journal = Some(journal);
        let mut driving = replay.take_over(self.clock.now(), pages);
        match self.drive(&mut driving).await {
            Ok(ended) => self.conclude(&mut driving, ended).await.map(drop),
            Err(error) => self.handle_journal_failure(&mut driving, error).await,
        }
    }

    /// The job's events can no longer be written down. If that is because another driver has the job, nothing is
    /// touched; otherwise the job cannot go on. Reports of a driver that was replaced are ignored.
    async fn handle_journal_failure(
        &mut self,
        driving: &mut DriverCore,
        error: ClientError,
    ) -> Result<(), ClientError> {
        if error.status() != Status::Exists {
            (self.spes, self.conversations) = (BTreeMap::new(), JoinSet::new());
            self.bucket_orders.abort_all();
            if let Some(folder) = &self.context.folder {
                output::remove_leftovers(&self.context.client, folder, self.context.job, driving.epoch()).await;
            }
            let mut record = self.record_of(JobState::Failed, driving.job());
            record.errors.insert(0, format!("the job's journal cannot be written: {error}"));
            self.report_end(driving.finish_history(), &record).await;
        }
        Err(error)
    }

    /// Moves the output to its place, or removes what there is of it, and tells the master.
    async fn conclude(
        &mut self,
        driving: &mut DriverCore,
        ended: Result<Outcome, SphereError>,
    ) -> Result<JobOutcome, ClientError> {
        let (history, job) = (driving.finish_history(), driving.job());
        // Connections are closed before the output is moved to its place: nobody works for the job any more.
        self.spes.clear();
        self.conversations.abort_all();
        self.bucket_orders.abort_all();
        let was_cancelled = matches!(ended, Err(SphereError::Cancelled(_)));
        let result = match ended {
            Ok(outcome) => self.gather(&outcome, self.record_of(JobState::Running, job)).await,
            Err(error) => Err(error.refusal().into()),
        };
        let state = match &result {
            Ok(_) => JobState::Done,
            Err(_) if was_cancelled => JobState::Cancelled,
            Err(_) => JobState::Failed,
        };
        if let Some(folder) = &self.context.folder {
            // After a good end, older runs have left something, and perhaps a late commit.
            output::remove_leftovers(&self.context.client, folder, self.context.job, driving.epoch()).await;
        }
        // The reason why there is no output comes before the segments it would have lacked.
        let mut record = self.record_of(state, job);
        record.errors.splice(0..0, result.as_ref().err().map(ToString::to_string));
        if result.is_ok() && !job.skipped_segments().is_empty() {
            let slice = self.context.folder.as_ref().map(|folder| folder.file(error_slice::ERROR_SLICE));
            record.error_slice = slice.transpose()?;
        }
        self.report_end(history, &record).await;
        if let Some(journal) = &self.journal {
            journal.remove(&self.context.client).await;
        }
        self.show(job, record.clone());
        let (outputs, returned) = result?;
        Ok(JobOutcome {
            job: self.context.job,
            record,
            outputs,
            skipped_segments: job.skipped_segments().to_vec(),
            returned,
        })
    }

    /// Begins writing the page that the rules want written, if there is one.
    fn begin_page(&mut self, driving: &mut DriverCore) -> Result<(), ClientError> {
        if let Some(journal) = &self.journal
            && let Some(page) = driving.next_page()
        {
            let (client, page) = (self.context.client.clone(), journal.page(&page)?);
            self.pages.spawn(async move { journal::write(&client, page).await });
        }
        Ok(())
    }

    /// A page of the journal was written, or another driver has the job.
    fn end_page(
        &self,
        driving: &mut DriverCore,
        written: Result<Result<(), ClientError>, JoinError>,
    ) -> Result<(), ClientError> {
        let bug = |error| Err(Refusal::new(Reason::Failed, format!("the journal has a bug: {error}")).into());
        written.unwrap_or_else(bug)?;
        driving.page_written(self.clock.now());
        Ok(())
    }

    /// Drives the job to its end. An error means that the job is no longer this driver's.
    async fn drive(&mut self, driving: &mut DriverCore) -> Result<Result<Outcome, SphereError>, ClientError> {
        let mut report = interval(REPORT_PERIOD);
        let mut show = interval(SHOW_PERIOD);
        report.set_missed_tick_behavior(MissedTickBehavior::Delay);
        show.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Some(action) = driving.poll_action(self.clock.now()) {
                match action {
                    JobAction::Finished(Err(SphereError::Refused(refusal))) if refusal.reason == Reason::JobEnded => {
                        return Ok(Err(self.why_ended(refusal, driving.job()).await));
                    }
                    JobAction::Finished(result) => return Ok(result),
                    JobAction::BeginEpoch { epoch: run } => self.begin_epoch(run),
                    action => self.perform(action),
                }
            }
            self.begin_page(driving)?;
            let due = driving.next_timeout().map(|at| self.clock.instant(at));
            tokio::select! {
                Some(news) = self.events.recv() => self.handle_driver_event(driving, news),
                () = wait_until(due) => driving.handle_timeout(self.clock.now()),
                _ = show.tick() => {
                    let record = self.record_of(JobState::Running, driving.job());
                    self.show(driving.job(), record);
                }
                _ = report.tick(), if self.reports.is_empty() => {
                    driving.note_report(self.clock.now());
                    let record = self.record_of(JobState::Running, driving.job());
                    let client = self.context.client.clone();
                    self.reports.spawn(async move { client.ask(ReportJobRequest(record)).await });
                    self.begin_log_report();
                }
                Some(_) = self.log_reports.join_next() => {}
                Some(answer) = self.reports.join_next() => self.handle_report_reply(driving, answer),
                Some(written) = self.pages.join_next() => self.end_page(driving, written)?,
                Some(end) = self.conversations.join_next() => self.check_end(driving, end),
                Some(end) = self.bucket_orders.join_next() => self.check_end(driving, end),
            }
        }
    }

    /// Why a job has ended of which a node or the master says just that. Nodes hear of a cancellation before this driver
    /// does: the answer to a report has the reason.
    async fn why_ended(&mut self, refusal: Refusal, job: &Job) -> SphereError {
        self.reports.shutdown().await;
        let report = ReportJobRequest(self.record_of(JobState::Running, job));
        match self.context.client.ask(report).await {
            Err(ClientError::Refused(why)) if why.status() == Status::Failed => SphereError::Cancelled(why),
            _ => SphereError::Refused(refusal),
        }
    }

    /// All results of the run before are void.
    fn begin_epoch(&mut self, run: u32) {
        tracing::info!(job = %self.context.job, run, "the whole job begins anew");
        self.bucket_orders.abort_all();
        self.published.clear();
        self.fetched.clear();
    }

    fn perform(&mut self, action: JobAction) {
        match action {
            JobAction::StartSpe { spe, node } => {
                // One place: a task is given only to an SPE that has none.
                let (tasks, receiver) = mpsc::channel(1);
                let (context, news) = (Arc::clone(&self.context), self.event_sender.clone());
                let conversation = SpeConversation { context, spe, node, event_sender: news };
                let handle = self.conversations.spawn(conversation.run(receiver));
                self.spes.insert(spe, (tasks, handle));
            }
            JobAction::DropSpe(spe) => {
                if let Some((_, handle)) = self.spes.remove(&spe) {
                    handle.abort();
                }
            }
            JobAction::RunTask(assignment) => {
                // An SPE that is gone has reported that, or is about to; its task is not lost with it.
                if let Some((tasks, _)) = self.spes.get(&assignment.spe) {
                    let _ = tasks.try_send(assignment);
                }
            }
            JobAction::Seal { node, order } => {
                self.spawn_bucket_order(bucket_orders::seal(Arc::clone(&self.context), node, order))
            }
            JobAction::Publish { node, bucket, records } => {
                self.spawn_bucket_order(bucket_orders::publish(Arc::clone(&self.context), node, bucket, records));
            }
            JobAction::Deliver(delivery) => {
                self.spawn_bucket_order(bucket_orders::deliver(Arc::clone(&self.context), delivery))
            }
            JobAction::Fetch { node, bucket } => {
                self.spawn_bucket_order(bucket_orders::fetch(Arc::clone(&self.context), node, bucket))
            }
            // These two are handled before this is called.
            JobAction::BeginEpoch { .. } | JobAction::Finished(_) => {}
        }
    }

    fn spawn_bucket_order(&mut self, step: impl Future<Output = DriverEvent> + Send + 'static) {
        let news = self.event_sender.clone();
        self.bucket_orders.spawn(async move {
            let _ = news.send(step.await).await;
        });
    }

    /// Tells the master what functions have printed since the last time. A report never waits for it.
    fn begin_log_report(&mut self) {
        if self.log_reports.is_empty()
            && let Some(logs) = self.logs.take()
        {
            let (client, job) = (self.context.client.clone(), self.context.job);
            self.log_reports.spawn(async move {
                if let Err(error) = client.ask(AddLogsRequest { job, logs }).await {
                    tracing::debug!(%job, %error, "the master did not take what functions printed");
                }
            });
        }
    }

    fn handle_driver_event(&mut self, driving: &mut DriverCore, news: DriverEvent) {
        let event = match news {
            DriverEvent::Event(event) => event,
            DriverEvent::Printed(attempt, node, end, printed) => {
                return self.logs.add(attempt, &node, end, printed);
            }
            DriverEvent::Published(bucket, entry) => {
                let event = match &entry.kind {
                    EntryKind::File(content) => Event::PublishedAs { bucket, slice: content.slice },
                    EntryKind::Folder => Event::Published(bucket),
                };
                if bucket.epoch == driving.epoch() {
                    self.published.insert(bucket, *entry);
                }
                event
            }
            DriverEvent::Fetched(bucket, bytes) => {
                if bucket.epoch == driving.epoch() {
                    self.fetched.insert(bucket.bucket, bytes);
                }
                Event::Fetched(bucket)
            }
        };
        match &event {
            Event::SpeLost { refusal, .. }
            | Event::TaskFailed { refusal, .. }
            | Event::InputUnavailable { refusal, .. }
            | Event::DeliveryRefused { refusal, .. }
            | Event::BucketRefused { refusal, .. } => {
                tracing::debug!(job = %self.context.job, %refusal, "something of the job failed");
            }
            _ => {}
        }
        driving.handle_event(self.clock.now(), event);
    }

    /// Handles the answer to a report.
    fn handle_report_reply(
        &mut self,
        driving: &mut DriverCore,
        answer: Result<Result<Admitted, ClientError>, JoinError>,
    ) {
        let now = self.clock.now();
        match answer {
            Ok(Ok(admitted)) => {
                self.context.connections.refresh(&admitted.nodes);
                let present: Vec<_> = admitted.nodes.into_iter().map(|node| node.source.node).collect();
                driving.handle_report_reply(now, Ok(&present));
            }
            Ok(Err(ClientError::Refused(refusal))) => {
                // The job says why it ended; a person who cancelled it knows.
                tracing::info!(%refusal, "the master did not take a report");
                driving.handle_report_reply(now, Err(refusal));
            }
            Ok(Err(error)) => tracing::warn!(%error, "a report did not reach the master"),
            Err(error) => driving.handle_event(now, Event::JobRefused(bug(&error))),
        }
    }

    /// A task of the runtime ended. If it panicked, its result would be awaited in vain.
    fn check_end(&self, driving: &mut DriverCore, end: Result<(), JoinError>) {
        if let Err(error) = end
            && error.is_panic()
        {
            driving.handle_event(self.clock.now(), Event::JobRefused(bug(&error)));
        }
    }

    /// The output of a job that ended well.
    async fn gather(
        &mut self,
        outcome: &Outcome,
        record: JobRecord,
    ) -> Result<(Vec<Entry>, Vec<Vec<u8>>), ClientError> {
        match (&self.spec.output, &self.context.folder) {
            (JobOutput::Folder(_), Some(folder)) => {
                // A task of its own, with a stack of its own; it ends with this.
                let mut revealing = JoinSet::new();
                let context = Arc::clone(&self.context);
                revealing.spawn(output_commit::commit_output(context, folder.clone(), self.clock, outcome.clone()));
                // The job must not count as lost while it waits for the master, which may be away for some minutes.
                tokio::select! {
                    Some(revealed) = revealing.join_next() => revealed.map_err(|error| bug(&error))??,
                    never = self.keep_reporting(record) => match never {},
                }
                let mut published = std::mem::take(&mut self.published);
                let parts = outcome.outputs.iter().filter_map(|output| published.remove(&output.bucket));
                Ok((parts.map(|entry| output::final_entry(folder, entry)).collect::<Result<_, _>>()?, vec![]))
            }
            _ => {
                let mut take = |number| self.fetched.remove(&number).unwrap_or_default();
                Ok((vec![], (0..outcome.buckets).map(&mut take).collect()))
            }
        }
    }

    /// Reports once a second that the job goes on, until the caller drops this.
    async fn keep_reporting(&self, record: JobRecord) -> Infallible {
        loop {
            sleep(REPORT_PERIOD).await;
            // The master's answer no longer changes anything.
            let _ = self.context.client.ask(ReportJobRequest(record.clone())).await;
        }
    }

    fn show(&mut self, job: &Job, record: JobRecord) {
        let sphere::StageProgress { epoch: run, stage, bytes_done, bytes: bytes_total, .. } = job.progress();
        let waits_for = job.awaited_input().map(|refusal| refusal.message.clone());
        (self.progress)(&JobProgress {
            job: self.context.job,
            epoch: run,
            stage,
            bytes_done,
            bytes_total,
            waits_for,
            record,
        });
    }

    /// The state of the job, with what it waits for, and the first of its errors that did not end it.
    fn record_of(&self, state: JobState, job: &Job) -> JobRecord {
        let errors = job.error_groups().iter().take(ERRORS_TOLD_MAX).filter_map(|group| {
            let first = job.skipped_segments().get(group.first)?;
            Some(format!("{}{}", group.preface(), SphereError::Function(first.error.clone())))
        });
        let waits_for = job.awaited_input().filter(|_| state == JobState::Running);
        let errors =
            waits_for.map(|refusal| format!("waiting: {}", refusal.message)).into_iter().chain(errors).collect();
        let blank = blank_record(&self.context.client, self.context.job, &self.spec, state);
        JobRecord { stages: job.stage_records().to_vec(), errors, counters: job.stage_counters(), ..blank }
    }

    /// Sends the last report and the history of the attempts. If they do not arrive, only the output of `sector jobs`
    /// and `sector job` differs.
    async fn report_end(&mut self, history: JobHistory, record: &JobRecord) {
        // A report that is under way must not come after the last.
        self.reports.shutdown().await;
        // What precedes a failure came last.
        while self.log_reports.join_next().await.is_some() {}
        self.begin_log_report();
        while self.log_reports.join_next().await.is_some() {}
        // A client that is told of the job's end can ask for its history. After the end, the master accepts nothing
        // from a detached driver.
        let client = &self.context.client;
        let told = client.ask(SubmitHistoryRequest { job: self.context.job, history }).await;
        let reported = client.ask(ReportJobRequest(record.clone())).await.map(drop);
        for error in [told.err(), reported.err()].into_iter().flatten() {
            let refusal = refusal(error);
            tracing::debug!(%refusal, "the master did not take the last report");
        }
    }
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

pub(super) fn node_plan(node: &SpeNode) -> SpeNodePlan {
    let (name, place) = (node.source.node.clone(), node.source.place.clone());
    SpeNodePlan { node: name, place, slots: node.slots, is_marked: node.is_marked }
}

fn bug(error: &JoinError) -> Refusal {
    Refusal::new(Reason::Failed, format!("the job's driver has a bug: {error}"))
}

/// Events that wait for the driver. Senders wait when it is full, so it only needs to smooth a burst.
const EVENTS_MAX: usize = 256;
/// How often the driver reports to the master. A ticket then has most of its minute left whenever it is used.
pub(super) const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// How often progress is shown: smooth for the eye, and no load for the machine.
const SHOW_PERIOD: Duration = Duration::from_millis(200);
/// Different errors of functions that a report includes; all of them are in the error slice.
const ERRORS_TOLD_MAX: usize = 8;
