//! Removes what a source lacks from its destination (path: `docs/paths/sync.md`). In the cloud it goes to the trash. It
//! never removes a folder that holds something.

use std::{fs, io, path::PathBuf};

use protocol::{Reason, Refusal, SectorPath, Status};
use tokio::task::JoinSet;

use super::{
    super::{
        in_flight::files_at_once,
        outcome::{FailedFile, TreeEvent, TreeObserver},
    },
    folder_listing::SyncFolder,
    sync_actions::{SyncAction, SyncActionKind},
};
use crate::{Client, ClientError};

/// Removes these files of the second cloud, then these folders in their order. Gives what was removed, and what failed. What is gone
/// already, and a folder that someone has filled meanwhile, is no failure.
pub(super) async fn remove_all(
    (there, cloud): (&Client, &Client),
    folder: &SyncFolder,
    removals: Vec<SyncAction>,
    observer: &TreeObserver,
) -> (Vec<SyncAction>, Vec<FailedFile>) {
    let (mut removed, mut failures) = (Vec::new(), Vec::new());
    let (files, folders): (Vec<_>, Vec<_>) =
        removals.into_iter().partition(|removal| removal.kind == SyncActionKind::Remove);
    let mut running = JoinSet::new();
    let mut files = files.into_iter();
    loop {
        while running.len() < files_at_once(cloud.round_trip())
            && let Some(file) = files.next()
        {
            let (cloud, folder) = (cloud.clone(), folder.clone());
            let failed = cloud.in_cloud(there);
            running.spawn(async move { (remove(&cloud, &folder, &file).await.map_err(failed), file) });
        }
        match running.join_next().await {
            None => break,
            Some(Ok((Ok(()), file))) => removed.push(file),
            Some(Ok((Err(error), file))) => failures.push(failed(error, folder.join(&file.path), observer)),
            Some(Err(error)) => {
                let error = ClientError::Stream { what: "finish a removal", source: io::Error::other(error) };
                failures.push(failed(error, PathBuf::new(), observer));
            }
        }
    }
    removed.sort_by(|one: &SyncAction, other| one.path.cmp(&other.path));
    for inner in folders {
        match remove(cloud, folder, &inner).await {
            Ok(()) => removed.push(inner),
            Err(error) if error.reason() == Reason::NotEmpty => {}
            Err(error) => failures.push(failed(cloud.in_cloud(there)(error), folder.join(&inner.path), observer)),
        }
    }
    (removed, failures)
}

fn failed(error: ClientError, path: PathBuf, observer: &TreeObserver) -> FailedFile {
    let failed = FailedFile { from: path.clone(), to: path, error };
    observer(TreeEvent::Failed(&failed));
    failed
}

async fn remove(cloud: &Client, folder: &SyncFolder, removal: &SyncAction) -> Result<(), ClientError> {
    let path = folder.join(&removal.path);
    let removed = match folder {
        SyncFolder::Local(_) => {
            let is_folder = removal.kind == SyncActionKind::RemoveFolder;
            let removed = if is_folder { fs::remove_dir(&path) } else { fs::remove_file(&path) };
            removed.map_err(|error| match error.kind() {
                io::ErrorKind::DirectoryNotEmpty => {
                    Refusal::new(Reason::NotEmpty, format!("`{}` is not empty", path.display())).into()
                }
                _ => ClientError::file("remove", &path)(error),
            })
        }
        SyncFolder::Cloud(_) => cloud.remove(&SectorPath::parse(&path.to_string_lossy())?, false).await,
    };
    match removed {
        Err(error) if error.status() == Status::NotFound => Ok(()),
        result => result,
    }
}
