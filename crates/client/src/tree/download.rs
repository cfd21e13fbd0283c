//! Download of several files, or of folders with all that they hold (path: `docs/paths/tree.md`). Of a folder, what it
//! holds goes to the destination. A local file that has the bytes already is not fetched again. A local file is never
//! replaced unless the caller says so.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use protocol::{
    SectorPath,
    message::client_master::{Entry, EntryKind, FileContent},
};

use super::{
    in_flight::files_at_once,
    local_content::is_same,
    outcome::{FailedFile, TreeEvent, TreeObserver, TreeOutcome},
    sources::matched,
    target_conflicts::{PathMapping, resolve_targets},
    transfer_set::{FileTransfer, TransferEnd, run_all},
};
use crate::{
    Client, ClientError, GetOptions,
    file::{
        executable::{adopt, is_executable},
        local_target::LocalTarget,
    },
    names::namespace::is_folder,
};

/// Which file of the cloud goes where.
#[derive(Clone, Debug)]
pub struct DownloadPlan {
    files: Vec<PlannedDownload>,
    /// Folders of the cloud, also empty ones, and the local folders that they become.
    folders: Vec<(SectorPath, PathBuf)>,
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
    /// The downloads of what these paths and globs name. Of a folder, what it holds goes to `to`. A file goes into `to`
    /// if that is a folder, is written with `/`, or if there are several sources.
    ///
    /// # Errors
    /// Before anything is done: if nothing matches, a folder may not be taken, or two files would become one.
    pub async fn new(cloud: &Client, sources: &[String], to: &str, recursive: bool) -> Result<Self, ClientError> {
        let found = matched(cloud, sources, recursive).await?;
        let to_folder = Path::new(to).is_dir() || to.ends_with('/') || found.len() > 1;
        let mut plan = Self { files: Vec::new(), folders: Vec::new() };
        for entry in found {
            match entry.path.name() {
                _ if is_folder(&entry) => plan.add_folder(cloud, &entry.path, Path::new(to)).await?,
                Some(name) if to_folder => plan.add(Path::new(to).join(name), entry),
                _ => plan.add(to.into(), entry),
            }
        }
        plan.checked()
    }

    /// The download of one file to exactly `to` or, with `recursive`, of all files of a folder to below it.
    ///
    /// # Errors
    /// `NotFound` if nothing is there, and [`ClientError::IsFolder`] for a folder that may not be taken.
    pub async fn exactly(cloud: &Client, path: &SectorPath, to: &Path, recursive: bool) -> Result<Self, ClientError> {
        let entry = cloud.stat(path).await?.entry;
        let mut plan = Self { files: Vec::new(), folders: Vec::new() };
        match (is_folder(&entry), recursive) {
            (true, true) => plan.add_folder(cloud, path, to).await?,
            (true, false) => return Err(ClientError::IsFolder { path: path.clone() }),
            (false, _) => plan.add(to.into(), entry),
        }
        plan.checked()
    }

    /// The downloads of these entries of a folder to below `to`.
    pub(super) fn of_entries(folder: &SectorPath, to: &Path, entries: Vec<Entry>) -> Result<Self, ClientError> {
        let mut plan = Self { files: Vec::new(), folders: Vec::new() };
        plan.add_entries(folder, to, entries);
        plan.checked()
    }

    /// The files that go.
    pub fn files(&self) -> &[PlannedDownload] {
        &self.files
    }

