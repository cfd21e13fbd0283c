//! Upload of several files, or of folders with all that they hold (path: `docs/paths/tree.md`). Of a folder, what it
//! holds goes to the destination. A file that is there with the same bytes is not sent again, unless a condition is
//! set. It never decides where slices lie.

use std::{
    collections::BTreeSet,
    io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use protocol::{
    Reason, Refusal, SectorPath,
    message::client_master::{Condition, Entry, EntryKind, FileContent},
};

use super::{
    in_flight::files_at_once,
    local_content::is_same,
    local_walk::{LocalItem, LocalKind, walk},
    outcome::{FailedFile, TreeEvent, TreeObserver, TreeOutcome},
    target_conflicts::{PathMapping, resolve_targets},
    transfer_set::{FileTransfer, TransferEnd, run_all},
};
use crate::{
    Client, ClientError, PutOptions,
    file::executable::{self, is_executable, is_executable_here},
    names::namespace::is_folder,
};

/// Which local file goes where.
#[derive(Clone, Debug, Default)]
pub struct UploadPlan {
    files: Vec<PlannedUpload>,
    /// Folders that no file makes, since they hold none.
    empty_folders: Vec<PlannedFolder>,
    left_out: Vec<PathBuf>,
    refused: Vec<RefusedSource>,
}

/// A local file and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedUpload {
    /// The local file.
    pub file: PathBuf,
    /// Its path in the cloud.
    pub to: SectorPath,
    /// Its length in bytes, as far as it is known.
    pub bytes: u64,
}

/// A local folder and what it becomes.
#[derive(Clone, Debug)]
struct PlannedFolder {
    folder: PathBuf,
    to: SectorPath,
}

/// A local file that cannot go, for example because of its name. It holds up no other.
#[derive(Clone, Debug)]
pub(super) struct RefusedSource {
    file: PathBuf,
    refusal: Refusal,
}

impl RefusedSource {
    /// What is there could not be read.
    pub(super) fn unreadable(file: PathBuf, error: io::Error) -> Self {
        let error = ClientError::file("read", &file)(error);
        Self { refusal: Refusal::new(error.reason(), error.to_string()), file }
    }
}

impl From<RefusedSource> for FailedFile {
    fn from(RefusedSource { file, refusal }: RefusedSource) -> Self {
        Self { to: PathBuf::new(), error: refusal.into(), from: file }
    }
}

/// What becomes of symbolic links in local folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalLinks {
    /// They are left out, and named.
    #[default]
    LeaveOut,
    /// What they point at goes in their place.
    Follow,
}

/// Where uploads go. What a folder holds goes to the path itself in either case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadDestination {
    /// A file goes below this folder, under its own name.
    Into(SectorPath),
    /// A file goes to exactly this path.
    Exactly(SectorPath),
}

impl UploadDestination {
    /// Into a folder if it exists, if it is written with `/`, or if there are several sources; otherwise exactly that
    /// path.
    ///
    /// # Errors
    /// If `to` is no path, or the master does not say what is there.
    pub async fn resolve(cloud: &Client, to: &str, sources: usize) -> Result<Self, ClientError> {
        let path = SectorPath::parse(to)?;
        let is_folder = path.is_root()
            || to.ends_with('/')
            || sources > 1
            || cloud.find(&path).await?.is_some_and(|entry| is_folder(&entry));
        Ok(if is_folder { Self::Into(path) } else { Self::Exactly(path) })
    }

    /// The path for a source of that name; `None` if it has none.
    ///
    /// # Errors
    /// If a source without a name would go into a folder, or the name is not allowed.
    pub fn file_for(&self, name: Option<&str>) -> Result<SectorPath, ClientError> {
        match (self, name) {
            (Self::Exactly(path), _) => Ok(path.clone()),
            (Self::Into(folder), Some(name)) => Ok(folder.join(name)?),
            (Self::Into(folder), None) => Err(ClientError::Usage(format!("`{folder}` is a folder; name a file in it"))),
        }
    }

    fn path(&self) -> &SectorPath {
        let (Self::Into(path) | Self::Exactly(path)) = self;
        path
    }
}

