//! `rm`: to the trash, or for good. With `--dry-run` it only looks, and never removes anything.

use client::{Client, ClientError, Entry, SectorPath, namespace::is_folder};
use protocol::{Reason, Status};
use serde_json::json;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, Rm};

/// `sector rm`.
pub(crate) async fn rm(cloud: &Client, rm: &Rm, global: &Global) -> Result<(), Failure> {
    let mut found = Vec::new();
    for pattern in &rm.paths {
        match remove_matching(cloud, pattern, rm).await {
            Err(failure) if rm.force && failure.reason.status() == Status::NotFound => {}
            result => found.extend(result?),
        }
    }
    if !rm.dry_run {
        return Ok(());
    }
    if global.json {
        let paths: Vec<_> = found.iter().map(|entry| entry.path.as_str()).collect();
        return show::json(&json!({ "would_remove": paths }));
    }
    for entry in &found {
        let slash = if is_folder(entry) { "/" } else { "" };
        show::line(format!("{}{slash}", entry.path));
    }
    Ok(())
}

/// Removes what a path or glob names; with `--dry-run` gives what that would be.
async fn remove_matching(cloud: &Client, pattern: &str, rm: &Rm) -> Result<Vec<Entry>, Failure> {
    let paths = match cloud.literal(pattern).await? {
        Some(path) => vec![path],
        None => cloud.expand(pattern).await?.into_iter().map(|entry| entry.path).collect(),
    };
    let mut found = Vec::new();
    for path in paths {
        let about = |error: ClientError| Failure::from(error).about(&path);
        match (rm.dry_run, rm.now) {
            (true, _) => found.extend(below(cloud, &path, rm.recursive).await.map_err(about)?),
            (false, true) => cloud.remove_now(&path, rm.recursive).await.map_err(about)?,
            (false, false) => cloud.remove(&path, rm.recursive).await.map_err(about)?,
        }
    }
    Ok(found)
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
