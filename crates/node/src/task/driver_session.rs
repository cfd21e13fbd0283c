//! The state of a conversation with a driver: its SPE, the function in it, and the buckets of its job. It never opens
//! an input slice that the master did not allow the job to read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use net::identity::Bearer;
use protocol::{
    JobId, Reason, SliceId, UserName, limits,
    message::spe::{
        AttemptId, BucketId, FunctionSpec, LoadOrder, OutputPlacement, PrintedOutput, RecordLocator, SegmentOrder,
        SegmentSource, SpeReply, SpeRequest, TaskOrder, TaskResult,
    },
    ticket::SignedTicket,
};
use spe::{SpeOutcome, SpeProcess, TaskRun};
use sphere::shuffle_write::own_bucket;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    DriverIdentity,
    deliver::{deliver, redeliver},
    environment_making::{EnvironmentOwner, start_process},
    environments::Environment,
    input,
    side_files::LoadedSideFiles,
};
use crate::{NodeError, blocking, bucket::Scratch, node_context::NodeContext, rules::NodeCompletion};

pub(super) struct DriverSession {
    context: Arc<NodeContext>,
    /// The driver.
    driver: Bearer,
    /// The user whose share of the node's slots its tasks use.
    user: UserName,
    job: JobId,
    /// The function loaded last, which is loaded again into a fresh SPE.
    function: Option<Arc<Loaded>>,
    spe: Option<Spe>,
    /// What the function printed since it was last taken.
    printed: PrintedOutput,
}

/// A function with its side files.
struct Loaded {
    function: FunctionSpec,
    side: LoadedSideFiles,
    /// The Python packages that the job has brought. They stay while it may be loaded again.
    environment: Option<Arc<Environment>>,
}

/// A process with its permit.
struct Spe {
    process: SpeProcess,
    /// What it can read of packages is settled when it is started.
    environment: Option<Arc<Environment>>,
    _place: OwnedSemaphorePermit,
}

impl DriverSession {
    pub(super) fn new(context: Arc<NodeContext>, asker: DriverIdentity) -> Self {
        let DriverIdentity { bearer: driver, user, job } = asker;
        Self { context, driver, user, job, function: None, spe: None, printed: PrintedOutput::default() }
    }

    /// Does what a driver asks; `bytes` counts how much of a task's input has been read.
    pub(super) async fn answer(&mut self, request: SpeRequest, bytes: &AtomicU64) -> Result<SpeReply, NodeError> {
        match request {
            SpeRequest::Load(order) => self.load(order).await,
            SpeRequest::Run(order) => self.run(order, bytes).await,
            SpeRequest::Seal(order) => {
                self.own(order.bucket)?;
                let buckets = Arc::clone(&self.context.storage.buckets);
                let sealed = blocking("sealing a bucket", move || buckets.seal(&order)).await?;
                Ok(SpeReply::Sealed { bytes: sealed.bytes, order: sealed.order })
            }
            SpeRequest::Deliver(order) => {
                if order.attempt.job != self.job {
                    return Err(self.not_ours(order.attempt.job));
                }
                redeliver(&self.context, order).await?;
                Ok(SpeReply::Delivered)
            }
            SpeRequest::Publish { bucket, ticket } => self.publish(bucket, &ticket).await,
            SpeRequest::Fetch(bucket) => {
                self.own(bucket)?;
                let buckets = Arc::clone(&self.context.storage.buckets);
                Ok(SpeReply::Bytes(blocking("reading a bucket", move || buckets.fetch(bucket)).await?))
            }
        }
    }

    /// Gives away what the function printed during the last request, if anything.
    pub(super) fn take_printed(&mut self) -> Option<PrintedOutput> {
        let printed = std::mem::take(&mut self.printed);
        (printed != PrintedOutput::default()).then_some(printed)
    }

