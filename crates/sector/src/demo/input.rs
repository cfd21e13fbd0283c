//! The text that the tour uploads. It is a folder of the user's, or the sources of the crates that this binary was
//! built from, which cargo has just unpacked. Where these are not, it is the manual that this binary was built with. It
//! never uses text that was written for the tour.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use client::tree::{LocalLinks, UploadPlan};
use protocol::{Reason, SectorPath};
use terminal::failure::Failure;

/// The files to upload, below `to`. A manual is written to the folder `pages`, which need not be there.
pub(super) fn uploads(folder: Option<&Path>, pages: &Path, to: &SectorPath) -> Result<UploadPlan, Failure> {
    if let Some(folder) = folder {
        if !folder.is_dir() {
            return Err(Failure::new(Reason::NotFound, format!("`{}` is not a folder", folder.display())));
        }
        let plan = UploadPlan::below(folder, to, LocalLinks::LeaveOut)?;
        return if plan.files().is_empty() {
            Err(Failure::usage(format!("`{}` holds no files", folder.display())))
        } else {
            Ok(plan)
        };
    }
    let mut plan = UploadPlan::default();
    for folder in crate_folders() {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // A crate whose name Sector does not accept is left out of the tour.
        let Ok(to) = to.join(name) else { continue };
        plan.extend(UploadPlan::below(&folder, &to, LocalLinks::LeaveOut).unwrap_or_default());
    }
    if plan.files().is_empty() {
        plan = manual(pages, to)?;
    }
    Ok(plan)
}

/// The manual, for a machine on which nothing was built.
fn manual(pages: &Path, to: &SectorPath) -> Result<UploadPlan, Failure> {
    let failed = |error: io::Error| Failure::local("write the manual to", pages, &error);
    fs::create_dir_all(pages).map_err(failed)?;
    for (name, text) in MANUAL {
        fs::write(pages.join(name), text).map_err(failed)?;
    }
    Ok(UploadPlan::below(pages, to, LocalLinks::LeaveOut)?)
}

/// Where cargo has unpacked the crates of our lock file.
fn crate_folders() -> Vec<PathBuf> {
    let Some(home) =
        env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| env::home_dir().map(|home| home.join(".cargo")))
    else {
        return Vec::new();
    };
    let Ok(registries) = home.join("registry/src").read_dir() else { return Vec::new() };
    let registries: Vec<_> = registries.flatten().map(|item| item.path()).collect();
    let mut folders = Vec::new();
    for name in crate_names() {
        folders.extend(registries.iter().map(|registry| registry.join(&name)).find(|folder| folder.is_dir()));
    }
    folders
}

/// `name-version` of every crate in the lock file that this binary was built with.
fn crate_names() -> Vec<String> {
    let lock = include_str!("../../../../Cargo.lock");
    let Ok(lock) = lock.parse::<toml::Table>() else { return Vec::new() };
    let packages = lock.get("package").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    packages
        .iter()
        // Our own crates have no source.
        .filter(|package| package.get("source").is_some())
        .filter_map(|package| {
            let text = |key| package.get(key).and_then(toml::Value::as_str);
            Some(format!("{}-{}", text("name")?, text("version")?))
        })
        .collect()
}

/// Pages of the manual, each with its name.
macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../docs/", $name)))),*]
    };
}

const MANUAL: &[(&str, &str)] = pages![
    "command-line.md",
    "formats-on-disk.md",
    "formats.md",
    "functions.md",
    "operations.md",
    "performance.md",
    "python.md",
    "records.md",
    "security.md",
    "semantics.md",
    "set-up.md",
    "settings.md",
    "tutorial.md",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_names_the_crates_with_their_versions() {
        let names = crate_names();
        assert!(names.iter().any(|name| name.starts_with("tokio-1.")), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("sector-net")), "{names:?}");
    }

    #[test]
    fn a_missing_and_an_empty_folder_are_refused() {
        let to = SectorPath::root();
        let empty = tempfile::tempdir().expect("a folder");
        assert!(uploads(Some(Path::new("/nonexistent")), Path::new("/nonexistent"), &to).is_err());
        assert!(uploads(Some(empty.path()), Path::new("/nonexistent"), &to).is_err());
    }

    #[test]
    fn a_machine_without_sources_has_the_manual() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = manual(&folder.path().join("pages"), &SectorPath::root()).expect("a plan");
        assert_eq!(plan.files().len(), MANUAL.len());
        assert!(plan.bytes() > 200_000, "{}", plan.bytes());
    }
}
