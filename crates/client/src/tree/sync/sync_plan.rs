//! What has to be done to make one folder equal to another, and the doing (path: `docs/paths/sync.md`). Removals come
//! last, and only if everything before them went well. It never decides by itself what differs: `sync_actions` does.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use protocol::{
    Reason, Refusal, SectorPath,
    message::{
        client_master::{Entry, EntryKind, FileContent},
        rebuild::RebuildState,
        request::RebuildStatusRequest,
    },
};

use super::{
    super::{
        download::{DownloadPlan, ExistingFiles, below, download},
        local_content::is_same,
        local_walk::{LocalItem, LocalKind},
        outcome::{FailedFile, TransferredFile, TreeEvent, TreeObserver, TreeOutcome},
        tree_copy::{CopyPlan, copy},
        upload::{RefusedSource, UploadPlan, upload},
    },
    folder_listing::{FoundFolder, FoundItems, SyncFolder},
    path_filter::PathFilter,
    removals::remove_all,
    sync_actions::{Comparison, ListedItem, Listing, SyncAction, SyncActionKind, actions},
};
use crate::{Client, ClientError, PutOptions};

/// How two folders are made equal.
#[derive(Clone, Debug, Default)]
pub struct SyncOptions {
    /// What is compared at all. Nothing else goes or is removed.
    pub filter: PathFilter,
    /// Files that the source lacks are removed.
    pub delete: bool,
    /// Digests are compared also where length and time are alike.
    pub checksum: bool,
    /// Removals also where the source has no file.
    pub force: bool,
}

/// What has to be done to make a folder equal to another.
#[derive(Debug)]
pub struct SyncPlan {
    from: SyncFolder,
    to: SyncFolder,
    actions: Vec<SyncAction>,
    transfers: Transfers,
    /// Files that need not go.
    unchanged: Vec<TransferredFile>,
    /// What the cloud has in the place of files whose digests say whether they go.
    to_compare: BTreeMap<PathBuf, FileContent>,
    /// What of the destination could not be read.
    unread: Vec<RefusedSource>,
    /// What of the destination stays although the source lacks it: links and the like.
    kept: Vec<PathBuf>,
}

/// The files that go, in the direction in which they do.
#[derive(Debug)]
enum Transfers {
    Up(UploadPlan),
    Down(DownloadPlan),
    Copy(CopyPlan),
}

/// What became of all.
#[derive(Debug, Default)]
pub struct SyncOutcome {
    /// The files; those that were there before are skipped ones. A removal that failed is a failure too.
    pub transfers: TreeOutcome,
    /// What was done, in the order of the plan.
    pub actions: Vec<SyncAction>,
    /// How many files the source lacks that stay, since something failed.
    pub withheld: usize,
}

impl SyncPlan {
    /// Compares the folder `from` of `there` with the folder `to` of `here`. Nothing is changed. For a local folder, it
    /// does not matter which client stands in its place.
    ///
    /// # Errors
    /// If the source is missing, or one of them is a file. If one lies in the other, or neither is in the cloud. With
    /// removals also if the source has no file that could go, or its names are being rebuilt.
    pub async fn new(
        (there, here): (&Client, &Client),
        from: &SyncFolder,
        to: &SyncFolder,
        options: &SyncOptions,
    ) -> Result<Self, ClientError> {
        let is_one_cloud = here.is_same_cloud(there);
        check_folders(from, to, is_one_cloud)?;
        let source = read_source(there, from, options).await.map_err(there.in_cloud(here))?;
        let filter = &options.filter;
        if options.delete && !options.force && !has_file(&source, filter) {
            return Err(refuse_empty(from, to));
        }
        let destination =
            to.read(here).await.map_err(here.in_cloud(there))?.unwrap_or_else(|| FoundFolder::missing(to));
        let how = Comparison { delete: options.delete, checksum: options.checksum };
        let actions = actions(&source.listing, &destination.listing, filter, how)?;
        let going = actions.iter().filter(|action| !action.kind.is_removal()).map(|action| action.path.clone());
        let going: BTreeSet<PathBuf> = going.collect();
        let entries = cloud_entries(&source, &destination, from, to);
        let mut plan = Self {
            from: from.clone(),
            to: to.clone(),
            unchanged: Vec::new(),
            to_compare: BTreeMap::new(),
            transfers: transfers((from, to), source.items, &going, filter, is_one_cloud)?,
            kept: if options.delete { kept(&source.listing, &destination, filter) } else { Vec::new() },
            unread: unread(destination.items, filter),
            actions,
        };
        for (path, item) in &source.listing {
            let (ListedItem::File(facts), Some(entry)) = (item, entries.get(path)) else { continue };
            if filter.selects(path, false) && !going.contains(path) {
                let (from, to, entry) = (from.join(path), to.join(path), entry.clone());
                plan.unchanged.push(TransferredFile { from, to, bytes: facts.bytes, is_skipped: true, entry });
            }
        }
        for action in plan.actions.iter().filter(|action| action.kind == SyncActionKind::Compare) {
            if let Some(EntryKind::File(content)) = entries.get(&action.path).map(|entry| &entry.kind) {
                plan.to_compare.insert(action.path.clone(), content.clone());
            }
        }
        Ok(plan)
    }

