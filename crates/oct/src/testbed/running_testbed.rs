//! Which testbed of this home runs: a note in `$SECTOR_HOME/testbed` by which other commands find it. A note that
//! stays behind is harmless: once its process is gone, it never counts.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::{
        fd::RawFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use client::Profile;
use protocol::Reason;
use serde::{Deserialize, Serialize};
use terminal::{Failure, Process};

/// A testbed that was started here.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunningTestbed {
    /// The process that holds it.
    pub(super) process: Process,
    /// Its sites, in their order.
    pub(super) sites: Vec<RunningSite>,
}

/// A site of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunningSite {
    /// Its name.
    pub(super) name: String,
    /// The descriptor number under which that process has the site's network open.
    descriptor: RawFd,
}

impl RunningTestbed {
    /// A testbed that this process holds.
    pub(super) fn here(names: &[String], descriptors: &[RawFd]) -> Self {
        let site = |(name, descriptor): (&String, &RawFd)| RunningSite { name: name.clone(), descriptor: *descriptor };
        Self { process: Process::here(), sites: names.iter().zip(descriptors).map(site).collect() }
    }

    /// The testbed that runs; `None` if none does.
    pub(super) fn running(folder: &Path) -> Result<Option<Self>, Failure> {
        let file = folder.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(toml::from_str(&text).ok().filter(|note: &Self| note.process.is_alive())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::local("read", &file, &error)),
        }
    }

    /// The running testbed; an error if none runs.
    pub(super) fn needed(folder: &Path) -> Result<Self, Failure> {
        let none = || Failure::new(Reason::NotFound, "no testbed runs here; start one with `sector oct testbed up`");
        Self::running(folder)?.ok_or_else(none)
    }

    /// Writes the note.
    pub(super) fn save(&self, folder: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(|error| Failure::failed(error.to_string()))?;
        write_private(&folder.join(FILE), text.as_bytes())
    }

    /// Removes the note.
    pub(super) fn forget(folder: &Path) {
        // If it stays, `is_alive` says that it means nothing.
        let _ = fs::remove_file(folder.join(FILE));
    }

    /// A site by its name, or its number from 1.
    pub(super) fn site(&self, name: &str) -> Result<&RunningSite, Failure> {
        let by_number = || self.sites.get(name.parse::<usize>().ok()?.checked_sub(1)?);
        self.sites.iter().find(|site| site.name == name).or_else(by_number).ok_or_else(|| {
            let names: Vec<_> = self.sites.iter().map(|site| site.name.as_str()).collect();
            Failure::new(Reason::NotFound, format!("there is no site `{name}`; there are {}", names.join(", ")))
        })
    }

    /// The networks of its sites, by which processes in them are found; those that cannot be read are gone.
    pub(super) fn networks(&self) -> Vec<PathBuf> {
        self.sites.iter().filter_map(|site| fs::read_link(self.namespace_path(site)).ok()).collect()
    }

    /// The path by which a site's network can be entered.
    pub(super) fn namespace_path(&self, site: &RunningSite) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", self.process.pid, site.descriptor))
    }
}

/// The processes that are in one of these networks.
pub(super) fn processes_in(networks: &[PathBuf]) -> Vec<i32> {
    let Ok(items) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = items.flatten().filter_map(|item| item.file_name().to_str()?.parse().ok());
    let is_inside =
        |pid: &i32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|network| networks.contains(&network));
    numbers.filter(is_inside).collect()
}

/// The folder of the testbed of this home.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    Ok(Profile::home()?.join("testbed"))
}

/// Where the running testbed listens.
pub(super) fn control_socket(folder: &Path) -> PathBuf {
    folder.join("control")
}

/// The profile of its cloud's administrator.
pub(super) fn profile_file(folder: &Path) -> PathBuf {
    folder.join("profile.toml")
}

/// Makes a folder that only its owner can enter.
pub(super) fn make_private(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Failure::local("make the folder", folder, &error))
}

/// Writes a file that only its owner can read, whole or not at all. It is not synced: it means nothing after a crash.
pub(super) fn write_private(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(folder) = file.parent() {
        make_private(folder)?;
    }
    let new = file.with_extension("new");
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut open| open.write_all(bytes))
        .and_then(|()| fs::rename(&new, file))
        .map_err(|error| Failure::local("write", file, &error))
}

const FILE: &str = "running.toml";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use protocol::Status;

    #[test]
    fn the_note_leads_to_its_sites_while_its_process_runs() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RunningTestbed::running(folder.path()).unwrap().is_none());
        assert_eq!(RunningTestbed::needed(folder.path()).unwrap_err().reason.status(), Status::NotFound);
        RunningTestbed::here(&["north".into(), "south".into()], &[7, 9]).save(folder.path()).unwrap();
        let note = RunningTestbed::needed(folder.path()).unwrap();
        assert_eq!(note.site("2").unwrap().name, "south");
        let entrance = note.namespace_path(note.site("south").unwrap());
        assert_eq!(entrance, PathBuf::from(format!("/proc/{}/fd/9", std::process::id())));
        for nobody in ["east", "0", "3"] {
            assert_eq!(note.site(nobody).unwrap_err().reason.status(), Status::NotFound);
        }
        RunningTestbed::forget(folder.path());
        assert!(RunningTestbed::running(folder.path()).unwrap().is_none());
    }

    #[test]
    fn this_process_is_in_its_own_network_and_in_no_other() {
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        assert!(processes_in(&[own]).contains(&(std::process::id() as i32)));
        assert_eq!(processes_in(&["net:[1]".into()]), Vec::<i32>::new());
    }

    #[test]
    fn a_note_of_a_process_that_is_gone_means_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let here = RunningTestbed::here(&["north".into()], &[7]);
        let text = toml::to_string(&here).unwrap().replace("started = ", "started = 1");
        fs::write(folder.path().join(FILE), text).unwrap();
        assert!(RunningTestbed::running(folder.path()).unwrap().is_none());
        fs::write(folder.path().join(FILE), "half a no").unwrap();
        assert!(RunningTestbed::running(folder.path()).unwrap().is_none());
    }
}
