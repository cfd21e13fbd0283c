//! `sector oct malstone`: for each site, who visited it and how many of them were flagged afterwards. Each record is
//! read once and sent once, to the bucket of its entity; what is sent from there are sums. It never waits for a site or
//! an entity that has most of the records: neither has a place of its own.

use client::{
    Client, Entry, SectorPath,
    job::{JobOutput, StageSpec},
};
use functions::malstone::{RECORD_BYTES, SITE_COLUMN, parse_date};
use protocol::{Reason, RecordFraming, limits};
use serde::Serialize;
use terminal::{Failure, Global, drive, show};
use tokio::task::JoinSet;

use super::{file_bytes, function, once};
use crate::arguments::{Malstone, MalstoneRun};

/// `sector oct malstone`.
pub(crate) async fn run(cloud: &Client, command: Malstone, global: &Global) -> Result<(), Failure> {
    let (name, by, run) = match &command {
        Malstone::A(run) => ("malstone a", "total", run),
        Malstone::B(run) => ("malstone b", "week", run),
    };
    parse_date(&run.start).map_err(Failure::usage)?;
    let output = SectorPath::parse(&run.output)?;
    cloud.check_job_output(&output).await?;
    let inputs = cloud.expand(&run.input).await?;
    let bytes: u64 = inputs.iter().map(file_bytes).sum();
    if let Some(entry) = inputs.iter().find(|entry| !file_bytes(entry).is_multiple_of(RECORD_BYTES as u64)) {
        let (path, bytes) = (&entry.path, file_bytes(entry));
        return Err(Failure::usage(format!(
            "`{path}` has {bytes} bytes, which is no multiple of the record's {RECORD_BYTES}"
        )));
    }
    let nodes = cloud.nodes().await?.len() as u64;
    let buckets = run.buckets.map_or_else(|| (bytes.div_ceil(BUCKET_INPUT_BYTES)).max(2 * nodes), u64::from);
    let lines_bytes = if by == "week" { SLICE_INPUT_BYTES } else { SLICE_INPUT_BYTES * WEEKS_OF_LINES };
    let slices = within_buckets(run.slices.map_or_else(|| bytes.div_ceil(lines_bytes), u64::from));
    let cuts = if slices == 1 { String::new() } else { cuts(&sampled_sites(cloud, &inputs, bytes).await?, slices) };
    let stages = stages(run, by, within_buckets(buckets), slices, &cuts);
    let title = format!("{name} of {}", run.input);
    let mut spec = once(title, inputs, stages, JobOutput::Folder(output.clone()));
    spec.records = Some(RecordFraming::Fixed(RECORD_BYTES as u32));
    let outcome = drive(cloud, spec, name, global).await?;
    let counters = outcome.record.counters.iter().flat_map(|counters| counters.iter());
    let outside = counters.filter(|(name, _)| *name == functions::malstone::OUTSIDE).map(|(_, count)| count).sum();
    let made = Made { slices: outcome.outputs.len(), records: bytes / RECORD_BYTES as u64, outside };
    if global.json {
        return show::json(&made);
    }
    if !global.quiet {
        let Made { slices, records, .. } = made;
        let slices = if slices == 1 { "a slice".to_owned() } else { format!("{slices} slices") };
        let without = if outside == 0 { String::new() } else { format!(", {outside} of them outside of the period") };
        show::line(format!("{records} records{without}: {slices} of CSV in {output}"));
    }
    Ok(())
}

/// What was made, as JSON (contract).
#[derive(Serialize)]
struct Made {
    slices: usize,
    records: u64,
    outside: u64,
}

