//! Reads what a folder holds, on this machine or in the cloud, for a comparison (path: `docs/paths/sync.md`). It never
//! reads a file's bytes, and never decides what goes.

use std::{
    io,
    path::{Path, PathBuf},
};

use protocol::{
    SectorPath, Status,
    message::client_master::{Entry, EntryKind},
};
use tokio::task::spawn_blocking;

use super::{
    super::{
        download::below,
        local_walk::{LocalItem, LocalKind, walk},
        upload::LocalLinks,
    },
    sync_actions::{FileFacts, ListedItem, Listing},
};
use crate::{
    Client, ClientError,
    file::{executable::is_executable, local_time::unix_millis},
    names::{
        location::{CloudName, Location},
        namespace::is_folder,
    },
};

/// A folder of this machine or of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncFolder {
    /// A folder of this machine.
    Local(PathBuf),
    /// A folder of the cloud.
    Cloud(SectorPath),
}

/// A folder with what was found in it.
#[derive(Debug)]
pub(super) struct FoundFolder {
    pub(super) listing: Listing,
    pub(super) items: FoundItems,
}

/// What was found, as transfers take it.
#[derive(Debug)]
pub(super) enum FoundItems {
    Local(Vec<LocalItem>),
    Cloud(Vec<Entry>),
}

impl SyncFolder {
    /// `sector://PATH` is a folder of the cloud, `sector://@NAME/PATH` one of another cloud ([`Location`]), and everything
    /// else one of this machine. Gives the other cloud too.
    ///
    /// # Errors
    /// If it is no path in the cloud.
    pub fn parse(text: &str) -> Result<(Option<CloudName>, Self), ClientError> {
        match Location::parse_url(text)? {
            Some(Location { cloud, path }) => Ok((cloud, Self::Cloud(SectorPath::parse(&path)?))),
            None => Ok((None, Self::Local(text.into()))),
        }
    }

    /// What is at a path below it, as a person writes it.
    pub(super) fn join(&self, relative: &Path) -> PathBuf {
        let folder = match self {
            Self::Local(folder) => folder.as_path(),
            Self::Cloud(path) => Path::new(path.as_str()),
        };
        if relative.as_os_str().is_empty() { folder.into() } else { folder.join(relative) }
    }

    /// What it holds; `None` if nothing is there.
    ///
    /// # Errors
    /// If it is a file, or cannot be read.
    pub(super) async fn read(&self, cloud: &Client) -> Result<Option<FoundFolder>, ClientError> {
        match self {
            Self::Local(folder) => {
                let folder = folder.clone();
                let read = spawn_blocking(move || read_local(&folder)).await;
                read.unwrap_or_else(|error| Err(ClientError::Stream { what: "list", source: io::Error::other(error) }))
            }
            Self::Cloud(path) => read_cloud(cloud, path).await,
        }
    }
}

impl FoundFolder {
    /// A folder of this kind that holds nothing.
    pub(super) fn missing(folder: &SyncFolder) -> Self {
        let items = match folder {
            SyncFolder::Local(_) => FoundItems::Local(Vec::new()),
            SyncFolder::Cloud(_) => FoundItems::Cloud(Vec::new()),
        };
        Self { listing: Listing::new(), items }
    }
}

fn read_local(folder: &Path) -> Result<Option<FoundFolder>, ClientError> {
    match folder.metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(no_folder(&folder.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ClientError::file("read", folder)(error)),
    }
    let mut items = Vec::new();
    for item in walk(folder, LocalLinks::LeaveOut) {
        match item.kind {
            LocalKind::UnreadableBytes(error) if item.relative.as_os_str().is_empty() => {
                return Err(ClientError::file("read", folder)(error));
            }
            _ => items.push(item),
        }
    }
    let listing = items.iter().map(|item| (item.relative.clone(), listed_local(&item.kind))).collect();
    Ok(Some(FoundFolder { listing, items: FoundItems::Local(items) }))
}

fn listed_local(kind: &LocalKind) -> ListedItem {
    match kind {
        LocalKind::Folder => ListedItem::Folder,
        LocalKind::File { bytes, modified, is_executable } => ListedItem::File(FileFacts {
            bytes: *bytes,
            is_executable: *is_executable,
            modified_unix_millis: modified.and_then(unix_millis),
            ..FileFacts::default()
        }),
        LocalKind::Other | LocalKind::UnreadableBytes(_) => ListedItem::Other,
    }
}

async fn read_cloud(cloud: &Client, path: &SectorPath) -> Result<Option<FoundFolder>, ClientError> {
    let mut entries = Vec::new();
    if !path.is_root() {
        match cloud.stat(path).await {
            Ok(status) if is_folder(&status.entry) => entries.push(status.entry),
            Ok(_) => return Err(no_folder(&path)),
            Err(error) if error.status() == Status::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    entries.extend(cloud.list_recursive(path).await?.into_iter().filter(|entry| entry.path != *path));
    let listed = entries.iter().map(|entry| (below(path, &entry.path).into(), listed_entry(entry)));
    let listing = listed.chain([(PathBuf::new(), ListedItem::Folder)]).collect();
    Ok(Some(FoundFolder { listing, items: FoundItems::Cloud(entries) }))
}

fn listed_entry(entry: &Entry) -> ListedItem {
    match &entry.kind {
        EntryKind::Folder => ListedItem::Folder,
        EntryKind::File(content) => ListedItem::File(FileFacts {
            bytes: content.bytes,
            is_executable: is_executable(content),
            modified_unix_millis: Some(entry.modified_unix_millis),
            digest: Some(content.digest),
            records: Some(content.records),
        }),
    }
}

fn no_folder(named: &dyn std::fmt::Display) -> ClientError {
    ClientError::Usage(format!("`{named}` is a file; only folders are made equal"))
}
