//! Terasort (Sector/Sphere paper, 3.2, Figure 3, and 4.2): making records, sorting them and checking the order, each a
//! job of built-in functions. The tour and `sector oct terasort` run the same jobs. The data is made to be sorted and
//! thrown away, so it never has more than one copy.

use std::{io::Cursor, ops::Range};

use client::{
    Client, Entry, EntryKind, PutOptions, SectorPath,
    job::{JobOutcome, JobOutput, JobSpec, StageSpec},
};
use functions::cuts::Cuts;
pub use functions::terasort::{RECORD_BYTES, SegmentCheck, TotalCheck};
use protocol::{
    Reason, RecordFraming, limits,
    message::spe::{FunctionCode, FunctionSpec},
};
use terminal::{Failure, Global, drive, show};
use tokio::task::JoinSet;

/// Makes `records` records in `files` files, each on the node where it stays.
///
/// # Errors
/// When the nodes have no room for them, the folder is in use, or the job fails.
pub async fn generate(
    cloud: &Client,
    records: u64,
    files: Option<u32>,
    seed: u64,
    folder: &SectorPath,
    global: &Global,
) -> Result<JobOutcome, Failure> {
    cloud.check_job_output(folder).await?;
    let nodes = cloud.nodes().await?;
    let files = files.map_or(2 * nodes.len() as u64, u64::from).clamp(1, records.max(1));
    if nodes.is_empty() {
        return Err(Failure::new(Reason::Unavailable, "there are no nodes to generate on"));
    }
    let (needed, free): (u64, u64) =
        (records.saturating_mul(RECORD_BYTES as u64), nodes.iter().map(|node| node.free_bytes).sum());
    if needed > free {
        let (needed, free) = (show::size(needed), show::size(free));
        return Err(Failure::new(Reason::NoSpace, format!("{needed} have no room: the nodes have {free} free")));
    }
    // A line in a small file describes each file's records. The small file lies where the records should be.
    let seeds =
        folder.parent().unwrap_or_else(SectorPath::root).join(&format!("{}.seeds", folder.name().unwrap_or("gen")))?;
    let mut first = 0;
    for number in 0..files {
        let count = records / files + u64::from(number < records % files);
        let node = &nodes[(number % nodes.len() as u64) as usize];
        let options = PutOptions { parents: true, at: Some(node.node.clone()), ..once() };
        let line = format!("{first} {count} {seed}\n");
        cloud.put(Cursor::new(line), &seeds.join(&format!("{number:05}"))?, &options, &|_| ()).await?;
        first += count;
    }
    let spec = JobSpec {
        title: format!("terasort gen of {records} records"),
        inputs: cloud.expand(seeds.as_str()).await?,
        stages: vec![stage("teragen", &[], None)],
        output: JobOutput::Folder(folder.clone()),
        // One task per file: they are too small to be distinguished by size.
        segment_bytes: Some((1, limits::SEGMENT_BYTES_DEFAULT.1)),
        ..plain()
    };
    let outcome = drive(cloud, spec, "terasort gen", global).await;
    cloud.remove_now(&seeds, true).await?;
    outcome
}

/// Sorts in two stages: into buckets by sampled cuts, then each bucket.
///
/// # Errors
/// When the input is not of whole records, the folder is in use, or the job fails.
pub async fn sort(
    cloud: &Client,
    input: &str,
    output: &SectorPath,
    buckets: Option<u32>,
    global: &Global,
) -> Result<JobOutcome, Failure> {
    cloud.check_job_output(output).await?;
    let inputs = cloud.expand(input).await?;
    let bytes: u64 = inputs.iter().map(file_bytes).sum();
    if let Some(entry) = inputs.iter().find(|entry| !file_bytes(entry).is_multiple_of(RECORD_BYTES as u64)) {
        let (path, bytes) = (&entry.path, file_bytes(entry));
        return Err(Failure::usage(format!(
            "`{path}` has {bytes} bytes, which is no multiple of the record's {RECORD_BYTES}"
        )));
    }
    let nodes = cloud.nodes().await?.len() as u64;
    // A bucket is sorted in memory: 64 MiB each, and at least two per node so that all have work until the end.
    let buckets = buckets.map_or_else(|| bytes.div_ceil(BUCKET_BYTES).max(2 * nodes), u64::from);
    let buckets = u32::try_from(buckets.clamp(1, u64::from(limits::BUCKETS_MAX))).unwrap_or(limits::BUCKETS_MAX);
    let cuts = Cuts::choose(&sample(cloud, &inputs, bytes).await?, KEY_BYTES, buckets);
    let spec = JobSpec {
        title: format!("terasort sort of {input} into {buckets} buckets"),
        inputs,
        stages: vec![stage("partition", &[("cuts", cuts.to_string())], Some(buckets)), stage("sort", &[], None)],
        output: JobOutput::Folder(output.clone()),
        records: Some(RecordFraming::Fixed(RECORD_BYTES as u32)),
        ..plain()
    };
    drive(cloud, spec, "terasort sort", global).await
}

