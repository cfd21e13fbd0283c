//! What a job is, how it goes on, and what it leaves. It refuses what cannot work before anything is asked of the cloud.
//! It never asks the cloud anything.

use protocol::{
    JobId, RecordFraming, SectorPath, limits,
    message::{
        client_master::{Entry, JobRecord, SiteLink},
        spe::{FunctionCode, FunctionSpec},
    },
};
use serde::{Deserialize, Serialize};
use sphere::{FinalOutput, InputFile, JobPlan, SkippedSegment, StageOutput, StagePlan};

use super::{parameters, side_files::SideFileSpec};
use crate::ClientError;

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// One line for people: functions and input.
    pub title: String,
    /// The input files, in order, as [`expand`](crate::Client::expand) gives them; an index beside its file is left out.
    pub inputs: Vec<Entry>,
    /// Further input streams, which are read together with the first, record by record or file by file (paper, 3.2).
    /// They must have equally many records.
    pub zipped_inputs: Vec<Vec<Entry>>,
    /// How the input is divided into records, if not as its files say.
    pub records: Option<RecordFraming>,
    /// The stages, in order.
    pub stages: Vec<StageSpec>,
    /// What becomes of the last stage's results.
    pub output: JobOutput,
    /// Smallest and largest segment in bytes; 8 MiB and 128 MiB where `None` (paper, 3.5.1).
    pub segment_bytes: Option<(u64, u64)>,
    /// Segments whose function may err without ending the job, at most
    /// [`FUNCTION_ERRORS_MAX`](limits::FUNCTION_ERRORS_MAX). They are left out of the output, and `errors.jsonl` beside
    /// its parts says for each what went wrong. 0: the first error ends the job.
    pub errors_max: u32,
    /// Copies wanted of each output file; the cloud's default where `None`.
    pub copies: Option<u8>,
    /// Copies synced before the job counts as done; the cloud's default where `None`.
    pub sync_copies: Option<u8>,
}

/// One stage: a function over a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageSpec {
    /// The function.
    pub function: FunctionSpec,
    /// Buckets for a shuffle; if `None`, each task's results stay where it ran.
    pub buckets: Option<u32>,
    /// How the results are divided into records: given to the next stage and the output files.
    pub records: RecordFraming,
    /// Files that every call of the function may read, at most [`SIDE_FILES_MAX`](limits::SIDE_FILES_MAX). Each is sent
    /// to a node once.
    pub side_files: Vec<SideFileSpec>,
}

/// What becomes of a job's results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobOutput {
    /// Files `part-00000`, `part-00001` … in this folder, which must not exist or be empty. The number is the bucket's;
    /// empty buckets have no file.
    Folder(SectorPath),
    /// To the caller: up to 1 MiB from each bucket.
    Return,
}

/// The progress of a job, given some times a second.
#[derive(Clone, Debug)]
pub struct JobProgress {
    /// The job.
    pub job: JobId,
    /// How often all of it was begun anew; see `docs/paths/job.md`.
    pub epoch: u32,
    /// The current stage, from 0.
    pub stage: u32,
    /// Bytes of the stage's input that are processed.
    pub bytes_done: u64,
    /// Bytes of the stage's input.
    pub bytes_total: u64,
    /// What the job waits for, if no copy of an input can be reached now; it goes on with the others meanwhile.
    pub waits_for: Option<String>,
    /// The record that the master gets: state, counts of the stages, errors.
    pub record: JobRecord,
}

/// What a finished job left.
#[derive(Clone, Debug)]
pub struct JobOutcome {
    /// The job.
    pub job: JobId,
    /// Its last record.
    pub record: JobRecord,
    /// Its output files, in the order of their buckets; none for [`JobOutput::Return`].
    pub outputs: Vec<Entry>,
    /// Segments that are missing from the output, since the function erred on them; see [`JobSpec::errors_max`].
    pub skipped_segments: Vec<SkippedSegment>,
    /// For [`JobOutput::Return`], the bytes of every bucket of the last stage, in order; empty ones are empty.
    pub returned: Vec<Vec<u8>>,
}

