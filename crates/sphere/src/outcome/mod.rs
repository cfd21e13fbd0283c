//! How a job ends: with its output buckets, or with the one reason why there is no output. A function's error is
//! reported once (Sector/Sphere paper, 3.5.2: "the data segment will not be processed by any other SPE. Instead, an
//! error report is sent back to the client"). It is never retried.

pub mod output_commit;
pub mod output_folder;

use protocol::{
    NodeId, Reason, RecordFraming, Refusal, SectorPath, SliceId, Status,
    message::spe::{BucketId, FunctionFailure},
    status::ErrorClass,
};
use thiserror::Error;

/// What a finished job left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The run that finished, from 0.
    pub epoch: u32,
    /// Buckets that the last stage could have filled: their numbers are all below this.
    pub buckets: u32,
    /// The buckets that were published or returned, by number. Empty ones are left out. If all are empty and output is
    /// published, there is one empty file.
    pub outputs: Vec<OutputBucket>,
    /// Segments that are missing from the output since the function erred on them, in the order of the reports. None
    /// unless the plan allows for errors ([`errors_max`](crate::JobPlan::errors_max)).
    pub skipped_segments: Vec<SkippedSegment>,
}

/// A segment on which a function erred, and without which the job went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedSegment {
    /// The stage, from 0.
    pub stage: u32,
    /// Where in its file or bucket the segment begins, in bytes.
    pub from: u64,
    /// The first byte that is no longer part of it; with lines, the last one that begins before it may extend beyond.
    pub until: u64,
    /// The number of its first record in the file or bucket, where that is known without counting.
    pub first_record: Option<u64>,
    /// What went wrong.
    pub error: FunctionFailure,
}

/// One bucket of a job's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputBucket {
    /// Which one.
    pub bucket: BucketId,
    /// The node that made it.
    pub node: NodeId,
    /// Its length in bytes.
    pub bytes: u64,
    /// The slice that it became; `None` if it was not published, or its driver did not record it.
    pub slice: Option<SliceId>,
}

/// Why a job cannot be begun, or ended without output.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SphereError {
    /// The plan has no stage, or too many.
    #[error("a job of {stages} stages cannot be run; give it 1 to 64")]
    StageCount {
        /// How many it has.
        stages: usize,
    },
    /// A stage has no bucket, or too many.
    #[error("stage {stage} cannot have {buckets} buckets; give it 1 to 4096")]
    BucketCount {
        /// Which stage, from 0.
        stage: usize,
        /// How many it asks for.
        buckets: u32,
    },
    /// The bounds of a segment make no sense.
    #[error(
        "segments of {min} to {max} bytes cannot be cut; the smallest must be at least 1 and no more than the largest"
    )]
    SegmentBytes {
        /// The smallest, in bytes.
        min: u64,
        /// The largest, in bytes.
        max: u64,
    },
    /// There is nothing to read.
    #[error("the job has no input file; check the paths given as input")]
    NoInput,
    /// A file's length is not a whole number of its records.
    #[error(
        "`{path}` has {bytes} bytes, which is no multiple of its record length of {record_bytes} bytes; \
         give the right record format or repair the file"
    )]
    PartialRecord {
        /// The file.
        path: SectorPath,
        /// Its length.
        bytes: u64,
        /// Length of a record.
        record_bytes: u32,
    },
    /// It is unknown where a file's records are.
    #[error("where the records of `{path}` begin is not known, as `{records}` needs it; give the job its layout")]
    NoLayout {
        /// The file.
        path: SectorPath,
        /// How it falls into records.
        records: RecordFraming,
    },
    /// The input falls into more segments than a driver keeps track of.
    #[error("the input falls into more than {most} segments; give larger segments or less input")]
    TooManySegments {
        /// The most there may be.
        most: usize,
    },
    /// No node may run SPEs, or none is left.
    #[error("no node can run an SPE for the job; see `sector nodes`")]
    NoNodes,
    /// A user's function erred.
    #[error("the function `{}` failed on `{}`, segment {}{}: {}", .0.function, .0.path, .0.segment, at_record(.0), .0.message)]
    Function(FunctionFailure),
    /// A task failed too often.
    #[error("the task that begins with `{path}` failed {failures} times, at last: {last}")]
    Task {
        /// The file or bucket of its first segment.
        path: SectorPath,
        /// How often it failed.
        failures: u32,
        /// The last failure.
        last: Refusal,
    },
    /// An input was unavailable for too long.
    #[error("the task that begins with `{path}` has waited for its input for {minutes} minutes: {last}")]
    InputUnavailable {
        /// The file of its first segment.
        path: SectorPath,
        /// How long.
        minutes: u64,
        /// What is unavailable.
        last: Refusal,
    },
    /// Results were lost with their nodes too often.
    #[error("the job lost results {runs} times and was given up, at last: {last}")]
    TooManyEpochs {
        /// How often it was begun.
        runs: u32,
        /// The last loss.
        last: String,
    },
    /// The functions count under more names than there may be.
    #[error(
        "the functions of stage {stage} count under {names} names, those of all stages under {all}; {} and {} are the most: emit \
         what has many names as results instead",
        protocol::limits::COUNTERS_MAX,
        protocol::limits::JOB_COUNTERS_MAX
    )]
    Counters {
        /// Which stage, from 0.
        stage: usize,
        /// Names in this stage.
        names: usize,
        /// Names in all stages, added up.
        all: usize,
    },
    /// A result is too large to be handed to the driver.
    #[error(
        "bucket {bucket} holds {bytes} bytes, more than the {most} that can be returned; give the job an output folder"
    )]
    ReturnTooLarge {
        /// Which bucket.
        bucket: u32,
        /// Its length.
        bytes: u64,
        /// The most there may be, in bytes.
        most: u64,
    },
    /// A refusal that trying again does not change.
    #[error("{0}")]
    Refused(Refusal),
    /// The job was to stop, because of this.
    #[error("{0}")]
    Cancelled(Refusal),
}

