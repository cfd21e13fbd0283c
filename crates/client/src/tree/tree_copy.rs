//! Copies of several files, or of folders with all that they hold, from node to node (path: `docs/paths/tree.md`).
//! Of a folder, what it holds goes to the destination; renames follow Unix's `mv`. Within a cloud the bytes of a file
//! never pass through this client.

use std::sync::{Arc, atomic::Ordering};

use protocol::{
    Reason, Refusal, SectorPath,
    message::client_master::{Condition, Entry, EntryKind, FileContent},
};

use super::{
    download::below,
    in_flight::files_at_once,
    outcome::{TreeEvent, TreeObserver, TreeOutcome},
    sources::matched,
    target_conflicts::{PathMapping, resolve_targets},
    transfer_set::{FileTransfer, TransferEnd, run_all},
};
use crate::{
    Client, ClientError, PutOptions,
    file::{copy::CopyManner, executable::is_executable},
    names::namespace::is_folder,
};

/// Which file is copied where.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// Folders to make first, those above before those below.
    folders: Vec<SectorPath>,
    files: Vec<PlannedCopy>,
    /// The copies have the dates of what they are copies of.
    keeps_dates: bool,
}

/// A file to copy.
#[derive(Clone, Debug)]
pub struct PlannedCopy {
    /// The file.
    pub from: SectorPath,
    /// Its copy.
    pub to: SectorPath,
    /// Its length in bytes.
    pub bytes: u64,
    /// What it holds.
    content: FileContent,
    /// Whether it goes below a folder that the command names: then the folders above it are made.
    is_in_folder: bool,
}

impl CopyPlan {
    /// The copies of what these paths and globs of `there` name to `to` of `here`. Of a folder, what it holds goes to
    /// `to`. A file goes into `to` if that is a folder, is written with `/`, or if there are several sources. Between
    /// two clouds, files keep their dates.
    ///
    /// # Errors
    /// Before anything is done: if nothing matches, a folder may not be taken, or a file would be lost.
    pub async fn new(
        (there, here): (&Client, &Client),
        sources: &[String],
        to: &str,
        recursive: bool,
    ) -> Result<Self, ClientError> {
        let abroad = !here.is_same_cloud(there);
        let failed_there = there.in_cloud(here);
        let found = matched(there, sources, recursive).await.map_err(&failed_there)?;
        let target = SectorPath::parse(to)?;
        let to_folder = to.ends_with('/')
            || found.len() > 1
            || is_there_folder(here, &target).await.map_err(here.in_cloud(there))?;
        let mut plan = Self { folders: Vec::new(), files: Vec::new(), keeps_dates: abroad };
        for entry in found {
            let (from, is_folder) = (entry.path.clone(), is_folder(&entry));
            let to = match from.name() {
                Some(name) if to_folder && !is_folder => target.join(name)?,
                _ => target.clone(),
            };
            if from == to && !abroad {
                return Err(ClientError::Usage(format!("`{from}` and `{to}` are the same")));
            }
            if is_folder && to.is_within(&from) && !abroad {
                return Err(ClientError::Usage(format!("`{from}` cannot be copied into itself")));
            }
            let entries = match is_folder {
                true => there.list_recursive(&from).await.map_err(&failed_there)?,
                false => vec![entry],
            };
            plan.add_entries(&from, &to, entries, is_folder || to_folder)?;
            if is_folder && !to.is_root() {
                // Even if it is empty.
                plan.folders.push(to);
            }
        }
        plan.checked(!abroad)
    }

    /// The copies of these entries of a folder to below `to`, with their dates. `is_one_world`: in the same cloud.
    pub(super) fn of_entries(
        folder: &SectorPath,
        to: &SectorPath,
        entries: Vec<Entry>,
        is_one_world: bool,
    ) -> Result<Self, ClientError> {
        let mut plan = Self { folders: Vec::new(), files: Vec::new(), keeps_dates: true };
        plan.add_entries(folder, to, entries, true)?;
        plan.checked(is_one_world)
    }

    /// Adds a file, or what a folder holds.
    fn add_entries(
        &mut self,
        from: &SectorPath,
        to: &SectorPath,
        entries: Vec<Entry>,
        is_in_folder: bool,
    ) -> Result<(), ClientError> {
        for entry in entries {
            let to = match below(from, &entry.path) {
                "" => to.clone(),
                inner => SectorPath::parse(&format!("{}/{inner}", to.as_str().trim_end_matches('/')))?,
            };
            match entry.kind {
                EntryKind::Folder if to.is_root() => {}
                EntryKind::Folder => self.folders.push(to),
                EntryKind::File(content) => {
                    let bytes = content.bytes;
                    self.files.push(PlannedCopy { from: entry.path, to, bytes, content, is_in_folder });
                }
            }
        }
        Ok(())
    }

    fn checked(mut self, is_one_world: bool) -> Result<Self, ClientError> {
        self.folders.sort();
        Ok(Self { files: resolve_targets(self.files, |file| mapping(&file.from, &file.to), is_one_world)?, ..self })
    }

