//! Download of several files, or of folders with all that they hold (path: `docs/paths/tree.md`). Destinations follow
//! `cp`, or are given exactly. A local file that has the bytes already is not fetched again. A local file is never
//! replaced unless the caller says so.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{
    SectorPath,
    message::client_master::{Entry, EntryKind, FileContent},
};

use super::{
    in_flight::files_at_once,
    local_content::is_same,
    outcome::{TreeEvent, TreeObserver, TreeOutcome},
    target_conflicts::{PathMapping, resolve_targets},
    transfer_set::{FileTransfer, TransferEnd, run_all},
};
use crate::{Client, ClientError, GetOptions, names::expand::is_glob, names::namespace::is_folder};

/// Which file of the cloud goes where.
#[derive(Clone, Debug)]
pub struct DownloadPlan {
    files: Vec<PlannedDownload>,
}

/// A file in the cloud and where it goes.
#[derive(Clone, Debug)]
pub struct PlannedDownload {
    /// The file in the cloud.
    pub entry: Entry,
    /// Its content.
    pub content: FileContent,
    /// The local file.
    pub file: PathBuf,
}

/// What becomes of local files that are in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExistingFiles {
    /// A file with other bytes is kept, and its download fails.
    #[default]
    Keep,
    /// A file with other bytes is replaced.
    Replace,
    /// Every file is fetched and replaced, whatever bytes it has.
    FetchAnew,
}

impl DownloadPlan {
    /// The downloads of what these paths and globs name. They go into `to` if it is a folder, is written with `/`, or if
    /// there are several sources.
    ///
    /// # Errors
    /// Before anything is done: if nothing matches, a folder may not be taken, or two files would become one.
    pub async fn new(cloud: &Client, sources: &[String], to: &str, recursive: bool) -> Result<Self, ClientError> {
        let into_folder = Path::new(to).is_dir() || to.ends_with('/') || sources.len() > 1;
        let mut files = Vec::new();
        for source in sources {
            files.extend(one_source(cloud, source, Path::new(to), into_folder, recursive).await?);
        }
        if !into_folder && files.len() > 1 && !recursive {
            return Err(ClientError::Usage(format!("several files cannot all become `{to}`; name a folder")));
        }
        Self::of(files)
    }

    /// The download of one file to exactly `to` or, with `recursive`, of all files of a folder to below it.
    ///
    /// # Errors
    /// `NotFound` if nothing is there, and [`ClientError::IsFolder`] for a folder that may not be taken.
    pub async fn exactly(cloud: &Client, path: &SectorPath, to: &Path, recursive: bool) -> Result<Self, ClientError> {
        let entry = cloud.stat(path).await?.entry;
        let entries = match (is_folder(&entry), recursive) {
            (true, true) => cloud.list_recursive(path).await?,
            (true, false) => return Err(ClientError::IsFolder { path: path.clone() }),
            (false, _) => vec![entry],
        };
        let file = |entry: &Entry| join(to, below(path, &entry.path));
        Self::of(entries.into_iter().filter_map(|entry| planned(file(&entry), entry)).collect())
    }

    /// The files that go.
    pub fn files(&self) -> &[PlannedDownload] {
        &self.files
    }

    /// The length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.content.bytes).sum()
    }

    fn of(files: Vec<PlannedDownload>) -> Result<Self, ClientError> {
        let mapping = |download: &PlannedDownload| PathMapping {
            from: download.entry.path.as_str().into(),
            to: download.file.clone(),
        };
        Ok(Self { files: resolve_targets(files, mapping, false)? })
    }
}

/// Downloads the files of a plan, several at once. Missing local folders are made.
pub async fn download(
    cloud: &Client,
    plan: DownloadPlan,
    existing: ExistingFiles,
    observer: &TreeObserver,
) -> TreeOutcome {
    let transfers = plan.files.into_iter().map(|download| {
        let (cloud, observer) = (cloud.clone(), Arc::clone(observer));
        let (from, to, bytes) = (download.entry.path.as_str().into(), download.file.clone(), download.content.bytes);
        let work = async move { download_one(&cloud, download, existing, &observer).await };
        FileTransfer { from, to, bytes, work }
    });
    run_all(transfers, || files_at_once(cloud.round_trip()), observer).await
}

async fn download_one(
    cloud: &Client,
    download: PlannedDownload,
    existing: ExistingFiles,
    observer: &TreeObserver,
) -> Result<TransferEnd, ClientError> {
    let PlannedDownload { entry, content, file } = download;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(ClientError::file("make the folder", folder))?;
    }
    if existing != ExistingFiles::FetchAnew && is_same(&file, &content).await? {
        observer(TreeEvent::Bytes(content.bytes));
        return Ok(TransferEnd { entry, is_skipped: true });
    }
    let options = GetOptions { overwrite: existing != ExistingFiles::Keep, ..GetOptions::default() };
    let progress = |bytes| observer(TreeEvent::Bytes(bytes));
    let entry = cloud.get_file(&entry.path, &file, options, &progress).await?;
    Ok(TransferEnd { entry, is_skipped: false })
}

/// The downloads for one path or glob.
async fn one_source(
    cloud: &Client,
    source: &str,
    to: &Path,
    into_folder: bool,
    recursive: bool,
) -> Result<Vec<PlannedDownload>, ClientError> {
    let folder = if is_glob(source) { None } else { Some(SectorPath::parse(source)?) };
    if let (Some(path), false) = (&folder, recursive)
        && is_folder(&cloud.stat(path).await?.entry)
    {
        return Err(ClientError::IsFolder { path: path.clone() });
    }
    let mut downloads = Vec::new();
    for entry in cloud.expand(source).await? {
        // A folder keeps its inner structure; everything else keeps only its name.
        let inner = folder.as_ref().map_or("", |folder| below(folder, &entry.path)).to_owned();
        let own_name = folder.as_ref().unwrap_or(&entry.path).name().unwrap_or_default();
        let file = if into_folder { to.join(own_name) } else { to.to_path_buf() };
        downloads.extend(planned(join(&file, &inner), entry));
    }
    Ok(downloads)
}

/// The download of an entry, if it is a file.
fn planned(file: PathBuf, entry: Entry) -> Option<PlannedDownload> {
    match &entry.kind {
        EntryKind::File(content) => Some(PlannedDownload { content: content.clone(), file, entry }),
        EntryKind::Folder => None,
    }
}

/// The part of `path` below `folder`; empty if they are the same.
fn below<'a>(folder: &SectorPath, path: &'a SectorPath) -> &'a str {
    path.as_str()[folder.as_str().trim_end_matches('/').len()..].trim_start_matches('/')
}

/// The local file; joining nothing would add a `/`.
fn join(to: &Path, below: &str) -> PathBuf {
    if below.is_empty() { to.to_path_buf() } else { to.join(below) }
}
