//! Cuts a batch in this process, by reads of the bytes that are needed. That is for where no job may run, or images are
//! few. It never has more than [`IMAGES_AT_ONCE`] images open.

use std::sync::Arc;

use astroportal::tuples::{ManifestRow, Parcel, TupleGroup, cut_group};
use client::{Client, Entry};
use terminal::Failure;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{JoinSet, spawn_blocking},
};

use crate::{archive::Archive, cloud_source::CloudSource};

/// Cuts the groups of these images into the archive.
pub(crate) async fn cut(
    cloud: &Client,
    inputs: Vec<Entry>,
    groups: Vec<TupleGroup>,
    mut archive: Archive,
) -> Result<Archive, Failure> {
    let (give, mut parcels) = mpsc::channel::<Parcel>(PARCELS_MAX);
    let writing = spawn_blocking(move || {
        while let Some(parcel) = parcels.blocking_recv() {
            archive.add(&parcel)?;
        }
        Ok::<_, Failure>(archive)
    });
    let permits = Arc::new(Semaphore::new(IMAGES_AT_ONCE));
    let mut cutting = JoinSet::new();
    for (entry, group) in inputs.into_iter().zip(groups) {
        let (cloud, permits, give) = (cloud.clone(), Arc::clone(&permits), give.clone());
        cutting.spawn(async move {
            let _turn = permits.acquire_owned().await;
            match cloud.open(&entry.path).await {
                Ok(file) => {
                    let source = CloudSource::new(file);
                    let read = source.clone();
                    let give = move |mut parcel: Parcel| {
                        parcel.outcome.level = Some(read.level().number());
                        // Nobody listens any more once the archive has failed, and it says why.
                        give.blocking_send(parcel).map_err(drop)
                    };
                    let cut = move || cut_group(source, &group, "client", give);
                    let _ = spawn_blocking(cut).await;
                }
                Err(error) => {
                    for tuple in &group.tuples {
                        let outcome = ManifestRow::refused(tuple, "unreadable", &error.to_string());
                        let _ = give.send(Parcel { outcome, content: Vec::new() }).await;
                    }
                }
            }
        });
    }
    drop(give);
    while cutting.join_next().await.is_some() {}
    writing.await.map_err(|error| Failure::failed(error.to_string()))?
}

/// Images that are open at once: each waits for its reads.
const IMAGES_AT_ONCE: usize = 32;
/// Cutouts on their way to the archive.
const PARCELS_MAX: usize = 256;
