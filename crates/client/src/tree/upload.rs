//! Upload of several files, or of folders with all that they hold (path: `docs/paths/tree.md`). Destinations follow
//! `cp`, or are given exactly. A file that is there with the same bytes is not sent again, unless a condition is set.
//! It never decides where slices lie.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use protocol::{
    SectorPath,
    message::client_master::{Condition, Entry, EntryKind},
};

use super::{
    in_flight::files_at_once,
    local_content::is_same,
    outcome::{TreeEvent, TreeObserver, TreeOutcome},
    target_conflicts::{PathMapping, resolve_targets},
    transfer_set::{FileTransfer, TransferEnd, run_all},
};
use crate::{Client, ClientError, PutOptions, names::namespace::is_folder};

/// Which local file goes where.
#[derive(Clone, Debug, Default)]
pub struct UploadPlan {
    files: Vec<PlannedUpload>,
    left_out: Vec<PathBuf>,
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

/// Where uploads go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadDestination {
    /// Below this folder, under their own names.
    Into {
        /// The folder.
        folder: SectorPath,
        /// It was written without a `/`. Then a local folder of the same name is that folder itself, so an interrupted
        /// upload resumes when it is typed again.
        is_plain: bool,
    },
    /// To exactly this path.
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
        let is_plain = sources == 1 && !to.ends_with('/');
        Ok(if is_folder { Self::Into { folder: path, is_plain } } else { Self::Exactly(path) })
    }

    /// The path for a source of that name; `None` if it has none.
    ///
    /// # Errors
    /// If a source without a name would go into a folder, or the name is not allowed.
    pub fn file_for(&self, name: Option<&str>) -> Result<SectorPath, ClientError> {
        match (self, name) {
            (Self::Exactly(path), _) => Ok(path.clone()),
            (Self::Into { folder, .. }, Some(name)) => Ok(folder.join(name)?),
            (Self::Into { folder, .. }, None) => {
                Err(ClientError::Usage(format!("`{folder}` is a folder; name a file in it")))
            }
        }
    }
}

impl UploadPlan {
    /// The uploads of these local files and, with `recursive`, folders. It reads the folders, which may take a while.
    ///
    /// # Errors
    /// Before anything is done: if a source is missing or is a folder that may not be taken, or if two would become
    /// one path.
    pub fn new(sources: &[PathBuf], to: &UploadDestination, recursive: bool) -> Result<Self, ClientError> {
        let mut plan = Self::default();
        for source in sources {
            plan.extend(Self::one_source(source, to, recursive)?);
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
    pub fn exactly(source: &Path, to: &SectorPath, recursive: bool) -> Result<Self, ClientError> {
        let metadata = source.metadata().map_err(ClientError::file("read", source))?;
        match (metadata.is_dir(), recursive) {
            (true, true) => Self::below(source, to),
            (true, false) => Err(ClientError::IsLocalFolder { folder: source.into() }),
            (false, _) => Ok(Self::one(source, to.clone(), metadata.len())),
        }
    }

    /// The uploads of all files below a local folder, with their paths below `to`.
    ///
    /// # Errors
    /// If a folder cannot be read, or a name cannot be one in the cloud.
    pub fn below(folder: &Path, to: &SectorPath) -> Result<Self, ClientError> {
        let mut plan = Self::default();
        for item in walkdir::WalkDir::new(folder).sort_by_file_name() {
            let item = item.map_err(|error| ClientError::file("read", folder)(error.into()))?;
            if item.file_type().is_dir() {
                continue;
            }
            if !item.file_type().is_file() {
                plan.left_out.push(item.into_path());
                continue;
            }
            let relative = item.path().strip_prefix(folder).unwrap_or(item.path());
            let text = relative
                .to_str()
                .ok_or_else(|| ClientError::Usage(format!("the name of `{}` is not UTF-8", item.path().display())))?;
            let base = if to.is_root() { "" } else { to.as_str() };
            let to = SectorPath::parse(&format!("{base}/{text}"))?;
            let bytes = item.metadata().map(|metadata| metadata.len()).unwrap_or_default();
            plan.files.push(PlannedUpload { file: item.into_path(), to, bytes });
        }
        Ok(plan)
    }

    /// Adds the uploads of another plan.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.left_out.extend(other.left_out);
    }

    /// The files that go.
    pub fn files(&self) -> &[PlannedUpload] {
        &self.files
    }

    /// What was found in folders but does not go, since it is no ordinary file.
    pub fn left_out(&self) -> &[PathBuf] {
        &self.left_out
    }

    /// The length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn one(file: &Path, to: SectorPath, bytes: u64) -> Self {
        Self { files: vec![PlannedUpload { file: file.into(), to, bytes }], left_out: Vec::new() }
    }

