//! `sector images cutouts`: all that a table asks for, in one archive. Tuples are grouped by image, and go to jobs in
//! batches. A job cuts where the images lie, and its results are read back into the archive. It never does a batch
//! again that is in the archive.

use std::{
    collections::{BTreeMap, btree_map},
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use astroportal::tuples::{ManifestRow, Tuple, TupleGroup};
use client::{Client, Entry, EntryKind, SectorPath};
use serde::Serialize;
use terminal::{Failure, Global, say, show};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    archive::Archive,
    arguments::{By, Cutouts},
    client_cutter,
    job_library::JobLibrary,
    node_cutter::NodeCutter,
    tuple_file::TupleFile,
};

/// `sector images cutouts`.
pub(crate) async fn run(cloud: &Client, arguments: &Cutouts, global: &Global) -> Result<(), Failure> {
    let bytes = read_table(&arguments.table)?;
    let table = format!("{} {:?}", blake3::hash(&bytes).to_hex(), arguments.by);
    let TupleFile { tuples, refused } = TupleFile::read(bytes.as_slice())?;
    let total = tuples.len() + refused.len();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let is_stream = arguments.to == Path::new("-");
    let mut archive = if is_stream {
        show::mark_output();
        let output = io::stdout().as_fd().try_clone_to_owned();
        Archive::to_stream(output.map_err(|error| Failure::failed(error.to_string()))?.into(), now)?
    } else {
        Archive::open(&arguments.to, &table, now)?
    };
    let batches = batches(tuples);
    if archive.batches() == 0 {
        refused.iter().try_for_each(|outcome| archive.note(outcome))?;
    } else if !global.quiet {
        let (made, failed) = archive.counts();
        say!("sector images: goes on after {} of {total} tuples", made + failed);
    }
    let cutter = match arguments.by {
        By::Node => Some(NodeCutter {
            cloud,
            library: JobLibrary::load()?,
            folder: SectorPath::parse(&arguments.scratch)?,
            global,
        }),
        By::Client => None,
    };
    for batch in batches.into_iter().skip(archive.batches()) {
        let (inputs, groups) = locate(cloud, batch, &mut archive).await?;
        if !inputs.is_empty() {
            let (made, failed) = archive.counts();
            let what = format!("cutouts {}/{total}", made + failed);
            archive = match &cutter {
                Some(nodes) => nodes.cut(inputs, groups, archive, &what).await?,
                None => client_cutter::cut(cloud, inputs, groups, archive).await?,
            };
        }
        archive.end_batch()?;
    }
    let (made, failed) = archive.counts();
    archive.finish()?;
    if is_stream {
        return Ok(());
    }
    report(&arguments.to, made, failed, global)
}

/// What was made (contract: `--json`).
#[derive(Serialize)]
struct Report<'a> {
    archive: &'a Path,
    cutouts: u64,
    failed: u64,
}

fn report(archive: &Path, cutouts: u64, failed: u64, global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&Report { archive, cutouts, failed });
    }
    if !global.quiet {
        let others =
            if failed > 0 { format!("; {failed} tuples have none, manifest.csv says why") } else { String::new() };
        show::line(format!("{cutouts} cutouts in {}{others}", archive.display()));
    }
    Ok(())
}