    /// The actions, with a comparison of digests in place of each [`SyncActionKind::Compare`]: what would be done. This
    /// reads local files. Nothing would be removed if something is [refused](Self::refused).
    pub async fn compared_actions(&self) -> Vec<SyncAction> {
        let local = if matches!(self.from, SyncFolder::Local(_)) { &self.from } else { &self.to };
        let is_refused = self.has_refused();
        let mut compared = Vec::new();
        for action in &self.actions {
            let kind = match (action.kind, self.to_compare.get(&action.path)) {
                (kind, _) if kind.is_removal() && is_refused => continue,
                (SyncActionKind::Compare, Some(content)) => {
                    // A file that cannot be read goes, and says so then.
                    match is_same(&local.join(&action.path), content).await {
                        Ok(true) => continue,
                        _ => SyncActionKind::Changed,
                    }
                }
                (kind, _) => kind,
            };
            compared.push(SyncAction { kind, ..action.clone() });
        }
        // Sorted already but for those that were compared.
        compared.sort_by(|one, other| match one.kind.cmp(&other.kind) {
            std::cmp::Ordering::Equal if one.kind == SyncActionKind::Changed => one.path.cmp(&other.path),
            order => order,
        });
        compared
    }

    /// What will fail, since it cannot be read or its name cannot be one in the cloud.
    pub fn refused(&self) -> Vec<FailedFile> {
        self.refused_sources().cloned().map(FailedFile::from).collect()
    }

    /// What was found in the source but does not go, since it is no ordinary file.
    pub fn left_out(&self) -> &[PathBuf] {
        match &self.transfers {
            Transfers::Up(plan) => plan.left_out(),
            Transfers::Down(_) | Transfers::Copy(_) => &[],
        }
    }

    /// What the source lacks and would be removed, but is no ordinary file: links and the like, which stay.
    pub fn kept(&self) -> &[PathBuf] {
        &self.kept
    }

    /// How many files are there or go.
    pub fn files(&self) -> usize {
        self.unchanged.len() + self.going().count()
    }

    /// Their length, in bytes.
    pub fn bytes(&self) -> u64 {
        let unchanged: u64 = self.unchanged.iter().map(|file| file.bytes).sum();
        unchanged + self.going().map(|action| action.bytes).sum::<u64>()
    }

    /// The files that go or are compared.
    fn going(&self) -> impl Iterator<Item = &SyncAction> {
        use SyncActionKind::{Changed, Compare, New};
        self.actions.iter().filter(|action| matches!(action.kind, New | Changed | Compare))
    }

    fn refused_sources(&self) -> impl Iterator<Item = &RefusedSource> {
        let sources = match &self.transfers {
            Transfers::Up(plan) => plan.refused_sources(),
            Transfers::Down(_) | Transfers::Copy(_) => &[],
        };
        sources.iter().chain(&self.unread)
    }

    fn has_refused(&self) -> bool {
        self.refused_sources().next().is_some()
    }
}

/// Carries out a plan of the same two clients: files go, several at once. If all went well, what the source lacks is
/// removed.
///
/// # Errors
/// If a folder of a copy cannot be made. Then no file goes, and nothing is removed.
pub async fn sync(
    (there, here): (&Client, &Client),
    plan: SyncPlan,
    observer: &TreeObserver,
) -> Result<SyncOutcome, ClientError> {
    for file in &plan.unchanged {
        observer(TreeEvent::Bytes(file.bytes));
        observer(TreeEvent::Done(file));
    }
    let options = PutOptions { parents: true, ..PutOptions::default() };
    let mut transfers = match plan.transfers {
        Transfers::Up(uploads) => upload(here, uploads, &options, observer).await,
        Transfers::Down(downloads) => download(there, downloads, ExistingFiles::Replace, observer).await,
        Transfers::Copy(copies) => copy((there, here), copies, &options, observer).await?,
    };
    transfers.files.extend(plan.unchanged);
    transfers.files.sort_by(|one, other| one.to.cmp(&other.to));
    for failed in plan.unread.into_iter().map(FailedFile::from) {
        observer(TreeEvent::Failed(&failed));
        transfers.failures.push(failed);
    }
    let (removals, mut actions): (Vec<_>, Vec<_>) =
        plan.actions.into_iter().partition(|action| action.kind.is_removal());
    actions.retain_mut(|action| is_done(action, &plan.to, &transfers));
    if !transfers.failures.is_empty() {
        let withheld = removals.iter().filter(|action| action.kind == SyncActionKind::Remove).count();
        return Ok(SyncOutcome { transfers, actions, withheld });
    }
    let (removed, failures) = remove_all((there, here), &plan.to, removals, observer).await;
    actions.extend(removed);
    transfers.failures = failures;
    Ok(SyncOutcome { transfers, actions, withheld: 0 })
}

