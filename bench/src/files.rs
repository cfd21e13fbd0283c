//! Files: put, get and many small ones, each round beside what the machine itself does with the same bytes.

use std::{fs, fs::File, io, path::Path};

use crate::{
    cloud::Cloud,
    figures::{print_pair, print_rate, timed},
    input::{shell, write_random},
};

/// put of one file with one synced copy beside `dd conv=fsync`; get beside `cat` to a file; each through the passed
/// file and over TLS.
pub(crate) fn storage(cloud: &Cloud, folder: &Path, megabytes: u64, rounds: usize) -> Result<(), String> {
    let input = folder.join("input");
    write_random(&input, megabytes * 1_000_000)?;
    let (copy, fetched) = (folder.join("copy"), folder.join("fetched"));
    let [input, copy, fetched] = [&input, &copy, &fetched].map(|path| path.to_string_lossy().into_owned());
    let (mut put, mut sent, mut dd) = (Vec::new(), Vec::new(), Vec::new());
    let (mut get, mut received, mut cat) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (path, sent_path) = (format!("/bench/{round}"), format!("/bench/{round}-sent"));
        dd.push(timed(|| shell(&format!("dd if={input} of={copy} bs=1M conv=fsync status=none")))?);
        fs::remove_file(&copy).map_err(|error| error.to_string())?;
        put.push(timed(|| {
            cloud.sector(&["put", "-q", "--copies", "1", "--sync-copies", "1", &input, &path]).map(drop)
        })?);
        sent.push(timed(|| {
            let arguments = ["put", "-q", "--copies", "1", "--sync-copies", "1", &input, &sent_path];
            cloud.sector_over_network(&arguments).map(drop)
        })?);
        cat.push(timed(|| shell(&format!("cat {input} > {copy}")))?);
        fs::remove_file(&copy).map_err(|error| error.to_string())?;
        get.push(timed(|| cloud.sector(&["get", "-q", &path, &fetched]).map(drop))?);
        shell(&format!("cmp {input} {fetched}"))?;
        fs::remove_file(&fetched).map_err(|error| error.to_string())?;
        received.push(timed(|| cloud.sector_over_network(&["get", "-q", &sent_path, &fetched]).map(drop))?);
        shell(&format!("cmp {input} {fetched}"))?;
        fs::remove_file(&fetched).map_err(|error| error.to_string())?;
        cloud.sector(&["rm", "--now", &path, &sent_path])?;
    }
    println!("one file of {megabytes} MB, {rounds} rounds");
    print_pair(("put, 1 synced copy", &put), ("dd conv=fsync", &dd), megabytes as f64, "MB/s");
    print_pair(("put over TLS", &sent), ("dd conv=fsync", &dd), megabytes as f64, "MB/s");
    print_pair(("get", &get), ("cat to a file", &cat), megabytes as f64, "MB/s");
    print_pair(("get over TLS", &received), ("cat to a file", &cat), megabytes as f64, "MB/s");
    Ok(())
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