/// Counts, sums and checks the order, also across the borders of segments and files.
///
/// # Errors
/// When the job fails.
pub async fn validate(cloud: &Client, folder: &str, global: &Global) -> Result<TotalCheck, Failure> {
    let spec = JobSpec {
        title: format!("terasort validate of {folder}"),
        inputs: cloud.expand(folder).await?,
        stages: vec![stage("teravalidate", &[], None)],
        output: JobOutput::Return,
        records: Some(RecordFraming::Fixed(RECORD_BYTES as u32)),
        ..plain()
    };
    let outcome = drive(cloud, spec, "terasort validate", global).await?;
    let text = String::from_utf8_lossy(&outcome.returned.concat()).into_owned();
    let segments: Result<Vec<SegmentCheck>, _> = text.lines().map(str::parse).collect();
    Ok(TotalCheck::of(segments.map_err(Failure::failed)?))
}

/// Keys from evenly spaced offsets of the input, one after the other.
async fn sample(cloud: &Client, inputs: &[Entry], bytes: u64) -> Result<Vec<u8>, Failure> {
    let records: Vec<u64> = inputs.iter().map(|entry| file_bytes(entry) / RECORD_BYTES as u64).collect();
    let step = (bytes / RECORD_BYTES as u64 / SAMPLE_PLACES).max(SAMPLE_RECORDS);
    let mut places = sampled_places(&records, step).into_iter();
    let (mut reading, mut keys) = (JoinSet::new(), Vec::new());
    loop {
        // Each sample costs some round trips, and no more than that.
        while reading.len() < SAMPLES_AT_ONCE
            && let Some((file, range)) = places.next()
        {
            let (cloud, path) = (cloud.clone(), inputs[file].path.clone());
            reading.spawn(async move { cloud.read(&path, Some(range), Vec::new(), &|_| ()).await });
        }
        let Some(read) = reading.join_next().await else { return Ok(keys) };
        let (_, bytes) = read.map_err(|error| Failure::new(Reason::Failed, error.to_string()))??;
        keys.extend(bytes.chunks_exact(RECORD_BYTES).flat_map(|record| &record[..KEY_BYTES]));
    }
}

/// Where files of these record counts are sampled: the file, and the bytes. There is a sample every `step` records,
/// counted across files, so that many small files are sampled like one large one.
fn sampled_places(file_records: &[u64], step: u64) -> Vec<(usize, Range<u64>)> {
    let (mut places, mut at) = (Vec::new(), 0);
    for (file, &records) in file_records.iter().enumerate() {
        while at < records {
            places.push((file, record_range(at, records)));
            at += step;
        }
        at -= records;
    }
    places
}

/// The bytes of the records sampled at record `at` of a file.
fn record_range(at: u64, records: u64) -> Range<u64> {
    at * RECORD_BYTES as u64..records.min(at + SAMPLE_RECORDS) * RECORD_BYTES as u64
}

fn stage(name: &str, parameters: &[(&str, String)], buckets: Option<u32>) -> StageSpec {
    let parameters = parameters.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let function = FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters };
    StageSpec { function, buckets, records: RecordFraming::Fixed(RECORD_BYTES as u32), side_files: Vec::new() }
}

/// A job over data with a single copy.
fn plain() -> JobSpec {
    JobSpec {
        zipped_inputs: Vec::new(),
        title: String::new(),
        inputs: Vec::new(),
        stages: Vec::new(),
        output: JobOutput::Return,
        records: None,
        segment_bytes: None,
        errors_max: 0,
        copies: Some(1),
        sync_copies: Some(1),
    }
}

fn once() -> PutOptions {
    PutOptions { copies: Some(1), sync_copies: Some(1), ..PutOptions::default() }
}

fn file_bytes(entry: &Entry) -> u64 {
    match &entry.kind {
        EntryKind::File(content) => content.bytes,
        EntryKind::Folder => 0,
    }
}

/// Length of a key in bytes.
const KEY_BYTES: usize = 10;
/// A bucket that is easily sorted in memory.
const BUCKET_BYTES: u64 = 64 << 20;
/// Number of samples of the input. With 200 records each, that is 25,600 keys, which cut 64 buckets to within a few
/// per cent.
const SAMPLE_PLACES: u64 = 128;
/// Samples read at once.
const SAMPLES_AT_ONCE: usize = 16;
/// Adjacent records read in each sample.
const SAMPLE_RECORDS: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_ends_with_its_file() {
        assert_eq!(record_range(0, 1000), 0..20_000);
        assert_eq!(record_range(950, 1000), 95_000..100_000);
    }

    #[test]
    fn many_small_files_are_sampled_as_often_as_a_large_one() {
        assert_eq!(sampled_places(&[1_000], 400).len(), 3);
        let small = sampled_places(&[100; 10], 400);
        assert_eq!(small, [(0, 0..10_000), (4, 0..10_000), (8, 0..10_000)]);
    }
}