impl UploadPlan {
    /// The uploads of these local files and pipes and, with `recursive`, of what these folders hold. It reads the folders,
    /// which may take a while. A pipe needs a destination that names the file. Files in them whose names cannot be names in the cloud do not go, and fail at the end.
    ///
    /// # Errors
    /// Before anything is done: if a source is missing or is a folder that may not be taken, or if two would become
    /// one path.
    pub fn new(
        sources: &[PathBuf],
        to: &UploadDestination,
        recursive: bool,
        links: LocalLinks,
    ) -> Result<Self, ClientError> {
        let mut plan = Self::default();
        for source in sources {
            plan.extend(Self::one_source(source, to, recursive, links)?);
        }
        let mapping = |upload: &PlannedUpload| PathMapping { from: upload.file.clone(), to: upload.to.as_str().into() };
        plan.files = resolve_targets(plan.files, mapping, false)?;
        Ok(plan)
    }

    /// The upload of one local file to exactly `to` or, with `recursive`, of all files of a folder to below it. A file
    /// may also be a pipe.
    ///
    /// # Errors
    /// If it is missing, or a folder that may not be taken.
    pub fn exactly(source: &Path, to: &SectorPath, recursive: bool, links: LocalLinks) -> Result<Self, ClientError> {
        let metadata = source.metadata().map_err(ClientError::file("read", source))?;
        match (metadata.is_dir(), recursive) {
            (true, true) => Self::below(source, to, links),
            (true, false) => Err(ClientError::IsLocalFolder { folder: source.into() }),
            (false, _) => Ok(Self::one(source, to.clone(), metadata.len())),
        }
    }

    /// The uploads of all files below a local folder, with their paths below `to`.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn below(folder: &Path, to: &SectorPath, links: LocalLinks) -> Result<Self, ClientError> {
        Self::of_items(walk(folder, links), folder, to)
    }

    /// The uploads of what was found in a local folder, with their paths below `to`.
    pub(super) fn of_items(
        items: impl IntoIterator<Item = LocalItem>,
        folder: &Path,
        to: &SectorPath,
    ) -> Result<Self, ClientError> {
        let (mut plan, mut folders) = (Self::default(), Vec::new());
        for item in items {
            match item.kind {
                LocalKind::UnreadableBytes(error) if item.relative.as_os_str().is_empty() => {
                    return Err(ClientError::file("read", folder)(error));
                }
                LocalKind::UnreadableBytes(error) => plan.refused.push(RefusedSource::unreadable(item.path, error)),
                _ => plan.add(item, to, &mut folders),
            }
        }
        plan.empty_folders = without_content(folders, &plan.files);
        Ok(plan)
    }

    /// Adds the uploads of another plan.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.empty_folders.extend(other.empty_folders);
        self.left_out.extend(other.left_out);
        self.refused.extend(other.refused);
    }

    /// The files that go.
    pub fn files(&self) -> &[PlannedUpload] {
        &self.files
    }

    /// What was found in folders but does not go, since it is no ordinary file.
    pub fn left_out(&self) -> &[PathBuf] {
        &self.left_out
    }

    /// What cannot go, and fails at the end.
    pub(super) fn refused_sources(&self) -> &[RefusedSource] {
        &self.refused
    }

    /// The length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn one(file: &Path, to: SectorPath, bytes: u64) -> Self {
        Self { files: vec![PlannedUpload { file: file.into(), to, bytes }], ..Self::default() }
    }

    fn one_source(
        source: &Path,
        to: &UploadDestination,
        recursive: bool,
        links: LocalLinks,
    ) -> Result<Self, ClientError> {
        let metadata = source.metadata().map_err(ClientError::file("read", source))?;
        if metadata.is_dir() {
            return match recursive {
                true => Self::below(source, to.path(), links),
                false => Err(ClientError::IsLocalFolder { folder: source.into() }),
            };
        }
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_char_device() {
            // Such as `<(program)` in a shell, or `/dev/stdin`: its name says nothing of what comes out of it.
            return Ok(Self::one(source, to.file_for(None)?, 0));
        }
        if !kind.is_file() {
            let message = format!("`{}` is neither a file, a pipe nor a folder", source.display());
            return Err(ClientError::Usage(message));
        }
        // A link's own name: it was typed.
        let name = source.file_name().unwrap_or_default();
        let is_exact = matches!(to, UploadDestination::Exactly(_));
        match name.to_str().filter(|name| !name.is_empty()) {
            None if !is_exact => Ok(Self::refused(source, not_utf8(source))),
            name => match to.file_for(name) {
                Ok(to) => Ok(Self::one(source, to, metadata.len())),
                Err(error) => Ok(Self::refused(source, Refusal::new(error.reason(), error.to_string()))),
            },
        }
    }

    fn refused(file: &Path, refusal: Refusal) -> Self {
        Self { refused: vec![RefusedSource { file: file.into(), refusal }], ..Self::default() }
    }

    /// Adds something in a folder, of which all goes to below `to`.
    fn add(&mut self, item: LocalItem, to: &SectorPath, folders: &mut Vec<PlannedFolder>) {
        let LocalItem { path: file, relative, kind } = item;
        if matches!(kind, LocalKind::Other) {
            self.left_out.push(file);
            return;
        }
        let base = to.as_str().trim_end_matches('/');
        let path = match relative.to_str() {
            Some("") => Some(Ok(to.clone())),
            text => text.map(|text| SectorPath::parse(&format!("{base}/{text}"))),
        };
        match (path, kind) {
            (Some(Ok(to)), LocalKind::File { bytes, .. }) => self.files.push(PlannedUpload { file, to, bytes }),
            (Some(Ok(to)), _) => folders.push(PlannedFolder { folder: file, to }),
            (Some(Err(error)), _) => {
                self.extend(Self::refused(&file, Refusal::new(Reason::Invalid, error.to_string())));
            }
            (None, _) => self.extend(Self::refused(&file, not_utf8(&file))),
        }
    }
}

