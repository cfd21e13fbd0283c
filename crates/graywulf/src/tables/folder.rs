//! The folder of a table: its description is read from it, and replaced as a whole, under the condition that nobody
//! else replaced it meanwhile. It never removes a slice that the description names.

use client::{Client, ClientError, Condition, Entry, EntryKind, PutOptions, Reason, SectorPath};
use futures_util::{StreamExt, stream};
use protocol::Version;
use terminal::Failure;

use super::TableDescription;

/// The name of the description in a table's folder.
pub(crate) const DESCRIPTION_NAME: &str = "table.json";

/// The folder of slices in a table's folder.
pub(crate) const SLICES_NAME: &str = "slices";

/// A table as it is now.
#[derive(Clone, Debug)]
pub(crate) struct TableFolder {
    /// Its folder.
    pub(crate) path: SectorPath,
    /// What it is.
    pub(crate) description: TableDescription,
    /// The version of the description's file.
    version: Version,
}

impl TableFolder {
    /// Reads the table of a folder. `None` if there is none.
    ///
    /// # Errors
    /// A missing right, or a description that cannot be read.
    pub(crate) async fn find(cloud: &Client, path: &SectorPath) -> Result<Option<Self>, Failure> {
        let file = path.join(DESCRIPTION_NAME)?;
        let opened = match cloud.open(&file).await {
            Ok(opened) => opened,
            Err(error) if matches!(error.reason(), Reason::NotFound | Reason::NotFolder) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if opened.bytes() > DESCRIPTION_BYTES_MAX {
            let bytes = opened.bytes();
            return Err(Failure::failed(format!("`{file}` has {bytes} bytes, too many for a description of a table")));
        }
        let EntryKind::File(content) = &opened.entry().kind else { return Ok(None) };
        let version = content.version;
        let bytes = opened.read_at(0, opened.bytes() as usize).await?;
        let description = TableDescription::parse(&bytes)
            .map_err(|wrong| Failure::failed(format!("`{file}`: {wrong}")).about(&file))?;
        Ok(Some(Self { path: path.clone(), description, version }))
    }

    /// Reads the table of a folder.
    ///
    /// # Errors
    /// As [`find`](Self::find); `NotFound` if there is none.
    pub(crate) async fn open(cloud: &Client, path: &SectorPath) -> Result<Self, Failure> {
        Self::find(cloud, path).await?.ok_or_else(|| not_a_table(path))
    }

    /// All tables below a folder, and why some of them cannot be read.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub(crate) async fn all_below(
        cloud: &Client,
        folder: &SectorPath,
    ) -> Result<(Vec<Self>, Vec<Failure>), ClientError> {
        let entries = cloud.list_recursive(folder).await?.into_iter();
        let is_description =
            |entry: &Entry| matches!(entry.kind, EntryKind::File(_)) && entry.path.name() == Some(DESCRIPTION_NAME);
        let folders: Vec<_> = entries.filter(is_description).filter_map(|entry| entry.path.parent()).collect();
        let reading = folders.into_iter().map(|path| async move { Self::find(cloud, &path).await });
        let read: Vec<_> = stream::iter(reading).buffered(READ_AT_ONCE).collect().await;
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        for table in read {
            match table {
                Ok(table) => found.extend(table),
                Err(failure) => failures.push(failure),
            }
        }
        Ok((found, failures))
    }

    /// Makes a new table, with the folder and those above it.
    ///
    /// # Errors
    /// `Exists` if something is at this path already.
    pub(crate) async fn create(
        cloud: &Client,
        path: &SectorPath,
        description: TableDescription,
    ) -> Result<Self, Failure> {
        if let Some(entry) = cloud.find(path).await? {
            let is_empty = matches!(entry.kind, EntryKind::Folder) && cloud.list(path).await?.is_empty();
            if !is_empty {
                let what = if Self::find(cloud, path).await?.is_some() { "a table" } else { "something else" };
                return Err(Failure::new(Reason::Exists, format!("`{path}` exists already, and is {what}")).about(path));
            }
        }
        let entry = put(cloud, path, &description, Condition::Absent).await?;
        Ok(Self { path: path.clone(), description, version: version_of(&entry)? })
    }

    /// Replaces the description, if it is still the one that was read.
    ///
    /// # Errors
    /// `VersionChanged` if someone else replaced it.
    pub(crate) async fn replace(&mut self, cloud: &Client, description: TableDescription) -> Result<(), Failure> {
        let entry = put(cloud, &self.path, &description, Condition::Version(self.version)).await?;
        self.version = version_of(&entry)?;
        self.description = description;
        Ok(())
    }

    /// Where a slice lies.
    ///
    /// # Errors
    /// A name that no path can have.
    pub(crate) fn slice_path(&self, file: &str) -> Result<SectorPath, Failure> {
        Ok(SectorPath::parse(&format!("{}/{file}", self.path.as_str().trim_end_matches('/')))?)
    }
}

/// That a path has no table.
pub(crate) fn not_a_table(path: &SectorPath) -> Failure {
    Failure::new(Reason::NotFound, format!("there is no table `{path}`: no file `{DESCRIPTION_NAME}` is in it"))
        .about(path)
}

async fn put(
    cloud: &Client,
    path: &SectorPath,
    description: &TableDescription,
    condition: Condition,
) -> Result<Entry, Failure> {
    let options = PutOptions { condition, parents: true, ..PutOptions::default() };
    let bytes = std::io::Cursor::new(description.to_bytes());
    Ok(cloud.put(bytes, &path.join(DESCRIPTION_NAME)?, &options, &|_| ()).await?)
}

fn version_of(entry: &Entry) -> Result<Version, Failure> {
    match &entry.kind {
        EntryKind::File(content) => Ok(content.version),
        EntryKind::Folder => Err(Failure::failed(format!("`{}` is a folder", entry.path))),
    }
}

/// No description is longer: a hundred thousand slices of fifty columns.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 30;
/// Descriptions that are read at once.
const READ_AT_ONCE: usize = 16;
