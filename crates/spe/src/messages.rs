//! The messages between a node and its SPE over their socket. Private to this crate: both ends are the same executable,
//! so they may change with any release. Serves the path *job*, door 7. A message is four bytes of length (big-endian),
//! then the [codec](protocol::wire::codec)'s bytes; its descriptors travel with its first byte. The types here never
//! decide anything.

use std::path::PathBuf;

use protocol::{
    Counters, RecordFraming, Refusal,
    message::spe::{AttemptId, PartOrder, RecordLocator, SegmentOrder},
    sandbox::SandboxLayer,
    wire::{
        codec::{self, CodecError},
        few::few,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::sandbox::confinement::Confinement;

/// The node's messages: `Confine`, `Load`, then for each task `Begin`, `Segment`s and `End`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToChild {
    /// Lock yourself in; sent before anything else, and once.
    Confine(Confinement),
    /// Prepare a function. Comes with the descriptor of its library or its code, if it has one.
    Load {
        /// Where its code is.
        code: ChildCode,
        /// Its parameters.
        parameters: Vec<(String, String)>,
        /// The names of its side files, whose descriptors follow that of its code.
        side: Vec<String>,
    },
    /// A task begins. Comes with the descriptor of the scratch file for its results, which is empty.
    Begin {
        /// The task.
        attempt: AttemptId,
        /// Number of buckets of its output.
        buckets: u32,
    },
    /// A segment of the task. Comes with the descriptors of its files.
    Segment(SegmentSpec),
    /// That was the last segment.
    End,
}

/// Where a function's code is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ChildCode {
    /// In this executable.
    BuiltIn(String),
    /// In the library whose descriptor follows.
    Native {
        /// The function's symbol.
        symbol: String,
    },
    /// For the interpreter, in the file whose descriptor follows.
    Python(PythonSpec),
    /// A program of the machine, and its arguments.
    Program(Vec<String>),
}

impl ChildCode {
    /// Whether a descriptor comes with it.
    pub(super) fn has_file(&self) -> bool {
        match self {
            Self::BuiltIn(_) | Self::Program(_) => false,
            Self::Native { .. } | Self::Python(_) => true,
        }
    }
}

/// A function in Python whose code comes as a descriptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PythonSpec {
    /// The interpreter.
    pub(super) interpreter: PathBuf,
    /// The folder of the packages that the job has brought, where it has.
    pub(super) environment: Option<PathBuf>,
    /// What the function is called.
    pub(super) name: String,
    /// The file whose text the code is; empty for a pickle.
    pub(super) file: String,
    /// The Python that made the pickle; `None` for a text.
    pub(super) python: Option<(u8, u8)>,
    /// The modules that it needs, with their versions.
    pub(super) requires: Vec<(String, Option<String>)>,
    /// The files of its modules, which follow the code: where each lies, and its length in bytes.
    pub(super) modules: Vec<(String, u64)>,
}

/// A [`SegmentOrder`](protocol::message::spe::SegmentOrder) whose files are passed along: each part's own file,
/// followed by that of its index, if it has one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SegmentSpec {
    /// Its number in the stage's input.
    pub(super) segment: u64,
    /// Its parts, in the order of the streams; at least one.
    pub(super) parts: Vec<PartSpec>,
}

/// A segment's part of one input stream.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartSpec {
    /// The path that the function sees.
    pub(super) path: String,
    /// First byte.
    pub(super) from: u64,
    /// The first byte after it.
    pub(super) until: u64,
    /// How its bytes are divided into records.
    pub(super) records: RecordFraming,
    /// Where its records are, if its bytes do not show it.
    pub(super) guide: Option<GuideSpec>,
}

/// A [`RecordLocator`](protocol::message::spe::RecordLocator).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum GuideSpec {
    /// These bytes of the index that is passed along.
    Offsets {
        /// First byte.
        from: u64,
        /// First byte after them.
        until: u64,
    },
    /// The end of the part's own file.
    Footer {
        /// The file's end.
        until: u64,
        /// Which row group of the file the part is.
        row_group: u32,
        /// Its rows.
        rows: u64,
    },
}

impl SegmentSpec {
    /// The part of an order that an SPE is told.
    pub(super) fn of(order: &SegmentOrder) -> Self {
        let part = |part: &PartOrder| PartSpec {
            path: part.path.as_str().to_owned(),
            from: part.from,
            until: part.until,
            records: part.records,
            guide: part.locator.as_ref().map(|guide| match guide {
                RecordLocator::Offsets { from, until, .. } => GuideSpec::Offsets { from: *from, until: *until },
                RecordLocator::Footer { until, row_group, rows, .. } => {
                    GuideSpec::Footer { until: *until, row_group: *row_group, rows: *rows }
                }
            }),
        };
        Self { segment: order.segment, parts: order.parts().map(part).collect() }
    }
}

