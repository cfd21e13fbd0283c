//! The paths in a data folder. Names only: it never touches the disk.

use std::path::{Path, PathBuf};

use protocol::{
    SectorPath, SliceId,
    message::node_master::HeldState,
    path::{SIDECAR_PREFIX, SIDECAR_SUFFIX},
};

/// The folders of a data folder; see [`crate::SliceStore`] for what each is for.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) slices: PathBuf,
    pub(crate) staging: PathBuf,
    pub(crate) retired: PathBuf,
    pub(crate) corrupt: PathBuf,
    pub(crate) unfinished: PathBuf,
    pub(crate) partial: PathBuf,
    pub(crate) jobs: PathBuf,
}

/// The two files of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceFiles {
    pub(crate) bytes: PathBuf,
    pub(crate) sidecar: PathBuf,
}

impl Layout {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            slices: folder.join("slices"),
            staging: folder.join("staging"),
            retired: folder.join("retired"),
            corrupt: folder.join("corrupt"),
            unfinished: folder.join("unfinished"),
            partial: folder.join("partial"),
            jobs: folder.join("jobs"),
        }
    }

    pub(crate) fn subfolders(&self) -> [&Path; 7] {
        [&self.slices, &self.staging, &self.retired, &self.corrupt, &self.unfinished, &self.partial, &self.jobs]
    }

    /// The files of a slice in this state; `path` is its metadata's.
    pub(crate) fn files(&self, slice: SliceId, state: HeldState, path: &SectorPath) -> SliceFiles {
        match state {
            HeldState::Staged => Self::files_by_id(&self.staging, slice),
            HeldState::Retired => Self::files_by_id(&self.retired, slice),
            HeldState::Placed => self.files_at(path),
        }
    }

    /// The files of the slice that is placed at a path.
    pub(crate) fn files_at(&self, path: &SectorPath) -> SliceFiles {
        let bytes = self.native_path(path);
        let sidecar =
            bytes.with_file_name(format!("{SIDECAR_PREFIX}{}{SIDECAR_SUFFIX}", path.name().unwrap_or_default()));
        SliceFiles { bytes, sidecar }
    }

    /// The files of a slice in a folder where slices are named by id.
    pub(crate) fn files_by_id(folder: &Path, slice: SliceId) -> SliceFiles {
        SliceFiles { bytes: folder.join(slice.to_string()), sidecar: folder.join(format!("{slice}{SIDECAR_SUFFIX}")) }
    }

    /// The native path of a path in the cloud.
    pub(crate) fn native_path(&self, path: &SectorPath) -> PathBuf {
        self.slices.join(path.relative())
    }
}

/// The meaning of a name in `staging/` or `retired/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceFileName {
    Bytes(SliceId),
    Sidecar(SliceId),
}

impl SliceFileName {
    /// `None` for a name that this crate never uses.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (digits, kind): (_, fn(SliceId) -> Self) = match name.strip_suffix(SIDECAR_SUFFIX) {
            Some(digits) => (digits, Self::Sidecar),
            None => (name, Self::Bytes),
        };
        let slice: SliceId = digits.parse().ok()?;
        // Only the spelling that we write: `1` and `01` must not be two names of one slice.
        (slice.to_string() == digits).then(|| kind(slice))
    }
}

/// The slice's name for a sidecar's name; `None` if it is not a sidecar's name.
pub(crate) fn slice_name(sidecar_name: &str) -> Option<&str> {
    sidecar_name.strip_prefix(SIDECAR_PREFIX)?.strip_suffix(SIDECAR_SUFFIX).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_placed_slice_has_its_sidecar_beside_it() {
        let layout = Layout::new(Path::new("/data"));
        let files = layout.files(SliceId(1), HeldState::Placed, &SectorPath::parse("/a/b.c").unwrap());
        assert_eq!(files.bytes, Path::new("/data/slices/a/b.c"));
        assert_eq!(files.sidecar, Path::new("/data/slices/a/.b.c.sector"));
        assert_eq!(slice_name(".b.c.sector"), Some("b.c"));
        for name in ["b.sector", ".sector", "..sector", "b"] {
            assert_eq!(slice_name(name), None, "{name}");
        }
    }

    #[test]
    fn only_the_names_we_give_are_read_as_ids() {
        let files = Layout::files_by_id(Path::new(""), SliceId(0xab));
        assert_eq!(SliceFileName::parse(files.bytes.to_str().unwrap()), Some(SliceFileName::Bytes(SliceId(0xab))));
        assert_eq!(SliceFileName::parse(files.sidecar.to_str().unwrap()), Some(SliceFileName::Sidecar(SliceId(0xab))));
        for name in ["", "ab", "notes.txt", ".sector", "000000000000000000000000000000AB", "x.sector"] {
            assert_eq!(SliceFileName::parse(name), None, "{name}");
        }
    }
}
