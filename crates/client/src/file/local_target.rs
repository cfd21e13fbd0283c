//! What is at a local path before something is written there. A rename replaces whatever has the name, so what must not
//! be replaced is found out before. It never writes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What a local path leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum LocalTarget {
    /// Nothing yet; a link that leads nowhere counts as that.
    Nothing,
    /// A file or folder, with its path behind all links.
    File(PathBuf),
    /// A device, a pipe or a socket: bytes are written into it.
    Special,
}

impl LocalTarget {
    /// What is at `path` now.
    ///
    /// # Errors
    /// A path that cannot be looked at.
    pub fn at(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() || found.is_dir() => match fs::symlink_metadata(path)?.is_symlink() {
                true => Ok(Self::File(fs::canonicalize(path)?)),
                false => Ok(Self::File(path.to_owned())),
            },
            Ok(_) => Ok(Self::Special),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Self::Nothing)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn devices_and_what_links_lead_to_are_told_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| LocalTarget::at(&folder.path().join(name)).unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        symlink(&file, folder.path().join("link")).unwrap();
        symlink("/dev/null", folder.path().join("null")).unwrap();
        symlink("nowhere", folder.path().join("broken")).unwrap();
        assert_eq!(
            (at("file"), at("none"), at("file/below")),
            (LocalTarget::File(file.clone()), LocalTarget::Nothing, LocalTarget::Nothing)
        );
        let real = fs::canonicalize(&file).unwrap();
        assert_eq!((at("link"), at("broken")), (LocalTarget::File(real), LocalTarget::Nothing));
        assert_eq!(
            (at("null"), LocalTarget::at(Path::new("/dev/null")).unwrap()),
            (LocalTarget::Special, LocalTarget::Special)
        );
    }
}