/// The SPE's messages: `Confined`, then `Loaded` or `Refused`. During a task follow `Progress` and a `Done` for each
/// segment, then `Finished`, `FunctionFailed` or `Broken`. After that the SPE drops the rest of the task and waits for
/// the next `Begin`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromChild {
    /// It is locked in, except for these layers, which the kernel does not offer.
    Confined(Vec<SandboxLayer>),
    /// The function is ready.
    Loaded,
    /// It is not.
    Refused(Refusal),
    /// The SPE lives and has read this many bytes of the task.
    Progress {
        /// The task.
        attempt: AttemptId,
        /// Bytes of input processed.
        bytes: u64,
    },
    /// The next segment, in the order they came, is processed.
    Done {
        /// The task.
        attempt: AttemptId,
    },
    /// The task is processed and its results are in the scratch file.
    Finished(FinishedMessage),
    /// The function failed.
    FunctionFailed {
        /// The task.
        attempt: AttemptId,
        /// The segment's number.
        segment: u64,
        /// The record in the segment, where known.
        record: Option<u64>,
        /// Its error message.
        message: String,
        /// The beginning of that record.
        record_start: Vec<u8>,
    },
    /// The SPE failed, not the function: it could not read a segment's file or write results.
    Broken {
        /// The task.
        attempt: AttemptId,
        /// One sentence.
        message: String,
    },
}

/// See [`FromChild::Finished`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FinishedMessage {
    /// The task.
    pub(super) attempt: AttemptId,
    /// Records read.
    pub(super) records_in: u64,
    /// Bytes read.
    pub(super) bytes_in: u64,
    /// Records written.
    pub(super) records_out: u64,
    /// Which part of the scratch file belongs to which bucket, in the order of the file; at most [`CHUNKS_MAX`].
    #[serde(deserialize_with = "few::<CHUNKS_MAX, _, _>")]
    pub(super) chunks: Vec<Chunk>,
    /// What the function counted.
    pub(super) counters: Counters,
}

/// A run of bytes of the scratch file that belongs to one bucket. A bucket's content is its chunks in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The bucket.
    pub bucket: u32,
    /// Where it begins in the scratch file, in bytes.
    pub offset: u64,
    /// Its length in bytes, never 0.
    pub bytes: u64,
}

/// A message in its transmitted form, length first.
pub(super) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let body = codec::encode(message);
    let mut bytes = Vec::with_capacity(LENGTH_BYTES + body.len());
    // A longer message is refused by the other end, as it would be if its length fitted.
    bytes.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The message after its length.
pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    codec::decode(body)
}

/// The length that a message's first four bytes announce; `None` when it is more than a message may have.
pub(super) fn body_bytes(first: [u8; LENGTH_BYTES]) -> Option<usize> {
    let bytes = u32::from_be_bytes(first) as usize;
    (bytes <= MESSAGE_BYTES_MAX).then_some(bytes)
}

/// A text of at most `bytes_max` bytes.
pub(super) fn clip(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}

/// Bytes of a message's length.
pub(super) const LENGTH_BYTES: usize = 4;
/// Longest message in bytes: it fits the longest list of chunks, at 15 bytes each for offsets far into a long file.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Most chunks of a task, at 24 bytes each in the node's memory: 24 MiB. Six gigabytes of results in 4,096 buckets have
/// as many, and so do more than a hundred gigabytes in 256.
pub(super) const CHUNKS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::JobId;

    use super::*;

    fn finished(count: usize) -> FromChild {
        let chunk = Chunk { bucket: 1, offset: 0, bytes: 1 };
        let attempt = AttemptId { job: JobId(1), stage: 0, epoch: 0, task: 0, attempt: 0 };
        let chunks = vec![chunk; count];
        let counters = Counters::new();
        FromChild::Finished(FinishedMessage { attempt, records_in: 0, bytes_in: 0, records_out: 0, chunks, counters })
    }

    #[test]
    fn no_message_of_a_function_makes_its_node_hold_more_chunks_than_there_may_be() {
        let most = encode(&finished(CHUNKS_MAX));
        assert!(decode::<FromChild>(&most[LENGTH_BYTES..]).is_ok());
        let more = encode(&finished(CHUNKS_MAX + 1));
        assert!(more.len() < MESSAGE_BYTES_MAX / 4, "it is not its length by which it is refused");
        assert_eq!(decode::<FromChild>(&more[LENGTH_BYTES..]).err(), Some(CodecError::Malformed));
        let far = Chunk { bucket: 4_095, offset: 1 << 45, bytes: 1 << 20 };
        let each = codec::encode(&far).len() - 1;
        assert!(each * CHUNKS_MAX + (1 << 17) <= MESSAGE_BYTES_MAX, "{each} bytes each");
    }

    #[test]
    fn a_message_travels_with_its_length_and_an_endless_one_is_refused() {
        let bytes = encode(&FromChild::Loaded);
        let (first, body) = bytes.split_first_chunk().unwrap();
        assert_eq!(body_bytes(*first), Some(body.len()));
        assert!(matches!(decode(body), Ok(FromChild::Loaded)));
        assert_eq!(body_bytes([0xff; 4]), None);
    }

    #[test]
    fn a_long_text_is_clipped_between_characters() {
        assert_eq!(clip("aé".into(), 2), "a");
        assert_eq!(clip("aé".into(), 3), "aé");
    }
}
