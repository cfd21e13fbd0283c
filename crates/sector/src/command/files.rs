//! `put`, `get` and `cat`: bytes between this machine and the cloud. It reads arguments and prints; which file goes
//! where, and how many at once, the client library decides. It never decides where slices lie.

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use client::{
    Client, ClientError, Condition, Entry, EntryKind, PutOptions,
    namespace::is_folder,
    tree::{self, DownloadPlan, ExistingFiles, FailedFile, LocalLinks, PlannedUpload, UploadDestination, UploadPlan},
};
use protocol::{Reason, Version};
use terminal::{
    cloud_path,
    failure::Failure,
    show::{self, say},
};

use super::transfer::{self, ShownTransfer, split};
use crate::arguments::{Cat, Get, Global, Put};

/// `sector put`.
pub(crate) async fn put(cloud: &Client, put: Put, global: &Global) -> Result<(), Failure> {
    let (from, to) = split(&put.paths)?;
    let to = cloud_path(to).map_err(Failure::usage)?;
    if (put.append || put.if_version.is_some()) && from.len() > 1 {
        return Err(Failure::usage("--append and --if-version are for one file"));
    }
    let condition = match put.if_version {
        Some(version) => Condition::Version(Version(version)),
        None if put.if_absent => Condition::Absent,
        None => Condition::Any,
    };
    let options = PutOptions {
        copies: put.copies,
        sync_copies: put.sync_copies,
        records: put.records,
        condition,
        parents: true,
        ..PutOptions::default()
    };
    let destination = UploadDestination::resolve(cloud, &to, from.len()).await?;
    if from == ["-"] {
        let (path, shown) = (destination.file_for(None)?, ShownTransfer::start("put", 1, 0, cloud, global));
        let entry = match put.append {
            true => cloud.append(io::stdin(), &path, &options, &|_| ()).await?,
            false => cloud.put(io::stdin(), &path, &options, &|_| ()).await?,
        };
        return shown.finish_one(bytes_of(&entry));
    }
    let sources: Vec<PathBuf> = from.iter().map(PathBuf::from).collect();
    let links = if put.follow { LocalLinks::Follow } else { LocalLinks::LeaveOut };
    let plan = UploadPlan::new(&sources, &destination, put.recursive, links).map_err(transfer::plan_failure)?;
    if put.append {
        return append_one(cloud, plan.files(), &options, global).await;
    }
    upload_all(cloud, plan, &options, "put", global).await
}

/// Appends to a file in the cloud.
async fn append_one(
    cloud: &Client,
    uploads: &[PlannedUpload],
    options: &PutOptions,
    global: &Global,
) -> Result<(), Failure> {
    let [PlannedUpload { file, to, bytes }] = uploads else { return Err(Failure::usage("--append is for one file")) };
    let shown = ShownTransfer::start("append", 1, *bytes, cloud, global);
    cloud.append_file(file, to, options, &|bytes| shown.meter().add(bytes)).await?;
    shown.finish_one(*bytes)
}

/// Uploads the files of a plan, and shows how far it is.
pub(crate) async fn upload_all(
    cloud: &Client,
    plan: UploadPlan,
    options: &PutOptions,
    what: &'static str,
    global: &Global,
) -> Result<(), Failure> {
    let left_out = plan.left_out().to_vec();
    transfer::say_left_out(&left_out, "it is a link; -L follows links", global);
    let shown = ShownTransfer::start(what, plan.files().len(), plan.bytes(), cloud, global);
    let observer = shown.observer(transfer::failure);
    let outcome = tree::upload(cloud, plan, options, &observer).await;
    shown.finish(&outcome, &left_out, transfer::failure)
}

fn bytes_of(entry: &Entry) -> u64 {
    match &entry.kind {
        EntryKind::File(content) => content.bytes,
        EntryKind::Folder => 0,
    }
}