/// The folders in which no file and no other folder lies.
fn without_content(folders: Vec<PlannedFolder>, files: &[PlannedUpload]) -> Vec<PlannedFolder> {
    let inner = files.iter().map(|file| &file.to).chain(folders.iter().map(|folder| &folder.to));
    let parents: BTreeSet<SectorPath> = inner.filter_map(SectorPath::parent).collect();
    folders.into_iter().filter(|folder| !folder.to.is_root() && !parents.contains(&folder.to)).collect()
}

fn not_utf8(file: &Path) -> Refusal {
    Refusal::new(Reason::Invalid, format!("the name of `{}` is not UTF-8", file.display()))
}

/// Uploads the files of a plan, several at once. A file that is already there, byte for byte, is not sent again.
pub async fn upload(cloud: &Client, plan: UploadPlan, options: &PutOptions, observer: &TreeObserver) -> TreeOutcome {
    let kept_bytes = options.kept_bytes.clone().unwrap_or_default();
    let options = Arc::new(PutOptions { kept_bytes: Some(Arc::clone(&kept_bytes)), ..options.clone() });
    let mut failures = make_folders(cloud, plan.empty_folders, observer).await;
    let transfers = plan.files.into_iter().map(|file| {
        let (cloud, options, observer) = (cloud.clone(), Arc::clone(&options), Arc::clone(observer));
        let (from, to, bytes) = (file.file.clone(), file.to.as_str().into(), file.bytes);
        let work = Box::pin(async move { upload_one(&cloud, &file, &options, &observer).await });
        FileTransfer { from, to, bytes, work }
    });
    let outcome = run_all(transfers, || files_at_once(cloud.round_trip()), observer).await;
    failures.extend(outcome.failures);
    // At the end, where a person sees them all.
    for failed in plan.refused.into_iter().map(FailedFile::from) {
        observer(TreeEvent::Failed(&failed));
        failures.push(failed);
    }
    TreeOutcome { failures, kept_bytes: kept_bytes.load(Ordering::Relaxed), ..outcome }
}