fn stages(run: &MalstoneRun, by: &str, buckets: u32, slices: u32, cuts: &str) -> Vec<StageSpec> {
    let period = [("start", run.start.clone()), ("days", run.days.to_string())];
    let with = |more: &[(&str, &str)]| -> Vec<(String, String)> {
        let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        period.iter().cloned().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let by_site = with(&[("by", by), ("cuts", cuts)]);
    let lines = |of| StageSpec::local(function("malstone_sites", with(&[("by", by), ("of", of)])));
    if run.per_event {
        let events = StageSpec::shuffle(function("malstone_events", by_site), slices);
        return vec![events, lines("events").with_records(RecordFraming::Lines)];
    }
    vec![
        StageSpec::shuffle(function("malstone_visits", with(&[])), buckets),
        StageSpec::shuffle(function("malstone_entities", by_site), slices),
        lines("visitors").with_records(RecordFraming::Lines),
    ]
}

fn within_buckets(count: u64) -> u32 {
    u32::try_from(count.clamp(1, u64::from(limits::BUCKETS_MAX))).unwrap_or(limits::BUCKETS_MAX)
}

/// Cuts that give each slice about as many of the sampled sites; each counts once, as in the result.
fn cuts(sites: &[u64], slices: u32) -> String {
    let mut sites = sites.to_vec();
    sites.sort_unstable();
    sites.dedup();
    let cut = |slice: usize| sites.get(slice * sites.len() / slices as usize).map(u64::to_string);
    (1..slices as usize).filter_map(cut).collect::<Vec<_>>().join(",")
}

/// Sites of records that are evenly spread over the input.
async fn sampled_sites(cloud: &Client, inputs: &[Entry], bytes: u64) -> Result<Vec<u64>, Failure> {
    let step = (bytes / RECORD_BYTES as u64 / SAMPLES).max(1) * RECORD_BYTES as u64;
    let (mut reading, mut sites) = (JoinSet::new(), Vec::new());
    for entry in inputs {
        for from in (0..file_bytes(entry)).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            if reading.len() >= SAMPLES_AT_ONCE {
                collect(&mut reading, &mut sites).await?;
            }
            let range = from..file_bytes(entry).min(from + SAMPLE_BYTES);
            let (cloud, path) = (cloud.clone(), entry.path.clone());
            reading.spawn(async move { cloud.read(&path, Some(range), Vec::new(), &|_| ()).await });
        }
    }
    while !reading.is_empty() {
        collect(&mut reading, &mut sites).await?;
    }
    Ok(sites)
}

type Read = Result<(Entry, Vec<u8>), client::ClientError>;

async fn collect(reading: &mut JoinSet<Read>, sites: &mut Vec<u64>) -> Result<(), Failure> {
    let Some(read) = reading.join_next().await else { return Ok(()) };
    let (_, bytes) = read.map_err(|error| Failure::new(Reason::Failed, error.to_string()))??;
    // What is no number is found by the job, which says where it is.
    let site = |record: &[u8]| str::from_utf8(&record[SITE_COLUMN]).ok()?.parse::<u64>().ok();
    sites.extend(bytes.chunks_exact(RECORD_BYTES).filter_map(site));
    Ok(())
}

/// Input of a bucket of entities: its visits take an eighth, and some times that to be grouped in memory.
const BUCKET_INPUT_BYTES: u64 = 200_000_000;
/// Input of a slice of lines by week, and how much more it is with a line for each site alone.
const SLICE_INPUT_BYTES: u64 = 250_000_000;
const WEEKS_OF_LINES: u64 = 50;
/// Places that are sampled, how many at once, and how much each reads.
const SAMPLES: u64 = 64;
const SAMPLES_AT_ONCE: usize = 16;
const SAMPLE_BYTES: u64 = 200 * RECORD_BYTES as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_give_each_slice_as_many_sites() {
        let sites: Vec<u64> = (0..100).chain(std::iter::repeat_n(7, 1_000)).collect();
        assert_eq!(cuts(&sites, 4), "25,50,75");
        assert_eq!((cuts(&sites, 1), cuts(&[], 4), cuts(&[5], 3)), (String::new(), String::new(), "5,5".into()));
    }
}