impl JobSpec {
    /// A job with the cloud's defaults.
    pub fn new(title: impl Into<String>, inputs: Vec<Entry>, stages: Vec<StageSpec>, output: JobOutput) -> Self {
        Self {
            title: title.into(),
            inputs,
            zipped_inputs: Vec::new(),
            records: None,
            stages,
            output,
            segment_bytes: None,
            errors_max: 0,
            copies: None,
            sync_copies: None,
        }
    }

    pub(super) fn plan(&self, job: JobId, links: Vec<SiteLink>) -> JobPlan {
        let stage = |stage: &StageSpec| StagePlan {
            output: stage.buckets.map_or(StageOutput::Local, StageOutput::Buckets),
            records: stage.records,
        };
        let output = match self.output {
            JobOutput::Folder(_) => FinalOutput::Publish,
            JobOutput::Return => FinalOutput::Return,
        };
        let plan = JobPlan::new(job, self.stages.iter().map(stage).collect(), output);
        let segment_bytes = self.segment_bytes.unwrap_or(plan.segment_bytes);
        JobPlan { segment_bytes, errors_max: self.errors_max, links, ..plan }
    }

    /// Refuses more errors than a driver keeps reports of.
    pub(super) fn check_errors(&self) -> Result<(), ClientError> {
        let most = limits::FUNCTION_ERRORS_MAX;
        if self.errors_max <= most {
            return Ok(());
        }
        let message = format!("a job cannot go on with {} errors; let it bear {most} at most", self.errors_max);
        Err(ClientError::Usage(message))
    }

    /// Refuses input that the first function could not read.
    pub(super) fn check_rows(&self, inputs: &[InputFile]) -> Result<(), ClientError> {
        let rows = inputs.iter().find(|file| file.records == RecordFraming::Parquet);
        match (rows, self.stages.first().map(|stage| &stage.function.code)) {
            (None, _) | (_, Some(FunctionCode::Python(_))) | (_, None) => Ok(()),
            (Some(file), Some(_)) => Err(ClientError::Usage(format!(
                "`{}` is read by row groups, which only functions in Python can do: write one, or give the whole file with \
                 `--records file`",
                file.path
            ))),
        }
    }

    /// Refuses a function that no node would accept.
    pub(super) fn check_functions(&self) -> Result<(), ClientError> {
        parameters::check(self.stages.iter().map(|stage| &stage.function))?;
        let most = limits::LIBRARY_BYTES_MAX;
        for stage in &self.stages {
            if matches!(stage.records, RecordFraming::Index | RecordFraming::Parquet) {
                let message =
                    format!("the results of a stage cannot be `{}` records; use another format", stage.records);
                return Err(ClientError::Usage(message));
            }
            let name = stage.function.code.name();
            let (what, bytes, advice) = match &stage.function.code {
                FunctionCode::BuiltIn(_) => continue,
                FunctionCode::Native { library, .. } => ("library", library.len(), "strip it of symbols"),
                FunctionCode::Python(function) => {
                    ("code", function.code_bytes(), "keep large objects out of what the function refers to")
                }
                FunctionCode::Program { words } if words.is_empty() => {
                    return Err(ClientError::Usage("a program was asked for without its name".into()));
                }
                FunctionCode::Program { words } => {
                    ("command line", words.iter().map(String::len).sum(), "give it less to say")
                }
            };
            if bytes > most {
                let message = format!("the {what} of `{name}` has {bytes} bytes, more than {most}; {advice}");
                return Err(ClientError::Usage(message));
            }
        }
        Ok(())
    }
}

impl StageSpec {
    /// A stage whose results stay where its tasks ran, with the results of each task as one record.
    pub fn local(function: FunctionSpec) -> Self {
        Self { function, buckets: None, records: RecordFraming::File, side_files: Vec::new() }
    }

    /// A stage whose results are sent to `buckets` buckets.
    pub fn shuffle(function: FunctionSpec, buckets: u32) -> Self {
        Self { function, buckets: Some(buckets), records: RecordFraming::File, side_files: Vec::new() }
    }

    /// The same stage, with its results divided into records like this.
    #[must_use]
    pub fn with_records(self, records: RecordFraming) -> Self {
        Self { records, ..self }
    }

