//! Tasks at a node. Their segments are gathered, and the real function runs over them. It mirrors `node::task`; there
//! is no child process here. The driver never hears that a task is finished before every piece is with its bucket.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use protocol::{
    Counters, Reason, RecordFraming, Refusal,
    message::{
        spe::{
            AttemptId, DeliveryOrder, FunctionCode, FunctionFailure, FunctionSpec, OutputPlacement, PieceId,
            PieceResult, SegmentSource, SpeReply, TaskOrder, TaskResult,
        },
        transfer::TransferRequest,
    },
};
use sphere::{
    RetainedSize,
    shuffle_write::{ShufflePiece, ShuffleWrite, own_piece},
};
use udf::Collected;

use super::{
    node::{Process, refusal_of},
    node_names::{node_id, node_number},
    transfer::Outgoing,
};
use crate::{
    environment::{
        Environment,
        calls::{CallId, CallReply},
        queue::{Event, NodeWork, Participant},
    },
    tagged::{self, RECORD_BYTES, TAGGED, TAGGED_BYTES},
};

/// A running task.
pub(crate) struct Task {
    order: TaskOrder,
    function: FunctionSpec,
    /// The bytes of each segment that has arrived.
    segments: Vec<Option<Vec<u8>>>,
    result: TaskResult,
    /// Its output, once the function has run.
    output: Parts,
    /// Calls to other nodes that are not answered yet.
    waiting: BTreeSet<CallId>,
}

/// The output of an attempt for each bucket.
pub(crate) type Parts = BTreeMap<u32, Rc<Vec<u8>>>;

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
        let function = function.ok_or_else(|| Refusal::new(Reason::Invalid, "load a function first"))?;
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
        self.tasks.insert(id, Task { order, function, segments, result, output: Parts::new(), waiting });
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
            Err(error) => return env.answer(id, CallReply::Message(Box::new(SpeReply::FunctionFailed(error)))),
        };
        task.waiting.clear();
        let attempt = task.order.attempt;
        let is_local = matches!(task.order.output, OutputPlacement::Local);
        for (number, bytes) in std::mem::take(&mut collected.buckets).into_iter().filter(|(_, bytes)| !bytes.is_empty())
        {
            let bucket = if is_local { attempt.task } else { number as u32 };
            let (bytes_long, checksum) = (bytes.len() as u64, checksum(&bytes));
            task.result.pieces.push(PieceResult { bucket, bytes: bytes_long, checksum, is_delivered: is_local });
            task.output.insert(bucket, Rc::new(bytes));
        }
        let spreading = match &task.order.output {
            OutputPlacement::Local => None,
            OutputPlacement::Buckets(places) => {
                Some(ShuffleWrite::new(attempt, &node_id(self.number), places, sized(&task.output)))
            }
        };
        match spreading {
            None => {
                let taken = task.output.values().try_for_each(|bytes| self.append(own_piece(attempt), bytes));
                let word = taken.map_or_else(SpeReply::Refused, |()| SpeReply::Finished(task.result));
                env.answer(id, CallReply::Message(Box::new(word)));
            }
            Some(spreading) => {
                self.tasks.insert(id, task);
                self.begin_shuffle_write(env, id, spreading);
            }
        }
    }

    /// A bucket of another node has a piece, or has not.
    pub(super) fn piece_delivered(&mut self, env: &mut Environment, id: CallId, bucket: u32, reply: CallReply) {
        let Some(spreading) = self.shuffle_writes.get_mut(&id) else { return };
        let noted = match reply {
            CallReply::Taken => {
                spreading.handle_taken(bucket);
                Ok(())
            }
            other => spreading.handle_refused(bucket, refusal_of(other)),
        };
        match noted {
            Ok(()) => self.continue_shuffle_write(env, id),
            Err(refusal) => self.fail_task(env, id, refusal),
        }
    }

    /// Sends retained output of an attempt again.
    pub(super) fn deliver_again(
        &mut self,
        env: &mut Environment,
        id: CallId,
        order: DeliveryOrder,
    ) -> Result<(), Refusal> {
        let kept = sized(self.results.find(order.attempt)?);
        let places = order.targets.into_iter().collect();
        let spreading = ShuffleWrite::redeliver(order.attempt, &node_id(self.number), places, kept);
        self.begin_shuffle_write(env, id, spreading);
        Ok(())
    }

    /// The driver no longer wants a task.
    pub(super) fn drop_task(&mut self, env: &mut Environment, id: CallId) {
        let task = self.tasks.remove(&id);
        let mut calls = task.map(|task| task.waiting).unwrap_or_default();
        if self.shuffle_writes.remove(&id).is_some() {
            let is_its = |outgoing: &Outgoing| matches!(outgoing, Outgoing::Piece { task, .. } if *task == id);
            calls.extend(self.outgoing.iter().filter(|(_, outgoing)| is_its(outgoing)).map(|(call, _)| *call));
        }
        for call in calls {
            env.hang_up(call);
        }
    }

    fn compute_when_ready(&mut self, env: &mut Environment, id: CallId) {
        let is_ready = self.tasks.get(&id).is_some_and(|task| task.segments.iter().all(Option::is_some));
        if is_ready {
            let span = env.span(10, 1_500);
            let hand = NodeWork::Compute(id);
            env.after(span, Event::NodeWork { node: self.number, life: self.link.life, hand });
        }
    }

    /// Begins to deliver; as `node::task::deliver`.
    fn begin_shuffle_write(&mut self, env: &mut Environment, id: CallId, mut spreading: ShuffleWrite<Rc<Vec<u8>>>) {
        let taken = spreading.take_local().into_iter().try_for_each(|spread| self.append(spread.piece, &spread.part));
        spreading.handle_local_taken();
        self.shuffle_writes.insert(id, spreading);
        match taken {
            Ok(()) => self.continue_shuffle_write(env, id),
            Err(refusal) => self.fail_task(env, id, refusal),
        }
    }

    /// Sends the next pieces, or ends.
    fn continue_shuffle_write(&mut self, env: &mut Environment, id: CallId) {
        let Some(mut spreading) = self.shuffle_writes.remove(&id) else { return };
        while let Some(ShufflePiece { piece, target: place, bytes, part }) = spreading.next(|_| None) {
            let request = TransferRequest::Piece { ticket: place.ticket, piece, bytes };
            let from = (Participant::Node(self.number), self.link.life);
            let call = env.transfer(from, node_number(&place.node), request, part);
            self.outgoing.insert(call, Outgoing::Piece { task: id, bucket: piece.bucket.bucket });
        }
        if !spreading.is_over() {
            self.shuffle_writes.insert(id, spreading);
            return;
        }
        let word = match self.tasks.remove(&id) {
            Some(mut task) => {
                let is_kept = self.retain_output(&spreading, task.output);
                let ended = spreading.end(is_kept, &mut task.result.pieces);
                ended.map_or_else(SpeReply::Refused, |()| SpeReply::Finished(task.result))
            }
            None => spreading.end_redelivery().map_or_else(SpeReply::Refused, |()| SpeReply::Delivered),
        };
        env.answer(id, CallReply::Message(Box::new(word)));
    }

    /// Retains an attempt's output, if that is of use.
    fn retain_output(&mut self, spreading: &ShuffleWrite<Rc<Vec<u8>>>, left: Parts) -> bool {
        let attempt = spreading.attempt();
        if !spreading.is_worth_keeping() || self.buckets.is_forgotten(attempt.job) {
            return false;
        }
        let bytes = left.values().map(|part| part.len() as u64).sum();
        let size = RetainedSize { bytes, chunks: left.len(), memory_bytes: 0 };
        self.results.retain(attempt, size, left).is_ok()
    }

    /// Gives a piece to a bucket of this node.
    fn append(&mut self, piece: PieceId, bytes: &[u8]) -> Result<(), Refusal> {
        if let Some(mut writer) = self.buckets.begin(piece, bytes.len() as u64)? {
            writer.write(bytes);
            self.buckets.commit(&writer)?;
        }
        Ok(())
    }

    fn fail_task(&mut self, env: &mut Environment, id: CallId, refusal: Refusal) {
        self.drop_task(env, id);
        env.answer(id, CallReply::Message(Box::new(SpeReply::Refused(refusal))));
    }
}

