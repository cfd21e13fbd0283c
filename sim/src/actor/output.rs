//! A job to be run: random records, how they are cut and sorted (Sector/Sphere paper, Figure 3), and the result of a
//! plain sort. It never runs anything itself.

use fastrand::Rng;
use protocol::{
    JobId, RecordFraming,
    message::spe::{FunctionCode, FunctionSpec},
};
use sphere::{FinalOutput, JobPlan, StageOutput, StagePlan};

use std::time::Duration;

pub(crate) use crate::tagged::RECORD_BYTES;
use crate::tagged::{TAGGED, TAGGED_BYTES};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct JobPlanned {
    /// The input files' bytes.
    pub(crate) inputs: Vec<Vec<u8>>,
    /// The final content of each filled bucket, in order.
    pub(crate) expected: Vec<Vec<u8>>,
    buckets: u32,
    output: FinalOutput,
    /// Whether the functions of the present job give another result each time they run.
    pub(crate) is_tagged: bool,
}

impl JobPlanned {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let buckets = rng.u32(1..7);
        let inputs: Vec<Vec<u8>> = (0..rng.usize(1..6)).map(|_| records(rng)).collect();
        let mut sorted: Vec<&[u8]> = inputs.iter().flat_map(|file| file.chunks(RECORD_BYTES)).collect();
        sorted.sort_unstable();
        let mut expected = vec![Vec::new(); buckets as usize];
        for record in sorted {
            // The number of cuts that are not greater than the record's first byte.
            let bucket = cuts(buckets).iter().filter(|cut| **cut <= record[0]).count();
            expected[bucket].extend_from_slice(record);
        }
        expected.retain(|bucket| !bucket.is_empty());
        let output = if rng.bool() { FinalOutput::Publish } else { FinalOutput::Return };
        Self { inputs, expected, buckets, output, is_tagged: false }
    }

    /// Whether the output becomes files.
    pub(crate) fn is_published(&self) -> bool {
        self.output == FinalOutput::Publish
    }

    /// The plan for the rules.
    pub(crate) fn plan(&self, job: JobId) -> JobPlan {
        let records = RecordFraming::Fixed(if self.is_tagged { TAGGED_BYTES } else { RECORD_BYTES } as u32);
        let stages = vec![
            StagePlan { output: StageOutput::Buckets(self.buckets), records },
            StagePlan { output: StageOutput::Local, records },
        ];
        JobPlan {
            segment_bytes: (SEGMENT_BYTES, 4 * SEGMENT_BYTES),
            attempts_max: 8,
            epochs_max: 8,
            progress_deadline: Duration::from_secs(15),
            ..JobPlan::new(job, stages, self.output)
        }
    }

    /// The function of a stage.
    pub(crate) fn function(&self, stage: u32) -> FunctionSpec {
        let key = ("key".to_owned(), format!("0:{RECORD_BYTES}"));
        let hex: Vec<String> = cuts(self.buckets).iter().map(|cut| format!("{cut:02x}")).collect();
        if self.is_tagged {
            return FunctionSpec { code: FunctionCode::BuiltIn(TAGGED.to_owned()), parameters: Vec::new() };
        }
        let (name, parameters) = match stage {
            0 => ("partition", vec![key, ("cuts".to_owned(), hex.join(","))]),
            _ => ("sort", vec![key]),
        };
        FunctionSpec { code: FunctionCode::BuiltIn(name.to_owned()), parameters }
    }
}

/// First bytes at which a bucket begins, except for the first bucket.
fn cuts(buckets: u32) -> Vec<u8> {
    (1..buckets).map(|bucket| (bucket * 256 / buckets) as u8).collect()
}

/// Some records; that two are equal is next to impossible.
fn records(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.usize(1..400) * RECORD_BYTES];
    rng.fill(&mut bytes);
    bytes
}

/// Smallest segment in bytes: a file has several.
const SEGMENT_BYTES: u64 = 600;