    /// The length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.content.bytes).sum()
    }

    /// Adds what a folder holds, with its inner structure.
    async fn add_folder(&mut self, cloud: &Client, folder: &SectorPath, to: &Path) -> Result<(), ClientError> {
        self.folders.push((folder.clone(), to.into()));
        self.add_entries(folder, to, cloud.list_recursive(folder).await?);
        Ok(())
    }

    fn add_entries(&mut self, folder: &SectorPath, to: &Path, entries: Vec<Entry>) {
        for entry in entries {
            self.add(join(to, below(folder, &entry.path)), entry);
        }
    }

    fn add(&mut self, file: PathBuf, entry: Entry) {
        match &entry.kind {
            EntryKind::File(content) => self.files.push(PlannedDownload { content: content.clone(), file, entry }),
            EntryKind::Folder => self.folders.push((entry.path, file)),
        }
    }

    fn checked(self) -> Result<Self, ClientError> {
        let mapping = |download: &PlannedDownload| PathMapping {
            from: download.entry.path.as_str().into(),
            to: download.file.clone(),
        };
        Ok(Self { files: resolve_targets(self.files, mapping, false)?, ..self })
    }
}

/// Downloads the files of a plan, several at once. Missing local folders are made.
pub async fn download(
    cloud: &Client,
    plan: DownloadPlan,
    existing: ExistingFiles,
    observer: &TreeObserver,
) -> TreeOutcome {
    let failures = make_folders(plan.folders, observer);
    let kept_bytes = Arc::<AtomicU64>::default();
    let options = GetOptions {
        overwrite: existing != ExistingFiles::Keep,
        kept_bytes: Some(Arc::clone(&kept_bytes)),
        ..GetOptions::default()
    };
    let transfers = plan.files.into_iter().map(|download| {
        let (cloud, observer, options) = (cloud.clone(), Arc::clone(observer), options.clone());
        let (from, to, bytes) = (download.entry.path.as_str().into(), download.file.clone(), download.content.bytes);
        let work = Box::pin(async move { download_one(&cloud, download, existing, options, &observer).await });
        FileTransfer { from, to, bytes, work }
    });
    let mut outcome = run_all(transfers, || files_at_once(cloud.round_trip()), observer).await;
    outcome.failures.splice(0..0, failures);
    outcome.kept_bytes = kept_bytes.load(Ordering::Relaxed);
    outcome
}

fn make_folders(folders: Vec<(SectorPath, PathBuf)>, observer: &TreeObserver) -> Vec<FailedFile> {
    let mut failures = Vec::new();
    for (from, to) in folders {
        if let Err(error) = make_folder(&to) {
            let failed = FailedFile { from: from.as_str().into(), to, error };
            observer(TreeEvent::Failed(&failed));
            failures.push(failed);
        }
    }
    failures
}

fn make_folder(folder: &Path) -> Result<(), ClientError> {
    let in_the_way = |error: io::Error| match error.kind() {
        // A file has that name, and `--force` would not help.
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    };
    std::fs::create_dir_all(folder).map_err(in_the_way).map_err(ClientError::file("make the folder", folder))
}

async fn download_one(
    cloud: &Client,
    download: PlannedDownload,
    existing: ExistingFiles,
    options: GetOptions,
    observer: &TreeObserver,
) -> Result<TransferEnd, ClientError> {
    let PlannedDownload { entry, content, file } = download;
    if let Some(folder) = file.parent() {
        make_folder(folder)?;
    }
    let is_special = matches!(LocalTarget::at(&file), Ok(LocalTarget::Special));
    if existing != ExistingFiles::FetchAnew && !is_special && is_same(&file, &content).await? {
        observer(TreeEvent::Bytes(content.bytes));
        let is_changed = adopt(&file, is_executable(&content), existing == ExistingFiles::Replace);
        return Ok(TransferEnd { entry, is_skipped: !is_changed });
    }
    let progress = |bytes| observer(TreeEvent::Bytes(bytes));
    let entry = cloud.get_file(&entry.path, &file, options, &progress).await?;
    Ok(TransferEnd { entry, is_skipped: false })
}

/// The part of `path` below `folder`; empty if they are the same.
pub(super) fn below<'a>(folder: &SectorPath, path: &'a SectorPath) -> &'a str {
    path.as_str()[folder.as_str().trim_end_matches('/').len()..].trim_start_matches('/')
}

/// The local file; joining nothing would add a `/`.
fn join(to: &Path, below: &str) -> PathBuf {
    if below.is_empty() { to.to_path_buf() } else { to.join(below) }
}