    /// The same stage, whose function may read these files.
    #[must_use]
    pub fn with_side_files(self, side: Vec<SideFileSpec>) -> Self {
        Self { side_files: side, ..self }
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use protocol::{
        Digest, FileId, NodeId, SliceId, Status, UserName, Version,
        message::client_master::{EntryKind, FileContent},
    };

    use super::*;

    fn built_in(name: &str) -> FunctionSpec {
        FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters: vec![] }
    }

    pub(crate) fn entry(path: &str, kind: EntryKind) -> Entry {
        let (path, owner) = (path.parse().unwrap(), UserName::new("u").unwrap());
        Entry {
            path,
            id: FileId(1),
            owner,
            modified_unix_millis: 0,
            kind,
            nodes: vec![NodeId::new("a").unwrap()],
            has_acl: false,
        }
    }

    pub(crate) fn file(records: RecordFraming) -> EntryKind {
        EntryKind::File(FileContent {
            slice: SliceId(7),
            version: Version(1),
            bytes: 20,
            digest: Digest([0; 32]),
            records,
            copies: 1,
            user: BTreeMap::new(),
        })
    }

    #[test]
    fn rows_are_for_python_and_no_stage_makes_an_index() {
        let input = |records| InputFile {
            path: "/a".parse().unwrap(),
            slice: SliceId(1),
            bytes: 1,
            records,
            nodes: vec![],
            layout: sphere::FileLayout::default(),
        };
        let stage = StageSpec::local(built_in("count"));
        let spec = JobSpec::new("t", vec![], vec![stage.clone()], JobOutput::Return);
        assert!(spec.check_rows(&[input(RecordFraming::Index)]).is_ok());
        assert!(spec.check_rows(&[input(RecordFraming::Parquet)]).unwrap_err().to_string().contains("Python"));
        let spec = JobSpec::new("t", vec![], vec![stage.with_records(RecordFraming::Index)], JobOutput::Return);
        assert_eq!(spec.check_functions().unwrap_err().status(), Status::Usage);
    }

    #[test]
    fn a_plan_has_the_stages_bounds_and_output_of_its_spec() {
        let stages = vec![
            StageSpec::shuffle(built_in("f"), 5).with_records(RecordFraming::Lines),
            StageSpec::local(built_in("g")),
        ];
        let mut spec = JobSpec::new("t", vec![], stages, JobOutput::Folder("/out".parse().unwrap()));
        let plan = spec.plan(JobId(3), vec![]);
        assert_eq!(plan.stages[0], StagePlan { output: StageOutput::Buckets(5), records: RecordFraming::Lines });
        assert_eq!(plan.stages[1], StagePlan { output: StageOutput::Local, records: RecordFraming::File });
        assert_eq!((plan.output, plan.segment_bytes), (FinalOutput::Publish, limits::SEGMENT_BYTES_DEFAULT));
        assert_eq!(plan.errors_max, 0, "the first error ends a job of which nothing else is said");
        spec.segment_bytes = Some((1, 2));
        spec.errors_max = 7;
        assert_eq!(spec.plan(JobId(3), vec![]).errors_max, 7);
        spec.output = JobOutput::Return;
        assert_eq!(
            (spec.plan(JobId(3), vec![]).output, spec.plan(JobId(3), vec![]).segment_bytes),
            (FinalOutput::Return, (1, 2))
        );
    }

    #[test]
    fn more_errors_than_a_driver_remembers_are_refused() {
        let mut spec = JobSpec::new("t", vec![], vec![], JobOutput::Return);
        spec.errors_max = limits::FUNCTION_ERRORS_MAX;
        assert!(spec.check_errors().is_ok());
        spec.errors_max += 1;
        assert_eq!(spec.check_errors().unwrap_err().status(), Status::Usage);
    }

    #[test]
    fn a_library_that_is_too_long_is_refused_before_anything_is_sent() {
        let library = vec![0; limits::LIBRARY_BYTES_MAX + 1];
        let function = FunctionSpec { code: FunctionCode::Native { library, symbol: "f".into() }, parameters: vec![] };
        let spec = JobSpec::new("t", vec![], vec![StageSpec::local(function)], JobOutput::Return);
        assert_eq!(spec.check_functions().unwrap_err().status(), Status::Usage);
    }
}
