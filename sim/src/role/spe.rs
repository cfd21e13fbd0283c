//! Tasks at a node: their segments are gathered, the real function runs over them, and every piece is with its bucket
//! before the driver hears that the task is finished. It mirrors `node::task`; there is no child process here.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use protocol::{
    Counters, RecordFormat, Refusal, Status,
    message::{
        spe::{
            AttemptId, BucketId, BucketPlace, DeliveryOrder, Function, FunctionCode, FunctionError, Output, PieceId,
            PieceResult, SegmentSource, SpeReply, TaskOrder, TaskResult,
        },
        transfer::TransferRequest,
    },
};
use udf::Collected;

use super::{
    master::{node_id, node_number},
    node::{Hand, Process, refusal_of},
    transfer::Outgoing,
};
use crate::{
    calls::{CallId, CallReply},
    environment::Environment,
    queue::{Event, Who},
    tagged::{self, RECORD_BYTES, TAGGED, TAGGED_BYTES},
};

/// A task under way.
pub(crate) struct Task {
    order: TaskOrder,
    function: Function,
    /// The bytes of each segment, as far as they are here.
    segments: Vec<Option<Vec<u8>>>,
    result: TaskResult,
    /// Calls to other nodes that are not answered yet.
    waiting: BTreeSet<CallId>,
}

impl Task {
    /// A bucket has its piece.
    fn delivered(&mut self, bucket: u32) {
        if let Some(piece) = self.result.pieces.iter_mut().find(|piece| piece.bucket == bucket) {
            piece.is_delivered = true;
        }
    }
}

impl Process {
    /// Begins a task.
    pub(super) fn run_task(
        &mut self,
        env: &mut Environment,
        id: CallId,
        conversation: u64,
        order: TaskOrder,
    ) -> Result<(), Refusal> {
        let function = self.functions.get(&(order.attempt.job, conversation)).cloned();
        let function = function.ok_or_else(|| Refusal::new(Status::Usage, "load a function first"))?;
        env.note(format_args!("n{} runs {:?}", self.number, order.attempt));
        let (mut segments, mut waiting) = (Vec::new(), BTreeSet::new());
        for (number, segment) in order.segments.iter().map(|segment| &segment.first).enumerate() {
            let (from, until) = (segment.from, segment.until);
            segments.push(match &segment.source {
                SegmentSource::Local(slice) => {
                    let mut bytes = Vec::new();
                    let read = self.store.open_slice(*slice);
                    let read = read.and_then(|reader| reader.read_at(&mut bytes, from, (until - from) as usize));
                    self.watched(env, *slice, read)?;
                    Some(bytes)
                }
                SegmentSource::Remote { slice, from: source } => {
                    let call = self.read_from(env, &source.node, &source.ticket, *slice, from..until);
                    self.outgoing.insert(call, Outgoing::Segment { task: id, number });
                    waiting.insert(call);
                    None
                }
                SegmentSource::Bucket(bucket) => {
                    let bytes = self.buckets.read(*bucket)?;
                    Some(bytes[from as usize..until as usize].to_vec())
                }
            });
        }
        let (pieces, counters) = (Vec::new(), Counters::new());
        let result = TaskResult { records_in: 0, bytes_in: 0, records_out: 0, pieces, counters };
        self.tasks.insert(id, Task { order, function, segments, result, waiting });
        self.compute_when_ready(env, id);
        Ok(())
    }