async fn make_folders(cloud: &Client, folders: Vec<PlannedFolder>, observer: &TreeObserver) -> Vec<FailedFile> {
    let mut failures = Vec::new();
    for PlannedFolder { folder, to } in folders {
        if let Err(error) = cloud.make_folder(&to, true).await {
            let failed = FailedFile { from: folder, to: to.as_str().into(), error };
            observer(TreeEvent::Failed(&failed));
            failures.push(failed);
        }
    }
    failures
}

async fn upload_one(
    cloud: &Client,
    upload: &PlannedUpload,
    options: &PutOptions,
    observer: &TreeObserver,
) -> Result<TransferEnd, ClientError> {
    // A caller who sets a condition wants to know whether it holds.
    if options.condition == Condition::Any
        && let Some((entry, content)) = find_same(cloud, upload).await?
    {
        let is_program = upload.file.metadata().is_ok_and(|metadata| is_executable_here(&metadata));
        let is_skipped = is_program == is_executable(&content);
        let entry = match is_skipped {
            true => entry,
            false => cloud.change_metadata(&upload.to, content.slice, executable::change(is_program)).await?,
        };
        observer(TreeEvent::Bytes(upload.bytes));
        return Ok(TransferEnd { entry, is_skipped });
    }
    let progress = |bytes| observer(TreeEvent::Bytes(bytes));
    let entry = cloud.put_file(&upload.file, &upload.to, options, &progress).await?;
    Ok(TransferEnd { entry, is_skipped: false })
}

