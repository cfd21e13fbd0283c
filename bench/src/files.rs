//! Files: put, get and many small ones, each round beside what the machine itself does with the same bytes.

use std::{fs, fs::File, io, path::Path};

use crate::{
    cloud::Cloud,
    figures::{print_pair, print_rate, timed},
    input::{shell, write_random},
};

/// One thing to measure: its name, and what does it once.
type Work<'a> = (&'a str, &'a dyn Fn() -> Result<(), String>);

/// put of one file with one synced copy beside `dd conv=fsync`; get beside `cat` to a file; each through the passed
/// file and over TLS. Each has a clean disk cache before it, and each round another order: what comes behind a long
/// write is slowed down by it.
pub(crate) fn storage(cloud: &Cloud, folder: &Path, megabytes: u64, rounds: usize) -> Result<(), String> {
    let input = folder.join("input");
    write_random(&input, megabytes * 1_000_000)?;
    let (copy, fetched) = (folder.join("copy"), folder.join("fetched"));
    let [input, copy, fetched] = [&input, &copy, &fetched].map(|path| path.to_string_lossy().into_owned());
    let (held, put) = ("/bench/held", "/bench/put");
    let put_one = |path| ["put", "-q", "--copies", "1", "--sync-copies", "1", input.as_str(), path];
    cloud.sector(&put_one(held))?;
    let works: [Work<'_>; 6] = [
        ("dd conv=fsync", &|| shell(&format!("dd if={input} of={copy} bs=1M conv=fsync status=none"))),
        ("put, 1 synced copy", &|| cloud.sector(&put_one(put)).map(drop)),
        ("put over TLS", &|| cloud.sector_over_network(&put_one(put)).map(drop)),
        ("cat to a file", &|| shell(&format!("cat {input} > {copy}"))),
        ("get", &|| cloud.sector(&["get", "-q", held, &fetched]).map(drop)),
        ("get over TLS", &|| cloud.sector_over_network(&["get", "-q", held, &fetched]).map(drop)),
    ];
    let mut seconds: [Vec<f64>; 6] = Default::default();
    for round in 0..rounds {
        for at in 0..works.len() {
            let at = (at + round) % works.len();
            shell("sync")?;
            seconds[at].push(timed(works[at].1)?);
            if works[at].0.starts_with("put") {
                cloud.sector(&["rm", "--now", put])?;
            }
            if works[at].0.starts_with("get") {
                shell(&format!("cmp {input} {fetched}"))?;
            }
            shell(&format!("rm -f {copy} {fetched}"))?;
        }
    }
    println!("one file of {megabytes} MB, {rounds} rounds");
    for (ours, reference) in [(1, 0), (2, 0), (4, 3), (5, 3)] {
        let [ours, reference] = [ours, reference].map(|at| (works[at].0, seconds[at].as_slice()));
        print_pair(ours, reference, megabytes as f64, "MB/s");
    }
    cloud.sector(&["rm", "--now", held]).map(drop)
}

/// A thousand files of `bytes` bytes, one synced copy each, beside a copy and sync of each in turn.
pub(crate) fn small(cloud: &Cloud, folder: &Path, bytes: u64, rounds: usize) -> Result<(), String> {
    let small = folder.join("small");
    fresh_folder(&small)?;
    for file in 0..FILES {
        write_random(&small.join(file.to_string()), bytes)?;
    }
    let (fetched, copied) = (folder.join("small-fetched"), folder.join("small-copied"));
    let [small_text, fetched_text] = [&small, &fetched].map(|path| path.to_string_lossy().into_owned());
    let (mut put, mut get, mut copy) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let path = format!("/small-{round}");
        put.push(timed(|| {
            cloud.sector(&["put", "-q", "-r", "--copies", "1", "--sync-copies", "1", &small_text, &path]).map(drop)
        })?);
        fresh_folder(&copied)?;
        copy.push(timed(|| copy_and_sync(&small, &copied))?);
        get.push(timed(|| cloud.sector(&["get", "-q", "-r", &path, &fetched_text]).map(drop))?);
        for folder in [&fetched, &copied] {
            fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
        }
        cloud.sector(&["rm", "-r", "--now", &path])?;
    }
    println!("{FILES} files of {bytes} bytes, {rounds} rounds");
    print_pair(("put, 1 synced copy", &put), ("copy and sync one by one", &copy), FILES as f64, "files/s");
    print_rate("get", &get, FILES as f64, "files/s");
    fs::remove_dir_all(&small).map_err(|error| error.to_string())
}

/// As a careful program stores files on one disk: each written, synced, and its name synced at the end.
fn copy_and_sync(from: &Path, to: &Path) -> Result<(), String> {
    let copy = || -> io::Result<()> {
        for file in 0..FILES {
            let name = file.to_string();
            let mut copied = File::create(to.join(&name))?;
            io::copy(&mut File::open(from.join(&name))?, &mut copied)?;
            copied.sync_all()?;
        }
        File::open(to)?.sync_all()
    };
    copy().map_err(|error| format!("copying {}: {error}", from.display()))
}

fn fresh_folder(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Files of one round of small ones.
const FILES: usize = 1000;
