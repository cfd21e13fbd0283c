//! MalStone (paper of the Open Cloud Testbed, 5 and 6) beside a tuned pass over the same records in one file. It never
//! takes a time without comparing the answers.

use std::{fs, path::Path};

use crate::{
    cloud::Cloud,
    figures::{print_pair, timed},
    input::fill_cache,
    ratios,
};

/// MalStone-A and -B over four nodes beside two threads over one file, in turns.
pub(crate) fn malstone(
    cloud: &Cloud,
    folder: &Path,
    megabytes: u64,
    rounds: usize,
    fills_cache: bool,
) -> Result<(), String> {
    let records = megabytes * 10_000;
    let generation = timed(|| {
        cloud.sector(&["oct", "malgen", "--records", &records.to_string(), "/log"]).map(|text| print!("{text}"))
    })?;
    let input = folder.join("log");
    cloud.join("/log", &input)?;
    println!("malstone of {records} records, {rounds} rounds, answers compared; made in {generation:.2} s");
    for (variant, by_week) in [("a", false), ("b", true)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let (output, reference) = (format!("/ratios-{variant}-{round}"), folder.join("ratios"));
            if fills_cache {
                fill_cache(folder)?;
            }
            let own = || timed(|| cloud.sector(&["oct", "malstone", variant, "-q", "/log", &output]).map(drop));
            let pass = || timed(|| ratios::count_file(&input, &reference, by_week));
            // The order turns: who comes second finds what the first has left behind.
            if round.is_multiple_of(2) {
                theirs.push(pass()?);
                ours.push(own()?);
            } else {
                ours.push(own()?);
                theirs.push(pass()?);
            }
            check(cloud, &output, &reference)?;
            cloud.sector(&["rm", "-r", "--now", &output])?;
        }
        let name = format!("malstone {variant} over 4 nodes");
        print_pair((&name, &ours), ("two threads over one file", &theirs), records as f64 / 1e6, "million records/s");
    }
    fs::remove_file(&input).map_err(|error| error.to_string())?;
    cloud.sector(&["rm", "-r", "--now", "/log"]).map(drop)
}

/// Fails unless the slices of an output, one after the other without their heads, are the reference.
pub(crate) fn check(cloud: &Cloud, output: &str, reference: &Path) -> Result<(), String> {
    let mut found = String::new();
    for path in cloud.sector(&["find", output])?.lines() {
        let slice = cloud.sector(&["cat", path])?;
        found.push_str(slice.split_once('\n').map_or("", |(_, lines)| lines));
    }
    let expected = fs::read_to_string(reference).map_err(|error| error.to_string())?;
    same_lines(output, &found, &expected)
}

/// Fails with the first line of `name` that differs.
pub(crate) fn same_lines(name: &str, found: &str, expected: &str) -> Result<(), String> {
    match found.lines().zip(expected.lines()).find(|(found, expected)| found != expected) {
        Some((found, expected)) => Err(format!("{name} has `{found}` instead of `{expected}`")),
        None if found.len() == expected.len() => Ok(()),
        None => Err(format!("{name} has {} bytes of lines instead of {}", found.len(), expected.len())),
    }
}
