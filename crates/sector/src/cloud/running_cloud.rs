//! Which cloud of this home runs: a note in `$SECTOR_HOME`, which `sector down` reads. A note never proves that the
//! cloud runs; the process that it names does.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use client::Profile;
use protocol::HostAddress;
use serde::{Deserialize, Serialize};
use terminal::{Failure, Process, background};

use super::layout::write_private;

/// A cloud that was started here.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunningCloud {
    /// The process of `sector up`.
    #[serde(flatten)]
    pub(crate) process: Process,
    /// The master's address.
    pub(crate) address: HostAddress,
    /// The data folder.
    pub(crate) data: PathBuf,
    /// The web page's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<String>,
}

impl RunningCloud {
    /// The cloud of this process; it leaves the terminal's session if it was started in the background.
    pub(crate) fn here(address: HostAddress, data: &Path, page: Option<String>) -> Self {
        background::leave_terminal();
        Self { process: Process::here(), address, data: data.into(), page }
    }

    /// The content of the note; `None` if there is none.
    pub(crate) fn load(home: &Path) -> Result<Option<Self>, Failure> {
        let file = home.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(toml::from_str(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::local("read", &file, &error)),
        }
    }

    /// The data of the cloud that runs here or, where none does, of the one that a plain `sector up` would start.
    pub(crate) fn data_folder() -> Result<PathBuf, Failure> {
        let home = Profile::home()?;
        let running = Self::load(&home)?.filter(|running| running.process.is_alive());
        Ok(running.map_or_else(|| home.join("data"), |running| running.data))
    }

    /// Writes the note.
    pub(crate) fn save(&self, home: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(|error| Failure::failed(error.to_string()))?;
        write_private(&home.join(FILE), text.as_bytes())
    }

    /// Removes the note.
    pub(crate) fn forget(home: &Path) {
        // If it stays, the process it names is gone, and `is_alive` says so.
        let _ = fs::remove_file(home.join(FILE));
    }
}

const FILE: &str = "running.toml";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_is_read_back_and_can_be_missing() {
        let home = tempfile::tempdir().expect("a folder");
        assert!(RunningCloud::load(home.path()).expect("readable").is_none());
        let here = RunningCloud::here("127.0.0.1:1".parse().expect("an address"), Path::new("/data"), None);
        here.save(home.path()).expect("written");
        assert!(RunningCloud::load(home.path()).expect("readable").is_some_and(|note| note.process.is_alive()));
        RunningCloud::forget(home.path());
        assert!(RunningCloud::load(home.path()).expect("readable").is_none());
    }
}
