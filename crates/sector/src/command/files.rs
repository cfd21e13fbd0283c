//! `put`, `get` and `cat`: bytes between this machine and the cloud. It reads arguments and prints; which file goes
//! where, and how many at once, the client library decides. It never decides where slices lie.

use std::{io, ops::Range, path::PathBuf, sync::Arc};

use client::{
    Client, Condition, EntryKind, PutOptions,
    tree::{self, DownloadPlan, ExistingFiles, FailedFile, PlannedUpload, UploadDestination, UploadPlan},
};
use protocol::{Reason, Version};
use terminal::{
    failure::Failure,
    show::{Meter, say, size},
};

use super::tree_progress;
use crate::arguments::{Cat, Get, Global, Put};

/// `sector put`.
pub(crate) async fn put(cloud: &Client, put: Put, global: &Global) -> Result<(), Failure> {
    let Some((to, from)) = put.paths.split_last() else { return Err(Failure::usage("put needs SRC and DST")) };
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
    let destination = UploadDestination::resolve(cloud, to, from.len()).await?;
    if from == ["-"] {
        let path = destination.file_for(None)?;
        if put.append {
            cloud.append(io::stdin(), &path, &options, &|_| ()).await?;
        } else {
            cloud.put(io::stdin(), &path, &options, &|_| ()).await?;
        }
        return Ok(());
    }
    let sources: Vec<PathBuf> = from.iter().map(PathBuf::from).collect();
    let plan = UploadPlan::new(&sources, &destination, put.recursive).map_err(tree_progress::plan_failure)?;
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
    let meter = Meter::start("append", *bytes, global).of(cloud);
    cloud.append_file(file, to, options, &|bytes| meter.add(bytes)).await?;
    meter.finish();
    Ok(())
}

/// Uploads the files of a plan, and shows how far it is.
pub(crate) async fn upload_all(
    cloud: &Client,
    plan: UploadPlan,
    options: &PutOptions,
    what: &str,
    global: &Global,
) -> Result<(), Failure> {
    for item in plan.left_out() {
        say!("sector: `{}` is left out: it is no ordinary file", item.display());
    }
    let total = plan.bytes();
    let meter = Arc::new(Meter::start(what, total, global).of(cloud));
    let observer = tree_progress::observer(&meter, tree_progress::failure);
    let outcome = tree::upload(cloud, plan, options, &observer).await;
    meter.finish();
    if outcome.kept_bytes > 0 && !global.quiet && !global.json {
        say!("{what}: {} of {} had arrived before and were not sent again", size(outcome.kept_bytes), size(total));
    }
    tree_progress::result_of(&outcome)
}

/// `sector get`. A file that is already there, byte for byte, is not fetched again.
pub(crate) async fn get(cloud: &Client, get: Get, global: &Global) -> Result<(), Failure> {
    let Some((to, from)) = get.paths.split_last() else { return Err(Failure::usage("get needs SRC and DST")) };
    if to == "-" {
        return cat_all(cloud, from, None).await;
    }
    let plan = DownloadPlan::new(cloud, from, to, get.recursive).await.map_err(tree_progress::plan_failure)?;
    let meter = Arc::new(Meter::start("get", plan.bytes(), global).of(cloud));
    let observer = tree_progress::observer(&meter, failed_download);
    let existing = if get.force { ExistingFiles::FetchAnew } else { ExistingFiles::Keep };
    let outcome = tree::download(cloud, plan, existing, &observer).await;
    meter.finish();
    tree_progress::result_of(&outcome)
}

fn failed_download(failed: &FailedFile) -> Failure {
    match failed.error.reason() {
        Reason::Exists => {
            Failure::new(Reason::Exists, format!("`{}` exists already; --force replaces it", failed.to.display()))
        }
        _ => tree_progress::failure(failed),
    }
}

/// `sector cat`.
pub(crate) async fn cat(cloud: &Client, cat: Cat) -> Result<(), Failure> {
    cat_all(cloud, &cat.paths, cat.range.as_deref()).await
}

async fn cat_all(cloud: &Client, patterns: &[String], range: Option<&str>) -> Result<(), Failure> {
    for pattern in patterns {
        for entry in cloud.expand(pattern).await? {
            let EntryKind::File(content) = &entry.kind else { continue };
            let range = range.map(|range| parse_range(range, content.bytes)).transpose()?;
            match cloud.read(&entry.path, range, io::stdout(), &|_| ()).await {
                // The reader of the pipe has read enough.
                Err(client::ClientError::Stream { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(());
                }
                result => result?,
            };
        }
    }
    Ok(())
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