fn read_table(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(TABLE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|open| open.take(TABLE_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::local("read the table", file, &error))?;
    if bytes.len() as u64 > TABLE_BYTES_MAX {
        return Err(Failure::usage(format!("the table has more than {}: split it", show::size(TABLE_BYTES_MAX))));
    }
    Ok(bytes)
}

/// The tuples by image, in batches of whole images. The same table gives the same batches.
pub(crate) fn batches(tuples: Vec<Tuple>) -> Vec<Vec<Vec<Tuple>>> {
    let mut images: BTreeMap<String, Vec<Tuple>> = BTreeMap::new();
    for tuple in tuples {
        match images.entry(tuple.path.clone()) {
            btree_map::Entry::Vacant(image) => {
                image.insert(vec![tuple]);
            }
            btree_map::Entry::Occupied(mut image) => image.get_mut().push(tuple),
        }
    }
    let mut batches: Vec<Vec<Vec<Tuple>>> = Vec::new();
    let mut in_batch = usize::MAX;
    for image in images.into_values() {
        let is_full = batches.last().is_none_or(|batch| batch.len() >= BATCH_IMAGES_MAX);
        if is_full || in_batch.saturating_add(image.len()) > BATCH_TUPLES {
            batches.push(Vec::new());
            in_batch = 0;
        }
        in_batch += image.len();
        if let Some(batch) = batches.last_mut() {
            batch.push(image);
        }
    }
    batches
}

/// The images of a batch in the cloud. The tuples of those that are missing get their row now.
async fn locate(
    cloud: &Client,
    batch: Vec<Vec<Tuple>>,
    archive: &mut Archive,
) -> Result<(Vec<Entry>, Vec<TupleGroup>), Failure> {
    let permits = Arc::new(Semaphore::new(LOCATED_AT_ONCE));
    let mut looking = JoinSet::new();
    for tuples in batch {
        let (cloud, permits) = (cloud.clone(), Arc::clone(&permits));
        looking.spawn(async move {
            let _turn = permits.acquire_owned().await;
            let found = match tuples.first().map(|tuple| SectorPath::parse(&tuple.path)) {
                Some(Ok(path)) => cloud.find(&path).await,
                _ => Ok(None),
            };
            (tuples, found)
        });
    }
    let mut found = Vec::new();
    while let Some(looked) = looking.join_next().await {
        let (tuples, entry) = looked.map_err(|error| Failure::failed(error.to_string()))?;
        match entry? {
            Some(Entry { kind: EntryKind::File(content), .. }) if content.bytes == 0 => {
                tuples
                    .iter()
                    .try_for_each(|tuple| archive.note(&ManifestRow::refused(tuple, "damaged", "the file is empty")))?;
            }
            Some(entry @ Entry { kind: EntryKind::File(_), .. }) => found.push((entry, tuples)),
            Some(_) => {
                tuples
                    .iter()
                    .try_for_each(|tuple| archive.note(&ManifestRow::refused(tuple, "not-found", "it is a folder")))?;
            }
            None => {
                tuples.iter().try_for_each(|tuple| {
                    archive.note(&ManifestRow::refused(tuple, "not-found", "there is no file"))
                })?;
            }
        }
    }
    found.sort_by(|one, other| one.0.path.cmp(&other.0.path));
    let group = |(entry, tuples): (Entry, Vec<Tuple>)| {
        let content = match &entry.kind {
            EntryKind::File(content) => content.digest.to_string(),
            EntryKind::Folder => String::new(),
        };
        (entry, TupleGroup { content, tuples })
    };
    Ok(found.into_iter().map(group).unzip())
}

/// Largest table, in bytes.
const TABLE_BYTES_MAX: u64 = 1 << 30;
/// Tuples of a batch: some hundred megabytes of usual cutouts, which a job leaves at the nodes for a while.
const BATCH_TUPLES: usize = 20_000;
/// Images of a batch: the files of one job.
const BATCH_IMAGES_MAX: usize = 4_000;
/// Images that are looked for at once.
const LOCATED_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn batches_have_whole_images_and_are_not_too_large() {
        let tuple = |number: u64| Tuple {
            number,
            path: format!("/{}", number % 7),
            selection: "[1:2,3:4]".parse().unwrap(),
            name: String::new(),
        };
        let batches = batches((0..60_000).map(tuple).collect());
        let sizes: Vec<Vec<usize>> = batches.iter().map(|batch| batch.iter().map(Vec::len).collect()).collect();
        assert_eq!(sizes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 1]);
        assert!(sizes.iter().all(|batch| batch.iter().sum::<usize>() <= BATCH_TUPLES));
        assert_eq!(sizes.iter().flatten().sum::<usize>(), 60_000);
        assert!(super::batches(Vec::new()).is_empty());
    }
}