/// Whether something that was planned has changed the destination. A comparison has become a change or nothing.
fn is_done(action: &mut SyncAction, to: &SyncFolder, transfers: &TreeOutcome) -> bool {
    let to = to.join(&action.path);
    if action.kind == SyncActionKind::MakeFolder {
        return transfers.failures.iter().all(|failed| failed.to != to);
    }
    if action.kind == SyncActionKind::Compare {
        action.kind = SyncActionKind::Changed;
    }
    let file = transfers.files.binary_search_by(|file| file.to.cmp(&to));
    file.is_ok_and(|at| !transfers.files[at].is_skipped)
}

/// What the source holds. Before removals, its names must be known, and stay so.
async fn read_source(cloud: &Client, from: &SyncFolder, options: &SyncOptions) -> Result<FoundFolder, ClientError> {
    if options.delete {
        check_names(cloud, from).await?;
    }
    let source = match from.read(cloud).await? {
        Some(found) => found,
        None if options.delete && options.force => FoundFolder::missing(from),
        None => return Err(missing(from)),
    };
    if options.delete {
        // Names may have been lost meanwhile.
        check_names(cloud, from).await?;
    }
    Ok(source)
}

/// Refuses pairs of folders of which one would change while the other is read.
fn check_folders(from: &SyncFolder, to: &SyncFolder, is_one_cloud: bool) -> Result<(), ClientError> {
    match (from, to) {
        (SyncFolder::Local(from), SyncFolder::Local(to)) => Err(neither_in_cloud(from, to)),
        (SyncFolder::Cloud(from), SyncFolder::Cloud(to))
            if is_one_cloud && (from.is_within(to) || to.is_within(from)) =>
        {
            Err(ClientError::Usage(format!("`{from}` and `{to}` are one folder, or one lies in the other")))
        }
        _ => Ok(()),
    }
}

/// Neither was written as a folder of the cloud. What is there says nothing of which one was meant, and `--delete` could
/// make a wrong guess dear. So both lines are shown, and nothing is done.
fn neither_in_cloud(from: &Path, to: &Path) -> ClientError {
    let (shown_from, shown_to) = (from.display(), to.display());
    ClientError::Usage(format!(
        "a folder of the cloud is written with `sector://`, and neither of these is: from `{shown_from}` to `{}` sends, \
         from `{}` to `{shown_to}` fetches",
        as_url(to),
        as_url(from)
    ))
}

/// How a local path would be written if it were one in the cloud, where there is no working folder.
fn as_url(path: &Path) -> String {
    let text = path.display().to_string();
    let mut rest = text.as_str();
    while let Some(shorter) = ["/", "./", "../"].iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter;
    }
    format!("sector://{}", if matches!(rest, "." | "..") { "FOLDER" } else { rest })
}

/// Refuses removals while the names of a source in the cloud are put together: it would seem to lack files.
async fn check_names(cloud: &Client, from: &SyncFolder) -> Result<(), ClientError> {
    if let SyncFolder::Cloud(folder) = from
        && cloud.ask(RebuildStatusRequest { after: None }).await?.state == RebuildState::Running
    {
        let message = format!(
            "the names below `{folder}` are not all known yet, so nothing is removed: see `sector rebuild status`"
        );
        return Err(Refusal::new(Reason::Rebuilding, message).into());
    }
    Ok(())
}

fn missing(folder: &SyncFolder) -> ClientError {
    let message = format!("there is no folder `{}`", folder.join(Path::new("")).display());
    Refusal::new(Reason::NotFound, message).into()
}

/// The source may be mistyped, or a disk that is not mounted.
fn refuse_empty(from: &SyncFolder, to: &SyncFolder) -> ClientError {
    let [from, to] = [from, to].map(|folder| folder.join(Path::new("")));
    let (from, to) = (from.display(), to.display());
    ClientError::Usage(format!(
        "`{from}` has no file that could go, and all files of `{to}` would be removed; force it if that is meant"
    ))
}

