//! `check`: every copy of files is read where it lies and compared with its digest. It never repairs anything; the
//! master does.

use std::sync::Arc;

use client::{
    Client, EntryKind, SectorPath,
    file::check::{CheckResult, CheckedCopy},
};
use protocol::{Reason, Status};
use serde::Serialize;
use terminal::{
    failure::Failure,
    show::{self, Meter},
};
use tokio::task::JoinSet;

use crate::arguments::{Check, Global};

/// `sector check`.
pub(crate) async fn check(cloud: &Client, check: Check, global: &Global) -> Result<(), Failure> {
    let files = files(cloud, &check).await?;
    let total = files.iter().map(|(_, bytes)| bytes).sum();
    let meter = Arc::new(Meter::start("check", total, global));
    let mut running = JoinSet::new();
    let (mut views, mut waiting) = (Vec::new(), files.into_iter());
    loop {
        while running.len() < FILES_AT_ONCE
            && let Some((path, _)) = waiting.next()
        {
            let (cloud, meter) = (cloud.clone(), Arc::clone(&meter));
            running.spawn(async move {
                let checked = cloud.check(&path, &|bytes| meter.add(bytes)).await;
                (path, checked)
            });
        }
        let Some(ended) = running.join_next().await else { break };
        let (path, checked) = ended.map_err(|error| Failure::failed(error.to_string()))?;
        match checked {
            Ok(copies) => views.extend(copies.into_iter().map(|copy| CopyView::new(&path, copy))),
            // Removed since it was listed.
            Err(error) if error.status() == Status::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    meter.finish();
    // In the order of the paths, whichever was finished first.
    views.sort_by(|a, b| (&a.path, &a.node).cmp(&(&b.path, &b.node)));
    report(&views, global)
}

/// The files to check, with the bytes of all their copies.
async fn files(cloud: &Client, check: &Check) -> Result<Vec<(SectorPath, u64)>, Failure> {
    let mut files = Vec::new();
    for pattern in &check.paths {
        if !check.recursive
            && let Some(path) = cloud.literal(pattern).await?
            && client::namespace::is_folder(&cloud.stat(&path).await?.entry)
        {
            return Err(Failure::usage(format!("`{pattern}` is a folder; use -r for all that it holds")));
        }
        for entry in cloud.expand(pattern).await? {
            if let EntryKind::File(content) = &entry.kind {
                let copies = entry.nodes.len() as u64;
                files.push((entry.path, content.bytes * copies));
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn report(views: &[CopyView], global: &Global) -> Result<(), Failure> {
    let count = |result| views.iter().filter(|view| view.result == result).count();
    let (corrupt, missing, unreachable) = (count("corrupt"), count("missing"), count("unreachable"));
    if global.json {
        show::json(&views)?;
    } else {
        for view in views.iter().filter(|view| view.result != "ok") {
            let node = view.node.as_deref().unwrap_or("no node");
            show::line(format!("{} at {node}: {}: {}", view.path, view.result, view.why));
        }
        if !global.quiet {
            show::line(format!(
                "{} copies: {} ok, {corrupt} corrupt, {missing} missing, {unreachable} unreachable",
                views.len(),
                count("ok")
            ));
        }
    }
    match (corrupt, missing + unreachable) {
        (0, 0) => Ok(()),
        (0, unchecked) => Err(Failure::failed(format!(
            "{unchecked} copies could not be checked; see `sector health`, and check again once all nodes are up"
        ))),
        _ => Err(Failure::new(
            Reason::Corrupt,
            format!(
                "{corrupt} copies are damaged; they are being replaced where another copy is good, see `sector health`"
            ),
        )),
    }
}

#[derive(Debug, Serialize)]
struct CopyView {
    path: String,
    /// `None` where the file has no known copy.
    node: Option<String>,
    result: &'static str,
    why: String,
}

impl CopyView {
    fn new(path: &SectorPath, copy: CheckedCopy) -> Self {
        let result = match copy.result {
            CheckResult::Ok => "ok",
            CheckResult::Corrupt => "corrupt",
            CheckResult::Missing => "missing",
            CheckResult::Unreachable => "unreachable",
        };
        Self { path: path.to_string(), node: copy.node.map(|node| node.to_string()), result, why: copy.why }
    }
}

/// Files checked at once: their copies lie on different disks, and small ones wait for messages more than for disks.
const FILES_AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_copy_weighs_more_than_a_missing_one_and_both_fail() {
        let global = Global { carrier: None, controller: None, profile: None, json: false, quiet: true, verbose: 0 };
        let view = |result| CopyView { path: "/a".into(), node: Some("n1".into()), result, why: String::new() };
        let status = |results: &[&'static str]| {
            report(&results.iter().map(|result| view(result)).collect::<Vec<_>>(), &global).err().map(|why| why.reason)
        };
        assert_eq!(status(&["ok", "ok"]), None);
        assert_eq!(status(&["ok", "missing"]), Some(Reason::Failed));
        assert_eq!(status(&["ok", "unreachable"]), Some(Reason::Failed));
        assert_eq!(status(&["missing", "corrupt", "ok"]), Some(Reason::Corrupt));
        assert_eq!(status(&[]), None, "a folder without files is as it should be");
    }
}
