//! The paper's inverted index (3.6) as a two-stage job, and the plain single-threaded count it is compared with. The
//! plain count never uses the cloud.

use std::path::PathBuf;

use client::{
    Client, SectorPath,
    job::{JobOutcome, JobOutput, JobSpec, StageSpec},
};
use functions::reference::{IndexSummary, ReferenceIndex};
use protocol::{
    RecordFraming,
    message::spe::{FunctionCode, FunctionSpec},
};
use terminal::{drive, failure::Failure};

use crate::arguments::Global;

/// Builds the index of all files below `text` in `output`.
pub(super) async fn build(
    cloud: &Client,
    text: &SectorPath,
    output: &SectorPath,
    global: &Global,
) -> Result<JobOutcome, Failure> {
    let stage = |name: &str, buckets, records| StageSpec {
        function: FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters: Vec::new() },
        buckets,
        records,
        side_files: Vec::new(),
    };
    let spec = JobSpec {
        zipped_inputs: Vec::new(),
        title: format!("inverted index of {text}"),
        inputs: cloud.expand(text.as_str()).await?,
        stages: vec![stage("words", Some(BUCKETS), RecordFraming::File), stage("index", None, RecordFraming::Lines)],
        output: JobOutput::Folder(output.clone()),
        records: Some(RecordFraming::File),
        segment_bytes: None,
        errors_max: 0,
        copies: Some(1),
        sync_copies: Some(1),
    };
    drive(cloud, spec, "inverted index", global).await
}

/// The summaries of the job's output and of the plain count, in this order.
pub(super) async fn compare(
    cloud: &Client,
    output: &SectorPath,
    local: Vec<(PathBuf, SectorPath)>,
) -> Result<(IndexSummary, IndexSummary), Failure> {
    let mut found = IndexSummary::default();
    for entry in cloud.expand(output.as_str()).await? {
        let (_, bytes) = cloud.read(&entry.path, None, Vec::new(), &|_| ()).await?;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            found.add_line(line).map_err(Failure::failed)?;
        }
    }
    let expected = tokio::task::spawn_blocking(move || count(&local)).await;
    Ok((found, expected.map_err(|error| Failure::failed(error.to_string()))??))
}

/// One thread, one file after the other.
fn count(local: &[(PathBuf, SectorPath)]) -> Result<IndexSummary, Failure> {
    let mut index = ReferenceIndex::new();
    for (file, path) in local {
        let bytes = std::fs::read(file).map_err(|error| Failure::local("read", file, &error))?;
        index.add(path.as_str(), &bytes);
    }
    Ok(index.summary())
}

/// Two per node.
const BUCKETS: u32 = 8;