    /// To be called when a request was abandoned: its SPE may still be working for nobody.
    pub(super) fn drop_unusable_spe(&mut self) {
        if self.spe.as_ref().is_some_and(|spe| !spe.process.is_ready()) {
            self.spe = None;
        }
    }

    async fn load(&mut self, order: LoadOrder) -> Result<SpeReply, NodeError> {
        self.function = None;
        let LoadOrder { function, side_files: side, inputs } = order;
        self.check_inputs(inputs.as_ref(), side.iter().map(|file| file.slice))?;
        let mut side = LoadedSideFiles::fetch_missing(&self.context, self.job, side).await?;
        let owner = EnvironmentOwner { context: &self.context, job: self.job, user: &self.user };
        let environment = owner.environment_of(&function, &mut side).await?;
        let loaded = Arc::new(Loaded { function, side, environment });
        self.load_into_process(&loaded).await?;
        self.function = Some(loaded);
        Ok(SpeReply::Loaded)
    }

    async fn run(&mut self, order: TaskOrder, bytes: &AtomicU64) -> Result<SpeReply, NodeError> {
        let buckets = self.check(&order)?;
        let read = order.segments.iter().flat_map(SegmentOrder::sources).filter_map(SegmentSource::slice);
        self.check_inputs(order.inputs.as_ref(), read)?;
        let function = self.function.clone();
        let function =
            function.ok_or_else(|| NodeError::refused(Reason::Invalid, "load a function before running it"))?;
        let is_local = order.segments.iter().flat_map(SegmentOrder::sources).all(SegmentSource::is_local);
        let input = sole_bucket(&order.segments).filter(|_| matches!(order.output, OutputPlacement::Local));
        // Done before the slot is taken: fetching over the network keeps no processor busy.
        let segments = input::open(&self.context, self.job, order.segments).await?;
        let (store, job) = (Arc::clone(&self.context.storage.buckets), self.job);
        let scratch = blocking("creating a scratch file", move || store.scratch_for_results(job)).await?;
        let stopping = || NodeError::refused(Reason::Unavailable, "the node is stopping; use another node");
        let slot = self.context.spes.slots.acquire(&self.user).await.ok_or_else(stopping)?;
        let running = self.context.spes.running.count();
        if !self.spe.as_ref().is_some_and(|spe| spe.process.is_ready()) {
            self.spe = None;
            self.load_into_process(&function).await?;
        }
        let Some(spe) = self.spe.as_mut() else { return Err(NodeError::Spe("could not be started".into())) };
        let task = TaskRun { attempt: order.attempt, segments, output: scratch.share()?, buckets };
        let began = Instant::now();
        let outcome = spe.process.run(task, &mut |read| bytes.store(read, Ordering::Relaxed)).await;
        if let (SpeOutcome::Finished(output), true) = (&outcome, is_local) {
            let AttemptId { job, stage, .. } = order.attempt;
            self.context.evidence.note_task(job, stage, output.bytes_in, began.elapsed());
        }
        note_printed(&mut self.printed, spe.process.take_printed());
        // Another task may compute while this one delivers.
        drop((slot, running));
        if !spe.process.is_ready() {
            self.spe = None;
        }
        match outcome {
            SpeOutcome::Finished(output) => {
                let (records_in, bytes_in, records_out) = (output.records_in, output.bytes_in, output.records_out);
                let counters = output.counters.clone();
                let scratch = self.own_results(scratch, output.bytes()).await?;
                let pieces = deliver(&self.context, order.attempt, order.output, scratch, output).await?;
                if let Some(input) = input {
                    self.context.storage.buckets.note_input_bucket(own_bucket(order.attempt), input);
                }
                Ok(SpeReply::Finished(TaskResult { records_in, bytes_in, records_out, pieces, counters }))
            }
            SpeOutcome::FunctionFailed(error) => Ok(SpeReply::FunctionFailed(error)),
            SpeOutcome::OutOfMemory(error) => Ok(SpeReply::OutOfMemory(error)),
            SpeOutcome::Refused(refusal) => Err(NodeError::Refused(refusal)),
            SpeOutcome::Died(why) => {
                self.spe = None;
                Err(NodeError::Spe(format!("died: {why}")))
            }
        }
    }

