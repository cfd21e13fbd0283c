//! `import`: files that already lie on a node become files of the cloud, on that node. Their bytes never pass through
//! this machine.

use std::sync::Arc;

use client::{Client, Condition, PutOptions, SectorPath, import::Import};
use protocol::Reason;
use serde::Serialize;
use terminal::{
    failure::Failure,
    show::{self, Meter},
};
use tokio::task::JoinSet;

use crate::arguments::{Global, ImportFiles};

/// `sector import`.
pub(crate) async fn import(cloud: &Client, wanted: ImportFiles, global: &Global) -> Result<(), Failure> {
    let into = SectorPath::parse(&wanted.to)?;
    let import = Import { node: wanted.node, folder: wanted.folder, keep: wanted.keep };
    let files = cloud.native_files(&import).await?;
    if files.is_empty() {
        let message = format!("there are no files in `{}` on node {}", import.folder, import.node);
        return Err(Failure::new(Reason::NotFound, message));
    }
    // Before the first file is touched: a name that the cloud does not allow should not stop an import half way.
    let mut work = Vec::new();
    for file in files {
        let path = file.path.split('/').try_fold(into.clone(), |folder, name| folder.join(name))?;
        work.push((file, path));
    }
    let options = PutOptions {
        copies: wanted.copies,
        sync_copies: wanted.sync_copies,
        records: wanted.records,
        parents: true,
        condition: if wanted.force { Condition::Any } else { Condition::Absent },
        ..PutOptions::default()
    };
    let total = work.iter().map(|(file, _)| file.bytes).sum();
    let meter = Arc::new(Meter::start("import", total, global));
    let mut running = JoinSet::new();
    let (mut views, mut failure) = (Vec::new(), None);
    for (file, path) in work {
        if running.len() >= FILES_AT_ONCE {
            note(running.join_next().await, &mut views, &mut failure);
        }
        let (cloud, import, options, meter) = (cloud.clone(), import.clone(), options.clone(), Arc::clone(&meter));
        running.spawn(async move {
            let progress = |bytes| meter.add(bytes);
            let imported = cloud.import_file(&import, &file, &path, &options, &progress).await?;
            Ok(ImportedView {
                path: path.to_string(),
                file: file.path,
                bytes: file.bytes,
                left: imported.removal_error,
            })
        });
    }
    while let Some(ended) = running.join_next().await {
        note(Some(ended), &mut views, &mut failure);
    }
    meter.finish();
    views.sort_by(|a, b| a.path.cmp(&b.path));
    if global.json {
        show::json(&views)?;
    } else if !global.quiet {
        show::line(format!("{} imported", show::count(views.len(), "file")));
    }
    match (failure, views.into_iter().find_map(|view| view.left)) {
        (Some(failure), _) => Err(failure),
        (None, Some(left)) => {
            Err(Failure::failed(format!("all files are imported, and some kept their names: {left}")))
        }
        (None, None) => Ok(()),
    }
}

type Ended = Result<Result<ImportedView, Failure>, tokio::task::JoinError>;

/// The first failure is reported at the end; every other file is imported.
fn note(ended: Option<Ended>, views: &mut Vec<ImportedView>, failure: &mut Option<Failure>) {
    match ended {
        Some(Ok(Ok(view))) => views.push(view),
        Some(Ok(Err(error))) => {
            if failure.is_some() {
                terminal::say!("sector: {error}");
            } else {
                *failure = Some(error);
            }
        }
        Some(Err(_)) => *failure = Some(Failure::failed("an import ended by a bug")),
        None => {}
    }
}

#[derive(Serialize)]
struct ImportedView {
    path: String,
    file: String,
    bytes: u64,
    /// Why the native file kept its name although it should not have.
    left: Option<String>,
}

/// Files imported at once: all are read from one node's disk.
const FILES_AT_ONCE: usize = 4;
