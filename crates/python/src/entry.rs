//! A file or folder as Python sees it: the result of `stat` and listings. Its fields are those of
//! `sector stat --json`. An entry never changes after it was made, even if the file does.

use client::{CopyState, CopyStatus, EntryKind, EntryStatus};
use pyo3::{
    Bound, PyResult, Python, pyclass, pymethods,
    types::{PyDateTime, PyTzInfo},
};

/// A file or a folder of the cloud, as it was when it was asked for.
#[pyclass(frozen, get_all, eq, module = "sector")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    path: String,
    kind: &'static str,
    size_bytes: u64,
    modified_unix_millis: u64,
    owner: String,
    version: Option<u64>,
    digest: Option<String>,
    records: Option<String>,
    copies_wanted: Option<u8>,
    /// Empty in a listing.
    copies: Vec<Copy>,
}

/// One copy of a file, on one node.
#[pyclass(frozen, get_all, eq, module = "sector")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copy {
    node: String,
    site: String,
    rack: String,
    state: &'static str,
}

#[pymethods]
impl Entry {
    /// The last path component; empty for the root.
    #[getter]
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    #[getter]
    fn is_file(&self) -> bool {
        self.kind == FILE
    }

    #[getter]
    fn is_folder(&self) -> bool {
        self.kind != FILE
    }

    /// When its content was changed last, in UTC.
    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDateTime>> {
        let utc = PyTzInfo::utc(py)?;
        PyDateTime::from_timestamp(py, self.modified_unix_millis as f64 / 1000.0, Some(&utc))
    }

    fn __repr__(&self) -> String {
        match self.kind {
            FILE => format!("Entry({:?}, {} bytes)", self.path, self.size_bytes),
            _ => format!("Entry({:?}, folder)", self.path),
        }
    }
}

#[pymethods]
impl Copy {
    fn __repr__(&self) -> String {
        format!("Copy(node={:?}, site={:?}, state={:?})", self.node, self.site, self.state)
    }
}

impl From<client::Entry> for Entry {
    fn from(entry: client::Entry) -> Self {
        let content = match entry.kind {
            EntryKind::Folder => None,
            EntryKind::File(content) => Some(content),
        };
        Self {
            path: entry.path.to_string(),
            kind: if content.is_some() { FILE } else { "folder" },
            size_bytes: content.as_ref().map_or(0, |content| content.bytes),
            modified_unix_millis: entry.modified_unix_millis,
            owner: entry.owner.to_string(),
            version: content.as_ref().map(|content| content.version.0),
            digest: content.as_ref().map(|content| content.digest.to_string()),
            records: content.as_ref().map(|content| content.records.to_string()),
            copies_wanted: content.as_ref().map(|content| content.copies),
            copies: Vec::new(),
        }
    }
}

impl From<EntryStatus> for Entry {
    fn from(status: EntryStatus) -> Self {
        Self { copies: status.copies.into_iter().map(Copy::from).collect(), ..Self::from(status.entry) }
    }
}

impl From<CopyStatus> for Copy {
    fn from(copy: CopyStatus) -> Self {
        let state = match copy.state {
            CopyState::Ok => "ok",
            CopyState::Writing => "writing",
            CopyState::Stale => "stale",
            CopyState::Corrupt => "corrupt",
        };
        Self { node: copy.node.to_string(), site: copy.place.site, rack: copy.place.rack, state }
    }
}

const FILE: &str = "file";
