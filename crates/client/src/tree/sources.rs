//! What the sources of a command name in the cloud: one rule for downloads and copies. It never decides where they go.

use protocol::{SectorPath, message::client_master::Entry};

use crate::{Client, ClientError, names::namespace::is_folder};

/// The files and folders that these paths and globs name themselves. With several globs or a `**`, what lies in a
/// folder that is named too goes with that folder.
///
/// # Errors
/// If nothing matches, and [`ClientError::IsFolder`] for a folder that may not be taken.
pub(super) async fn matched(cloud: &Client, patterns: &[String], recursive: bool) -> Result<Vec<Entry>, ClientError> {
    let mut found = Vec::new();
    for pattern in patterns {
        found.extend(cloud.matching_entries(pattern).await?);
    }
    let folders: Vec<SectorPath> =
        found.iter().filter(|entry| is_folder(entry)).map(|entry| entry.path.clone()).collect();
    if let (Some(path), false) = (folders.first(), recursive) {
        return Err(ClientError::IsFolder { path: path.clone() });
    }
    found.retain(|entry| !folders.iter().any(|folder| *folder != entry.path && entry.path.is_within(folder)));
    found.dedup_by(|one, other| one.path == other.path);
    Ok(found)
}
