//! `sector oct malgen`: makes records of MalStone, each on the node where it stays. A first job finds out whom the
//! marked sites compromise. Its outcome, a small file, goes to all nodes for the second. It never makes other bytes
//! with more nodes.

use std::io::Cursor;

use client::{
    Client, Entry, PutOptions, SectorPath,
    job::{JobOutput, SideFileSpec, StageSpec},
};
use functions::malstone::{Plan, RECORD_BYTES};
use protocol::{Reason, RecordFraming, SideFileName, limits};
use serde::Serialize;
use terminal::{Failure, Global, drive, show};

use super::{file_bytes, function, once};
use crate::arguments::Malgen;

/// `sector oct malgen`.
pub(crate) async fn generate(cloud: &Client, arguments: &Malgen, global: &Global) -> Result<(), Failure> {
    let plan = plan(arguments);
    plan.check().map_err(Failure::usage)?;
    let folder = SectorPath::parse(&arguments.folder)?;
    cloud.check_job_output(&folder).await?;
    let nodes: Vec<_> = cloud.nodes().await?.into_iter().map(|node| (node.node, node.free_bytes)).collect();
    if nodes.is_empty() {
        return Err(Failure::new(Reason::Unavailable, "there are no nodes to generate on"));
    }
    let (needed, free) = (arguments.records.saturating_mul(RECORD_BYTES as u64), nodes.iter().map(|node| node.1).sum());
    if needed > free {
        let (needed, free) = (show::size(needed), show::size(free));
        return Err(Failure::new(Reason::NoSpace, format!("{needed} have no room: the nodes have {free} free")));
    }
    let scratch =
        folder.parent().unwrap_or_else(SectorPath::root).join(&format!("{}.malgen", folder.name().unwrap_or("log")))?;
    if cloud.find(&scratch).await?.is_some() {
        let message =
            format!("`{scratch}` is there, which this command makes and removes: remove it, or give another folder");
        return Err(Failure::new(Reason::Exists, message));
    }
    let names: Vec<_> = nodes.into_iter().map(|node| node.0).collect();
    let made = run_jobs(cloud, arguments, &plan, &folder, &scratch, &names, global).await;
    cloud.remove_now(&scratch, true).await?;
    let made = made?;
    if global.json {
        return show::json(&made);
    }
    if !global.quiet {
        let Made { records, slices, sites, entities, compromised } = &made;
        show::line(format!(
            "{records} records ({}) in {slices} slices in {folder}: {sites} sites, {entities} entities, {compromised} of \
             them compromised",
            show::size(needed)
        ));
    }
    Ok(())
}

/// What was made, as JSON (contract).
#[derive(Serialize)]
struct Made {
    records: u64,
    slices: usize,
    sites: u64,
    entities: u64,
    compromised: u64,
}

fn plan(arguments: &Malgen) -> Plan {
    let &Malgen { records, marked, site_exponent, entity_exponent, days, probability, seed, .. } = arguments;
    let sites = arguments.sites.unwrap_or_else(|| (marked * SITES_PER_MARKED).max(records / SITE_RECORDS).max(1));
    let entities = arguments.entities.unwrap_or_else(|| (records / ENTITY_RECORDS).max(ENTITIES_MIN));
    Plan { sites, marked, entities, site_exponent, entity_exponent, days, probability, seed }
}

/// How many slices there are, whatever nodes there are: the bytes of each follow from it.
fn slices(arguments: &Malgen) -> u64 {
    let usual = arguments.records.div_ceil(SLICE_RECORDS).clamp(SLICES_MIN, limits::JOB_INPUTS_MAX as u64);
    arguments.slices.unwrap_or(usual).min(arguments.records)
}