    /// The results of a task in a file that only the node can write to. A library may have kept the descriptor that it
    /// was given. Small results are therefore copied. For large ones the process is ended, which costs less than
    /// writing them twice.
    async fn own_results(&mut self, scratch: Scratch, bytes: u64) -> Result<Scratch, NodeError> {
        if !self.spe.as_ref().is_some_and(|spe| spe.process.may_hold_results()) {
            return Ok(scratch);
        }
        if bytes > COPIED_BYTES_MAX
            && let Some(spe) = self.spe.take()
            && spe.process.end().await
        {
            // Until now it could still be truncated or extended.
            let found = scratch.file().metadata().map_err(NodeError::io("read", scratch.path()))?.len();
            if found == bytes {
                return Ok(scratch);
            }
            return Err(NodeError::Spe("changed its results after it had said that they were whole".into()));
        }
        let (buckets, job) = (Arc::clone(&self.context.storage.buckets), self.job);
        blocking("copying a task's results", move || buckets.copy_of(job, &scratch, bytes)).await
    }

    async fn publish(&mut self, bucket: BucketId, ticket: &SignedTicket) -> Result<SpeReply, NodeError> {
        self.own(bucket)?;
        let (header, claim) = match self.context.tickets.write(&self.driver, ticket) {
            Ok((grant, claim)) => (grant.header, claim),
            Err(error) => {
                // The ticket may have been used for exactly this, and the answer lost.
                let published =
                    self.context.storage.buckets.published(bucket).filter(|slice| ticket_names(ticket, slice));
                let metadata = published.ok_or(error)?;
                return Ok(SpeReply::Published { bytes: metadata.bytes, digest: metadata.digest });
            }
        };
        let (buckets, store) = (Arc::clone(&self.context.storage.buckets), Arc::clone(&self.context.storage.slices));
        let metadata = blocking("publishing a bucket", move || buckets.publish(bucket, header, &store)).await?;
        claim.consume();
        let reply = SpeReply::Published { bytes: metadata.bytes, digest: metadata.digest };
        self.context.send_completion(NodeCompletion::Stored(metadata)).await;
        Ok(reply)
    }

    /// Loads a function into this conversation's SPE, which is started if there is none.
    async fn load_into_process(&mut self, loaded: &Loaded) -> Result<(), NodeError> {
        let function = &loaded.function;
        let environment = loaded.environment.clone();
        let is_apt = |spe: &Spe| {
            let is_same = match (&spe.environment, &environment) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
            spe.process.is_ready() && spe.process.may_load(&function.code) && is_same
        };
        if !self.spe.as_ref().is_some_and(is_apt) {
            self.spe = None;
            let started = start_process(&self.context, self.job, &function.code, environment.as_deref());
            let (process, place) = started.await?;
            self.spe = Some(Spe { process, environment, _place: place });
        }
        let Some(spe) = self.spe.as_mut() else { return Err(NodeError::Spe("could not be started".into())) };
        let loaded = spe.process.load(function, loaded.side.share()?).await;
        note_printed(&mut self.printed, spe.process.take_printed());
        if !spe.process.is_ready() {
            self.spe = None;
        }
        loaded.map_err(NodeError::Refused)
    }

