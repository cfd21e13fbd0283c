//! `sector images cutouts`: all that a table asks for, in one archive. Tuples are grouped by image, and go to jobs in
//! batches. A job cuts where the images lie, and its results are read back into the archive. It never does a batch
//! again that is in the archive.

use std::{
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
    batches::{Batch, batches},
    client_cutter,
    index_folder::IndexFolder,
    job_library::JobLibrary,
    node_cutter::NodeCutter,
    tuple_file::TupleFile,
};

/// `sector images cutouts`.
pub(crate) async fn run(cloud: &Client, arguments: &Cutouts, global: &Global) -> Result<(), Failure> {
    let bytes = read_table(&arguments.table)?;
    let table = format!("{} {:?}", blake3::hash(&bytes).to_hex(), arguments.by);
    let read = TupleFile::read(bytes.as_slice())?;
    let total = read.tuples.len() + read.placed.len() + read.refused.len();
    let index = match &arguments.index {
        Some(folder) => Some(IndexFolder::open(cloud, &SectorPath::parse(folder)?).await?),
        None if read.placed.is_empty() => None,
        None => {
            let message =
                "the table has positions and no column path: name the index that says which image has them (--index)";
            return Err(Failure::usage(message));
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let is_stream = arguments.to == Path::new("-");
    let mut archive = if is_stream {
        show::mark_output();
        let output = io::stdout().as_fd().try_clone_to_owned();
        Archive::to_stream(output.map_err(|error| Failure::failed(error.to_string()))?.into(), now)?
    } else {
        Archive::open(&arguments.to, &table, now)?
    };
    let (batches, refused) = batches(read);
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
        let images = match (batch, &index) {
            (Batch::Images(images), _) => images,
            (Batch::Placed(nearest), Some(index)) => {
                let (images, without) = index.find_images(cloud, nearest).await?;
                without.iter().try_for_each(|outcome| archive.note(outcome))?;
                images
            }
            (Batch::Placed(_), None) => Vec::new(),
        };
        let (inputs, groups) = locate(cloud, images, &mut archive).await?;
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
/// Images that are looked for at once.
const LOCATED_AT_ONCE: usize = 64;