async fn run_jobs(
    cloud: &Client,
    arguments: &Malgen,
    plan: &Plan,
    folder: &SectorPath,
    scratch: &SectorPath,
    nodes: &[client::NodeId],
    global: &Global,
) -> Result<Made, Failure> {
    let (records, slices) = (arguments.records, slices(arguments));
    let parts = scratch.join("parts")?;
    let mut first = 0;
    for number in 0..slices {
        let count = records / slices + u64::from(number < records % slices);
        // The line lies where its records should be.
        let at = Some(nodes[(number % nodes.len() as u64) as usize].clone());
        let options = PutOptions { parents: true, at, copies: Some(1), sync_copies: Some(1), ..PutOptions::default() };
        let line = Cursor::new(format!("{first} {count}\n"));
        cloud.put(line, &parts.join(&format!("{number:05}"))?, &options, &|_| ()).await?;
        first += count;
    }
    let inputs = cloud.expand(parts.as_str()).await?;
    let outcome = marked_part(cloud, plan, inputs.clone(), &scratch.join("outcome")?, global).await?;
    let stage = StageSpec::local(function("malgen", plan.parameters()))
        .with_records(RecordFraming::Fixed(RECORD_BYTES as u32))
        .with_side_files(vec![SideFileSpec {
            name: SideFileName::new("outcome").map_err(|error| Failure::failed(error.to_string()))?,
            path: outcome.path.clone(),
        }]);
    let title = format!("malgen of {records} records");
    let mut spec = once(title, inputs, vec![stage], JobOutput::Folder(folder.clone()));
    (spec.records, spec.segment_bytes) = (Some(RecordFraming::Lines), Some(ONE_TASK_A_FILE));
    let made = drive(cloud, spec, "malgen", global).await?;
    Ok(Made {
        records,
        slices: made.outputs.len(),
        sites: plan.sites,
        entities: plan.entities,
        compromised: file_bytes(&outcome) / functions::malstone::OUTCOME_ENTRY_BYTES as u64,
    })
}

/// Finds out whom the marked sites compromise, and when.
async fn marked_part(
    cloud: &Client,
    plan: &Plan,
    inputs: Vec<Entry>,
    outcome: &SectorPath,
    global: &Global,
) -> Result<Entry, Failure> {
    let stages = vec![
        StageSpec::shuffle(function("malgen_marked", plan.parameters()), 1),
        StageSpec::local(function("malgen_outcome", Vec::new())),
    ];
    let mut spec = once("malgen, the marked part".into(), inputs, stages, JobOutput::Folder(outcome.clone()));
    (spec.records, spec.segment_bytes) = (Some(RecordFraming::Lines), Some(ONE_TASK_A_FILE));
    let outputs = drive(cloud, spec, "malgen, the marked part", global).await?.outputs;
    outputs.into_iter().next().ok_or_else(|| Failure::failed("the marked part left no outcome"))
}

/// Lines are too small to be told apart by size, so each file is a task.
const ONE_TASK_A_FILE: (u64, u64) = (1, limits::SEGMENT_BYTES_DEFAULT.1);
/// Sites for each marked one, and records for each site, if nothing is said: as many as the original's law gives.
const SITES_PER_MARKED: u64 = 20;
const SITE_RECORDS: u64 = 10_000;
/// Records for each entity, and least entities, if nothing is said.
const ENTITY_RECORDS: u64 = 100;
const ENTITIES_MIN: u64 = 1_000;
/// Records of a slice, and least slices, if nothing is said: as many as a segment has.
const SLICE_RECORDS: u64 = 1_250_000;
const SLICES_MIN: u64 = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn arguments(words: &str) -> Malgen {
        let words = format!("oct malgen {words} /log");
        let Command::Malgen(arguments) = Arguments::try_parse_from(words.split(' ')).unwrap().command else { panic!() };
        arguments
    }

    #[test]
    fn what_is_not_said_follows_from_the_number_of_records() {
        let small = arguments("--records 10M");
        let found = plan(&small);
        assert_eq!((found.sites, found.marked, found.entities, slices(&small)), (20_000, 1_000, 100_000, 8));
        let large = arguments("--records 10G");
        let found = plan(&large);
        assert_eq!((found.sites, found.entities, slices(&large)), (1_000_000, 100_000_000, 4_096));
        assert!(found.check().is_ok());
        assert_eq!((slices(&arguments("--records 3")), slices(&arguments("--records 3 --slices 2"))), (3, 2));
        assert!(plan(&arguments("--records 3 --marked 0")).check().is_ok());
        let error = plan(&arguments("--records 3 --sites 999")).check().unwrap_err();
        assert_eq!(error, "1000 sites cannot be marked: there are 999");
    }
}
