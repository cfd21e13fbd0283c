//! What a name in a statement means. `a.b.c` is the table of the folder `/a/b/c`; a quoted path is a table, a file, or a
//! folder of files. Names are looked up as the user whose session it is, so that what a user may
//! not read is not there. It never resolves a name outside the cloud.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use async_trait::async_trait;
use client::{Client, Entry, EntryKind, SectorPath};
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, Session, TableProvider},
    common::{DataFusionError, exec_err},
    datasource::listing::PartitionedFile,
    error::Result,
    execution::SessionState,
    object_store::{ObjectMeta, ObjectStore},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use terminal::Failure;

use super::{FileKind, FilesTable};
use crate::{
    failure::TableFailure,
    storage::{file_at, location_of, store_url},
    tables::TableFolder,
};

/// The catalogue and the schema of names that say none. No name of a folder can be the same.
pub(super) const NO_FOLDER: &str = "/";

/// What names are looked up with.
#[derive(Clone)]
pub(crate) struct Names {
    cloud: Client,
    store: Arc<dyn ObjectStore>,
    /// Where a name without folders is looked for.
    base: SectorPath,
    /// Reads the schema of files that no table describes.
    state: Arc<SessionState>,
    missing: Arc<Mutex<Vec<SectorPath>>>,
    given: Arc<OnceLock<GivenTables>>,
}

/// Tables by the parts of their names, as a statement has them.
pub(crate) type GivenTables = HashMap<Vec<String>, Arc<dyn TableProvider>>;

impl Names {
    pub(super) fn new(cloud: Client, store: Arc<dyn ObjectStore>, base: SectorPath, state: SessionState) -> Self {
        Self { cloud, store, base, state: Arc::new(state), missing: Arc::default(), given: Arc::default() }
    }

    /// From now on a statement finds these tables, and no other thing of the cloud. It counts once.
    pub(crate) fn restrict_to(&self, tables: GivenTables) {
        // A second set would change what a planned statement means.
        let _ = self.given.set(tables);
    }

    /// The first path that was looked for and is not there: the engine's own sentence would not know it.
    pub(super) fn missing(&self) -> Option<SectorPath> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// The table, file or folder of files at a path.
    pub(crate) async fn table_at(&self, path: &SectorPath) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = TableFolder::find(&self.cloud, path).await.map_err(TableFailure::from)?;
        if let Some(table) = found {
            return Ok(Some(Arc::new(slices(&table)?)));
        }
        let entry = self.cloud.find(path).await.map_err(external)?;
        let Some(entry) = entry else {
            // The engine may have a function of that name.
            self.missing.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
            return Ok(None);
        };
        let files = match entry.kind {
            EntryKind::File(_) => vec![entry],
            EntryKind::Folder => {
                let mut entries = self.cloud.list(path).await.map_err(external)?;
                entries.retain(|entry| kind_of(entry).is_some());
                entries
            }
        };
        let Some(kind) = files.first().and_then(kind_of) else {
            let message = format!("`{path}` is no table, and has no Parquet, CSV, TSV or JSON lines file");
            return failed(Failure::usage(message));
        };
        if let Some(other) = files.iter().find(|file| kind_of(file) != Some(kind)) {
            let message = format!("`{path}` has files of several kinds, such as `{}`: name one", other.path);
            return failed(Failure::usage(message));
        }
        let metas: Vec<_> = files.iter().map(meta).collect();
        let (format, state) = (kind.format(), &*self.state as &dyn Session);
        let schema = format.infer_schema(state, &self.store, &metas).await?;
        let known = metas.into_iter().map(|meta| {
            let (format, schema) = (&format, Arc::clone(&schema));
            async move {
                // The engine puts the smaller side of a join into memory, if it knows which one that is.
                let statistics = format.infer_stats(state, &self.store, schema, &meta).await?;
                Ok::<_, DataFusionError>(PartitionedFile::new_from_meta(meta).with_statistics(Arc::new(statistics)))
            }
        });
        let files = stream::iter(known).buffered(FILES_AT_ONCE).try_collect().await?;
        Ok(Some(Arc::new(FilesTable { store: store_url(), kind, schema, files })))
    }
}

/// The slices of a table for the engine.
fn slices(table: &TableFolder) -> std::result::Result<FilesTable, DataFusionError> {
    let description = &table.description;
    let schema = description.schema();
    let mut files = Vec::with_capacity(description.slices.len());
    for slice in &description.slices {
        let path = table.slice_path(&slice.file).map_err(TableFailure::from)?;
        let meta = file_at(location_of(&path), slice.bytes);
        let statistics = Arc::new(slice.statistics(&schema));
        files.push(PartitionedFile::new_from_meta(meta).with_statistics(statistics));
    }
    Ok(FilesTable { store: store_url(), kind: FileKind::Parquet, schema, files })
}

fn kind_of(entry: &Entry) -> Option<FileKind> {
    match entry.kind {
        EntryKind::File(_) => FileKind::of_name(entry.path.name()?),
        EntryKind::Folder => None,
    }
}

fn meta(entry: &Entry) -> ObjectMeta {
    let size = match &entry.kind {
        EntryKind::File(content) => content.bytes,
        EntryKind::Folder => 0,
    };
    file_at(location_of(&entry.path), size)
}

fn external(error: client::ClientError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn failed<T>(failure: Failure) -> std::result::Result<T, DataFusionError> {
    Err(TableFailure::from(failure).into())
}

/// Files whose ends are read at once.
const FILES_AT_ONCE: usize = 16;

/// All first parts of names.
pub(super) struct Folders(pub(super) Names);

/// Names with this first part, or none.
struct Folder {
    names: Names,
    first: Option<String>,
}

/// Names with these folders.
struct Tables {
    names: Names,
    folders: Vec<String>,
}

impl CatalogProviderList for Folders {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![NO_FOLDER.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let first = (name != NO_FOLDER).then(|| name.to_owned());
        Some(Arc::new(Folder { names: self.0.clone(), first }))
    }
}

impl CatalogProvider for Folder {
    fn schema_names(&self) -> Vec<String> {
        vec![NO_FOLDER.into()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let second = (name != NO_FOLDER).then(|| name.to_owned());
        let folders = self.first.iter().cloned().chain(second).collect();
        Some(Arc::new(Tables { names: self.names.clone(), folders }))
    }
}

impl Tables {
    /// The path that a name means here.
    fn path(&self, name: &str) -> std::result::Result<SectorPath, Failure> {
        let text = match name.strip_prefix("sector:/") {
            Some(path) if self.folders.is_empty() => path,
            _ => name,
        };
        if self.folders.is_empty() && text.starts_with('/') {
            return Ok(SectorPath::parse(text)?);
        }
        let root = if self.folders.is_empty() { self.names.base.clone() } else { SectorPath::root() };
        let mut path = root;
        for part in self.folders.iter().map(String::as_str).chain([name]) {
            path = path.join(part)?;
        }
        Ok(path)
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(given) = self.names.given.get() {
            let parts: Vec<_> = self.folders.iter().cloned().chain([name.to_owned()]).collect();
            return Ok(given.get(&parts).cloned());
        }
        let path = self.path(name).map_err(TableFailure::from)?;
        self.names.table_at(&path).await
    }

    fn register_table(&self, _: String, _: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        exec_err!("statements make no tables: `sector table create` does")
    }

    fn table_exist(&self, _: &str) -> bool {
        false
    }
}

impl fmt::Debug for Folders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Folders")
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({:?})", self.first)
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tables({:?})", self.folders)
    }
}
