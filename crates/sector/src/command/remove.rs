//! `rm`: to the trash, or for good. With `--dry-run` it only looks, and never removes anything.

use client::{Client, ClientError, Entry, SectorPath, namespace::is_folder};
use protocol::{Reason, Status};
use serde_json::json;
use terminal::{
    failure::{Failure, Failures},
    show,
};

use crate::arguments::{Global, Rm};

/// `sector rm`.
pub(crate) async fn rm(cloud: &Client, rm: &Rm, global: &Global) -> Result<(), Failure> {
    let (mut found, mut failures) = (Vec::new(), Failures::default());
    for pattern in &rm.paths {
        let named = match named(cloud, pattern, rm.recursive).await {
            Err(failure) if rm.force && failure.reason.status() == Status::NotFound => continue,
            Err(failure) => {
                failures.note(Err(failure));
                continue;
            }
            Ok(named) => named,
        };
        for path in named {
            match remove_one(cloud, path, rm).await {
                Err(failure) if rm.force && failure.reason.status() == Status::NotFound => {}
                Err(failure) => failures.note(Err(failure)),
                Ok(removed) => found.extend(removed),
            }
        }
    }
    if !rm.dry_run {
        return failures.into_result();
    }
    if global.json {
        let paths: Vec<_> = found.iter().map(|entry| entry.path.as_str()).collect();
        show::json(&json!({ "would_remove": paths }))?;
        return failures.into_result();
    }
    for entry in &found {
        let slash = if is_folder(entry) { "/" } else { "" };
        show::line(format!("{}{slash}", entry.path));
    }
    failures.into_result()
}

/// The files and folders that a path or glob names. A folder that only a glob names is not taken without `-r`, even if
/// it is empty.
async fn named(cloud: &Client, pattern: &str, recursive: bool) -> Result<Vec<Result<SectorPath, SectorPath>>, Failure> {
    if let Some(path) = cloud.literal(pattern).await? {
        return Ok(vec![Ok(path)]);
    }
    let named = cloud.matching_entries(pattern).await?.into_iter();
    Ok(named.map(|entry| if recursive || !is_folder(&entry) { Ok(entry.path) } else { Err(entry.path) }).collect())
}

/// Removes one; with `--dry-run` gives what that would be.
async fn remove_one(cloud: &Client, path: Result<SectorPath, SectorPath>, rm: &Rm) -> Result<Vec<Entry>, Failure> {
    let path =
        path.map_err(|folder| Failure::new(Reason::NotEmpty, format!("`{folder}` is a folder; remove it with `-r`")))?;
    let about = |error: ClientError| Failure::from(error).about(&path);
    match (rm.dry_run, rm.now) {
        (true, _) => below(cloud, &path, rm.recursive).await.map_err(about),
        (false, true) => cloud.remove_now(&path, rm.recursive).await.map_err(about).map(|()| Vec::new()),
        (false, false) => cloud.remove(&path, rm.recursive).await.map_err(about).map(|()| Vec::new()),
    }
}

/// What would be removed with this path: the entry, and all below it.
async fn below(cloud: &Client, path: &SectorPath, recursive: bool) -> Result<Vec<Entry>, ClientError> {
    let entry = cloud.stat(path).await?.entry;
    if !is_folder(&entry) {
        return Ok(vec![entry]);
    }
    let mut inner = cloud.list_recursive(path).await?;
    inner.retain(|inner| inner.path != entry.path);
    if !recursive && !inner.is_empty() {
        let message = format!("`{path}` is a folder that holds something; remove it with `-r`");
        return Err(protocol::Refusal::new(Reason::NotEmpty, message).into());
    }
    inner.insert(0, entry);
    Ok(inner)
}
