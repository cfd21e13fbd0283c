//! Terasort (Sector/Sphere paper, 4.2) beside a sort of the same bytes in one file.

use std::{fs, path::Path};

use crate::{
    cloud::Cloud,
    figures::{print_pair, timed},
    input::fill_cache,
    sort,
};

/// Terasort over four nodes beside a two-thread radix sort of the same bytes in one file.
pub(crate) fn terasort(
    cloud: &Cloud,
    folder: &Path,
    megabytes: u64,
    rounds: usize,
    fills_cache: bool,
) -> Result<(), String> {
    let input = folder.join("input");
    generate(cloud, megabytes, "/gen", &input)?;
    let expected = cloud.sector(&["oct", "terasort", "validate", "--json", "/gen"])?;
    let prepare = || if fills_cache { fill_cache(folder) } else { Ok(()) };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let output = format!("/sorted-{round}");
        prepare()?;
        theirs.push(timed(|| sort::sort_file(&input, &folder.join("sorted")))?);
        prepare()?;
        ours.push(timed(|| cloud.sector(&["oct", "terasort", "sort", "-q", "/gen", &output]).map(drop))?);
        let found = cloud.sector(&["oct", "terasort", "validate", "--json", &output])?;
        if found != expected.replace("\"sorted\": false", "\"sorted\": true") {
            return Err(format!("the output is wrong: {found} after {expected}"));
        }
        cloud.sector(&["rm", "-r", "--now", &output])?;
        fs::remove_file(folder.join("sorted")).map_err(|error| error.to_string())?;
    }
    println!("terasort of {megabytes} MB, {rounds} rounds, output validated");
    print_pair(("terasort over 4 nodes", &ours), ("two-thread radix sort", &theirs), megabytes as f64, "MB/s");
    cloud.sector(&["rm", "-r", "--now", "/gen"]).map(drop)
}

/// Makes records in the cloud, and joins them in one local file.
pub(crate) fn generate(cloud: &Cloud, megabytes: u64, path: &str, file: &Path) -> Result<(), String> {
    cloud.sector(&["oct", "terasort", "gen", "--records", &(megabytes * 10_000).to_string(), path])?;
    cloud.join(path, file)
}
