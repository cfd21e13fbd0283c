//! The comparisons: each round runs ours and the machine's own way in turn.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
};

use crate::{
    cloud::Cloud,
    figures::{print_pair, spread, timed},
    sort,
};

/// put of one file with one synced copy beside `dd conv=fsync`; get beside `cat` to a file.
pub(crate) fn storage(cloud: &Cloud, folder: &Path, megabytes: u64, rounds: usize) -> Result<(), String> {
    let input = folder.join("input");
    write_random(&input, megabytes * 1_000_000)?;
    let (copy, fetched) = (folder.join("copy"), folder.join("fetched"));
    let [input, copy, fetched] = [&input, &copy, &fetched].map(|path| path.to_string_lossy().into_owned());
    let (mut put, mut dd, mut get, mut cat) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let path = format!("/bench/{round}");
        dd.push(timed(|| shell(&format!("dd if={input} of={copy} bs=1M conv=fsync status=none")))?);
        fs::remove_file(&copy).map_err(|error| error.to_string())?;
        put.push(timed(|| {
            cloud.sector(&["put", "-q", "--copies", "1", "--sync-copies", "1", &input, &path]).map(drop)
        })?);
        cat.push(timed(|| shell(&format!("cat {input} > {copy}")))?);
        fs::remove_file(&copy).map_err(|error| error.to_string())?;
        get.push(timed(|| cloud.sector(&["get", "-q", &path, &fetched]).map(drop))?);
        shell(&format!("cmp {input} {fetched}"))?;
        fs::remove_file(&fetched).map_err(|error| error.to_string())?;
        cloud.sector(&["rm", &path])?;
    }
    println!("one file of {megabytes} MB, {rounds} rounds");
    print_pair(("put, 1 synced copy", &put), ("dd conv=fsync", &dd), megabytes as f64);
    print_pair(("get", &get), ("cat to a file", &cat), megabytes as f64);
    Ok(())
}

/// A thousand files of 64 KB.
pub(crate) fn small(cloud: &Cloud, folder: &Path, rounds: usize) -> Result<(), String> {
    let small = folder.join("small");
    fs::create_dir_all(&small).map_err(|error| error.to_string())?;
    for file in 0..1000 {
        write_random(&small.join(file.to_string()), 64_000)?;
    }
    let small = small.to_string_lossy().into_owned();
    let fetched = folder.join("small-fetched");
    let fetched_text = fetched.to_string_lossy().into_owned();
    let (mut put, mut get) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let path = format!("/small-{round}");
        put.push(timed(|| {
            cloud.sector(&["put", "-q", "-r", "--copies", "1", "--sync-copies", "1", &small, &path]).map(drop)
        })?);
        get.push(timed(|| cloud.sector(&["get", "-q", "-r", &path, &fetched_text]).map(drop))?);
        fs::remove_dir_all(&fetched).map_err(|error| error.to_string())?;
        cloud.sector(&["rm", "-r", &path])?;
    }
    println!("1000 files of 64 KB, {rounds} rounds");
    for (name, seconds) in [("put, 1 synced copy", put), ("get", get)] {
        let (least, middle, most) = spread(&seconds);
        println!("  {name:34} {middle:6.2} s ({least:.2}-{most:.2})  {:7.0} files/s", 1000.0 / middle);
    }
    Ok(())
}

/// Terasort over four nodes beside a two-thread radix sort of the same bytes in one file.
pub(crate) fn terasort(cloud: &Cloud, folder: &Path, megabytes: u64, rounds: usize) -> Result<(), String> {
    let records = (megabytes * 10_000).to_string();
    cloud.sector(&["terasort", "gen", "--records", &records, "/gen"])?;
    let input = folder.join("input");
    let text = input.to_string_lossy().into_owned();
    let file = File::create(&input).map_err(|error| format!("{text}: {error}"))?;
    drop(file);
    for path in cloud.sector(&["find", "/gen"])?.lines() {
        let part = folder.join("part").to_string_lossy().into_owned();
        cloud.sector(&["get", "-q", "-f", path, &part])?;
        shell(&format!("cat {part} >> {text} && rm {part}"))?;
    }
    let expected = cloud.sector(&["terasort", "validate", "--json", "/gen"])?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let output = format!("/sorted-{round}");
        theirs.push(timed(|| sort::sort_file(&input, &folder.join("sorted")))?);
        ours.push(timed(|| cloud.sector(&["terasort", "sort", "-q", "/gen", &output]).map(drop))?);
        let found = cloud.sector(&["terasort", "validate", "--json", &output])?;
        if found != expected.replace("\"sorted\": false", "\"sorted\": true") {
            return Err(format!("the output is wrong: {found} after {expected}"));
        }
        cloud.sector(&["rm", "-r", &output])?;
        fs::remove_file(folder.join("sorted")).map_err(|error| error.to_string())?;
    }
    println!("terasort of {megabytes} MB, {rounds} rounds, output validated");
    print_pair(("terasort over 4 nodes", &ours), ("two-thread radix sort", &theirs), megabytes as f64);
    cloud.sector(&["rm", "-r", "/gen"]).map(drop)
}

fn shell(line: &str) -> Result<(), String> {
    let status = Command::new("sh").args(["-c", line]).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed")) }
}

/// Writes random bytes from a fixed seed: nothing compresses, every run has the same.
fn write_random(path: &Path, bytes: u64) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(bytes);
    let mut file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut left = bytes;
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        random.fill(&mut buffer);
        let part = usize::try_from(left.min(buffer.len() as u64)).unwrap_or(buffer.len());
        file.write_all(&buffer[..part]).map_err(|error| format!("{}: {error}", path.display()))?;
        left -= part as u64;
    }
    file.sync_all().map_err(|error| format!("{}: {error}", path.display()))
}