    /// The files that are copied.
    pub fn files(&self) -> &[PlannedCopy] {
        &self.files
    }

    /// The length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Copies the files of a plan from `there` to `here`.
///
/// # Errors
/// If a folder cannot be made: then no file is copied.
pub async fn copy(
    (there, here): (&Client, &Client),
    plan: CopyPlan,
    options: &PutOptions,
    observer: &TreeObserver,
) -> Result<TreeOutcome, ClientError> {
    for folder in &plan.folders {
        here.make_folder(folder, true).await.map_err(here.in_cloud(there))?;
    }
    let manner = Arc::new(CopyManner::new(plan.keeps_dates));
    let kept_bytes = options.kept_bytes.clone().unwrap_or_default();
    let options = Arc::new(PutOptions { kept_bytes: Some(Arc::clone(&kept_bytes)), ..options.clone() });
    let transfers = plan.files.into_iter().map(|file| {
        let (there, here, observer) = (there.clone(), here.clone(), Arc::clone(observer));
        let (manner, options) = (Arc::clone(&manner), Arc::clone(&options));
        let (named_from, named_to, bytes) = (file.from.as_str().into(), file.to.as_str().into(), file.bytes);
        let work = Box::pin(async move {
            let options = PutOptions { parents: options.parents || file.is_in_folder, ..PutOptions::clone(&options) };
            let same = find_same(&here, &file, options.condition).await.map_err(here.in_cloud(&there))?;
            if let Some(entry) = same {
                observer(TreeEvent::Bytes(bytes));
                return Ok(TransferEnd { entry, is_skipped: true });
            }
            let PlannedCopy { from, to, .. } = file;
            let progress = |bytes| observer(TreeEvent::Bytes(bytes));
            let entry = here.copy_in_manner(&manner, (&there, &from), &to, &options, &progress).await?;
            Ok(TransferEnd { entry, is_skipped: false })
        });
        FileTransfer { from: named_from, to: named_to, bytes, work }
    });
    // The node that writes a copy keeps to the limit, not this client.
    let files_max = || here.throttle().senders_max(files_at_once(here.round_trip().max(there.round_trip())));
    let outcome = run_all(transfers, files_max, observer).await;
    Ok(TreeOutcome { kept_bytes: kept_bytes.load(Ordering::Relaxed), ..outcome })
}

/// What is at the destination already, if it needs no copy. That is the same bytes in the same records, and
/// the same executable bit. Under the condition that nothing is there, it is anything.
async fn find_same(here: &Client, file: &PlannedCopy, condition: Condition) -> Result<Option<Entry>, ClientError> {
    let found = here.find(&file.to).await?;
    Ok(found.filter(|entry| match (&entry.kind, condition) {
        (_, Condition::Absent) => true,
        (EntryKind::File(content), Condition::Any) => {
            let compared = |of: &FileContent| (of.bytes, of.digest, of.records, is_executable(of));
            compared(content) == compared(&file.content)
        }
        _ => false,
    }))
}

async fn is_there_folder(here: &Client, path: &SectorPath) -> Result<bool, ClientError> {
    Ok(path.is_root() || here.find(path).await?.is_some_and(|entry| is_folder(&entry)))
}

/// What `mv` does with these paths and globs: each source with its new path.
///
/// # Errors
/// Before anything is done: if nothing matches, or a file would be lost.
pub async fn plan_renames(
    cloud: &Client,
    sources: &[String],
    to: &str,
) -> Result<Vec<(SectorPath, SectorPath)>, ClientError> {
    resolve_targets(pairs(cloud, sources, to).await?, |(from, to)| mapping(from, to), true)
}

fn mapping(from: &SectorPath, to: &SectorPath) -> PathMapping {
    PathMapping { from: from.as_str().into(), to: to.as_str().into() }
}

/// Pairs of source and destination: into the last path if that is a folder, otherwise the first becomes the last.
async fn pairs(cloud: &Client, patterns: &[String], to: &str) -> Result<Vec<(SectorPath, SectorPath)>, ClientError> {
    let path = SectorPath::parse(to)?;
    let is_folder = is_there_folder(cloud, &path).await?;
    if !is_folder && (patterns.len() > 1 || to.ends_with('/')) {
        let message = format!("there is no folder `{path}`; make it with `sector mkdir`");
        return Err(Refusal::new(Reason::NotFound, message).into());
    }
    let mut sources = Vec::new();
    for pattern in patterns {
        sources.extend(cloud.matching(pattern).await?);
    }
    if sources.len() > 1 && !is_folder {
        return Err(ClientError::Usage(format!("several files cannot all become `{path}`; name a folder")));
    }
    let mut pairs = Vec::new();
    for from in sources {
        let to = match (is_folder, from.name()) {
            (true, Some(name)) => path.join(name)?,
            (true, None) => {
                let message = "the root folder cannot be moved into a folder";
                return Err(ClientError::Usage(message.into()));
            }
            (false, _) => path.clone(),
        };
        pairs.push((from, to));
    }
    Ok(pairs)
}