    /// Refuses orders for another job, and orders that our own driver never sends; returns the number of the task's
    /// buckets.
    fn check(&self, order: &TaskOrder) -> Result<u32, NodeError> {
        let mut jobs = vec![order.attempt.job];
        for segment in &order.segments {
            jobs.extend(segment.sources().filter_map(|source| match source {
                SegmentSource::Bucket(bucket) => Some(bucket.job),
                SegmentSource::Local(_) | SegmentSource::Remote { .. } => None,
            }));
            check_parts(segment)?;
        }
        if let Some(other) = jobs.into_iter().find(|job| *job != self.job) {
            return Err(self.not_ours(other));
        }
        match &order.output {
            OutputPlacement::Local => Ok(1),
            OutputPlacement::Buckets(places) => match u32::try_from(places.len()) {
                Ok(count) if (1..=limits::BUCKETS_MAX).contains(&count) => Ok(count),
                _ => {
                    let message = format!("a stage has 1 to {} buckets, and not {}", limits::BUCKETS_MAX, places.len());
                    Err(NodeError::refused(Reason::Invalid, message))
                }
            },
        }
    }

    /// Refuses a slice that the master did not allow the job to read. The driver is the user's own program: its claims
    /// count for nothing, and a right to compute opens no slice.
    fn check_inputs(
        &self,
        ticket: Option<&SignedTicket>,
        mut read: impl Iterator<Item = SliceId>,
    ) -> Result<(), NodeError> {
        let tickets = &self.context.tickets;
        let allowed = ticket.map(|ticket| tickets.inputs(&self.driver, ticket, self.job)).transpose()?;
        let allowed = allowed.unwrap_or_default();
        match read.find(|slice| !allowed.contains(slice)) {
            Some(slice) => Err(tickets.refuse_input(&self.driver, self.job, slice)),
            None => Ok(()),
        }
    }

    fn own(&self, bucket: BucketId) -> Result<(), NodeError> {
        if bucket.job == self.job { Ok(()) } else { Err(self.not_ours(bucket.job)) }
    }

    fn not_ours(&self, job: JobId) -> NodeError {
        NodeError::refused(Reason::NoRight, format!("this conversation is for job {}, and not for job {job}", self.job))
    }
}

/// Adds what a process printed: a task's, perhaps after what was printed while the function was loaded for it.
fn note_printed(all: &mut PrintedOutput, more: PrintedOutput) {
    all.segments.extend(more.segments);
    all.left_out += more.left_out;
}

/// The bucket that contains all of these segments, if there is exactly one.
fn sole_bucket(segments: &[SegmentOrder]) -> Option<BucketId> {
    let mut sources = segments.iter().flat_map(SegmentOrder::sources);
    let SegmentSource::Bucket(first) = sources.next()? else { return None };
    sources.all(|source| matches!(source, SegmentSource::Bucket(other) if other == first)).then_some(*first)
}

/// Refuses parts that our own segmentation never makes.
fn check_parts(segment: &SegmentOrder) -> Result<(), NodeError> {
    let usage = |message| Err(NodeError::refused(Reason::Invalid, message));
    let streams = segment.parts().count();
    if streams > limits::STREAMS_MAX {
        let most = limits::STREAMS_MAX;
        return usage(format!("segment {} has parts of {streams} streams, more than {most}", segment.segment));
    }
    for part in segment.parts() {
        let guide = match part.locator {
            Some(RecordLocator::Offsets { from, until, .. } | RecordLocator::Footer { from, until, .. }) => from..until,
            None => 0..0,
        };
        if part.from > part.until || guide.start > guide.end {
            return usage(format!("segment {} of {} ends before it begins", segment.segment, part.path));
        }
    }
    Ok(())
}

/// Whether a write ticket, unused or used, is for this very slice.
fn ticket_names(ticket: &SignedTicket, metadata: &protocol::SliceMetadata) -> bool {
    use protocol::{
        ticket::{Ticket, TicketRight},
        wire::codec,
    };
    let named = codec::decode::<Ticket>(&ticket.ticket).ok().map(|ticket| ticket.right);
    matches!(named, Some(TicketRight::Write { header, .. }) if header.slice == metadata.header.slice)
}

/// Up to this size, results are copied if their SPE may still write to them. Copying so many bytes takes about as long
/// as starting another process in its place.
const COPIED_BYTES_MAX: u64 = 8 << 20;