fn has_file(found: &FoundFolder, filter: &PathFilter) -> bool {
    let mut files = found.listing.iter().filter(|(_, item)| matches!(item, ListedItem::File(_)));
    files.any(|(path, _)| filter.selects(path, false))
}

/// The files in the cloud by their paths below its folder: of the destination, else of the source.
fn cloud_entries(
    source: &FoundFolder,
    destination: &FoundFolder,
    from: &SyncFolder,
    to: &SyncFolder,
) -> BTreeMap<PathBuf, Entry> {
    let (folder, entries) = match ((to, &destination.items), (from, &source.items)) {
        ((SyncFolder::Cloud(folder), FoundItems::Cloud(entries)), _)
        | (_, (SyncFolder::Cloud(folder), FoundItems::Cloud(entries))) => (folder, entries),
        _ => return BTreeMap::new(),
    };
    entries.iter().map(|entry| (below(folder, &entry.path).into(), entry.clone())).collect()
}

/// The transfers of those paths of the source that go.
fn transfers(
    (from, to): (&SyncFolder, &SyncFolder),
    source: FoundItems,
    going: &BTreeSet<PathBuf>,
    filter: &PathFilter,
    is_one_cloud: bool,
) -> Result<Transfers, ClientError> {
    let of_cloud = |folder: &SectorPath, mut entries: Vec<Entry>| {
        entries.retain(|entry| going.contains(Path::new(below(folder, &entry.path))));
        entries
    };
    match (from, to, source) {
        (SyncFolder::Local(folder), SyncFolder::Cloud(to), FoundItems::Local(mut items)) => {
            // What cannot go is told too, unless a filter leaves it out.
            items.retain(|item| match item.kind {
                LocalKind::Folder | LocalKind::File { .. } => going.contains(&item.relative),
                LocalKind::Other => filter.selects(&item.relative, false),
                LocalKind::UnreadableBytes(_) => !filter.excludes(&item.relative, true),
            });
            Ok(Transfers::Up(UploadPlan::of_items(items, folder, to)?))
        }
        (SyncFolder::Cloud(folder), SyncFolder::Local(to), FoundItems::Cloud(entries)) => {
            Ok(Transfers::Down(DownloadPlan::of_entries(folder, to, of_cloud(folder, entries))?))
        }
        (SyncFolder::Cloud(folder), SyncFolder::Cloud(to), FoundItems::Cloud(entries)) => {
            Ok(Transfers::Copy(CopyPlan::of_entries(folder, to, of_cloud(folder, entries), is_one_cloud)?))
        }
        _ => Err(ClientError::Usage("one of the folders must be in the cloud".into())),
    }
}

/// What the source lacks and is never removed: what is no ordinary file, in a local destination.
fn kept(source: &Listing, destination: &FoundFolder, filter: &PathFilter) -> Vec<PathBuf> {
    let FoundItems::Local(items) = &destination.items else { return Vec::new() };
    let is_kept = |item: &&LocalItem| {
        matches!(item.kind, LocalKind::Other)
            && !source.contains_key(&item.relative)
            && filter.selects(&item.relative, false)
    };
    items.iter().filter(is_kept).map(|item| item.path.clone()).collect()
}

/// What of the destination could not be read: nothing is known of what lies there.
fn unread(destination: FoundItems, filter: &PathFilter) -> Vec<RefusedSource> {
    let FoundItems::Local(items) = destination else { return Vec::new() };
    let unreadable = |item: LocalItem| match item.kind {
        LocalKind::UnreadableBytes(error) if !filter.excludes(&item.relative, true) => {
            Some(RefusedSource::unreadable(item.path, error))
        }
        _ => None,
    };
    items.into_iter().filter_map(unreadable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_neither_folder_is_in_the_cloud_both_lines_are_shown_whatever_is_there() {
        let error = |from: &str, to: &str| neither_in_cloud(Path::new(from), Path::new(to)).to_string();
        let here = std::env::temp_dir();
        for from in [here.to_str().unwrap_or_default(), "no/such"] {
            let bare = from.trim_start_matches('/');
            let (sends, fetches) =
                (format!("from `{from}` to `sector://sy` sends"), format!("from `sector://{bare}` to"));
            let error = error(from, "/sy");
            assert!(error.contains(&sends) && error.ends_with(&format!("{fetches} `/sy` fetches")), "{error}");
        }
        for (local, url) in [("./a", "a"), ("../../a/b", "a/b"), (".git", ".git"), (".", "FOLDER"), ("..", "FOLDER")] {
            let error = error("/x", local);
            assert!(error.contains(&format!("to `sector://{url}` sends")), "{error}");
        }
    }
}