/// Parts with their buckets and lengths.
fn sized(left: &Parts) -> Vec<(u32, u64, Rc<Vec<u8>>)> {
    left.iter().map(|(bucket, bytes)| (*bucket, bytes.len() as u64, Rc::clone(bytes))).collect()
}

fn checksum(bytes: &[u8]) -> u32 {
    let [a, b, c, d, ..] = crate::model::digest_of(bytes).0;
    u32::from_be_bytes([a, b, c, d])
}

/// Runs the function whose results vary with each execution.
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
fn run_function(env: &mut Environment, task: &mut Task) -> Result<Collected, FunctionFailure> {
    let buckets = match &task.order.output {
        OutputPlacement::Local => 1,
        OutputPlacement::Buckets(places) => places.len() as u32,
    };
    if task.function.code.name() == TAGGED {
        return Ok(run_tagged(env, task, buckets));
    }
    let mut collected = Collected::with_buckets(u64::from(buckets));
    for (segment, bytes) in task.order.segments.iter().zip(&task.segments) {
        let failed = |message: String| FunctionFailure {
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
            RecordFraming::File => udf::RecordFormat::File,
            RecordFraming::Lines => udf::RecordFormat::Lines,
            RecordFraming::Fixed(record_bytes) => udf::RecordFormat::Fixed(record_bytes),
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
    // Built-in functions count nothing; the total of the whole job is known here. One name is never too many.
    let _ = task.result.counters.add("records", task.result.records_in);
    Ok(collected)
}