/// `sector get`. A file that is already there, byte for byte, is not fetched again.
pub(crate) async fn get(cloud: &Client, get: Get, global: &Global) -> Result<(), Failure> {
    let (from, to) = split(&get.paths)?;
    let from = from.iter().map(|path| cloud_path(path)).collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    if to == "-" {
        return cat_all(cloud, &from, None, get.recursive).await;
    }
    let plan = DownloadPlan::new(cloud, &from, to, get.recursive).await.map_err(transfer::plan_failure)?;
    if let Some(folder) = missing_parent(to).filter(|_| !global.quiet) {
        say!("get: the folder `{}` is made", terminal::sanitize(&folder.display().to_string()));
    }
    let shown = ShownTransfer::start("get", plan.files().len(), plan.bytes(), cloud, global);
    let existing = if get.force { ExistingFiles::FetchAnew } else { ExistingFiles::Keep };
    let outcome = tree::download(cloud, plan, existing, &shown.observer(failed_download)).await;
    shown.finish(&outcome, &[], failed_download)
}

/// The folder above a destination, where it is not there: it may be mistyped.
fn missing_parent(to: &str) -> Option<&Path> {
    let parent = Path::new(to).parent().filter(|parent| !parent.as_os_str().is_empty())?;
    (!parent.exists()).then_some(parent)
}

fn failed_download(failed: &FailedFile) -> Failure {
    match failed.error.reason() {
        Reason::Exists if !failed.to.is_dir() => {
            Failure::new(Reason::Exists, format!("`{}` exists already; --force replaces it", failed.to.display()))
        }
        _ => transfer::failure(failed),
    }
}

/// `sector cat`.
pub(crate) async fn cat(cloud: &Client, cat: &Cat) -> Result<(), Failure> {
    cat_all(cloud, &cat.paths, cat.range.as_deref(), cat.recursive).await
}

async fn cat_all(cloud: &Client, patterns: &[String], range: Option<&str>, recursive: bool) -> Result<(), Failure> {
    for pattern in patterns {
        if !recursive {
            refuse_folders(cloud, pattern).await?;
        }
        for entry in cloud.expand(pattern).await? {
            let EntryKind::File(content) = &entry.kind else { continue };
            let range = range.map(|range| parse_range(range, content.bytes)).transpose()?;
            // The file's bytes stand there: no document may follow them.
            show::mark_output();
            match cloud.read(&entry.path, range, io::stdout(), &|_| ()).await {
                // The reader of the pipe has read enough.
                Err(ClientError::Stream { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(());
                }
                result => result?,
            };
        }
    }
    Ok(())
}

/// Refuses what would print all files below a folder.
async fn refuse_folders(cloud: &Client, pattern: &str) -> Result<(), Failure> {
    let folder = match cloud.literal(pattern).await? {
        Some(path) if path.is_root() => Some(path),
        _ => cloud.matching_entries(pattern).await?.into_iter().find(is_folder).map(|entry| entry.path),
    };
    match folder {
        Some(path) => Err(transfer::plan_failure(ClientError::IsFolder { path })),
        None => Ok(()),
    }
}

/// Reads `A-B` (first and last byte), `A-`, or `-N` (the last N bytes), as HTTP and curl do.
fn parse_range(text: &str, bytes: u64) -> Result<Range<u64>, Failure> {
    let wrong = || Failure::usage(format!("`{text}` is not a range; write FIRST-LAST, FIRST- or -COUNT, in bytes"));
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    match text.split_once('-').ok_or_else(wrong)? {
        ("", count) => Ok(bytes.saturating_sub(number(count)?)..bytes),
        (first, "") => Ok(number(first)?..bytes.max(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(wrong());
            }
            Ok(first..last.saturating_add(1))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Status;

    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        assert_eq!(parse_range("0-99", 1000).unwrap(), 0..100);
        assert_eq!(parse_range("5-5", 1000).unwrap(), 5..6);
        assert_eq!(parse_range("990-", 1000).unwrap(), 990..1000);
        assert_eq!(parse_range("-10", 1000).unwrap(), 990..1000);
        assert_eq!(parse_range("-10", 3).unwrap(), 0..3);
        for text in ["", "-", "5", "9-5", "a-b", "--1"] {
            assert_eq!(parse_range(text, 10).unwrap_err().reason.status(), Status::Usage, "{text}");
        }
    }
}