impl SphereError {
    /// What a caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoNodes | Self::Task { .. } | Self::TooManyEpochs { .. } => ErrorClass::RetryHere,
            Self::Refused(refusal) if refusal.status() == Status::Unavailable => ErrorClass::RetryHere,
            Self::Refused(refusal) if refusal.status() == Status::Corrupt => ErrorClass::Corrupt,
            _ => ErrorClass::Refuse,
        }
    }

    /// The kind of failure and a message for a person.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::StageCount { .. }
            | Self::BucketCount { .. }
            | Self::SegmentBytes { .. }
            | Self::PartialRecord { .. }
            | Self::NoLayout { .. }
            | Self::TooManySegments { .. }
            | Self::Counters { .. }
            | Self::ReturnTooLarge { .. } => Reason::Invalid,
            Self::NoInput => Reason::NotFound,
            Self::NoNodes | Self::TooManyEpochs { .. } | Self::InputUnavailable { .. } => Reason::Unavailable,
            Self::Function(_) | Self::Cancelled(_) => Reason::Failed,
            Self::Task { last, .. } => last.reason,
            Self::Refused(refusal) => refusal.reason,
        };
        Refusal::new(reason, self.to_string())
    }
}

/// `, record 3 (which begins "…")`, as far as that is known.
fn at_record(error: &FunctionFailure) -> String {
    let Some(record) = error.record else { return String::new() };
    if error.record_start.is_empty() {
        return format!(", record {record}");
    }
    let start = &error.record_start[..error.record_start.len().min(QUOTED_BYTES_MAX)];
    format!(", record {record} (which begins \"{}\")", start.escape_ascii())
}

/// Most bytes of a record in a message: they may be binary, and a byte then takes four letters.
const QUOTED_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_function_error_names_function_file_segment_record_and_what_was_said() {
        let mut error = FunctionFailure {
            function: "average".into(),
            path: "/in/a".parse().unwrap(),
            segment: 7,
            record: Some(3),
            message: "division by zero".into(),
            record_start: vec![],
        };
        let sentence = SphereError::Function(error.clone()).to_string();
        assert_eq!(sentence, "the function `average` failed on `/in/a`, segment 7, record 3: division by zero");
        error.record_start = b"0\t\xff".to_vec();
        let sentence = SphereError::Function(error.clone()).to_string();
        assert!(sentence.contains(r#"record 3 (which begins "0\t\xff"): division"#), "{sentence}");
        error.record = None;
        let sentence = SphereError::Function(error).refusal().message;
        assert_eq!(sentence, "the function `average` failed on `/in/a`, segment 7: division by zero");
    }

    #[test]
    fn a_partial_record_names_file_length_and_record() {
        let error = SphereError::PartialRecord { path: "/in/b".parse().unwrap(), bytes: 250, record_bytes: 100 };
        let refusal = error.refusal();
        assert_eq!((refusal.status(), error.class()), (Status::Usage, ErrorClass::Refuse));
        for part in ["/in/b", "250", "100"] {
            assert!(refusal.message.contains(part), "{part}");
        }
    }

    #[test]
    fn a_failed_task_keeps_the_kind_of_its_last_failure() {
        let last = Refusal::new(Reason::Corrupt, "bad block");
        let error = SphereError::Task { path: SectorPath::root(), failures: 4, last };
        assert_eq!(error.refusal().status(), Status::Corrupt);
        assert!(error.to_string().contains("bad block"));
    }
}