    fn one_source(source: &Path, into: &UploadDestination, recursive: bool) -> Result<Self, ClientError> {
        let metadata = source.metadata().map_err(ClientError::file("read", source))?;
        let full = source.canonicalize().ok();
        let name = full.and_then(|full| full.file_name().map(|name| name.to_string_lossy().into_owned()));
        if metadata.is_file() {
            return Ok(Self::one(source, into.file_for(name.as_deref())?, metadata.len()));
        }
        if !metadata.is_dir() {
            return Err(ClientError::Usage(format!("`{}` is neither a file nor a folder", source.display())));
        }
        if !recursive {
            return Err(ClientError::IsLocalFolder { folder: source.into() });
        }
        match into {
            UploadDestination::Into { folder, is_plain: true } if folder.name() == name.as_deref() => {
                Self::below(source, folder)
            }
            _ => Self::below(source, &into.file_for(name.as_deref())?),
        }
    }
}

/// Uploads the files of a plan, several at once. A file that is already there, byte for byte, is not sent again.
pub async fn upload(cloud: &Client, plan: UploadPlan, options: &PutOptions, observer: &TreeObserver) -> TreeOutcome {
    let kept_bytes = options.kept_bytes.clone().unwrap_or_default();
    let options = Arc::new(PutOptions { kept_bytes: Some(Arc::clone(&kept_bytes)), ..options.clone() });
    let transfers = plan.files.into_iter().map(|file| {
        let (cloud, options, observer) = (cloud.clone(), Arc::clone(&options), Arc::clone(observer));
        let (from, to, bytes) = (file.file.clone(), file.to.as_str().into(), file.bytes);
        let work = async move { upload_one(&cloud, &file, &options, &observer).await };
        FileTransfer { from, to, bytes, work }
    });
    let outcome = run_all(transfers, || files_at_once(cloud.round_trip()), observer).await;
    TreeOutcome { kept_bytes: kept_bytes.load(Ordering::Relaxed), ..outcome }
}

async fn upload_one(
    cloud: &Client,
    upload: &PlannedUpload,
    options: &PutOptions,
    observer: &TreeObserver,
) -> Result<TransferEnd, ClientError> {
    // A caller who sets a condition wants to know whether it holds.
    if options.condition == Condition::Any
        && let Some(entry) = find_same(cloud, upload).await?
    {
        observer(TreeEvent::Bytes(upload.bytes));
        return Ok(TransferEnd { entry, is_skipped: true });
    }
    let progress = |bytes| observer(TreeEvent::Bytes(bytes));
    let entry = cloud.put_file(&upload.file, &upload.to, options, &progress).await?;
    Ok(TransferEnd { entry, is_skipped: false })
}

/// The file in the cloud, if it has the same length and digest.
async fn find_same(cloud: &Client, upload: &PlannedUpload) -> Result<Option<Entry>, ClientError> {
    let Some(entry) = cloud.find(&upload.to).await? else { return Ok(None) };
    let EntryKind::File(content) = &entry.kind else { return Ok(None) };
    Ok(is_same(&upload.file, content).await?.then_some(entry))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
        let refused = UploadPlan::new(&sources, &to, false).unwrap_err();
        assert_eq!(refused.reason(), protocol::Reason::IsFolder);
        for plan in [UploadPlan::new(&sources, &to, true), UploadPlan::exactly(&sources[0], &path("/to"), true)] {
            let plan = plan.unwrap();
            assert_eq!((plan.files().len(), plan.bytes()), (1, 3));
            assert_eq!((plan.files()[0].to.as_str(), plan.files()[0].bytes), ("/to/sub/x", 3));
            assert_eq!(plan.left_out(), [folder.path().join("sub/link")], "it is no ordinary file");
        }
    }

    #[test]
    fn a_folder_put_onto_one_of_its_own_name_goes_on_there() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("many");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("x"), "abc").unwrap();
        for (there, is_plain, expected) in
            [("/many", true, "/many/x"), ("/many", false, "/many/many/x"), ("/other", true, "/other/many/x")]
        {
            let to = UploadDestination::Into { folder: path(there), is_plain };
            let plan = UploadPlan::new(std::slice::from_ref(&source), &to, true).unwrap();
            assert_eq!(plan.files()[0].to.as_str(), expected);
        }
        let exactly = UploadPlan::exactly(&source, &path("/other"), true).unwrap();
        assert_eq!(exactly.files()[0].to.as_str(), "/other/x", "whatever is there");
    }

    #[test]
    fn a_missing_local_file_is_named_and_not_found() {
        let to = UploadDestination::Exactly(SectorPath::root());
        let error = UploadPlan::new(&["/nonexistent/file".into()], &to, false).unwrap_err();
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
        let to = UploadDestination::Into { folder: path("/to"), is_plain: false };
        assert_eq!(UploadPlan::new(&sources, &to, false).unwrap_err().status(), Status::Usage);
    }
}