    /// A segment of another node came, or did not.
    pub(super) fn segment_came(&mut self, env: &mut Environment, id: CallId, number: usize, reply: CallReply) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let wanted = &task.order.segments[number];
        match reply {
            CallReply::Bytes(bytes) if bytes.len() as u64 == wanted.first.until - wanted.first.from => {
                task.segments[number] = Some(bytes);
                self.compute_when_ready(env, id);
            }
            other => self.fail_task(env, id, refusal_of(other)),
        }
    }

    /// The function has run: its results go to their buckets.
    pub(super) fn compute(&mut self, env: &mut Environment, id: CallId) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        let mut collected = match run_function(env, &mut task) {
            Ok(collected) => collected,
            Err(error) => return env.answer(id, CallReply::Word(Box::new(SpeReply::FunctionFailed(error)))),
        };
        let places = match &task.order.output {
            Output::Local => None,
            Output::Buckets(places) => Some(places.clone()),
        };
        task.waiting.clear();
        let (mut refused, mut left) = (None, BTreeMap::new());
        for (number, bytes) in std::mem::take(&mut collected.buckets) {
            if bytes.is_empty() {
                continue;
            }
            let number = if places.is_some() { number as u32 } else { task.order.attempt.task };
            let (bytes_long, checksum) = (bytes.len() as u64, checksum(&bytes));
            let piece = PieceResult { bucket: number, bytes: bytes_long, checksum, is_delivered: false };
            task.result.pieces.push(piece);
            left.insert(number, bytes.clone());
            let place = places.as_ref().and_then(|places| places.get(number as usize));
            if place.is_some_and(|place| !place.is_wanted) {
                continue;
            }
            if let Err(refusal) = self.deliver(env, id, &mut task, number, place, bytes) {
                refused = Some(refusal);
                break;
            }
        }
        if places.is_some() {
            self.results.insert(task.order.attempt, left);
        }
        self.tasks.insert(id, task);
        match refused {
            Some(refusal) => self.fail_task(env, id, refusal),
            None => self.finish_when_delivered(env, id),
        }
    }

    /// A bucket of another node has a piece, or has not.
    pub(super) fn piece_delivered(&mut self, env: &mut Environment, id: CallId, bucket: u32, reply: CallReply) {
        if let Some(waiting) = self.deliveries.get_mut(&id) {
            *waiting -= 1;
            let is_last = *waiting == 0;
            let is_taken = matches!(reply, CallReply::Taken);
            if is_last || !is_taken {
                self.deliveries.remove(&id);
                let word = if is_taken { SpeReply::Delivered } else { SpeReply::Refused(refusal_of(reply)) };
                env.answer(id, CallReply::Word(Box::new(word)));
            }
            return;
        }
        match reply {
            CallReply::Taken => {
                if let Some(task) = self.tasks.get_mut(&id) {
                    task.delivered(bucket);
                }
                self.finish_when_delivered(env, id);
            }
            other => {
                let refusal = refusal_of(other);
                // What the bucket's node could not take is kept.
                if matches!(refusal.status, Status::Unavailable | Status::NotFound) {
                    self.finish_when_delivered(env, id);
                } else {
                    self.fail_task(env, id, refusal);
                }
            }
        }
    }

    /// Sends again what was kept of an attempt.
    pub(super) fn deliver_again(
        &mut self,
        env: &mut Environment,
        id: CallId,
        order: DeliveryOrder,
    ) -> Result<(), Refusal> {
        let kept = self.results.get(&order.attempt).cloned();
        let kept = kept.ok_or_else(|| Refusal::new(Status::NotFound, "it was not kept"))?;
        let mut waiting = 0;
        for (number, place) in &order.places {
            let Some(bytes) = kept.get(number).cloned() else { continue };
            if self.give(env, id, order.attempt, *number, Some(place), bytes)?.is_some() {
                waiting += 1;
            }
        }
        if waiting == 0 {
            env.answer(id, CallReply::Word(Box::new(SpeReply::Delivered)));
        } else {
            self.deliveries.insert(id, waiting);
        }
        Ok(())
    }

    /// The driver does not want a task any more.
    pub(super) fn drop_task(&mut self, env: &mut Environment, id: CallId) {
        if let Some(task) = self.tasks.remove(&id) {
            for call in task.waiting {
                env.hang_up(call);
            }
        }
    }

    fn compute_when_ready(&mut self, env: &mut Environment, id: CallId) {
        let is_ready = self.tasks.get(&id).is_some_and(|task| task.segments.iter().all(Option::is_some));
        if is_ready {
            let span = env.span(10, 1_500);
            let hand = Hand::Compute(id);
            env.after(span, Event::Hand { node: self.number, life: self.seat.life, hand });
        }
    }

    fn deliver(
        &mut self,
        env: &mut Environment,
        id: CallId,
        task: &mut Task,
        number: u32,
        place: Option<&BucketPlace>,
        bytes: Vec<u8>,
    ) -> Result<(), Refusal> {
        match self.give(env, id, task.order.attempt, number, place, bytes)? {
            Some(call) => {
                task.waiting.insert(call);
            }
            None => task.delivered(number),
        }
        Ok(())
    }

    /// Gives a piece to its bucket; the call that carries it to another node, where it has to be carried.
    fn give(
        &mut self,
        env: &mut Environment,
        id: CallId,
        attempt: AttemptId,
        number: u32,
        place: Option<&BucketPlace>,
        bytes: Vec<u8>,
    ) -> Result<Option<CallId>, Refusal> {
        let making = place.map_or(attempt.attempt, |place| place.making);
        let bucket = BucketId { job: attempt.job, stage: attempt.stage, run: attempt.run, bucket: number, making };
        let piece = PieceId { bucket, task: attempt.task, attempt: attempt.attempt };
        match place {
            Some(place) if place.node != node_id(self.number) => {
                let request = TransferRequest::Piece { ticket: place.ticket.clone(), piece, bytes: bytes.len() as u64 };
                let from = (Who::Node(self.number), self.seat.life);
                let call = env.transfer(from, node_number(&place.node), request, Rc::new(bytes));
                self.outgoing.insert(call, Outgoing::Piece { task: id, bucket: number });
                return Ok(Some(call));
            }
            _ => {}
        }
        if let Some(mut writer) = self.buckets.begin(piece, bytes.len() as u64)? {
            writer.write(&bytes);
            self.buckets.commit(&writer)?;
        }
        Ok(None)
    }

    fn finish_when_delivered(&mut self, env: &mut Environment, id: CallId) {
        let outgoing = &self.outgoing;
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.waiting.retain(|call| outgoing.contains_key(call));
        if task.waiting.is_empty()
            && let Some(task) = self.tasks.remove(&id)
        {
            env.answer(id, CallReply::Word(Box::new(SpeReply::Finished(task.result))));
        }
    }

    fn fail_task(&mut self, env: &mut Environment, id: CallId, refusal: Refusal) {
        self.drop_task(env, id);
        env.answer(id, CallReply::Word(Box::new(SpeReply::Refused(refusal))));
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let [a, b, c, d, ..] = crate::model::digest_of(bytes).0;
    u32::from_be_bytes([a, b, c, d])
}

