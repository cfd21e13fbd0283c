//! A job of a table of tuples (AstroPortal report, 4): its results are archives, of a batch each, with a manifest at the
//! end. Tuples of one image share its opening. It never keeps a batch in memory.

use std::sync::Arc;

use astroportal::tuples::{ManifestRow, Parcel, Tuple, TupleGroup, cut_group};
use client::{Client, FileWriter};
use dali::of_client;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{JoinSet, spawn_blocking},
};
use vo::{
    Fault,
    uws::{JobResult, ResultSink},
};

use super::{cutter::Cutter, soda::Cutting};
use crate::{
    archive::{append, end_archive},
    batches::{Batch, batches},
    tuple_file::TupleFile,
};

/// The tuples of a table.
///
/// # Errors
/// What is wrong with all of it.
pub(super) fn read(table: &str) -> Result<TupleFile, Fault> {
    TupleFile::read(table.as_bytes()).map_err(|failure| Fault::Usage(format!("TUPLES: {}", failure.message)))
}

/// Makes the archives that are not made yet.
pub(super) async fn run(
    cutting: &Cutting,
    caller: &Client,
    (job, done): (&str, usize),
    table: TupleFile,
    results: &ResultSink<Cutting>,
) -> Result<(), Fault> {
    let (mut all, mut refused) = batches(table);
    if all.is_empty() {
        all.push(Batch::Images(Vec::new()));
    }
    for (number, batch) in all.into_iter().enumerate() {
        let mut rows = std::mem::take(&mut refused);
        if number < done {
            continue;
        }
        let images = match batch {
            Batch::Images(images) => images,
            Batch::Placed(nearest) => {
                let (images, without) = cutting.index()?.find_images(caller, nearest).await?;
                rows.extend(without);
                images
            }
        };
        let id = format!("cutouts-{:03}.tar", number + 1);
        let file = cutting.folder.create_result(job, &id).await?;
        let bytes = write_archive(&cutting.cutter, caller, images, rows, file).await?;
        results.add(JobResult { id, media_type: "application/x-tar".into(), bytes }).await?;
    }
    Ok(())
}

/// Writes one archive, and returns its length.
async fn write_archive(
    cutter: &Arc<Cutter>,
    caller: &Client,
    images: Vec<Vec<Tuple>>,
    rows: Vec<ManifestRow>,
    mut file: FileWriter,
) -> Result<u64, Fault> {
    let failed = |error: String| Fault::Failed(format!("the archive cannot be written: {error}"));
    let mut manifest = csv::Writer::from_writer(Vec::new());
    for row in &rows {
        manifest.serialize(row).map_err(|error| failed(error.to_string()))?;
    }
    // What is under way ends with it.
    let (_cutting, mut parcels) = cut(cutter, caller, images);
    let mut bytes = 0;
    while let Some(Parcel { outcome, content }) = parcels.recv().await {
        manifest.serialize(&outcome).map_err(|error| failed(error.to_string()))?;
        if outcome.is_ok() {
            let mut entry = Vec::with_capacity(content.len() + 1_024);
            append(&mut entry, &outcome.file, content.as_slice(), outcome.bytes, 0)
                .map_err(|error| failed(error.to_string()))?;
            bytes += entry.len() as u64;
            file.write(entry).await.map_err(|error| of_client(&error))?;
        }
    }
    let rows = manifest.into_inner().map_err(|error| failed(error.to_string()))?;
    let mut end = Vec::new();
    append(&mut end, "manifest.csv", rows.as_slice(), rows.len() as u64, 0)
        .and_then(|()| end_archive(&mut end))
        .map_err(|error| failed(error.to_string()))?;
    bytes += end.len() as u64;
    file.write(end).await.map_err(|error| of_client(&error))?;
    file.finish().await.map_err(|error| of_client(&error))?;
    Ok(bytes)
}

/// Cuts the tuples of these images, some of them at once.
fn cut(cutter: &Arc<Cutter>, caller: &Client, images: Vec<Vec<Tuple>>) -> (JoinSet<()>, mpsc::Receiver<Parcel>) {
    let (give, parcels) = mpsc::channel(PARCELS_MAX);
    let permits = Arc::new(Semaphore::new(IMAGES_AT_ONCE));
    let mut cutting = JoinSet::new();
    for tuples in images {
        let (cutter, caller, permits, give) = (Arc::clone(cutter), caller.clone(), Arc::clone(&permits), give.clone());
        cutting.spawn(async move {
            let _place = permits.acquire_owned().await;
            cut_image(&cutter, &caller, tuples, give).await;
        });
    }
    (cutting, parcels)
}

async fn cut_image(cutter: &Arc<Cutter>, caller: &Client, tuples: Vec<Tuple>, give: mpsc::Sender<Parcel>) {
    let Some(path) = tuples.first().map(|tuple| tuple.path.clone()) else { return };
    let refused = match cutter.open(caller, &path).await {
        Ok((source, facts)) => {
            let _turn = cutter.turn().await;
            let group = TupleGroup { content: facts.content, tuples };
            let (read, counting) = (source.clone(), Arc::clone(cutter));
            let give = move |mut parcel: Parcel| {
                let level = read.level();
                if parcel.outcome.is_ok() {
                    counting.count(level);
                }
                parcel.outcome.level = Some(level.number());
                // Nobody listens any more once the archive has failed, and it says why.
                give.blocking_send(parcel).map_err(drop)
            };
            let cut = source.clone();
            let _ = spawn_blocking(move || cut_group(cut, &group, "client", give)).await;
            source.end();
            return;
        }
        Err(fault) => fault,
    };
    let status = match refused {
        Fault::NotFound(_) => "not-found",
        Fault::NotAuthorized(_) => "no-right",
        _ => "unreadable",
    };
    for tuple in &tuples {
        let outcome = ManifestRow::refused(tuple, status, &refused.to_string());
        let _ = give.send(Parcel { outcome, content: Vec::new() }).await;
    }
}

/// Images of a job that are open at once.
const IMAGES_AT_ONCE: usize = 16;
/// Cutouts on their way to an archive.
const PARCELS_MAX: usize = 64;