/// The file in the cloud, if it has the same length and digest.
async fn find_same(cloud: &Client, upload: &PlannedUpload) -> Result<Option<(Entry, FileContent)>, ClientError> {
    let Some(entry) = cloud.find(&upload.to).await? else { return Ok(None) };
    let EntryKind::File(content) = entry.kind.clone() else { return Ok(None) };
    Ok(is_same(&upload.file, &content).await?.then_some((entry, content)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use protocol::Status;

    use super::*;

    fn path(text: &str) -> SectorPath {
        SectorPath::parse(text).unwrap()
    }

    #[test]
    fn a_folder_is_uploaded_with_its_inner_shape_and_only_if_folders_may_be_taken() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/x"), "abc").unwrap();
        std::os::unix::fs::symlink("x", folder.path().join("sub/link")).unwrap();
        let sources = [folder.path().to_path_buf()];
        let to = UploadDestination::Exactly(path("/to"));
        let refused = UploadPlan::new(&sources, &to, false, LocalLinks::LeaveOut).unwrap_err();
        assert_eq!(refused.reason(), Reason::IsFolder);
        let plan = UploadPlan::new(&sources, &to, true, LocalLinks::LeaveOut);
        for plan in [plan, UploadPlan::exactly(&sources[0], &path("/to"), true, LocalLinks::LeaveOut)] {
            let plan = plan.unwrap();
            assert_eq!((plan.files().len(), plan.bytes()), (1, 3));
            assert_eq!((plan.files()[0].to.as_str(), plan.files()[0].bytes), ("/to/sub/x", 3));
            assert_eq!(plan.left_out(), [folder.path().join("sub/link")], "it is no ordinary file");
        }
    }

    #[test]
    fn what_a_folder_holds_goes_to_the_destination_whatever_is_there_and_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("many");
        std::fs::create_dir_all(source.join("empty/inner")).unwrap();
        std::fs::write(source.join("x"), "abc").unwrap();
        for to in [UploadDestination::Into(path("/to")), UploadDestination::Exactly(path("/to"))] {
            let plan = UploadPlan::new(std::slice::from_ref(&source), &to, true, LocalLinks::LeaveOut).unwrap();
            assert_eq!(plan.files()[0].to.as_str(), "/to/x");
            let empty: Vec<_> = plan.empty_folders.iter().map(|folder| folder.to.as_str()).collect();
            assert_eq!(empty, ["/to/empty/inner"]);
        }
    }

    #[test]
    fn a_pipe_that_is_named_goes_to_the_file_that_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let plan = |to| UploadPlan::new(std::slice::from_ref(&pipe), &to, false, LocalLinks::LeaveOut);
        let planned = plan(UploadDestination::Exactly(path("/to"))).unwrap();
        assert_eq!(planned.files(), [PlannedUpload { file: pipe.clone(), to: path("/to"), bytes: 0 }]);
        let refused = plan(UploadDestination::Into(path("/to"))).unwrap_err();
        assert!(refused.to_string().contains("name a file in it"), "{refused}");
        let socket = folder.path().join("socket");
        let _open = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let to = UploadDestination::Exactly(path("/to"));
        assert!(UploadPlan::new(&[socket], &to, false, LocalLinks::LeaveOut).is_err());
    }

    #[test]
    fn links_are_followed_only_where_that_is_asked_for_and_one_that_was_typed_keeps_its_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tree")).unwrap();
        std::fs::write(folder.path().join("x"), "abc").unwrap();
        for (link, target) in [("link", "../x"), ("broken", "nowhere"), ("loop", ".")] {
            std::os::unix::fs::symlink(target, folder.path().join("tree").join(link)).unwrap();
        }
        let tree = folder.path().join("tree");
        let left = UploadPlan::below(&tree, &path("/to"), LocalLinks::LeaveOut).unwrap();
        assert_eq!((left.files().len(), left.left_out().len(), left.refused.len()), (0, 3, 0));
        let followed = UploadPlan::below(&tree, &path("/to"), LocalLinks::Follow).unwrap();
        assert_eq!((followed.files()[0].to.as_str(), followed.files().len()), ("/to/link", 1));
        assert_eq!(followed.refused.len(), 2, "the broken one and the loop hold up nothing");
        let to = UploadDestination::Into(path("/to"));
        let typed = UploadPlan::new(&[tree.join("link")], &to, false, LocalLinks::LeaveOut).unwrap();
        assert_eq!(typed.files()[0].to.as_str(), "/to/link");
    }

    #[test]
    fn names_that_cannot_be_are_all_kept_for_the_end_and_the_others_go() {
        let folder = tempfile::tempdir().unwrap();
        let bad = [OsStr::from_bytes(b"tab\there"), OsStr::from_bytes(b".x.sector"), OsStr::from_bytes(b"\xff")];
        for name in bad.into_iter().chain(["good".as_ref()]) {
            std::fs::write(folder.path().join(name), "abc").unwrap();
        }
        let plan = UploadPlan::below(folder.path(), &path("/to"), LocalLinks::LeaveOut).unwrap();
        assert_eq!((plan.files().len(), plan.refused.len()), (1, 3));
        assert!(plan.refused.iter().all(|refused| refused.refusal.reason == Reason::Invalid));
        let sources: Vec<_> = ["good", ".x.sector"].iter().map(|name| folder.path().join(name)).collect();
        let plan = UploadPlan::new(&sources, &UploadDestination::Into(path("/to")), false, LocalLinks::LeaveOut);
        let plan = plan.unwrap();
        assert_eq!((plan.files().len(), plan.refused.len()), (1, 1), "a file that was typed too");
    }

    #[test]
    fn a_missing_local_file_is_named_and_not_found() {
        let to = UploadDestination::Exactly(SectorPath::root());
        let error = UploadPlan::new(&["/nonexistent/file".into()], &to, false, LocalLinks::LeaveOut).unwrap_err();
        assert_eq!(error.status(), Status::NotFound);
        assert!(error.to_string().contains("/nonexistent/file"));
    }

    #[test]
    fn a_plan_in_which_a_file_would_be_lost_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let sources: Vec<PathBuf> = ["1/x", "2/x"].iter().map(|name| folder.path().join(name)).collect();
        for source in &sources {
            std::fs::create_dir(source.parent().unwrap()).unwrap();
            std::fs::write(source, "abc").unwrap();
        }
        let to = UploadDestination::Into(path("/to"));
        let refused = UploadPlan::new(&sources, &to, false, LocalLinks::LeaveOut).unwrap_err();
        assert_eq!(refused.status(), Status::Usage);
    }
}