/// Runs the function that leaves something else each time.
fn run_tagged(env: &mut Environment, task: &mut Task, buckets: u32) -> Collected {
    let AttemptId { stage, task: number, .. } = task.order.attempt;
    let segments: Vec<&[u8]> = task.segments.iter().map(|bytes| bytes.as_deref().unwrap_or_default()).collect();
    let collected = tagged::run(env.rng.u64(..), stage, number, &segments, buckets);
    let bytes: usize = segments.iter().map(|bytes| bytes.len()).sum();
    let records = (bytes / if stage == 0 { RECORD_BYTES } else { TAGGED_BYTES }) as u64;
    (task.result.bytes_in, task.result.records_in, task.result.records_out) =
        (bytes as u64, records, collected.records);
    let _ = task.result.counters.add("records", records);
    collected
}

/// Runs a built-in function over all segments of a task.
fn run_function(env: &mut Environment, task: &mut Task) -> Result<Collected, FunctionError> {
    let buckets = match &task.order.output {
        Output::Local => 1,
        Output::Buckets(places) => places.len() as u32,
    };
    if task.function.code.name() == TAGGED {
        return Ok(run_tagged(env, task, buckets));
    }
    let mut collected = Collected::with_buckets(u64::from(buckets));
    for (segment, bytes) in task.order.segments.iter().zip(&task.segments) {
        let failed = |message: String| FunctionError {
            function: task.function.code.name().to_owned(),
            path: segment.first.path.clone(),
            segment: segment.segment,
            record: None,
            message,
            record_start: Vec::new(),
        };
        let FunctionCode::BuiltIn(name) = &task.function.code else { return Err(failed("not built in".into())) };
        let function = functions::find(name).ok_or_else(|| failed(format!("there is no function {name}")))?;
        let bytes = bytes.as_deref().unwrap_or_default();
        let format = match segment.first.records {
            RecordFormat::File => udf::RecordFormat::File,
            RecordFormat::Lines => udf::RecordFormat::Lines,
            RecordFormat::Fixed(record_bytes) => udf::RecordFormat::Fixed(record_bytes),
            other => return Err(failed(format!("a simulated SPE knows no records of the format {other}"))),
        };
        let input = udf::Input::new(bytes, format)
            .at(segment.first.path.as_str(), segment.segment, segment.first.from)
            .with_buckets(buckets)
            .with_parameters(&task.function.parameters);
        function(&input, &mut udf::Output::new(&mut collected)).map_err(|error| failed(error.to_string()))?;
        task.result.bytes_in += bytes.len() as u64;
        task.result.records_in += input.records().count() as u64;
    }
    task.result.records_out = collected.records;
    // Built-in functions count nothing; what the whole job comes to is known here.
    // One name is never too many.
    let _ = task.result.counters.add("records", task.result.records_in);
    Ok(collected)
}
